"""Optimization of fx graphs of ATen operators."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from eqsat.brief import one_line
from eqsat.collector import paused_gc
from eqsat.egraph.report import Report
from eqsat.errors import ModelError
from eqsat.layers.optimize import optimize_with_report
from eqsat.pipeline.extract import Extraction, Extractions
from eqsat.pipeline.options import Options
from eqsat.relay.expr import Function
from eqsat.torch.cost import aten_cost
from eqsat.torch.exporter import Rebuilt, storage, strides
from eqsat.torch.importer import Imported, gives_size, import_nodes
from eqsat.torch.opaque import mutates
from eqsat.torch.rows import Dialect
from eqsat.torch.types import Sizes, is_unbacked
from eqsat.torch.writing import FLASH_ATTENTION

_log = logging.getLogger(__name__)

CHECK = "aten._assert_tensor_metadata.default"
"""Checks what types say already, where the graph itself makes the tensor."""


@dataclass
class Rewritten(Extractions):
    """An fx graph before and after optimization, and how the result was found.

    Attributes:
        before: The given module; it is not changed.
        after: The optimized module.
        imported: The parts of the graph as functions, with the nodes that are not understood and the reasons.
        extractions: The extraction of each part.
        seconds: Phase -> time in seconds.
        stored: Name -> constant that a ``get_attr`` node of the optimized graph returns and that the given graph does
            not have.
    """

    before: fx.GraphModule
    after: fx.GraphModule
    imported: list[Imported]
    extractions: list[Extraction]
    seconds: dict[str, float]
    stored: dict[str, torch.Tensor]

    def __repr__(self) -> str:
        nodes = f"{call_count(self.after.graph)} calls, were {call_count(self.before.graph)}"
        return one_line(
            f"{type(self).__name__}({nodes}; not understood: {', '.join(sorted(self.opaque)) or 'nothing'})"
        )

    @property
    def opaque(self) -> dict[str, dict[str, int]]:
        """Operator -> reasons why nodes of it are not understood, with the number of nodes."""
        found: dict[str, dict[str, int]] = {}
        for part in self.imported:
            for name, reasons in part.opaque.items():
                counts = found.setdefault(name, {})
                for reason, count in reasons.items():
                    counts[reason] = counts.get(reason, 0) + count
        return found


def call_count(graph: fx.Graph) -> int:
    """Return the number of operators that a graph calls; selecting an output of a call is not a call."""
    return sum(node.op == "call_function" and node.target is not operator.getitem for node in graph.nodes)


@paused_gc()
def rewrite(module: fx.GraphModule, options: Options, dialect: Dialect | None = None) -> Rewritten:
    """Optimize the graph of a module.

    Args:
        module: A graph of ATen operators whose nodes have ``val`` in their metadata; it is not changed.
        options: How to optimize.
        dialect: Which operators may be written; None for all, but those that PyTorch composes of others, such as
            ``linear``, only where the graph has such.

    Raises:
        ModelError: The graph is none that can be optimized; the text names the operator.
        EqsatError: As for :func:`eqsat.optimize`.
    """
    with unset_fake_temporarily():  # constants are real, though it is within a compilation
        return _Rewriting(module, options, dialect).run()


class _Rewriting:
    def __init__(self, module: fx.GraphModule, options: Options, dialect: Dialect | None):
        self.module, self.graph = module, module.graph
        self.start = time.perf_counter()
        self.sizes = Sizes()
        nodes = list(self.graph.nodes)
        if dialect is None:
            has_flash = any(node.target is FLASH_ATTENTION for node in nodes)
            dialect = Dialect(
                any(map(_is_composite, nodes)), frozenset() if has_flash else frozenset([FLASH_ATTENTION])
            )
        self.report = Report()
        self.imported: list[Imported] = []
        self.extractions: list[Extraction] = []
        self.kept = _checked(nodes)
        _check_devices(nodes)
        if any(_is_elsewhere(node) for node in nodes):
            dialect = replace(dialect, without=dialect.without | {FLASH_ATTENTION})
        self.options = replace(options, cost_model=aten_cost(options.cost_model, dialect, options.runtime))
        mode = detect_fake_mode([node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)])
        if mode is None:
            raise ModelError("the nodes of the graph have no fake tensors: run torch.fx.passes.fake_tensor_prop on it")
        self.rebuilt = Rebuilt(self.graph, self.sizes, mode, dialect)
        self.places = {node: place for place, node in enumerate(nodes)}
        self.live: dict[fx.Node, int] = {}  # nodes that writes to tensors may change, and where they are last used

    def run(self) -> Rewritten:
        part: list[fx.Node] = []
        for node in self.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.rebuilt.copy(node)
            elif node in self.kept and not gives_size(node):
                if _is_barrier(node):
                    self._write(part)
                    part = []
                    if node.op == "output":
                        self._output(node)
                    else:
                        self._protect(node)
                        self.rebuilt.copy(node)
                else:
                    part.append(node)
            elif node in self.kept and _reads_values(node):
                self._write(part)
                part = []
                self.rebuilt.copy(node)
        after = fx.GraphModule(holder_of(self.module, self.graph, self.rebuilt.stored), self.rebuilt.graph)
        after.meta = dict(self.module.meta)
        _fill_traces(self.rebuilt.graph)
        try:
            self.rebuilt.graph.lint()
        except Exception as error:  # whatever fx raises
            raise ModelError(f"the graph that was written is not valid: {error}") from error
        seconds = {"all": time.perf_counter() - self.start, **self.report.phases}
        return Rewritten(self.module, after, self.imported, self.extractions, seconds, self.rebuilt.stored)

    def _write(self, part: list[fx.Node]) -> None:
        """Optimize and write some nodes; what stands for those that others use is known then."""
        if not part:
            return
        inside = set(part)
        for user in [user for node in part for user in node.users]:  # outputs belong to what makes them
            if user.target is operator.getitem and user not in inside:
                part.append(user)
                inside.add(user)
        used = [node for node in part if any(user not in inside and user in self.kept for user in node.users)]
        used = [node for node in used if not isinstance(node.meta.get("val"), (tuple, list))]
        imported = import_nodes(part, used, self.sizes, dialect=self.rebuilt.dialect)
        if imported is None:
            return
        extraction = optimize_with_report(
            imported.function, options=self.options.after(time.perf_counter() - self.start)
        )
        self.report.merge(extraction.report)
        chosen = extraction.expr
        if not isinstance(chosen, Function):
            raise ModelError("a compiler or composite claims the graph, so rules do not change it")
        self.rebuilt.write(chosen, imported)
        for node in used:
            self.live[node] = max(self.places[user] for user in node.users)
        self.imported.append(imported)
        self.extractions.append(extraction)

    def _protect(self, writer: fx.Node) -> None:
        """Keep what is used after a node that writes to tensors as it was before.

        What had memory of its own is copied where it shares some now: ``x.clone()`` is ``x`` only until ``x`` changes.

        Raises:
            ModelError: Something used later shared the memory that is written to, and does so no longer.
        """
        rebuilt, place = self.rebuilt, self.places[writer]
        self.live = {node: last for node, last in self.live.items() if last >= place}
        written = {storage(node) for node in _written_to(writer)}
        targets = {storage(rebuilt.env[node]) for node in _written_to(writer)}
        for node in self.live:
            made, was = rebuilt.env[node], storage(node)
            if not isinstance(node.meta.get("val"), torch.Tensor) or not isinstance(made, fx.Node):
                continue
            now = storage(made)
            if was in written and now not in targets:
                raise ModelError(f"{writer.target} writes to a tensor that {node.name}, of {node.target}, shares")
            if was not in written and (now in targets or (was.op == "call_function" and now.op != "call_function")):
                rebuilt.env[node] = rebuilt.owned(made, None, node)

    def _output(self, output: fx.Node) -> None:
        """Write the outputs: under their names, laid out as they were, and in memory of their own if they were."""
        rebuilt, owners = self.rebuilt, dict[fx.Node, fx.Node]()
        for node in output.all_input_nodes:
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor) or node.op != "call_function":
                continue
            made, was = rebuilt.env[node], storage(node)
            place = storage(made)
            is_view = was.op != "call_function" and rebuilt.env[was] is place
            shares = (place.op != "call_function" and not is_view) or owners.setdefault(place, was) is not was
            if shares or strides(made.meta["val"]) != strides(value):
                rebuilt.release(made, node.name)
                rebuilt.env[node] = rebuilt.owned(made, node.name, node)
            elif made.name != node.name:
                rebuilt.env[node] = rebuilt.named(made, node)
        rebuilt.copy(output)


def holder_of(module: fx.GraphModule, graph: fx.Graph, stored: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """A module that has what the ``get_attr`` nodes of a graph name, and constants."""
    holder = torch.nn.Module()
    for name, value in (*_attributes(module, graph), *stored.items()):
        _set(holder, name, value)
    return holder


def _attributes(module: fx.GraphModule, graph: fx.Graph) -> Iterator[tuple[str, Any]]:
    """What the ``get_attr`` nodes of a graph name."""
    for target in dict.fromkeys(str(node.target) for node in graph.nodes if node.op == "get_attr"):
        yield target, operator.attrgetter(target)(module)


def _set(module: torch.nn.Module, name: str, value: Any) -> None:
    """Make a module have a tensor or module under a name with dots."""
    *path, last = name.split(".")
    for each in path:
        if not hasattr(module, each):
            module.add_module(each, torch.nn.Module())
        module = getattr(module, each)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        module.register_buffer(last, value, persistent=False)
    else:
        setattr(module, last, value)


def _is_composite(node: fx.Node) -> bool:
    """Whether PyTorch composes an operator of tensors of others."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or gives_size(node):
        return False
    return bool(
        target._can_decompose() and target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    )


def _written_to(node: fx.Node) -> list[fx.Node]:
    """The tensors that a node writes to."""
    found: list[fx.Node] = []
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            found.extend(each for each in (given if isinstance(given, (list, tuple)) else [given]) if each is not None)
    return [each for each in found if isinstance(each, fx.Node)]


def _check_devices(nodes: Iterable[fx.Node]) -> None:
    """Refuse graphs of several devices: constants belong to one."""
    first: torch.device | None = None
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dim():
            first = value.device if first is None else first
            if value.device != first:
                raise ModelError(
                    f"{node.name}, of {node.target}, is on {value.device}, and earlier values are on {first}"
                )


def _is_elsewhere(node: fx.Node) -> bool:
    """Whether a node gives a tensor that is not on the processor."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


def _is_barrier(node: fx.Node) -> bool:
    return node.op == "output" or mutates(node)


def _reads_values(node: fx.Node) -> bool:
    """Whether a node gives a number that depends on the elements of a tensor, or on a tensor that the graph makes."""
    takes_tensor = any(
        isinstance(each.meta.get("val"), torch.Tensor) and each.op == "call_function" for each in node.all_input_nodes
    )
    return takes_tensor and (not _is_shape(node) or is_unbacked(node.meta["val"]))


def _is_shape(node: fx.Node) -> bool:
    return str(node.target) in ("aten.sym_size.int", "aten.sym_numel.default", "aten.sym_stride.int")


def _checked(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The nodes but checks of what is known."""
    return {
        node
        for node in nodes
        if str(node.target) != CHECK or (isinstance(node.args[0], fx.Node) and node.args[0].op != "call_function")
    }


def _fill_traces(graph: fx.Graph) -> None:
    """Nodes that stand for nothing that was given are told to be from where their first user is."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and "stack_trace" not in node.meta:
            user = next((each for each in node.users if "stack_trace" in each.meta), None)
            for key in ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn"):
                if user is not None and key in user.meta:
                    node.meta[key] = user.meta[key]

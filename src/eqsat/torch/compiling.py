"""The backend of ``torch.compile(model, backend="eqsat")``."""

from __future__ import annotations

import functools
import logging
import operator
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import torch
from torch import fx
from torch._guards import detect_fake_mode

from eqsat.errors import ArgumentError, EqsatError
from eqsat.pipeline.options import Options
from eqsat.torch.breaks import Break, graph_breaks, tell_of_skipped_functions
from eqsat.torch.direct import with_direct_calls
from eqsat.torch.graphs import CHECK, call_count, rewrite
from eqsat.torch.importer import gives_size
from eqsat.torch.known import Found, KnownGraphs
from eqsat.torch.opaque import mutates
from eqsat.torch.rows import Dialect

_log = logging.getLogger(__name__)

THEN = ("inductor", "eager")
"""The programs that can run the optimized graph."""

_SHORT = {"cost": "cost_model"}
"""Options that have a shorter name here -> their names in :class:`eqsat.Options`."""


def backend(module: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Optimize a graph of ``torch.compile`` by rules, and compile it by Inductor or return it as it is.

    Graphs for training are not changed, and neither are graphs that cannot be optimized; one warning says so.

    Args:
        module: The graph, with operators of PyTorch.
        inputs: Example inputs of the graph.
        options: ``rules``, ``cost`` and the other fields of :class:`eqsat.Options`. The option ``then`` is
            ``"inductor"`` (the default) or ``"eager"``.

    Raises:
        ArgumentError: An option is unknown or has a wrong value.
    """
    given = dict(options or {})
    then = given.pop("then", THEN[0])
    known = [*_SHORT, *[each.name for each in fields(Options) if each.name != "opset"]]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ArgumentError(f"there is no option {unknown[0]!r}: options are {', '.join(sorted([*known, 'then']))}")
    if then not in THEN:
        raise ArgumentError(f"then is {' or '.join(map(repr, THEN))}, not {then!r}")
    tell_of_skipped_functions(backend, _tell)  # once more, for PyTorch forgets it when it is reset
    for each in graph_breaks(module):
        _tell(each)
    asked = Options.of({_SHORT.get(name, name): value for name, value in given.items()})
    return _by_inductor(module, inputs, asked) if then == "inductor" else _in_eager_mode(module, inputs, asked)


def _in_eager_mode(module: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Any:
    """The graph, optimized and run operator by operator.

    It is traced above the operators that PyTorch composes of others, such as ``linear``: one call of these is faster
    than those of what it is composed of. Graphs that write to what they are given are traced below them, where
    PyTorch knows how to apply what was written.
    """
    if _learns(inputs):
        _tell(_TRAINING)
        return module.forward
    graph = _above_composites(module, inputs)
    if graph is not None:
        found = optimized(graph, options, Dialect(composite=True))
        return module.forward if found is None else with_direct_calls(found.module).forward
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compiled(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        found = optimized(graph, options, Dialect(composite=True))
        ran = graph if found is None else with_direct_calls(found.module)
        return make_boxed_func(ran.forward)  # type: ignore[no-any-return]

    return aot_autograd(fw_compiler=compiled)(module, inputs)


def _learns(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs)


def _above_composites(module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule | None:
    """The graph of operators as they are called, without writes to tensors; None where there is no such graph."""
    from torch._functorch.aot_autograd import aot_export_module

    if any(map(torch.is_autocast_enabled, {each.device.type for each in inputs if isinstance(each, torch.Tensor)})):
        return None
    _without_idle_dropout(module)
    try:
        graph, signature = aot_export_module(module, inputs, trace_joint=False, pre_dispatch=True)
    except Exception:  # PyTorch raises many kinds, and compiles below them what it cannot above
        _log.debug("a graph is traced below composite operators", exc_info=True)
        return None
    if not isinstance(graph, fx.GraphModule) or signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        return None
    for node in graph.graph.nodes:  # nothing is learned, and what compiles guards what inputs are
        if node.target is torch._C._set_grad_enabled or str(node.target) == CHECK:
            graph.graph.erase_node(node)
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    return None if any(_has_state(node) for node in calls) else graph


def _without_idle_dropout(module: fx.GraphModule) -> None:
    """Take out what drops nothing: exporters let nothing write to what it gives."""
    names = ("input", "p", "training", "inplace")
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is torch.nn.functional.dropout:
            given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
            if given.get("training", True) is False:
                node.replace_all_uses_with(given["input"])
                module.graph.erase_node(node)
    module.recompile()


def _has_state(node: fx.Node) -> bool:
    """Whether a node changes tensors, or how others compute."""
    if isinstance(node.target, torch._ops.OpOverload):
        return mutates(node)
    return (
        not isinstance(node.target, torch._ops.HigherOrderOperator)
        and not gives_size(node)
        and (node.target is not operator.getitem)
    )


def _by_inductor(module: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Any:
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings

    # it has no code for most of what it decomposes, which it does before
    dialect = Dialect(composite=False, without=frozenset(set(decompositions).difference(lowerings)))

    def inner(graph: fx.GraphModule, examples: Sequence[Any], **more: Any) -> Any:
        if not more.get("is_inference"):
            _tell(_TRAINING)
            return compile_fx_inner(graph, examples, **more)
        found = optimized(graph, options, dialect)
        if found is not None:
            mode = detect_fake_mode(examples)
            constants = patch.object(mode, "allow_non_fake_inputs", True) if mode is not None else nullcontext()
            try:
                with constants:  # these are tensors with data
                    return compile_fx_inner(found.module, examples, **more)
            except Exception as error:  # whatever Inductor raises
                _log.debug("Inductor does not compile an optimized graph", exc_info=True)
                _tell(f"eqsat leaves a graph as it is: Inductor does not compile the optimized one: {error}")
        return compile_fx_inner(graph, examples, **more)

    with torch._functorch.config.patch(enable_autograd_cache=False):  # its keys know nothing of rules
        return compile_fx(module, inputs, inner_compile=inner)


_TRAINING = "eqsat leaves graphs of training as they are; compile and call the model under torch.no_grad()"


def optimized(module: fx.GraphModule, options: Options, dialect: Dialect | None = None) -> Found | None:
    """The optimized graph, or None where that is not possible, with a warning that says why.

    An equal graph that was optimized before is not optimized again.
    """
    start = time.perf_counter()
    try:
        known = _KNOWN.find(module, options, dialect)
        if known is not None:
            _log.info("an equal graph is known; %.2f s", time.perf_counter() - start)
            return known
        found = rewrite(module, options, dialect)
    except EqsatError as error:
        _tell(f"eqsat leaves a graph as it is: {error}")
        return None
    except Exception as error:  # the model has to run whatever goes wrong here
        _log.debug("a graph is left as it is", exc_info=True)
        _tell(f"eqsat leaves a graph as it is: {type(error).__name__}: {error}")
        return None
    calls = call_count(module.graph), call_count(found.after.graph)
    _log.info(
        "made %d calls of %d in %.2f s; not understood: %s", calls[1], calls[0], found.seconds["all"], found.opaque
    )
    _KNOWN.add(module, options, dialect, found)
    return Found(found.after, found.stored)


_KNOWN = KnownGraphs()


@functools.cache
def _tell(what: str | Break) -> None:
    """Warn once."""
    warnings.warn(str(what), stacklevel=2)


tell_of_skipped_functions(backend, _tell)

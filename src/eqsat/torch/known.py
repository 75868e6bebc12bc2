"""Graphs that were optimized before: an equal one is not optimized again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from eqsat.pipeline.options import Options
from eqsat.torch.graphs import Rewritten, holder_of
from eqsat.torch.opaque import mapped
from eqsat.torch.rows import Dialect

_MOST_KNOWN = 128
"""Graphs that are kept."""


@dataclass(frozen=True)
class Found:
    """An optimized graph.

    Attributes:
        module: The graph.
        stored: Constants that its ``get_attr`` nodes give beside those of the given one, by name.
    """

    module: fx.GraphModule
    stored: dict[str, torch.Tensor]


@dataclass(frozen=True)
class _Entry:
    """An optimized graph, without the tensors that say what its nodes give.

    Attributes:
        options: By which it was found; kept, as keys are made of the identity of rules.
    """

    graph: fx.Graph
    stored: dict[str, torch.Tensor]
    options: Options


class KnownGraphs:
    """The last graphs that were optimized, by what they compute of what, and by which options."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()

    def add(self, module: fx.GraphModule, options: Options, dialect: Dialect | None, found: Rewritten) -> None:
        """Keep what was found for a graph."""
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in found.after.graph.nodes:
            made = copies[node] = graph.node_copy(node, copies.__getitem__)
            made.name = node.name
            made.meta = {name: value for name, value in node.meta.items() if name != "val"}
        self._entries[_key(module.graph, options, dialect)] = _Entry(graph, found.stored, options)
        if len(self._entries) > _MOST_KNOWN:
            self._entries.popitem(last=False)

    def find(self, module: fx.GraphModule, options: Options, dialect: Dialect | None) -> Found | None:
        """The optimized graph of an equal one, over the tensors of this one; None if none is known."""
        key = _key(module.graph, options, dialect)
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        given = {node.name: node for node in module.graph.nodes}
        mode = detect_fake_mode([value for node in given.values() if _is_tensor(value := node.meta.get("val"))])
        graph = fx.Graph(tracer_cls=module.graph._tracer_cls)
        graph.set_codegen(module.graph._codegen)
        copies: dict[fx.Node, fx.Node] = {}
        with unset_fake_temporarily(), mode, torch._dispatch.python.enable_python_dispatcher():
            for node in entry.graph.nodes:
                made = copies[node] = graph.node_copy(node, copies.__getitem__)
                made.name, made.meta = node.name, dict(node.meta)
                if node.op == "get_attr" and node.target in entry.stored:
                    made.meta["val"] = mode.from_tensor(entry.stored[node.target], static_shapes=True)
                elif node.op == "call_function":
                    args, kwargs = fx.map_arg((made.args, made.kwargs), lambda each: each.meta["val"])
                    made.meta["val"] = node.target(*args, **kwargs)
                elif node.name in given and "val" in given[node.name].meta:
                    made.meta["val"] = given[node.name].meta["val"]
        after = fx.GraphModule(holder_of(module, module.graph, entry.stored), graph)
        after.meta = dict(module.meta)
        return Found(after, entry.stored)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _key(graph: fx.Graph, options: Options, dialect: Dialect | None) -> Hashable:
    """What two graphs have in common that are optimized alike."""
    nodes = []
    for node in graph.nodes:
        args = mapped((tuple(node.args), dict(node.kwargs)), _argument)
        nodes.append((node.op, node.name, node.target, _frozen(args), _frozen(node.meta.get("val"))))
    asked = tuple([_identity(getattr(options, each.name)) for each in fields(options)])
    return (tuple(nodes), asked, dialect)


def _argument(value: Any) -> Any:
    return ("node", value.name) if isinstance(value, fx.Node) else value


def _frozen(value: Any) -> Hashable:
    """An argument or type as what can be compared."""
    if isinstance(value, (list, tuple)):
        return tuple([_frozen(each) for each in value])
    if isinstance(value, dict):
        return tuple([(name, _frozen(each)) for name, each in value.items()])
    if isinstance(value, torch.Tensor):
        sizes = tuple([str(each) for each in (*value.shape, "by", *value.stride())])
        return (type(value).__name__, value.dtype, value.device, str(value.layout), value.requires_grad, sizes)
    return (type(value).__name__, str(value))


def _identity(value: Any) -> Hashable:
    """An option as what can be compared: rules and functions are those themselves, defaults equal ones."""
    if isinstance(value, (list, tuple)):
        return tuple([_identity(each) for each in value])
    return value if isinstance(value, Hashable) else ("object", id(value))

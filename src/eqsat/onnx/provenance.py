"""Provenance in the nodes of a written model: names of nodes of the given model, and of rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import onnx_ir as ir

from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.imported import Imported, Origin
from eqsat.pipeline.provenance import Derived, Step
from eqsat.relay.expr import Constant

ORIGINS = "eqsat.origins"
"""Key in ``metadata_props`` of the nodes that a node comes from, as a JSON list of names."""

RULES = "eqsat.rules"
"""Key of the rules that led from these nodes to it, in order, as a JSON list of names."""


class Told(NamedTuple):
    """The stored provenance of a node.

    Attributes:
        origins: Nodes of the given model, in their order there: by name, or by their first output where they have no
            name of their own.
        rules: The rules that led to it, in order; none where it stands as it was.
    """

    origins: tuple[str, ...]
    rules: tuple[str, ...]

    @property
    def properties(self) -> dict[str, str]:
        """The entries in ``metadata_props``."""
        return {
            key: json.dumps(list(names), ensure_ascii=False)
            for key, names in zip((ORIGINS, RULES), (self.origins, self.rules), strict=True)
        }

    @staticmethod
    def of(properties: Mapping[str, str]) -> Told | None:
        """Return the provenance in ``metadata_props``; None if there is none, or it is malformed."""
        try:
            origins, rules = (json.loads(properties[key]) for key in (ORIGINS, RULES))
        except (KeyError, ValueError):
            return None
        if not all(
            isinstance(names, list) and all(isinstance(each, str) for each in names) for names in (origins, rules)
        ):
            return None
        return Told(tuple(origins), tuple(rules))


class Provenance:
    """Stores in nodes where they come from; there is one object for each optimized model.

    Args:
        model: The model that was given.

    Attributes:
        dropped: Where that is from which was chosen in the place of nodes: see :class:`eqsat.pipeline.Extraction`.
    """

    def __init__(self, model: ir.Model):
        self.dropped: Mapping[Any, Derived] = {}
        nodes = [*nodes_of(model.graph), *[node for each in model.functions.values() for node in nodes_of(each.graph)]]
        self._names = Counter(node.name for node in nodes)
        self._place = {node: place for place, node in enumerate(nodes)}

    def of(self, node: ir.Node) -> Told:
        """Return the origin that a node of the given model stands for: itself, or the origins that it stores."""
        return Told.of(node.metadata_props) or Told((self._name(node),), ())

    def _name(self, node: ir.Node) -> str:
        if node.name and self._names[node.name] == 1:
            return str(node.name)
        return next((str(value.name) for value in node.outputs if value.name), node.name or node.op_type)

    def told(self, imported: Imported, spans: Iterable[Any], others: Iterable[ir.Node] = ()) -> Told:
        """Return the provenance of a node that is written for expressions.

        Args:
            imported: The graph that they are of.
            spans: The expressions' spans.
            others: Further nodes that it comes from.
        """
        origins = dict.fromkeys(others)
        steps = dict[Step, None]()
        values = [imported.values.get(value.name or "") for node in origins for value in node.outputs]
        in_place = [self.dropped[expr.span] for expr in values if expr is not None and expr.span in self.dropped]
        for span in (*spans, *in_place):
            if isinstance(span, Derived):
                steps |= dict.fromkeys(span.steps)
            for each in span.origins or (span.span,) if isinstance(span, Derived) else (span,):
                if isinstance(each, Origin) and each.node is not None:
                    origins[each.node] = None
        every = sorted(
            {*origins, *_dropped(imported, origins)}, key=lambda node: self._place.get(node, len(self._place))
        )
        earlier = [self.of(node) for node in every]
        rules = [*[rule for each in earlier for rule in each.rules], *[rule for _, rule in sorted(steps)]]
        names = [name for each in earlier for name in each.origins]
        return Told(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(rules)))

    def complete(self, model: ir.Model) -> None:
        """Store in nodes that were taken unchanged that they come from themselves."""
        functions = [node for each in model.functions.values() for node in nodes_of(each.graph)]
        for node in (*nodes_of(model.graph), *functions):
            if Told.of(node.metadata_props) is None:
                node.metadata_props.update(Told((self._name(node),), ()).properties)


def without_provenance(model: ir.Model) -> None:
    """Remove the provenance from the nodes of a model."""
    functions = [node for each in model.functions.values() for node in nodes_of(each.graph)]
    for node in (*nodes_of(model.graph), *functions):
        for key in (ORIGINS, RULES):
            node.metadata_props.pop(key, None)


def _dropped(imported: Imported, nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """The nodes between some nodes and what they are read as taking: dropped or computed while the model was read."""
    todo, seen = list(nodes), set[ir.Node]()
    while todo:
        for value in todo.pop().inputs:
            maker = None if value is None else value.producer()
            if maker is None or maker in seen or maker.op_type == "Constant" or not _is_dropped(imported, value, maker):
                continue
            seen.add(maker)
            todo.append(maker)
            yield maker


def _is_dropped(imported: Imported, value: ir.Value, maker: ir.Node) -> bool:
    """Whether what makes a value was read as a constant, or as nothing but what it takes."""
    expr = imported.values.get(value.name or "")
    if expr is None or isinstance(expr, Constant):
        return expr is not None
    return isinstance(expr.span, Origin) and expr.span.node is not None and expr.span.node is not maker

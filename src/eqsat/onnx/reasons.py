"""Where a node of an optimized model comes from, according to its file: see :mod:`eqsat.onnx.provenance`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import onnx_ir as ir

from eqsat.brief import listed, one_line
from eqsat.egraph.rule import Rule, flatten
from eqsat.errors import ModelError
from eqsat.onnx.files import Given, errors_of, load
from eqsat.onnx.graphs import nodes_of
from eqsat.onnx.provenance import Told
from eqsat.pipeline.options import Rules
from eqsat.rules import sets


@dataclass(frozen=True)
class OriginNode:
    """A node of the given model that another node comes from.

    Attributes:
        name: The name of the node, or of its first output.
        op_type: Its operator; None if the given model was not passed.
        place: Its number among the nodes of the given model, starting at 0. Nodes in a body follow the node that
            contains the body.
        inputs, outputs: The names of its inputs and outputs.
    """

    name: str
    op_type: str | None = None
    place: int | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.op_type is None:
            return self.name
        return f"{self.name}: node {self.place}, {self.op_type}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}"


@dataclass(frozen=True)
class AppliedRule:
    """A rule that led to a node.

    Attributes:
        name: The name of the rule.
        equation: The rule as an equation; None for a rule that is neither shipped nor passed.
        keeps: Its soundness: ``exact``, ``rounding`` or ``finite``; None if the equation is None.
    """

    name: str
    equation: str | None = None
    keeps: str | None = None

    def __str__(self) -> str:
        return self.name if self.equation is None else f"{self.name} ({self.keeps}): {self.equation}"


@dataclass(frozen=True)
class Why:
    """Where a node comes from.

    Attributes:
        node: The name of the node, or of its first output.
        op_type: Its operator.
        outputs: The names of its outputs.
        origins: The nodes of the given model that it comes from, in their order there.
        rules: The rules that led from these nodes to it, in the order in which they were applied.
    """

    node: str
    op_type: str
    outputs: tuple[str, ...]
    origins: tuple[OriginNode, ...]
    rules: tuple[AppliedRule, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether the node comes from the given model without any rule."""
        return not self.rules

    def __repr__(self) -> str:
        return one_line(f"Why({self.op_type} {self.node}: {listed([each.name for each in self.rules]) or 'no rule'})")

    def __str__(self) -> str:
        lines = [f"{self.op_type} {self.node} -> {', '.join(self.outputs)}", "comes from"]
        lines += [f"  {each}" for each in self.origins]
        if self.is_unchanged:
            lines.append("by no rule: it computes what the given model has there")
        else:
            lines += ["by the rules", *[f"  {number}. {each}" for number, each in enumerate(self.rules, 1)]]
        return "\n".join(lines)


def why(model: Given, node: str, origin: Given | None = None, rules: Rules = ()) -> Why:
    """Return where a node of an optimized model comes from.

    Args:
        model: The optimized model, in any form that :func:`eqsat.onnx.load` takes.
        node: The name of a node or of one of its outputs, or an operator and a number: ``Conv:0`` is the first Conv of
            the model.
        origin: The given model; it is needed for the operators and places of the origins.
        rules: Rules of your own, so that their equations are known in addition to those of shipped rules.

    Raises:
        ModelError: A model cannot be read, has no such node, or its nodes do not store where they come from.
    """
    loaded = load(model)
    with errors_of(loaded):
        found, told = _told(_all_nodes(loaded), node)
    sources = {} if origin is None else _sources(load(origin))
    known = {rule.name: rule for rule in flatten([*sets.values(), rules])}
    if not known.keys() >= set(told.rules):
        from eqsat.onnx.contrib_rules import contrib  # defines their operators

        known = {rule.name: rule for rule in contrib} | known
    return Why(
        _name(found),
        found.op_type,
        tuple(value.name or "" for value in found.outputs),
        tuple(_origin(name, sources) for name in told.origins),
        tuple(_rule(name, known.get(name)) for name in told.rules),
    )


def _all_nodes(model: ir.Model) -> list[ir.Node]:
    return [*nodes_of(model.graph), *[node for each in model.functions.values() for node in nodes_of(each.graph)]]


def _name(node: ir.Node) -> str:
    return node.name or next((value.name for value in node.outputs if value.name), "")


def _node(nodes: Sequence[ir.Node], name: str) -> ir.Node:
    """The node of a name, value, or operator and number."""
    if not isinstance(name, str):
        raise ModelError(f"a node is given by its name, not by {name!r}")
    named = {each.name: each for each in reversed(nodes) if each.name}
    named |= {value.name: each for each in nodes for value in each.outputs if value.name and value.name not in named}
    if name in named:
        return named[name]
    op_type, _, number = name.rpartition(":")
    alike = [each for each in nodes if each.op_type == op_type]
    if alike and number.isdecimal():
        if int(number) < len(alike):
            return alike[int(number)]
        raise ModelError(f"the model has {len(alike)} {op_type} nodes: give {op_type}:0 to {op_type}:{len(alike) - 1}")
    of_type = [each for each in nodes if each.op_type == name]
    if len(of_type) == 1:
        return of_type[0]
    if of_type:
        raise ModelError(f"the model has {len(of_type)} {name} nodes: give {name}:0 to {name}:{len(of_type) - 1}")
    near = get_close_matches(name, [*named, *{each.op_type: None for each in nodes}])
    hint = f"; near to it are {listed(near)}" if near else ""
    raise ModelError(f"the model has no node or value {name!r}{hint}")


def _told(nodes: Sequence[ir.Node], name: str) -> tuple[ir.Node, Told]:
    """The node of a name, and what it says of where it is from."""
    found = _node(nodes, name)
    told = Told.of(found.metadata_props)
    if told is not None:
        return found, told
    if any(Told.of(each.metadata_props) for each in nodes):
        raise ModelError(
            f"{found.op_type} node {_name(found)!r} does not say where it comes from: eqsat did not write it"
        )
    raise ModelError(
        "the nodes of the model do not say where they come from: it was written with --no-provenance, or not by "
        "eqsat optimize or eqsat partition"
    )


def _sources(model: ir.Model) -> dict[str, OriginNode]:
    """The nodes of a given model, by names and by outputs."""
    found: dict[str, OriginNode] = {}
    for place, node in enumerate(_all_nodes(model)):
        inputs = tuple("" if value is None else value.name or "" for value in node.inputs)
        outputs = tuple(value.name or "" for value in node.outputs)
        for name in filter(None, (node.name, *outputs)):
            found.setdefault(name, OriginNode(name, node.op_type, place, inputs, outputs))
    return found


def _origin(name: str, sources: dict[str, OriginNode]) -> OriginNode:
    if sources and name not in sources:
        raise ModelError(f"the model given as origin has no node {name!r}: give the model that was optimized")
    return sources.get(name, OriginNode(name))


def _rule(name: str, rule: Rule | None) -> AppliedRule:
    return AppliedRule(name) if rule is None else AppliedRule(name, rule.equation, rule.soundness.value)

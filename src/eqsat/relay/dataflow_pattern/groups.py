"""Grouping: which matches of a pattern in a graph are taken, and what belongs to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eqsat.relay.dataflow_pattern.analysis import PatternAnalysis, analyse, is_fuzzy
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import (
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
)
from eqsat.relay.dataflow_pattern.matcher import Matcher, NodeMap
from eqsat.relay.expr import Call, Constant, Expr, Function, Op
from eqsat.relay.visitor import post_order

PARTITIONED = "PartitionedFromPattern"
"""The attribute of functions that partitioning made; nothing inside them is matched again."""


@dataclass(slots=True)
class Group:
    """A match that is taken.

    ``root``: where the pattern matched. ``bound``: what its sub-patterns matched. ``inputs``: expressions
    the group takes from outside, in order. ``interior``: everything else below the root, inputs first.
    ``number``: how many matches were looked at before this one.
    """

    root: Expr
    bound: NodeMap
    inputs: list[Expr]
    interior: list[Expr]
    number: int


def find_groups(pattern: DFPattern, graph: DataflowGraph) -> dict[Expr, Group]:
    """The groups of ``pattern`` in ``graph`` by their roots.

    Roots are tried from the output of the graph to its inputs; a match is refused when a node inside is
    taken already, or is used outside in a way that does not flow back into the root.
    """
    analysis = analyse(pattern)
    matcher = Matcher(pattern, graph)
    owner: dict[Expr, Group] = {}
    groups: list[Group] = []
    looked_at = 0
    for node in _roots(analysis, graph):
        if node in owner or not matcher.match(node):
            continue
        group = _group(analysis, node, matcher.bound, looked_at)
        looked_at += 1
        if _acceptable(group, graph, owner):
            groups.append(group)
            owner.update(dict.fromkeys(group.interior, group))
    return {group.root: group for group in groups if owner.get(group.root) is group}


def all_groups(pattern: DFPattern, graph: DataflowGraph) -> list[Group]:
    """What each match of ``pattern`` in ``graph`` would take, whether or not they overlap; the last root first."""
    matcher = Matcher(pattern, graph)
    groups = (match_group(matcher, node) for node in _roots(analyse(pattern), graph))
    return [group for group in groups if group is not None]


def match_group(matcher: Matcher, root: Expr) -> Group | None:
    """What the match at ``root`` would take, None where there is none."""
    if not matcher.match(root):
        return None
    group = _group(analyse(matcher.pattern), root, matcher.bound, 0)
    return group if group.interior else None


def _roots(analysis: PatternAnalysis, graph: DataflowGraph) -> Iterator[Expr]:
    """The nodes a match may start from, the output first; not inside functions that partitioning made."""
    may_match = analysis.may_match
    closed: set[Expr] = set()
    for node in reversed(graph.order):
        if type(node) is Function and PARTITIONED in node.attrs:
            closed.update(post_order(node, stop=closed))
        if may_match(node) and node not in closed:
            yield node


def _group(analysis: PatternAnalysis, root: Expr, bound: NodeMap, number: int) -> Group:
    inside = _fuzzy_interior(analysis, bound)
    inputs: dict[Expr, None] = {}
    for pattern in analysis.feeders:
        matched = bound.get(pattern, [])
        if is_fuzzy(pattern):
            matched = [operand for node in matched for operand in _operands(node)]
        for candidate in matched:
            kind = type(candidate)
            if kind is Op or kind is Function or candidate in inside or (kind is Constant and _embeds(pattern)):
                continue
            inputs[candidate] = None
    interior = [] if root in inputs else post_order(root, stop=inputs)
    return Group(root, bound, list(inputs), interior, number)


def _fuzzy_interior(analysis: PatternAnalysis, bound: NodeMap) -> set[Expr]:
    """What belongs inside though a leaf of the pattern may have matched it."""
    inside: set[Expr] = set()
    for pattern in analysis.order:
        if isinstance(pattern, DominatorPattern):
            inside.update(bound.get(pattern.parent, ()), bound.get(pattern.path, ()))
        elif isinstance(pattern, FunctionPattern) and pattern in bound:
            inside.update(post_order(*bound[pattern]))
    return inside


def _operands(node: Expr) -> Sequence[Expr]:
    return node.args if isinstance(node, Call) else node.children()


def _embeds(pattern: DFPattern) -> bool:
    """Whether constants that ``pattern`` matches stay inside the group."""
    return isinstance(pattern, ConstantPattern) or (
        isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant)
    )


def _acceptable(group: Group, graph: DataflowGraph, owner: dict[Expr, Group]) -> bool:
    interior = set(group.interior)
    root, users = group.root, graph.users
    for node in group.interior:
        if type(node) in (Op, Function, Constant):
            continue
        if node in owner:
            return False
        if node is root:
            continue
        if not all(user in interior or graph.dominates(root, user) for user in users.get(node, ())):
            return False
    return True

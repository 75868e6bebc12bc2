"""The cheapest cover of a graph by composites: which matches of a pattern table are carved out of it.

A cover is valid where Relay's partition would accept its groups one after the other: what a group computes inside
is used outside only on the way to its own root. For two groups, or a group and an operator that stays outside,
that is a yes or no, so covers are the solutions of a small integer program.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqsat.composites.integer_program import IntegerProgram
from eqsat.composites.rules import CompositeRule
from eqsat.cost.kernels import KernelPrices, cost_nodes, is_composite, operands
from eqsat.relay.dataflow_pattern.analysis import analyse
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import Group, all_groups
from eqsat.relay.dataflow_pattern.partitioner import carve, close_binders, passes
from eqsat.relay.expr import Call, Constant, Expr, Function, Op
from eqsat.relay.infer import extend_types
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

Column = Hashable
"""A node that is computed by itself, or a candidate."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A match that may be carved out, and what a call of it costs."""

    group: Group
    rule: CompositeRule
    cost: float

    @property
    def root(self) -> Expr:
        return self.group.root

    @property
    def inner(self) -> list[Expr]:
        """What it computes and keeps to itself."""
        return [node for node in self.group.interior if node is not self.root and not _is_shareable(node)]


def cover(root: Expr, rules: Sequence[CompositeRule], prices: KernelPrices, seconds: float) -> tuple[Expr, float]:
    """``root`` with its cheapest cover carved, and what that costs.

    Args:
        root: the graph, typed but for nodes whose types follow from others'; equal nodes are one object.
        rules: the composites.
        prices: of composites and, by its cost model, of operators.
        seconds: time after which the best cover found so far is taken.
    """
    types = _complete_types(root)
    graph = DataflowGraph(root)
    costs = _operator_costs(root, types, prices)
    candidates = _candidates(graph, rules, prices, costs)
    chosen = _Choice(graph, candidates, costs).solve(seconds)
    by_root = {candidate.root: candidate for candidate in chosen}
    groups = {node: candidate.group for node, candidate in by_root.items()}
    carved = carve(root, groups, lambda group: by_root[group.root].rule.composer.new_function(group))
    needed = _needed(root, groups)
    cost = math.fsum(by_root[node].cost if node in by_root else costs[node] for node in needed)
    return carved, cost


def _complete_types(root: Expr) -> dict[Expr, Type]:
    """Types of the nodes in the region of ``root``; they are written to those that had none."""
    order = post_order(root, children=operands)
    types = {node: node._checked_type for node in order if node._checked_type is not None}
    for node in order:
        if node not in types:
            extend_types(types, node)
            node._checked_type = types[node]
    return types


def _needed(root: Expr, groups: Mapping[Expr, Group]) -> list[Expr]:
    """The nodes that are computed in the carved graph, in the region of ``root``."""
    return post_order(root, children=lambda node: groups[node].inputs if node in groups else operands(node))


def _operator_costs(root: Expr, types: Mapping[Expr, Type], prices: KernelPrices) -> dict[Expr, float]:
    """What each node of the region of ``root`` costs by itself."""
    costs: dict[Expr, float] = {}
    for node, seen in cost_nodes(root, types).items():
        if isinstance(node, Call) and isinstance(node.op, Function) and is_composite(node.op):
            costs[node] = prices(node.op, [types.get(arg) for arg in node.args])[0]
        else:
            costs[node] = prices.model(seen)
    return costs


def _candidates(
    graph: DataflowGraph, rules: Iterable[CompositeRule], prices: KernelPrices, region: Mapping[Expr, float]
) -> list[Candidate]:
    """Every match, in an order that does not depend on that of the rules; equal ones once."""
    place = {node: index for index, node in enumerate(graph.order)}
    found: dict[tuple[object, ...], Candidate] = {}
    for rule in rules:
        entering = analyse(rule.lhs).entering_lets
        for match in all_groups(rule.lhs, graph):
            group = close_binders(match, entering, graph) if match.root in region else None
            if group is None or not passes(rule.composer.check, group.root):
                continue
            function = rule.composer.function(group)
            if function is not None:
                key = (
                    place[group.root],
                    rule.composer.name,
                    tuple([place[node] for node in group.interior]),
                    tuple([place[node] for node in group.inputs]),
                )
                cost = prices(function, [node._checked_type for node in group.inputs])[0]
                found.setdefault(key, Candidate(group, rule, cost))
    return [found[key] for key in sorted(found)]


def _is_shareable(node: Expr) -> bool:
    """Whether a node may be in any number of groups and outside: it computes nothing."""
    return isinstance(node, (Op, Function, Constant))


class _Choice:
    """The integer program of one graph.

    Columns: each node that some candidate computes inside or at its root, computed by itself, and each candidate.
    """

    def __init__(self, graph: DataflowGraph, candidates: Sequence[Candidate], costs: Mapping[Expr, float]):
        self.graph = graph
        self.costs = costs
        self.inner = {
            candidate: dict.fromkeys([node for node in candidate.inner if node in costs]) for candidate in candidates
        }
        open_nodes = {node for candidate in candidates for node in (*self.inner[candidate], candidate.root)}
        self.nodes = [node for node in graph.order if node in open_nodes]
        self.open = dict.fromkeys(self.nodes)
        self.candidates = [candidate for candidate in candidates if not self._is_barred(candidate)]
        self.rooted: dict[Expr, list[Candidate]] = {}
        self.taking: dict[Expr, list[Candidate]] = {}
        self.holding: dict[Expr, list[Candidate]] = {}
        for candidate in self.candidates:
            self.rooted.setdefault(candidate.root, []).append(candidate)
            for node in candidate.group.inputs:
                self.taking.setdefault(node, []).append(candidate)
            for node in self.inner[candidate]:
                self.holding.setdefault(node, []).append(candidate)
        self.closed = {candidate: self._is_closed(candidate) for candidate in self.candidates}

    def solve(self, seconds: float) -> list[Candidate]:
        """The candidates of the cheapest cover; of equal ones, that which leaves fewest operators outside."""
        if not self.candidates:
            return []
        program = IntegerProgram([*self.nodes, *self.candidates])
        for node in self.nodes:
            self._add_supply(program, node)
        for one, other in self._conflicts():
            program.at_most({one: 1.0, other: 1.0}, 1.0)
        by_cost = {node: self.costs[node] for node in self.nodes} | {one: one.cost for one in self.candidates}
        outside = {node: float(isinstance(node, Call)) * (1 + len(self.candidates)) for node in self.nodes}
        by_size = outside | dict.fromkeys(self.candidates, 1.0)
        chosen = program.minimize([by_cost, by_size], start=self.nodes, seconds=seconds)
        return [candidate for candidate in self.candidates if candidate in chosen]

    def _is_closed(self, candidate: Candidate) -> bool:
        """Whether nothing outside uses, even on the way to the root, what the candidate keeps to itself."""
        inner, users = self.inner[candidate], self.graph.users
        return all(user is candidate.root or user in inner for node in inner for user in users.get(node, ()))

    def _is_barred(self, candidate: Candidate) -> bool:
        """Whether what is always computed by itself needs what the candidate would keep to itself."""
        return any(user not in self.open for node in self.inner[candidate] for user in self._strangers(candidate, node))

    def _strangers(self, candidate: Candidate, node: Expr) -> list[Expr]:
        """The users of an inner node that are outside and not on the way to the candidate's root."""
        inner, graph = self.inner[candidate], self.graph
        return [
            user
            for user in dict.fromkeys(graph.users.get(node, ()))
            if user is not candidate.root and user not in inner and not graph.dominates(candidate.root, user)
        ]

    def _add_supply(self, program: IntegerProgram, node: Expr) -> None:
        """``node`` is computed in one way at most, where it is needed, and only there; or else inside a candidate."""
        ways: dict[Column, float] = dict.fromkeys([node, *self.rooted.get(node, ())], 1.0)
        holders = self.holding.get(node, ())
        program.at_most(ways | {one: 1.0 for one in holders if self.closed[one]}, 1.0)
        program.at_most(dict.fromkeys((*ways, *holders), -1.0), -1.0)
        users: list[Column] = [*dict.fromkeys(self.graph.users.get(node, ())), *self.taking.get(node, ())]
        missing = dict.fromkeys(ways, -1.0)
        if node is self.graph.root or any(user not in self.open for user in users if isinstance(user, Expr)):
            program.at_most(missing, -1.0)
            return
        for user in users:
            program.at_most({user: 1.0, **missing}, 0.0)
        program.at_most({**ways, **dict.fromkeys(users, -1.0)}, 0.0)

    def _conflicts(self) -> list[tuple[Column, Column]]:
        """What cannot be chosen together."""
        pairs: dict[tuple[Column, Column], None] = {}
        for candidate in self.candidates:
            for node in self.inner[candidate]:
                pairs.update(dict.fromkeys((candidate, user) for user in self._strangers(candidate, node)))
        for node, holders in self.holding.items():
            for index, one in enumerate(holders):
                later = [other for other in holders[index + 1 :] if not self._nests(one, other)]
                taking = [other for other in self.taking.get(node, ()) if not self._flows_into(other, one)]
                pairs.update(dict.fromkeys((one, other) for other in (*later, *taking) if other is not one))
        return list(pairs)

    def _nests(self, one: Candidate, other: Candidate) -> bool:
        return self._flows_into(one, other) or self._flows_into(other, one)

    def _flows_into(self, one: Candidate, other: Candidate) -> bool:
        """Whether all that comes of ``one`` flows into the root of ``other``."""
        return one.root is not other.root and self.graph.dominates(other.root, one.root)


def share(root: Expr) -> Expr:
    """``root`` with equal nodes made one object; functions are kept as they are."""
    first: dict[Hashable, Expr] = {}
    new: dict[Expr, Expr] = {}
    for node in post_order(root, children=lambda node: () if isinstance(node, Function) else node.children()):
        below = [new[child] for child in node.children()] if not isinstance(node, Function) else []
        same = all(a is b for a, b in zip(below, node.children(), strict=False))
        made = node if same else node.with_children(below)
        alone = not below or made.has_effects
        new[node] = made if alone else first.setdefault((made.kind, made.payload, *below), made)
    return new[root]

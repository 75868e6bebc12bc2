"""The cheapest cover of a graph by composites: which matches of a pattern table become functions.

A cover is valid if Relay's partition would accept its groups one after the other: values inside a group are used
outside only on the way to the root of the group. For two groups, or a group and an operator outside, this is a
yes-or-no condition, so covers are the solutions of a small integer program. (An extraction problem cannot express that
two choices exclude each other.)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from eqsat.composites.rules import CompositeRule
from eqsat.cost.kernels import KernelPrices, cost_nodes, is_composite, operands
from eqsat.extraction.highs import QuietHighs
from eqsat.relay.dataflow_pattern.analysis import analyse
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import Group, all_groups
from eqsat.relay.dataflow_pattern.partitioner import carve, close_binders, passes
from eqsat.relay.expr import Call, Constant, Expr, Function
from eqsat.relay.infer import extend_types
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order, rebuild

_SLACK = 1e-9
"""Relative cost that a smaller cover may lose, because sums of floats differ with their order."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A match that may become a function, the cost of a call of it, and the values that stay inside."""

    group: Group
    rule: CompositeRule
    cost: float
    inner: dict[Expr, None]

    @property
    def root(self) -> Expr:
        return self.group.root


Column = Expr | Candidate
"""A node that is computed separately, or a candidate."""


def cover(root: Expr, rules: Sequence[CompositeRule], prices: KernelPrices, seconds: float) -> tuple[Expr, float]:
    """Return ``root`` with the matches of its cheapest cover as functions, and the cost.

    Args:
        root: The graph. Nodes have types, except those whose types follow from others; equal nodes are one object.
        rules: The composites.
        prices: The costs of composites and, by its cost model, of operators.
        seconds: The time limit, in seconds, after which the best cover found so far is returned.
    """
    costs = _operator_costs(root, prices)
    graph = DataflowGraph(root)
    candidates = _candidates(graph, rules, prices, costs)
    by_root = {candidate.root: candidate for candidate in _Choice(graph, candidates, costs).solve(seconds)}
    groups = {node: candidate.group for node, candidate in by_root.items()}
    carved = carve(root, groups, lambda group: by_root[group.root].rule.composer.new_function(group))
    computed = post_order(root, children=lambda node: groups[node].inputs if node in groups else operands(node))
    return carved, math.fsum(by_root[node].cost if node in by_root else costs[node] for node in computed)


def _operator_costs(root: Expr, prices: KernelPrices) -> dict[Expr, float]:
    """Return the cost of each node in the region of ``root``; nodes without a type get one."""
    types: dict[Expr, Type] = {}
    for node in post_order(root, children=operands):
        if node._checked_type is None:
            extend_types(types, node)
            node._checked_type = types[node]
        types[node] = node._checked_type
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
    """Return the different matches, in an order that does not depend on the order of the rules."""
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
                nodes = [tuple([place[node] for node in each]) for each in (group.interior, group.inputs)]
                key = (place[group.root], rule.composer.name, *nodes)
                cost = prices(function, [node._checked_type for node in group.inputs])[0]
                inner = [node for node in group.interior if node in region and node is not group.root]
                own = [node for node in inner if not isinstance(node, (Function, Constant))]
                found.setdefault(key, Candidate(group, rule, cost, dict.fromkeys(own)))
    return [found[key] for key in sorted(found)]


class _Choice:
    """The integer program of one graph, in zeros and ones.

    Columns: each node that some candidate computes inside or at its root, computed by itself, and each candidate.
    """

    def __init__(self, graph: DataflowGraph, candidates: Sequence[Candidate], costs: Mapping[Expr, float]):
        self.graph = graph
        self.costs = costs
        open_nodes = {node for candidate in candidates for node in (*candidate.inner, candidate.root)}
        self.nodes = dict.fromkeys([node for node in graph.order if node in open_nodes])
        self.candidates = [candidate for candidate in candidates if not self._is_barred(candidate)]
        columns: list[Column] = [*self.nodes, *self.candidates]
        self.column = {column: index for index, column in enumerate(columns)}
        self.highs = QuietHighs()
        self.rooted: dict[Expr, list[Candidate]] = {}
        self.taking: dict[Expr, list[Candidate]] = {}
        self.holding: dict[Expr, list[Candidate]] = {}
        for candidate in self.candidates:
            self.rooted.setdefault(candidate.root, []).append(candidate)
            for node in candidate.group.inputs:
                self.taking.setdefault(node, []).append(candidate)
            for node in candidate.inner:
                self.holding.setdefault(node, []).append(candidate)

    def solve(self, seconds: float) -> list[Candidate]:
        """Return the candidates of the cheapest cover; of equal ones, the cover with the fewest operators outside."""
        if not self.candidates:
            return []
        options = {"threads": 1, "random_seed": 0, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        count = len(self.column)
        self.highs.addVars(count, np.zeros(count), np.ones(count))
        integers = np.full(count, highspy.HighsVarType.kInteger)
        self.highs.changeColsIntegrality(count, np.arange(count, dtype=np.int32), integers)
        for node in self.nodes:
            self._add_supply(node)
        for one, other in self._conflicts():
            self._at_most({one: 1.0, other: 1.0}, 1.0)
        by_cost = [self.costs[node] for node in self.nodes] + [one.cost for one in self.candidates]
        by_size = [float(isinstance(node, Call)) * (1 + len(self.candidates)) for node in self.nodes]
        best = np.repeat([1.0, 0.0], [len(self.nodes), len(self.candidates)])
        for objective in (by_cost, by_size + [1.0] * len(self.candidates)):
            scaled = np.array(objective) / (np.abs(objective).max() or 1.0)
            best = self._minimize(scaled, best, seconds)
            least = float(scaled @ best)
            self._at_most(dict(zip(self.column, scaled, strict=True)), least + _SLACK * max(1.0, least))
        return [candidate for candidate in self.candidates if best[self.column[candidate]] > 0.5]

    def _at_most(self, row: Mapping[Any, float], bound: float) -> None:
        """Of the chosen columns, the coefficients in ``row`` must add up to no more than ``bound``."""
        columns = np.array([self.column[each] for each in row], np.int32)
        self.highs.addRow(-highspy.kHighsInf, bound, len(columns), columns, np.array([*row.values()]))

    def _minimize(self, cost: Any, start: Any, seconds: float) -> Any:
        """Return the cheapest choice found in the given time; it never costs more than ``start``."""
        self.highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        self.highs.setSolution(solution)
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + seconds)
        self.highs.run()
        if self.highs.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return start
        found = np.round(np.array(self.highs.getSolution().col_value))
        return found if cost @ found <= cost @ start else start

    def _is_barred(self, candidate: Candidate) -> bool:
        """Return whether a node that is always computed separately needs a value that the candidate keeps inside."""
        users = (user for node in candidate.inner for user in self._strangers(candidate, node))
        return any(user not in self.nodes for user in users)

    def _strangers(self, candidate: Candidate, node: Expr) -> list[Expr]:
        """Return the users of an inner node that are outside and not on the way to the candidate's root."""
        inner, graph = candidate.inner, self.graph
        return [
            user
            for user in dict.fromkeys(graph.users.get(node, ()))
            if user is not candidate.root and user not in inner and not graph.dominates(candidate.root, user)
        ]

    def _add_supply(self, node: Expr) -> None:
        """Require that ``node`` is computed separately at most once and only if it is needed, or inside a candidate."""
        ways: dict[Column, float] = dict.fromkeys([node, *self.rooted.get(node, ())], 1.0)
        holders = self.holding.get(node, ())
        self._at_most(ways, 1.0)
        self._at_most(dict.fromkeys((*ways, *holders), -1.0), -1.0)
        users: list[Column] = [*dict.fromkeys(self.graph.users.get(node, ())), *self.taking.get(node, ())]
        missing = dict.fromkeys(ways, -1.0)
        if node is self.graph.root or any(user not in self.nodes for user in users if isinstance(user, Expr)):
            self._at_most(missing, -1.0)
            return
        for user in users:
            self._at_most({user: 1.0, **missing}, 0.0)
        self._at_most({**ways, **dict.fromkeys(users, -1.0)}, 0.0)

    def _conflicts(self) -> list[tuple[Column, Column]]:
        """Exclude candidates that cannot be chosen together."""
        pairs: dict[tuple[Column, Column], None] = {}
        for candidate in self.candidates:
            for node in candidate.inner:
                pairs.update(dict.fromkeys((candidate, user) for user in self._strangers(candidate, node)))
        for node, holders in self.holding.items():
            for index, one in enumerate(holders):
                later = [other for other in holders[index + 1 :] if not self._flows_into(one, other)]
                others = [other for other in (*later, *self.taking.get(node, ())) if not self._flows_into(other, one)]
                pairs.update(dict.fromkeys((one, other) for other in others if other is not one))
        return list(pairs)

    def _flows_into(self, one: Candidate, other: Candidate) -> bool:
        """Return whether all uses of ``one`` flow into the root of ``other``."""
        return one.root is not other.root and self.graph.dominates(other.root, one.root)


def share(root: Expr) -> Expr:
    """Return ``root`` with equal nodes as one object; functions stay unchanged."""
    first: dict[Hashable, Expr] = {}
    new: dict[Expr, Expr] = {}
    for node in post_order(root, children=lambda node: () if isinstance(node, Function) else node.children()):
        made = node if isinstance(node, Function) else rebuild(node, new)
        alone = isinstance(made, Function) or not made.children() or made.has_effects
        new[node] = made if alone else first.setdefault((made.kind, made.payload, *made.children()), made)
    return new[root]

"""An extraction problem that can be edited, with the way back to the problem it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.errors import ExtractionError

from .costs import Cost, Term
from .problem import Ints, Problem, derive

Origin = int | tuple["Origin", "Origin"]
"""A node of the original problem, or two that are chosen together."""


@dataclass(frozen=True, eq=False)
class Simplified:
    """A smaller problem and the way back.

    Attributes:
        problem: The small problem, or None where nothing is left to choose.
        constant: The optimal cost of the original problem less that of the small one.
    """

    problem: Problem | None
    constant: Cost
    _original: Problem
    _origins: list[Origin]
    _settled: list[Origin]

    def expand(self, choice: Iterable[int]) -> Ints:
        """The choice in the original problem that a choice in the small one stands for; int (C,).

        Args:
            choice: The node chosen for each class of the small problem, -1 for none.
        """
        owner = self._original.owner
        full = np.full(self._original.num_classes, -1, np.int64)
        pending = self._settled + [self._origins[n] for n in choice if n >= 0]
        while pending:
            origin = pending.pop()
            if isinstance(origin, tuple):
                pending.extend(origin)
            else:
                full[owner[origin]] = origin
        return full

    def restrict(self, chosen: Sequence[bool]) -> list[bool]:
        """Which nodes of the small problem stand for nothing but chosen nodes of the original one.

        Args:
            chosen: Whether each node of the original problem is chosen.
        """
        known: dict[int, bool] = {}  # of pairs, by their identities: to hash one is to walk through all of it

        def is_chosen(origin: Origin) -> bool:
            return chosen[origin] if isinstance(origin, int) else known[id(origin)]

        pending = [*self._origins]
        while pending:
            origin = pending.pop()
            if isinstance(origin, int) or id(origin) in known:
                continue
            fresh = [part for part in origin if not isinstance(part, int) and id(part) not in known]
            if fresh:
                pending += [origin, *fresh]
            else:
                known[id(origin)] = all(map(is_chosen, origin))
        return [*map(is_chosen, self._origins)]


class MutableProblem:
    """A problem whose nodes can be removed, changed and added.

    Args:
        problem: The original problem.
        keep: Which of its nodes remain; all by default. bool (N,).

    Attributes:
        nodes: The remaining nodes of each class.
        users: The remaining nodes that need each class.
        kids: The classes that each node needs.
        origin: What each node stands for in the original problem.
        settled: What is chosen already.
        constant: The cost of what is settled.
        changed: The classes whose nodes or users have changed.
    """

    def __init__(self, problem: Problem, keep: Iterable[bool] | None) -> None:
        self.original = problem
        self.owner = [*problem.owner]
        self.cost = [*problem.costs]
        self.zero = problem.zero
        self.kids = [set(children) for children in problem.children]
        self.nodes: list[dict[int, None]] = [dict.fromkeys(nodes) for nodes in problem.class_nodes]
        self.users: list[set[int]] = [set() for _ in self.nodes]
        self.roots = dict.fromkeys(problem.roots.tolist())
        self.origin: list[Origin] = list(range(problem.num_nodes))
        self.settled: list[Origin] = []
        self.constant = problem.zero
        self.signed = problem.signed
        self.changed: dict[int, None] = {}
        if keep is not None:
            for node, kept in enumerate(keep):
                if not kept:
                    self.nodes[self.owner[node]].pop(node, None)
        for nodes in self.nodes:
            for node in nodes:
                for kid in self.kids[node]:
                    self.users[kid].add(node)

    def _remove(self, node: int) -> None:
        del self.nodes[self.owner[node]][node]
        self.changed[self.owner[node]] = None
        for kid in self.kids[node]:
            self.users[kid].discard(node)
            self.changed[kid] = None

    def _replace_kid(self, node: int, old: int, new: Iterable[int]) -> None:
        kids = self.kids[node]
        kids.discard(old)
        self.users[old].discard(node)
        for kid in new:
            kids.add(kid)
            self.users[kid].add(node)
            self.changed[kid] = None
        self.changed[self.owner[node]] = None

    def _add(self, index: int, cost: Term, kids: set[int], origin: Origin) -> None:
        node = len(self.cost)
        self.owner.append(index)
        self.cost.append(cost)
        self.kids.append(kids)
        self.origin.append(origin)
        self.nodes[index][node] = None
        for kid in kids:
            self.users[kid].add(node)

    def _prune(self) -> list[int]:
        """Remove nodes that cannot be derived or reached; return the remaining classes, children before parents.

        Raises:
            ExtractionError: A root cannot be derived.
        """
        missing = [-1] * len(self.cost)
        for nodes in self.nodes:
            for node in nodes:
                missing[node] = len(self.kids[node])
        order = derive(missing, self.users, self.owner)
        known = bytearray(len(self.nodes))
        for index in order:
            known[index] = 1
        if not all(known[root] for root in self.roots):
            raise ExtractionError("no extraction is left")
        reached = bytearray(len(self.nodes))
        stack = [*self.roots]
        while stack:
            index = stack.pop()
            if reached[index]:
                continue
            reached[index] = 1
            for node in [*self.nodes[index]]:
                if missing[node] or index in self.kids[node]:
                    self._remove(node)
                else:
                    stack.extend(self.kids[node])
        for index, nodes in enumerate(self.nodes):
            if not reached[index]:
                for node in [*nodes]:
                    self._remove(node)
        return [index for index in order if reached[index]]

    def result(self) -> Simplified:
        """What is left, as a problem of its own."""
        alive = [index for index, nodes in enumerate(self.nodes) if nodes]
        number = {index: i for i, index in enumerate(alive)}
        nodes = [node for index in alive for node in self.nodes[index]]
        cost = np.array([self.cost[n] for n in nodes], np.float64)
        slack = 1e-13 * np.abs(cost).max(axis=0, initial=0.0)  # what is left of a - a after rounding
        cost[np.abs(cost) < slack] = 0.0
        price = dict(zip(nodes, cost.tolist(), strict=True))
        classes = [
            [(price[n], sorted([number[k] for k in self.kids[n]])) for n in self.nodes[index]] for index in alive
        ]
        small = Problem.from_lists(classes, [number[r] for r in self.roots]) if nodes else None
        return Simplified(small, self.constant, self.original, [self.origin[n] for n in nodes], self.settled)

"""Inequalities that cut off solutions of the relaxation; each finder returns the violated ones.

*Loop formulas*: for a set U of classes and c in U, a use of c is founded on some node of U that needs no class of U:
y_c <= sum of x_n over the nodes n of U with no child in U. They exclude every cyclic choice.

*Closure cuts*: where several nodes of class p lead to class m on every way down, at whatever depth,
the sum of their x_n <= y_m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .components import components, members, strongly_connected
from .deadline import Deadline
from .necessary import necessary, union
from .problem import Problem, derive

if TYPE_CHECKING:
    from .relaxation import Inequality, Relaxation

_VIOLATION = 1e-4
_ROUND_LIMIT = 400  # cuts added at a time
_CLOSURE_LIMIT = 300_000  # pairs of classes for which closure cuts are kept at hand
_LEVELS = 12  # values of x tried as a threshold for support


class Cuts:
    """The finders for one problem, with what they need to know about it."""

    def __init__(self, problem: Problem, deadline: Deadline) -> None:
        self.problem = problem
        self.deadline = deadline
        self.cycles = [classes for classes in members(components(problem)) if len(classes) > 1]
        self._closures: list[dict[int, list[int]]] | None = None

    # -- loop formulas -------------------------------------------------------------------------------------------

    def loops(self, relaxation: Relaxation) -> list[Inequality]:
        """Violated loop formulas, found by asking what can be derived from nodes above a threshold of x."""
        x, y = relaxation.x.tolist(), relaxation.y.tolist()
        found: dict[tuple[int, tuple[int, ...]], Inequality] = {}
        for classes in self.cycles:
            inside = set(classes)
            active = [c for c in classes if y[c] > _VIOLATION]
            if not active:
                continue
            levels = sorted({round(x[n], 6) for c in active for n in self.problem.class_nodes[c]} - {0.0})
            step = max(1, len(levels) // _LEVELS)
            for level in [1e-6, *levels[::step]]:
                if self.deadline.passed():
                    return list(found.values())
                for unfounded in self._unfounded(active, inside, x, level):
                    self._collect(relaxation, unfounded, x, y, found)
            if len(found) > _ROUND_LIMIT:
                break
        return list(found.values())

    def _unfounded(self, active: list[int], inside: set[int], x: list[float], level: float) -> list[list[int]]:
        """Classes not derivable from nodes with x >= level, split into components of mutual need."""
        children, class_nodes = self.problem.children, self.problem.class_nodes
        place = {c: i for i, c in enumerate(active)}
        nodes = [n for c in active for n in class_nodes[c] if x[n] >= level]
        needs = [[k for k in children[n] if k in inside] for n in nodes]
        users: list[list[int]] = [[] for _ in active]
        for user, kids in enumerate(needs):
            for k in kids:
                if k in place:
                    users[place[k]].append(user)
        derived = {*derive([*map(len, needs)], users, [place[self.problem.owner[n]] for n in nodes])}
        rest = [c for c in active if place[c] not in derived]
        number = {c: i for i, c in enumerate(rest)}
        needs_of = [
            [number[k] for n in class_nodes[c] if x[n] >= level for k in children[n] if k in number] for c in rest
        ]
        parts = [[rest[i] for i in group] for group in members(strongly_connected(needs_of)) if len(group) > 1]
        return parts if parts == [rest] or not rest else [*parts, rest]

    def _collect(
        self,
        relaxation: Relaxation,
        unfounded: list[int],
        x: list[float],
        y: list[float],
        found: dict[tuple[int, tuple[int, ...]], Inequality],
    ) -> None:
        inside = set(unfounded)
        outer = [
            n for c in unfounded for n in self.problem.class_nodes[c] if inside.isdisjoint(self.problem.children[n])
        ]
        support = sum([x[n] for n in outer])
        for index in unfounded:
            if y[index] > support + _VIOLATION:
                own = relaxation.y_column(index)
                found[index, tuple(outer)] = ([own, *outer], [1.0] + [-1.0] * len(outer))

    # -- closure cuts --------------------------------------------------------------------------------------------

    def closures(self, relaxation: Relaxation) -> list[Inequality]:
        """Violated closure cuts."""
        if self._closures is None:
            self._closures = self._find_closures()
        x, y = relaxation.x.tolist(), relaxation.y.tolist()
        rows: list[tuple[float, Inequality]] = []
        for leads in self._closures:
            for target, nodes in leads.items():
                excess = sum([x[n] for n in nodes]) - y[target]
                if excess > _VIOLATION:
                    rows.append((excess, ([*nodes, relaxation.y_column(target)], [1.0] * len(nodes) + [-1.0])))
        rows.sort(key=lambda entry: -entry[0])
        return [row for _, row in rows[:_ROUND_LIMIT]]

    def _find_closures(self) -> list[dict[int, list[int]]]:
        """For every class the classes below it to which two or more of its nodes lead, with those nodes."""
        children = self.problem.children
        must = necessary([[children[n] for n in nodes] for nodes in self.problem.class_nodes], self.deadline)
        result: list[dict[int, list[int]]] = []
        room = _CLOSURE_LIMIT if must else 0
        for nodes in self.problem.class_nodes:
            if room <= 0:
                break
            once = twice = 0
            closures = []
            for node in nodes:
                closure = union(must, children[node])
                closures.append(closure)
                twice |= once & closure
                once |= closure
            leads = {}
            while twice:
                low = twice & -twice
                leads[low.bit_length() - 1] = [n for n, c in zip(nodes, closures, strict=True) if c & low]
                twice ^= low
            result.append(leads)
            room -= len(leads)
        return result

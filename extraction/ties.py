"""Among equally cheap choices, one that is near a given choice: what gains nothing is left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from .greedy import cheapest_trees
from .problem import Ints, Problem
from .solution import use_counts, walk

_EFFORT = 30  # children looked at per class in all, after which the rest stays as it is


def nearer(problem: Problem, choice: ArrayLike, wanted: ArrayLike) -> Ints:
    """`choice` with classes changed to the nodes of `wanted` where that costs no more, from the roots down.

    Both are int (C,), -1 where they have no node; `choice` is complete, `wanted` need not be. A class changes together
    with the classes below it that are not in use yet: these get the nodes of `wanted`, or else those of the cheapest
    trees. Linear, so in large graphs not every chance is taken.
    """
    used = np.asarray(choice, np.int64)
    if np.all((used < 0) | (np.asarray(wanted) == used)):
        return used
    return _Nearing(problem, used, wanted).run()


class _Nearing:
    def __init__(self, problem: Problem, choice: ArrayLike, wanted: ArrayLike) -> None:
        self.order = walk(problem, choice)
        self.problem = problem
        self.cost, self.children = problem.costs, problem.children
        used = np.full(problem.num_classes, -1, np.int64)
        used[self.order] = np.asarray(choice)[self.order]
        self.choice: list[int] = used.tolist()
        self.wanted: list[int] = np.asarray(wanted).tolist()
        self.users = use_counts(problem, self.choice, self.order)
        self.effort = _EFFORT * problem.num_classes

    def run(self) -> Ints:
        for index in reversed(self.order):
            differs = self.choice[index] >= 0 and self.wanted[index] not in (-1, self.choice[index])
            if differs and not self._try(index, self.wanted):
                self._try(index, self.cheapest)
            if self.effort < 0:
                break
        return np.array(self.choice, np.int64)

    @cached_property
    def cheapest(self) -> list[int]:
        return cheapest_trees(self.problem)[0]

    def _try(self, index: int, source: list[int]) -> bool:
        """Change a class to the wanted node, classes not in use yet to those of `source`; False where it costs more."""
        old, new = self.choice[index], self.wanted[index]
        added = self._additions(new, source)
        if added is None:
            return False
        gained = self.cost[new] + sum([self.cost[node] for node in added.values()])
        self.choice[index] = new
        for one, node in added.items():
            self.choice[one] = node
        for node in (new, *added.values()):
            self._count(node, 1)
        dropped = self._drop(old)
        spent = self.cost[old] + sum([self.cost[node] for _, node in dropped])
        if gained - spent > self.problem.tolerance() or self._reaches(new, index):
            for one, node in dropped:  # take it all back
                self.choice[one] = node
                self._count(node, 1)
            self._count(old, 1)
            for node in (new, *added.values()):
                self._count(node, -1)
            for one in added:
                self.choice[one] = -1
            self.choice[index] = old
            return False
        return True

    def _additions(self, node: int, source: list[int]) -> dict[int, int] | None:
        """Classes not in use that are needed below a node, with their nodes; None where `source` lacks one."""
        found: dict[int, int] = {}
        stack = [node]
        while stack:
            for child in self._below(stack.pop()):
                if self.choice[child] < 0 and child not in found:
                    if source[child] < 0:
                        return None
                    found[child] = source[child]
                    stack.append(source[child])
        return found

    def _reaches(self, node: int, index: int) -> bool:
        """Whether a class is below a node."""
        seen: set[int] = set()
        stack = [node]
        while stack:
            for child in self._below(stack.pop()):
                if child == index or self.effort < 0:
                    return True
                if child not in seen:
                    seen.add(child)
                    stack.append(self.choice[child])
        return False

    def _below(self, node: int) -> Iterator[int]:
        for child in self.children[node]:
            self.effort -= 1
            yield child

    def _drop(self, node: int) -> list[tuple[int, int]]:
        """Give up a node and all that only it needed; the classes given up and the nodes they had."""
        dropped = []
        stack = [node]
        while stack:
            for child in self.children[stack.pop()]:
                self.users[child] -= 1
                if not self.users[child]:
                    dropped.append((child, self.choice[child]))
                    stack.append(self.choice[child])
                    self.choice[child] = -1
        return dropped

    def _count(self, node: int, change: int) -> None:
        for child in self.children[node]:
            self.users[child] += change

"""Choosing, among equally cheap choices, one that is near a given choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from .greedy import cheapest_trees
from .problem import Ints, Problem
from .solution import use_counts, walk
from .uses import Uses

_EFFORT = 30  # classes looked at per class in all, after which the rest stays as it is


def nearer(problem: Problem, choice: ArrayLike, wanted: ArrayLike) -> Ints:
    """Return a choice that takes the nodes of another choice wherever that costs no more, from the roots down.

    A class changes together with the classes below it that are not in use yet: these get the nodes of `wanted`, or
    those of the cheapest trees. The time is linear, so in large graphs not every possible change is made.

    Args:
        problem, choice: The problem, and an extraction; int (C,), -1 for classes without a node.
        wanted: The other choice; int (C,). It need not be complete.
    """
    used = np.asarray(choice, np.int64)
    if np.all((used < 0) | (np.asarray(wanted) == used)):
        return used
    return _Nearing(problem, used, wanted).run()


class _Nearing(Uses):
    def __init__(self, problem: Problem, choice: Ints, wanted: ArrayLike) -> None:
        self.order = walk(problem, choice)
        nodes: list[int] = choice.tolist()
        # node -1, of classes that `wanted` says nothing of, needs nothing and is never cheap enough
        super().__init__(
            [*problem.children, []], [*problem.scalars, math.inf], nodes, use_counts(problem, nodes, self.order)
        )
        self.problem = problem
        self.wanted: list[int] = np.asarray(wanted).tolist()
        self.effort = _EFFORT * problem.num_classes
        self.slack = problem.scalar_tolerance

    def run(self) -> Ints:
        """The choice after all changes that cost nothing."""
        for index in reversed(self.order):
            differs = self.uses[index] and self.wanted[index] not in (-1, self.choice[index])
            if differs and not self._try(index, self.wanted):
                self._try(index, self.cheapest)
            if self.effort < 0:
                break
        return np.array(self.used(), np.int64)

    @cached_property
    def cheapest(self) -> list[int]:
        """The node of least tree cost of every class."""
        return cheapest_trees(self.problem)[0]

    def _try(self, index: int, source: Sequence[int]) -> bool:
        """Change a class to the wanted node, classes not in use yet to those of `source`; False where it costs more."""
        old, new = self.choice[index], self.wanted[index]
        taken, given_up = self.take(new, source), self.give_up(old)
        self.effort -= len(taken) + len(given_up)
        if self.cost_of(taken) - self.cost_of(given_up) > self.slack or self._reaches(new, index):
            self.take(old, self.choice)
            self.give_up(new)
            return False
        self.choice[index] = new
        return True

    def _reaches(self, node: int, index: int) -> bool:
        """Whether a class is below a node, or that takes too long to find out."""
        for child in self.below(node):
            self.effort -= 1
            if child == index or self.effort < 0:
                return True
        return False

"""Contraction: merge classes that offer no choice into the nodes that need them.

The contracted problem has the same extractions on fewer classes. Unlike `simplify` it keeps tree costs and all that the
greedy extractors see, and takes a few passes of NumPy. E-graphs of tensor programs consist mostly of such classes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .deadline import Deadline
from .problem import Ints, Problem
from .solution import Result, finish, walk

_WORTH = 0.02  # a round that dissolves no more than this share of the classes is the last

Solve = Callable[[Problem, Deadline, Ints | None], Result]
"""Extracts from a contracted problem by a deadline; the result is no worse than the choice given, if any."""


def contracted(problem: Problem, seconds: float, incumbent: ArrayLike | None, solve: Solve) -> Result:
    """Solve the contraction of a problem and return the result as one for the problem itself.

    Arguments and errors are those of :func:`eqsat.extraction.extract`; `solve` solves the contraction.
    """
    deadline = Deadline(seconds)
    small = Contraction(problem)
    if incumbent is not None:
        walk(problem, incumbent)  # refuses one that is no extraction
    result = solve(small.problem, deadline, None if incumbent is None else small.restrict(incumbent))
    return finish(
        problem,
        small.expand(result.choice),
        method=result.method,
        started=deadline.started,
        lower_bound=result.lower_bound,
        incumbent=incumbent,
        message=result.message,
    )


class Contraction:
    """A problem without classes that have one node and either a single user or neither cost nor children.

    Attributes:
        problem: The contracted problem; the original itself where hardly anything could be merged.
    """

    def __init__(self, original: Problem) -> None:
        self.original = self.problem = original
        self._cost = original.cost.copy()
        self._alive = ~original.excluded
        user = np.repeat(np.arange(original.num_nodes), np.diff(original.child_offsets))
        kept = self._alive[user]
        self._user, self._child = user[kept], original.child[kept]
        self._only = np.full(original.num_classes, -1)  # the node of each dissolved class, -1 for the others
        while self._dissolve() > _WORTH * original.num_classes:
            pass
        self._classes, self._nodes = np.flatnonzero(self._only < 0), np.flatnonzero(self._alive)
        if len(self._classes) < (1 - _WORTH) * original.num_classes:
            self.problem = self._small()

    def expand(self, choice: ArrayLike) -> Ints:
        """A choice of the small problem as one of the original; it may name nodes for classes that are not used."""
        picked = np.asarray(choice)
        if self.problem is self.original:
            return picked
        full = self._only.copy()
        full[self._classes] = np.where(picked >= 0, self._nodes[picked], -1)
        return full

    def restrict(self, choice: ArrayLike) -> Ints:
        """An extraction of the original problem as one of the small problem."""
        picked = np.asarray(choice)
        if self.problem is self.original:
            return picked
        number = np.full(self.original.num_nodes + 1, -1)
        number[self._nodes] = np.arange(len(self._nodes))
        restricted: Ints = number[picked[self._classes]]
        return restricted

    def _dissolve(self) -> int:
        """One round; how many classes it dissolved."""
        owner, classes = self.original.node_class, self.original.num_classes
        nodes = np.flatnonzero(self._alive)
        only = np.full(classes, -1)
        only[owner[nodes]] = nodes
        lone = np.bincount(owner[nodes], minlength=classes) == 1
        lone[self.original.roots] = False
        leaf = np.bincount(self._user, minlength=len(owner)) == 0
        free = lone & leaf[only] & ~self._cost.reshape(len(owner), -1)[only].any(axis=1)
        merged = lone & ~free & (np.bincount(self._child, minlength=classes) == 1)
        into = self._ends(merged)
        merged &= into >= 0
        gone = free | merged
        np.add.at(self._cost, into[merged], self._cost[only[merged]])
        moved = np.arange(len(owner))
        moved[only[merged]] = into[merged]
        kept = ~gone[self._child]
        self._user, self._child = moved[self._user[kept]], self._child[kept]
        self._alive[only[gone]] = False
        self._only[gone] = only[gone]
        return int(np.count_nonzero(gone))

    def _ends(self, merged: NDArray[np.bool_]) -> Ints:
        """For each merged class the node it ends up in; -1 for rings of merged classes, which nothing reaches."""
        owner = self.original.node_class
        into = np.full(len(merged), -1)
        into[self._child] = self._user
        inner = np.flatnonzero(merged)
        for _ in range(len(merged).bit_length()):  # each step doubles the distance looked ahead
            inner = inner[merged[owner[into[inner]]]]
            into[inner] = into[owner[into[inner]]]
        into[inner[merged[owner[into[inner]]]]] = -1
        return into

    def _small(self) -> Problem:
        original = self.original
        class_number, node_number = np.cumsum(self._only < 0) - 1, np.cumsum(self._alive) - 1
        order = np.argsort(self._user, kind="stable")
        fan = np.bincount(node_number[self._user], minlength=len(self._nodes))
        return Problem(
            class_number[original.node_class[self._nodes]],
            np.concatenate([[0], np.cumsum(fan)]),
            class_number[self._child[order]],
            self._cost[self._nodes],
            class_number[original.roots],
            num_classes=len(self._classes),
        )

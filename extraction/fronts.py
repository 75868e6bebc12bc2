"""States of a search that decides class after class, each with the cheapest choices so far that lead to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from .costs import Term
from .problem import Problem

Trail: TypeAlias = "tuple[Sequence[int], Trail] | None"
"""The nodes chosen so far, the last ones first."""

Front: TypeAlias = list[tuple[Term, Trail]]
"""Trails that lead to one state, with their costs: the cheapest, or with several objectives all those of which each may
be the beginning of an optimum."""

Enter: TypeAlias = Callable[[Front, Term, Sequence[int], Trail], None]
"""Adds a trail to a front: its cost, the nodes it ends in, and the trail before them."""

Extra: TypeAlias = Callable[[int, int], Term | None]
"""What it costs at most to do one thing more, given the set of that and of what is done anyway; None if not known."""


def entering(problem: Problem) -> Enter:
    """What adds trails to fronts."""
    return _enter if len(problem.objectives) == 1 else partial(_enter_several, problem.tolerances)


def _enter(front: Front, cost: Term, nodes: Sequence[int], trail: Trail) -> None:
    """Keep the cheaper of what is known and what is new."""
    if cost < front[0][0]:
        front[0] = (cost, (nodes, trail))


def _enter_several(tolerances: Sequence[float], front: Front, cost: Term, nodes: Sequence[int], trail: Trail) -> None:
    """Keep all that may be part of an optimum."""
    for known, _ in front:
        if known.covers(cost, tolerances):
            return
    front[:] = [each for each in front if not cost.covers(each[0], tolerances)]
    front.append((cost, (nodes, trail)))


class Rivals:
    """Some of the cheapest states; states are sets of what is left to do, so that less of it is no worse.

    Args:
        tolerances: Of the problem's objectives, of which none has negative costs.
        most: How many rivals are remembered.
        extra: The price of one thing that a rival may have to do more. Without it, a rival has nothing more to do.
    """

    def __init__(self, tolerances: Sequence[float], most: int, extra: Extra | None = None) -> None:
        self.tolerances = tolerances
        self.most = most
        self.extra = extra
        self._known: list[tuple[int, Term]] = []

    def without_beaten(self, states: dict[int, Front]) -> dict[int, Front]:
        """The states without those that save nothing: a rival, here or before, does all that they do for as much."""
        kept = {}
        for state, front in sorted(states.items(), key=lambda each: (each[1][0][0], each[0].bit_count())):
            if not self._beat(state, front):
                kept[state] = front
                if len(self._known) < self.most:
                    self._known.append((state, front[0][0]))
        return kept

    def _beat(self, state: int, front: Front) -> bool:
        outside = ~state
        for less, least in self._known:  # a loop: a generator would take as long as the comparisons
            more = less & outside
            if more:
                if self.extra is None or more & more - 1:  # two things take long to tell, and seldom help
                    continue
                extra = self.extra(more, state)
                if extra is None:
                    continue
                least = least + extra
            if all(no_dearer(self.tolerances, least, cost) for cost, _ in front):
                return True
        return False


def no_dearer(tolerances: Sequence[float], least: Term, cost: Term) -> bool:
    """Whether what costs `cost` cannot be needed for an optimum where the same costs `least`."""
    return bool(least <= cost if len(tolerances) == 1 else least.covers(cost, tolerances))


def nodes_of(trail: Trail) -> list[int]:
    """The nodes of a trail, the last ones first."""
    found: list[int] = []
    while trail is not None:
        nodes, trail = trail
        found += nodes
    return found

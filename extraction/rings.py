"""All that is worth choosing for classes that need each other: a ring, of which a choice must not have a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from .costs import Term
from .deadline import Deadline
from .fronts import Front, Rivals, entering, nodes_of
from .necessary import bits
from .problem import Problem

_RIVALS = 128  # of the cheapest states, which no other one that has more left to do and costs as much can beat

Way: TypeAlias = tuple[Term, int, Sequence[int]]
"""How to choose for classes of a ring: the cost, the classes needed further on as bits, and the nodes."""


class Room:
    """How much may still be tried.

    Args:
        steps: Choices of a node for a class in some state.
        deadline: When to stop anyway.
    """

    def __init__(self, steps: float, deadline: Deadline) -> None:
        self.steps = steps
        self.deadline = deadline

    def over(self) -> bool:
        """Whether nothing more may be tried."""
        return self.steps < 0 or self.deadline.passed()


def ways(
    problem: Problem, ring: list[int], wanted: int, place: Mapping[int, int], end: int, room: Room
) -> list[Way] | None:
    """The ways to choose for some classes of a ring, and for those of it that these need, without a cycle.

    Classes are decided before what they need, in every order in which that is so. What is left to do depends on the
    classes that are needed, on those that are decided, which nothing may need any more, and on the classes that are
    needed further on: a state is these three sets.

    Args:
        problem, ring: The problem, and the classes of the ring.
        wanted: Those that are needed at first, as bits by their numbers in the ring.
        place, end: What is needed further on has the bits of `place`, from `end` on.
        room: What may be tried; what was is taken from it.

    Returns:
        The ways; None where there is too much to try.
    """
    size, options = len(ring), [_options(problem, index, ring, place, end) for index in ring]
    inside = (1 << size) - 1
    enter, rivals = entering(problem), Rivals(problem.tolerances, _RIVALS)
    found: dict[int, Front] = {}
    states: dict[int, Front] = {wanted: [(problem.zero, None)]}  # the lowest bits are needed, the next ones decided
    while states:
        later: dict[int, Front] = {}
        for state, front in states.items():
            needed, decided, below = state & inside, state >> size & inside, state >> 2 * size
            for k in [k for k in range(size) if needed >> k & 1]:
                with_it = decided | 1 << k
                for near, far, node in options[k]:
                    if near & with_it:
                        continue
                    still = needed & ~with_it | near
                    then = (below | far) << 2 * size | (with_it << size | still if still else 0)
                    room.steps -= len(front)
                    for cost, trail in front:
                        if then in later:
                            enter(later[then], cost + problem.costs[node], (node,), trail)
                        else:
                            later[then] = [(cost + problem.costs[node], ((node,), trail))]
            if room.over():
                return None
        later = later if problem.signed else rivals.without_beaten(later)
        states = {state: front for state, front in later.items() if state & inside}
        for state, front in later.items():
            if state & inside:
                continue
            for cost, trail in front:
                assert trail is not None
                if state in found:
                    enter(found[state], cost, *trail)
                else:
                    found[state] = [(cost, trail)]
    if not problem.signed:
        found = Rivals(problem.tolerances, _RIVALS).without_beaten(found)
    return [(cost, state >> 2 * size, nodes_of(trail)) for state, front in found.items() for cost, trail in front]


def _options(
    problem: Problem, index: int, ring: list[int], place: Mapping[int, int], end: int
) -> list[tuple[int, int, int]]:
    """For each node of a class: the classes of the ring that it needs, the others as they are needed further on."""
    first = end - len(ring)
    found = []
    for node in problem.class_nodes[index]:
        needs = bits([place[c] - first for c in problem.children[node]])
        found.append((needs & (1 << len(ring)) - 1, needs >> len(ring), node))
    return found

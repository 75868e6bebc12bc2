"""Parts of a problem that have no class in common: each can be solved by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .components import members, strongly_connected
from .problem import Ints, Problem


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a problem, as a problem of its own.

    Attributes:
        problem: The part.
        classes: The classes of the whole problem that are the part's, in order; int (C,).
        nodes: The nodes of the whole problem that are the part's, in order; int (N,).
    """

    problem: Problem
    classes: Ints
    nodes: Ints

    def write(self, choice: Ints, whole: Ints) -> None:
        """Enter a choice of the part into one of the whole problem."""
        whole[self.classes] = np.where(choice >= 0, self.nodes[choice], -1)


def independent(problem: Problem) -> list[Part]:
    """The parts of a problem, by their first classes. Each has a root if every class is reached from a root."""
    touching: list[list[int]] = [[] for _ in range(problem.num_classes)]
    for owner, children in zip(problem.owner, problem.children, strict=True):
        touching[owner] += children
        for child in children:
            touching[child].append(owner)
    found = sorted(members(strongly_connected(touching)))
    return [_part(problem, np.asarray(classes)) for classes in found] if len(found) > 1 else []


def _part(problem: Problem, classes: Ints) -> Part:
    number = np.full(problem.num_classes, -1)
    number[classes] = np.arange(len(classes))
    nodes = np.flatnonzero(number[problem.node_class] >= 0)
    roots = number[problem.roots]
    offsets = problem.child_offsets
    fan = np.diff(offsets)[nodes]
    child = np.concatenate([problem.child[offsets[node] : offsets[node + 1]] for node in nodes])
    part = Problem(
        number[problem.node_class[nodes]],
        np.concatenate([[0], np.cumsum(fan)]),
        number[child],
        problem.cost[nodes],
        roots[roots >= 0],
        subsumed=None if problem.subsumed is None else problem.subsumed[nodes],
        num_classes=len(classes),
    )
    return Part(part, classes, nodes)

"""Parts of a problem that have no class in common: each can be solved by itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from .components import members, strongly_connected
from .problem import Ints, Problem


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a problem, as a problem of its own.

    Attributes:
        problem: The part.
        classes: The classes of the whole problem that are the part's, in order; int (C,).
        nodes: The nodes of the whole problem that are the part's, class by class; int (N,).
    """

    problem: Problem
    classes: Ints
    nodes: Ints

    def write(self, choice: Ints, whole: Ints) -> None:
        """Enter a choice of the part into one of the whole problem."""
        whole[self.classes] = np.where(choice >= 0, self.nodes[choice], -1)


def independent(problem: Problem) -> list[Part]:
    """The parts of a problem, by their first classes; none where all hangs together.

    Each part has a root if every class is reached from a root.
    """
    touching: list[list[int]] = [[] for _ in range(problem.num_classes)]
    for owner, children in zip(problem.owner, problem.children, strict=True):
        touching[owner] += children
        for child in children:
            touching[child].append(owner)
    found = sorted(members(strongly_connected(touching)))
    if len(found) == 1:
        return []
    roots, price = {*problem.roots.tolist()}, problem.cost.tolist()
    parts = []
    for classes in found:
        number = {index: place for place, index in enumerate(classes)}
        nodes = [problem.class_nodes[index] for index in classes]
        part = Problem.from_lists(
            [[(price[n], [number[k] for k in problem.children[n]]) for n in each] for each in nodes],
            [number[index] for index in classes if index in roots],
        )
        parts.append(Part(part, np.asarray(classes), np.asarray([*chain.from_iterable(nodes)])))
    return parts

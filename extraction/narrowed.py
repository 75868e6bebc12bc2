"""The cheapest choices among few nodes: those that a relaxation or a search uses, and others by their reduced costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .deadline import Deadline
from .frontier import decide
from .problem import Ints
from .simplify import simplify
from .solution import walk

if TYPE_CHECKING:
    from .relaxation import Relaxation

_USED = 1e-6  # the least value of a node that a relaxation uses
_MORE = 2  # times as many nodes in the next turn
_EFFORT = 1 / 4  # of deciding a whole problem, after which there are too many nodes


def narrowed(relaxation: Relaxation, used: Sequence[int], deadline: Deadline) -> Iterator[tuple[Ints, float]]:
    """The cheapest choice among few nodes, then among more, as long as each is decided quickly.

    Args:
        relaxation: The relaxation, solved without integrality.
        used: The choice that the search uses, whose nodes are among the few; -1 for classes that are not used.
        deadline: When to stop.

    Yields:
        A choice, and a lower bound for all choices: one that is cheaper has another node, and costs at least what the
        relaxation costs and the least reduced cost of the other nodes.
    """
    problem = relaxation.problem
    few = relaxation.x > _USED
    few[[node for node in used if node >= 0]] = True
    order = np.argsort(np.where(few, -np.inf, relaxation.reduced), kind="stable")
    size = int(np.count_nonzero(few))
    while size < problem.num_nodes and not deadline.passed():
        keep = np.zeros(problem.num_nodes, bool)
        keep[order[:size]] = True
        stage = simplify(problem, keep, deadline)
        choice = decide(stage.problem, deadline, _EFFORT) if stage.problem else []
        if choice is None:
            return
        found, expanded = np.full(problem.num_classes, -1), stage.expand(choice)
        reached = walk(problem, expanded)
        found[reached] = expanded[reached]
        cost = float(relaxation.cost[found[reached]].sum())
        yield found, min(cost, relaxation.relaxed + float(relaxation.reduced[order[size]]))
        size *= _MORE

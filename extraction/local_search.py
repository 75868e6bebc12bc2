"""Extraction by local search, under the sum of node costs or any function of a whole choice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from .deadline import Deadline
from .greedy import cheapest_trees, dag, tree
from .objective import Climb, Objective
from .problem import Problem
from .search import Search
from .simplify import simplify
from .solution import Result, finish

PATIENCE = 300  # kicks in a row that save nothing before the search ends


def local(
    problem: Problem,
    *,
    seconds: float = math.inf,
    seed: int = 0,
    incumbent: ArrayLike | None = None,
    objective: Objective | None = None,
) -> Result:
    """Best of the greedy extractors (and the incumbent), improved by local search until nothing more is found.

    `objective` maps a choice (int (C,), -1 for unused classes) to a cost that need not be a sum; the result's `cost`
    is then its value. Without a clock that strikes, the result depends on the seed alone. Ctrl-C ends the search
    and returns the best so far. Raises ExtractionError where the objective fails or is NaN.
    """
    deadline = Deadline(seconds)
    message = ""
    start = dag(problem, incumbent=tree(problem, incumbent=incumbent).choice)
    if objective is not None:
        starts = [start.choice, tree(problem).choice, dag(problem).choice]
        climb = Climb(problem, objective, starts if incumbent is None else [*starts, np.asarray(incumbent)], seed)
        climb.run(deadline, PATIENCE)
        result = finish(problem, climb.best, method="local", started=deadline.started)
        return replace(result, cost=climb.value, lower_bound=-math.inf, optimal=False)
    stage = simplify(problem)
    if stage.problem is None:
        choice = stage.expand([])
        return finish(problem, choice, method="local", started=deadline.started, incumbent=start.choice)
    search = Search(stage.problem, seed)
    try:
        improve(search, deadline, PATIENCE)
    except KeyboardInterrupt:
        message = "interrupted"
    choice = stage.expand(search.used())
    return finish(problem, choice, method="local", started=deadline.started, incumbent=start.choice, message=message)


def improve(search: Search, deadline: Deadline, patience: int) -> None:
    """Start from the cheapest trees; descend and kick until so many kicks in a row saved nothing."""
    search.start(cheapest_trees(search.problem)[0])
    search.descend(deadline)
    idle = 0
    while idle < patience and not deadline.passed():
        idle = 0 if search.kick(deadline) else idle + 1

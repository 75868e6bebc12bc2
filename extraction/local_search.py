"""Extraction by local search, under the sum of node costs or any function of a whole choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
from numpy.typing import ArrayLike

from eqsat.errors import ExtractionError

from .deadline import Deadline
from .greedy import cheapest_trees, dag, tree
from .problem import Ints, Problem
from .search import Search
from .simplify import simplify
from .solution import Result, finish, tolerance, walk

PATIENCE = 300  # kicks in a row that save nothing before the search ends

Objective = Callable[[Ints], float]


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
    and returns the best so far.
    """
    deadline = Deadline(seconds)
    start = dag(problem, incumbent=tree(problem, incumbent=incumbent).choice)
    if objective is not None:
        return _climb(problem, start, objective, deadline, seed)
    choice, message = start.choice, ""
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


def _climb(problem: Problem, start: Result, objective: Objective, deadline: Deadline, seed: int) -> Result:
    """First-improvement climb under a function of the whole choice: switch one used class, keep what is cheaper.

    Classes not in use keep the node of their cheapest tree, so that a switch brings derivations with it.
    """
    full = np.array(cheapest_trees(problem)[0], np.int64)
    best = start.choice
    value = _evaluate(objective, best)
    random = Random(seed)
    improved = True
    while improved:
        improved = False
        used = np.flatnonzero(best >= 0).tolist()
        random.shuffle(used)
        for index in used:
            for node in problem.class_nodes[index]:
                if deadline.passed():
                    break
                trial = np.where(best >= 0, best, full)
                trial[index] = node
                try:
                    order = walk(problem, trial)
                except ExtractionError:  # the switch closes a cycle
                    continue
                candidate = np.full_like(trial, -1)
                candidate[order] = trial[order]
                cost = _evaluate(objective, candidate)
                if cost < value - tolerance(value):
                    best, value, improved = candidate, cost, True
    result = finish(problem, best, method="local", started=deadline.started)
    return Result(result.choice, value, result.tree_cost, -math.inf, False, result.seconds, "local")


def _evaluate(objective: Objective, choice: Ints) -> float:
    try:
        value = float(objective(choice))
    except Exception as error:
        raise ExtractionError(f"the objective failed on a choice: {error!r}") from error
    if math.isnan(value):
        raise ExtractionError("the objective returned NaN for a choice")
    return value

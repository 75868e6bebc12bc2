"""Extraction by local search, for the sum of node costs or for any function of a whole choice."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from .contract import contracted
from .deadline import Deadline
from .greedy import cheapest_dag, cheapest_trees, dag, tree
from .objective import Climb, Objective
from .problem import Ints, Problem
from .regions import Regions
from .search import Search
from .simplify import simplify
from .solution import Result, finish

PATIENCE = 300  # steps in a row that save nothing before the search ends
_QUIET = 25  # kicks in a row that save nothing before regions are decided; so many of these before an annealing
_STEPS, _STEPS_PER_NODE, _DOUBLED = 20_000, 16, 2  # of the first annealing at most, and how often that is doubled
_HEATS = 0.1, 0.5  # of every other annealing
SIMPLIFYING = 0.5  # share of the time left that simplification may take


def local(
    problem: Problem,
    *,
    seconds: float = math.inf,
    seed: int = 0,
    incumbent: ArrayLike | None = None,
    objective: Objective | None = None,
) -> Result:
    """Improve the best of the greedy results and the incumbent by local search, until no improvement is found.

    If the time does not run out, the result depends on the seed alone. Ctrl-C returns the best result so far.

    Args:
        problem, seconds, seed, incumbent: As for :func:`eqsat.extraction.extract`.
        objective: Maps a choice (int (C,), -1 for unused classes) to a cost that need not be a sum of node costs.
            The result's `cost` is then its value.

    Raises:
        ExtractionError: The incumbent is not an extraction, or the objective fails or returns NaN.
    """
    if objective is not None:
        return _climb(problem, objective, Deadline(seconds), seed, incumbent)
    return contracted(problem, seconds, incumbent, partial(_search, seed=seed))


def _search(problem: Problem, deadline: Deadline, incumbent: Ints | None, seed: int) -> Result:
    best = tree(problem, incumbent=incumbent)
    choice, message = best.choice, ""
    try:
        best = cheapest_dag(problem, deadline, best.choice)
        stage = simplify(problem, deadline=deadline.within(SIMPLIFYING * deadline.left()))
        if stage.problem is None:
            choice = stage.expand([])
        else:
            search = Search(stage.problem, seed)
            try:
                improve(search, deadline, PATIENCE)
            finally:  # also where Ctrl-C strikes
                choice = stage.expand(search.choice) if search.choice else choice
    except KeyboardInterrupt:
        message = "interrupted"
    return finish(problem, choice, method="local", started=deadline.started, incumbent=best.choice, message=message)


def _climb(
    problem: Problem, objective: Objective, deadline: Deadline, seed: int, incumbent: ArrayLike | None
) -> Result:
    starts = [tree(problem, incumbent=incumbent).choice, tree(problem).choice, dag(problem).choice]
    climb = Climb(problem, objective, starts if incumbent is None else [*starts, np.asarray(incumbent)], seed)
    climb.run(deadline, PATIENCE)
    result = finish(problem, climb.best, method="local", started=deadline.started)
    return replace(result, cost=climb.value, lower_bound=-math.inf, optimal=False)


def improve(search: Search, deadline: Deadline, patience: int) -> None:
    """Search on until so many steps in a row saved nothing, at first after a descent from cheapest trees.

    After an annealing, regions are rebuilt at random prices, and then decided, for as long as that saves something.
    """
    if not search.choice:
        search.start(cheapest_trees(search.problem)[0])
        search.descend(deadline)
    steps = min(_STEPS, _STEPS_PER_NODE * search.problem.num_nodes)
    regions = Regions(search)
    idle = rounds = 0
    quiet = 2 * _QUIET
    while idle < patience and not deadline.passed():
        if quiet < _QUIET:
            saved = search.kick(deadline)
            quiet = 0 if saved else quiet + 1
        elif quiet < 2 * _QUIET:
            saved = regions.improve(deadline)
            quiet = _QUIET if saved else quiet + 1
        else:
            longer = min(_DOUBLED, rounds // len(_HEATS))
            saved = search.anneal(_HEATS[rounds % len(_HEATS)], steps << longer, deadline)
            quiet, rounds = 0, rounds + 1
        idle = 0 if saved else idle + 1

"""The local search: its moves keep the choice complete and free of cycles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.extraction import Problem, dag_cost, read_gym
from eqsat.extraction.deadline import NEVER
from eqsat.extraction.greedy import cheapest_trees
from eqsat.extraction.mutable import MutableProblem
from eqsat.extraction.search import Search
from eqsat.extraction.simplify import simplify
from eqsat.extraction.solution import walk

from .strategies import optimum, problems

GYM = Path(__file__).parents[1] / "data" / "extraction-gym"


def started(problem: Problem, seed: int) -> Search:
    """A search that stands on the cheapest trees."""
    search = Search(problem, seed)
    search.start(cheapest_trees(problem)[0])
    return search


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_every_class_of_a_rebuilt_choice_can_be_walked(problem: Problem, seed: int) -> None:
    search = started(problem, seed)
    for _ in range(5):
        choice = search.rebuilt()
        for root, node in enumerate(choice):
            assert (node >= 0) == problem.derivable[root]
            if node >= 0:
                walk(replace(problem, roots=np.array([root])), choice)
        search.start(choice)


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_a_kick_makes_nothing_dearer(problem: Problem, seed: int) -> None:
    pruned = MutableProblem(problem, None)
    pruned._prune()  # a search is for problems of which every class can be derived
    small = pruned.result().problem
    assert small is not None
    search = started(small, seed)
    for _ in range(5):
        before = search.cost
        assert search.kick(NEVER) == (search.cost < before - search.slack)
        assert search.cost <= before + search.slack
        assert search.cost == pytest.approx(dag_cost(small, search.used()))
        assert search.cost >= optimum(small) - search.slack


def test_classes_with_rewards_move_together() -> None:
    problem = simplify(read_gym(GYM / "maxsat__hamming6-2.clq.json.xz")).problem
    assert problem is not None
    search = started(problem, 0)
    greedy = search.cost
    for _ in range(40):
        search.kick(NEVER)
    assert search.cost < 1.4 * greedy < 0  # by switching single classes, hardly anything is gained

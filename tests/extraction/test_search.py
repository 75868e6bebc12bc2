"""The local search: its moves keep the choice complete and free of cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.extraction import Problem, dag_cost, read_gym
from eqsat.extraction.deadline import NEVER
from eqsat.extraction.greedy import cheapest_trees
from eqsat.extraction.regions import Regions
from eqsat.extraction.search import Search
from eqsat.extraction.simplify import simplify
from eqsat.extraction.solution import walk

from .strategies import optimum, problems, pruned

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
        search.move(search.rebuilt())
        choice = search.choice
        for root, node in enumerate(choice):
            assert (node >= 0) == problem.derivable[root]
            if node >= 0:
                walk(replace(problem, roots=np.array([root])), choice)


STEPS = [
    lambda search: search.kick(NEVER),
    lambda search: search.anneal(1.0, 300, NEVER),
    lambda search: Regions(search).improve(NEVER),
]


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_a_step_makes_nothing_dearer(step: Callable[[Search], bool], problem: Problem, seed: int) -> None:
    small = pruned(problem)
    search = started(small, seed)
    for _ in range(5):
        before = search.cost
        assert step(search) == (search.cost < before - search.slack)
        assert search.cost <= before + search.slack
        assert search.cost == pytest.approx(dag_cost(small, search.used()))
        assert search.cost >= optimum(small) - search.slack


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_the_choice_in_a_region_of_all_classes_is_the_cheapest(problem: Problem, seed: int) -> None:
    small = pruned(problem)
    search = started(small, seed)
    search.move(search.rebuilt())
    Regions(search).choose(range(small.num_classes), NEVER)
    assert search.cost == pytest.approx(optimum(small))


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_a_refreshed_choice_is_complete_and_uses_the_same(problem: Problem, seed: int) -> None:
    small = pruned(problem)
    search = started(small, seed)
    for _ in range(5):
        search.move(search.rebuilt())
        used = search.used()
        search.refresh()
        assert search.used() == used
        for root in range(small.num_classes):
            walk(replace(small, roots=np.array([root])), search.choice)


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2), seed=st.integers(0, 9))
def test_moving_back_restores_uses_and_cost(problem: Problem, seed: int) -> None:
    search = started(pruned(problem), seed)
    choice, uses, cost = [*search.choice], [*search.uses], search.cost
    search.undo = {}
    search.move(search.rebuilt())
    search.descend(NEVER)
    search.move(search.undo.copy())
    assert (search.choice, search.uses) == (choice, uses)
    assert search.cost == pytest.approx(cost)


def test_annealing_reaches_the_maximum_cut() -> None:
    problem = simplify(read_gym(GYM / "maxsat__hamming6-2.clq.json.xz")).problem
    assert problem is not None
    search = started(problem, 0)
    search.anneal(0.5, 20_000, NEVER)
    assert search.cost == -2816  # 1824 edges and a cut of 992; kicks alone end above -2800


def test_classes_with_rewards_move_together() -> None:
    problem = simplify(read_gym(GYM / "maxsat__hamming6-2.clq.json.xz")).problem
    assert problem is not None
    search = started(problem, 0)
    greedy = search.cost
    for _ in range(40):
        search.kick(NEVER)
    assert search.cost < 1.4 * greedy < 0  # by switching single classes, hardly anything is gained

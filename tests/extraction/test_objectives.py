"""Several objectives, compared in order: each extractor against all choices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.errors import ExtractionError
from eqsat.extraction import EXTRACTORS, Problem, dag_cost, exact, extract, write_gym
from eqsat.extraction.frontier import Decision, decide
from eqsat.extraction.simplify import simplify

from .strategies import Undecided, costs, extractions, problems

FRACTIONS = (1.0, 0.1, 1 / 3, 1e-3, 0.7e6)
"""Sums of what these numbers are multiplied by depend on their order."""


@st.composite
def several(draw: st.DrawFn, of: st.SearchStrategy[Problem]) -> Problem:
    """A problem with one or two objectives more, of few values, so that the first one leaves a choice."""
    problem = draw(of)
    count = draw(st.integers(1, 2))
    values = st.lists(st.integers(0, 3), min_size=problem.num_nodes, max_size=problem.num_nodes)
    columns = [np.round(problem.cost / 2)] + [np.array(draw(values), float) for _ in range(count)]
    return replace(problem, cost=np.column_stack([column * draw(st.sampled_from(FRACTIONS)) for column in columns]))


PROBLEMS = several(problems() | problems(least_cost=-2))


def optimum(problem: Problem) -> tuple[float, ...]:
    """The least cost by trying every choice."""
    left = list(costs(problem))
    for objective in range(problem.cost.shape[1]):
        least = min(cost[objective] for cost in left)
        left = [cost for cost in left if cost[objective] <= least + problem.tolerance(least, objective)]
    return left[0]


def comes_first(problem: Problem, left: tuple[float, ...], right: tuple[float, ...]) -> bool:
    """Whether costs are no more than others, compared in order."""
    return not problem.is_less(right, left) or left == pytest.approx(right)


def solve(method: str, problem: Problem, **limits: Any):
    return extract(problem, method, **limits, **({"seconds": 0.2} if method in ("local", "auto") else {}))


@pytest.mark.parametrize("quickly", [True, False])
@settings(max_examples=120, deadline=None)
@given(problem=PROBLEMS)
def test_exact_finds_the_first_of_all_choices(quickly: bool, problem: Problem) -> None:
    with mock.patch("eqsat.extraction.branch_and_cut.Decision", Decision if quickly else Undecided):
        result = exact(problem)
    assert result.cost == pytest.approx(optimum(problem))
    assert result.optimal
    assert result.lower_bound == result.cost


@settings(max_examples=120, deadline=None)
@given(problem=PROBLEMS)
def test_what_is_decided_class_by_class_is_the_first_of_all_choices(problem: Problem) -> None:
    choice = decide(problem)
    assert choice is not None
    assert dag_cost(problem, choice) == pytest.approx(optimum(problem))


@pytest.mark.parametrize("limit", ["simplify._WIDE", "simplify._SIBLINGS", "necessary._LIMIT", "simplify.none"])
@settings(max_examples=60, deadline=None)
@given(problem=PROBLEMS)
def test_simplify_keeps_the_first_of_all_choices(limit: str, problem: Problem) -> None:
    with mock.patch(f"eqsat.extraction.{limit}", 1, create=limit == "simplify.none"):
        small = simplify(problem)
    choice = [] if small.problem is None else decide(small.problem)
    assert choice is not None
    assert dag_cost(problem, small.expand(choice)) == pytest.approx(optimum(problem))


@pytest.mark.parametrize("method", EXTRACTORS)
@settings(max_examples=40, deadline=None)
@given(given=extractions(problems() | problems(least_cost=-2)), data=st.data())
def test_every_result_has_a_bound_and_is_no_worse_than_what_was_given(method: str, given: Any, data: Any) -> None:
    problem, choice = given
    problem = data.draw(several(st.just(problem)))
    result = solve(method, problem, incumbent=choice)
    best = optimum(problem)
    assert result.cost == dag_cost(problem, result.choice)
    assert len(result.tree_cost) == len(result.cost)
    assert comes_first(problem, result.lower_bound, best)
    assert comes_first(problem, best, result.cost)
    assert comes_first(problem, result.cost, dag_cost(problem, choice))
    if result.optimal:
        assert result.cost == pytest.approx(best)


@settings(max_examples=50, deadline=None)
@given(problem=PROBLEMS, factors=st.lists(st.sampled_from([1e-6, 0.3, 7.0, 1e5]), min_size=3, max_size=3))
def test_each_objective_may_have_its_own_unit(problem: Problem, factors: list[float]) -> None:
    units = np.array(factors[: problem.cost.shape[1]])
    scaled = exact(replace(problem, cost=problem.cost * units))
    assert scaled.cost == pytest.approx(tuple(exact(problem).cost * units))


@pytest.mark.parametrize("method", EXTRACTORS)
@settings(max_examples=25, deadline=None)
@given(problem=problems() | problems(least_cost=-2))
def test_one_objective_is_the_same_with_an_axis_of_its_own(method: str, problem: Problem) -> None:
    plain, column = solve(method, problem), solve(method, replace(problem, cost=problem.cost[:, np.newaxis]))
    assert isinstance(column.cost, float)
    assert (column.cost, column.choice.tolist()) == (plain.cost, plain.choice.tolist())


def test_sums_that_differ_by_rounding_alone_are_equal() -> None:
    # 0.1 + 0.2 is more than 0.3, by a bit, and the better by the second objective
    classes = [[((0.3, 1.0), []), ((0.1, 0.0), [1])], [((0.2, 0.0), [])]]
    result = exact(Problem.from_lists(classes, [0]))
    assert result.cost == (0.1 + 0.2, 0.0)
    assert result.optimal


def test_a_problem_too_hard_to_decide_class_by_class_is_proved_for_both_objectives() -> None:
    shared = [[((float(index % 3), 1.0 + index / 100), [])] for index in range(28)]
    pairs = np.random.default_rng(0).integers(28, size=(28, 3, 2)).tolist()
    problem = Problem.from_lists(shared + [[((0.0, 0.0), pair) for pair in three] for three in pairs], range(28, 56))
    assert decide(problem) is None
    result = exact(problem)
    first = exact(replace(problem, cost=problem.cost[:, 0]))
    weighted = exact(replace(problem, cost=problem.cost @ [1000.0, 1.0]))  # here the second cannot outweigh the first
    assert result.optimal
    assert result.cost[0] == first.cost
    assert result.cost @ np.array([1000.0, 1.0]) == pytest.approx(weighted.cost)


def test_a_gym_file_has_one_cost_for_a_node(tmp_path: Path) -> None:
    problem = Problem.from_lists([[((1.0, 2.0), [])]], [0])
    with pytest.raises(ExtractionError, match="the format has one cost for a node, the problem 2"):
        write_gym(problem, tmp_path / "two.json")


def test_costs_without_an_objective_are_refused() -> None:
    with pytest.raises(ExtractionError, match="cost has no objective"):
        Problem(np.zeros(1, int), np.zeros(2, int), np.zeros(0, int), np.zeros((1, 0)), np.zeros(1, int))

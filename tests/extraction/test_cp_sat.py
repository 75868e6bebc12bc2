"""The second opinion: with OR-tools it is right, without it nothing is lost."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings

from eqsat.extraction import Problem, cp_sat, dag_cost, exact, tree
from eqsat.extraction.components import components
from eqsat.extraction.solution import walk

from .strategies import optimum, problems
from .test_extractors import random_graph


@settings(max_examples=4, deadline=None)
@given(problem=problems() | problems(least_cost=-2))
def test_it_finds_the_optimum_and_proves_it(problem: Problem) -> None:
    bound, choice = cp_sat.solve(problem, tree(problem).choice.tolist(), 20.0, 0)
    assert dag_cost(problem, choice) == pytest.approx(optimum(problem))
    assert bound == pytest.approx(optimum(problem), abs=problem.tolerance())  # costs may cancel


@settings(max_examples=30, deadline=None)
@given(problem=problems() | problems(least_cost=-2))
def test_it_is_told_levels_by_which_the_first_choice_has_no_cycle(problem: Problem) -> None:
    component = components(problem)
    start = tree(problem).choice.tolist()
    level = cp_sat.levels(problem, start, component)
    for index in walk(problem, start):
        inside = [child for child in problem.children[start[index]] if component[child] == component[index]]
        assert all(level[child] < level[index] for child in inside)
        assert level[index] < component.count(component[index])


def test_graphs_that_cost_nothing_are_no_exception() -> None:
    problem = Problem.from_lists([[(0.0, []), (0.0, [1])], [(0.0, [])]], roots=[0])
    assert cp_sat.solve(problem, tree(problem).choice.tolist(), 20.0, 0)[0] == 0.0


def test_nothing_is_proved_when_the_time_is_over_at_once() -> None:
    problem = Problem.from_lists([[(-3.0, [1]), (-1.0, [])], [(1.0, []), (-4.0, [])]], roots=[0])
    assert cp_sat.solve(problem, tree(problem).choice.tolist(), 1e-9, 0)[0] <= -7.0


@pytest.mark.parametrize("program", ["/no/such/python", "false", "echo"])
def test_where_the_process_fails_nothing_is_lost(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_graph(1, 80)
    monkeypatch.setattr("sys.executable", program)
    assert cp_sat.solve(problem, tree(problem).choice.tolist(), 1.0, 0) == (-math.inf, [])
    monkeypatch.setattr(cp_sat, "available", lambda: True)
    assert exact(problem).optimal


def test_what_it_says_is_taken_after_a_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_graph(1, 80)
    best = exact(problem)
    monkeypatch.setattr("eqsat.extraction.branch_and_cut._FIRST_TRY", 0.0)
    monkeypatch.setattr(cp_sat, "available", lambda: True)
    asked: list[Any] = []

    def prove(current: Problem, start: list[int], seconds: float, *seed_and_limits: Any) -> tuple[float, list[int]]:
        asked.append(current)
        return math.inf, []

    monkeypatch.setattr(cp_sat, "solve", prove)
    result = exact(problem, incumbent=best.choice)
    assert len(asked) == 1
    assert result.optimal
    assert result.cost == best.cost

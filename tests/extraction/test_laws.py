"""Every extractor against all choices, on random e-graphs with cycles."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings

from eqsat.extraction import EXTRACTORS, Problem, dag_cost
from eqsat.extraction.frontier import Decision, decide
from eqsat.extraction.simplify import simplify
from eqsat.extraction.solution import walk

from .strategies import Undecided, extractions, optimum, problems

SIGNED = problems(least_cost=-2)


def solve(method: str, problem: Problem):
    limits = {"seconds": 0.2} if method in ("local", "auto") else {}
    return EXTRACTORS[method](problem, **limits)


@pytest.mark.parametrize("method", EXTRACTORS)
@settings(max_examples=40, deadline=None)
@given(problem=problems() | SIGNED)
def test_a_result_is_an_extraction_and_priced_right(method: str, problem: Problem) -> None:
    result = solve(method, problem)
    used = walk(problem, result.choice)  # raises on a cycle or a gap
    assert (result.choice >= 0).sum() == len(used)
    assert result.cost == pytest.approx(dag_cost(problem, result.choice))
    best = optimum(problem)
    assert result.lower_bound <= best + 1e-9
    assert result.cost >= best - 1e-9
    if result.optimal:
        assert result.cost == pytest.approx(best)


@pytest.mark.parametrize("method", EXTRACTORS)
@settings(max_examples=40, deadline=None)
@given(given=extractions(problems() | SIGNED))
def test_no_extraction_is_dearer_than_the_one_given(method: str, given: tuple[Problem, list[int]]) -> None:
    problem, choice = given
    limits = {"seconds": 0.2} if method in ("local", "auto") else {}
    assert EXTRACTORS[method](problem, incumbent=choice, **limits).cost <= dag_cost(problem, choice)


@pytest.mark.parametrize("quickly", [True, False])
@pytest.mark.parametrize("few_quickly", [True, False])
@settings(max_examples=80, deadline=None)
@given(problem=problems() | SIGNED)
def test_exact_finds_the_optimum_and_proves_it(quickly: bool, few_quickly: bool, problem: Problem) -> None:
    # what is done where classes cannot be decided one by one, all of them or a few, must be right too
    with (
        mock.patch("eqsat.extraction.branch_and_cut.Decision", Decision if quickly else Undecided),
        mock.patch("eqsat.extraction.narrowed.decide", side_effect=decide if few_quickly else [None] * 99),
    ):
        result = EXTRACTORS["exact"](problem)
    assert result.cost == pytest.approx(optimum(problem))
    assert result.optimal


@pytest.mark.parametrize("limit", ["simplify._WIDE", "simplify._SIBLINGS", "necessary._LIMIT", "simplify.none"])
@settings(max_examples=60, deadline=None)
@given(problem=problems() | SIGNED)
def test_simplify_keeps_the_optimum_and_maps_back(limit: str, problem: Problem) -> None:
    # what is done beyond each of its limits on sizes must be right too
    with mock.patch(f"eqsat.extraction.{limit}", 1, create=limit == "simplify.none"):
        small = simplify(problem)
    if small.problem is None:
        least, choice = 0.0, []
    else:
        result = EXTRACTORS["exact"](small.problem)
        least, choice = optimum(small.problem), result.choice.tolist()
    chosen = [choice[index] == node for node, index in enumerate(small.problem.owner)] if small.problem else []
    expanded = small.expand(choice)
    assert small.constant + least == pytest.approx(optimum(problem))
    assert dag_cost(problem, expanded) == pytest.approx(optimum(problem))
    again = small.restrict([expanded[index] == node for node, index in enumerate(problem.owner)])
    assert all(kept for kept, was in zip(again, chosen, strict=True) if was)

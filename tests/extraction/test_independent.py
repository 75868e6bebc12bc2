"""Problems that stand side by side are solved one by one."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.extraction import EXTRACTORS, Problem
from eqsat.extraction.independent import independent
from eqsat.extraction.mutable import MutableProblem

from .strategies import Undecided, optimum, problems


def side_by_side(parts: list[Problem]) -> Problem:
    """One problem of several, whose roots are all its roots."""
    first, classes, roots = 0, [], []
    for part in parts:
        moved = [(cost, [first + k for k in kids]) for cost, kids in zip(part.costs, part.children, strict=True)]
        classes += [[moved[node] for node in nodes] for nodes in part.class_nodes]
        roots += (part.roots + first).tolist()
        first += part.num_classes
    return Problem.from_lists(classes, roots)


def ring(size: int, cost: float) -> Problem:
    """Classes that each may take the next one or pay; whichever pays, all have it."""
    return Problem.from_lists([[(1.0, [(index + 1) % size]), (cost + index, [])] for index in range(size)], [0, 1])


def test_parts_have_no_class_in_common_and_are_the_whole() -> None:
    problem = side_by_side([ring(3, 5.0), ring(4, 6.0)])
    parts = independent(problem)
    assert [part.classes.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5, 6]]
    for part, alone in zip(parts, [ring(3, 5.0), ring(4, 6.0)], strict=True):
        assert part.problem.children == alone.children
        assert part.problem.cost.tolist() == problem.cost[part.nodes].tolist() == alone.cost.tolist()
        assert part.problem.roots.tolist() == alone.roots.tolist()


def test_what_hangs_together_has_no_parts() -> None:
    assert independent(ring(5, 2.0)) == []


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(problems(max_classes=5) | problems(least_cost=-2, max_classes=5), min_size=2, max_size=3))
def test_the_optimum_is_the_sum_of_those_of_the_parts(parts: list[Problem]) -> None:
    whole = side_by_side(parts)
    with mock.patch("eqsat.extraction.branch_and_cut.Decision", Undecided):
        result = EXTRACTORS["exact"](whole)
    assert result.optimal
    assert result.cost == pytest.approx(sum(map(optimum, parts)))


def test_each_part_is_solved_by_itself_under_all_objectives() -> None:
    parts = [ring(6, 3.0), ring(7, 4.0), ring(8, 2.0)]
    whole = side_by_side(parts)
    several = Problem(
        whole.node_class, whole.child_offsets, whole.child, np.stack([whole.cost, -whole.cost + 20], 1), whole.roots
    )
    sizes: list[int] = []

    class Seen(Undecided):
        def __init__(self, problem: Problem) -> None:
            sizes.append(problem.num_classes)

    with (
        mock.patch("eqsat.extraction.branch_and_cut.Decision", Seen),
        mock.patch("eqsat.extraction.branch_and_cut.simplify", side_effect=unchanged),
    ):
        result = EXTRACTORS["exact"](several)
    assert result.optimal
    assert result.cost[0] == sum(map(optimum, parts))
    assert {6, 7, 8} <= {*sizes}


def unchanged(problem: Problem, keep: object, deadline: object) -> object:
    """A simplification that finds nothing to do."""
    return MutableProblem(problem, None).result()

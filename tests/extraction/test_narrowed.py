"""The cheapest choices among few nodes: each is an extraction, and the bounds hold for all extractions."""

from __future__ import annotations

import math

from hypothesis import given, settings

from eqsat.extraction import Problem, dag_cost, tree
from eqsat.extraction.deadline import NEVER
from eqsat.extraction.narrowed import narrowed
from eqsat.extraction.relaxation import Relaxation

from .strategies import optimum, problems, pruned


def relaxed(problem: Problem) -> Relaxation:
    relaxation = Relaxation(problem, seed=0)
    assert relaxation.solve(math.inf)
    return relaxation


@settings(max_examples=60, deadline=None)
@given(problem=problems() | problems(least_cost=-2))
def test_choices_among_few_nodes_bound_all_choices(problem: Problem) -> None:
    problem = pruned(problem)
    given = tree(problem)
    cost = given.cost
    for choice, bound in narrowed(relaxed(problem), given.choice.tolist(), NEVER):
        assert dag_cost(problem, choice) <= cost + 1e-9  # the nodes of the turn before are among these
        cost = dag_cost(problem, choice)
        assert bound <= optimum(problem) + 1e-6


def test_a_price_of_nodes_left_out_proves_that_they_are_too_dear() -> None:
    # the root needs the 1 in any case, so that 9 is too much for the other way
    problem = Problem.from_lists([[(1.0, [1]), (9.0, [1])], [(1.0, [])]], [0])
    ((choice, bound),) = narrowed(relaxed(problem), [0, 2], NEVER)
    assert choice.tolist() == [0, 2]
    assert bound == 2.0

"""Choices that cost the same: the one that was given stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import relay
from eqsat.extraction import Problem, dag_cost, exact, tree
from eqsat.extraction.ties import nearer
from eqsat.ir import structural_equal
from eqsat.rules import rewrite, variables

from .strategies import problems


def test_a_class_changes_with_what_only_it_needs() -> None:
    # root: over class 1 or over class 2, each a leaf of 1
    problem = Problem.from_lists([[(1.0, [1]), (1.0, [2])], [(1.0, [])], [(1.0, [])]], [0])
    assert nearer(problem, [0, 2, -1], [1, -1, 3]).tolist() == [1, -1, 3]
    assert nearer(problem, [0, 2, -1], [0, 2, -1]).tolist() == [0, 2, -1]


def test_what_costs_more_is_not_taken_and_nothing_is_left_half_done() -> None:
    problem = Problem.from_lists([[(1.0, [1]), (1.0, [2])], [(1.0, [])], [(1.5, [])]], [0])
    assert nearer(problem, [0, 2, -1], [1, -1, 3]).tolist() == [0, 2, -1]


def test_a_cycle_is_not_made() -> None:
    problem = Problem.from_lists([[(1.0, [1]), (1.0, [])], [(1.0, [0]), (1.0, [])]], [0, 1])
    assert nearer(problem, [1, 2], [0, 2]).tolist() == [1, 2]


@settings(max_examples=100, deadline=None)
@given(problem=problems(), data=st.data())
def test_it_is_as_cheap_complete_and_keeps_what_is_wanted(problem: Problem, data: Any) -> None:
    best, wanted = exact(problem), tree(problem).choice
    found = nearer(problem, best.choice, wanted)
    assert dag_cost(problem, found) == pytest.approx(best.cost)
    if dag_cost(problem, wanted) == pytest.approx(best.cost):
        agree = lambda choice: int(np.sum((choice == wanted) & (choice >= 0)))  # noqa: E731
        assert agree(found) >= agree(best.choice)


def test_a_rewrite_that_gains_nothing_is_not_made() -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    a, b = variables("a b")
    swap = rewrite("swap", relay.nn.relu(a) * b, relay.nn.relu(a * b))  # (unsound, and no cheaper)
    graph = relay.tanh(relay.nn.relu(x) * y) + relay.nn.relu(relay.nn.relu(y))
    shorter = rewrite("relu-twice", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a))
    best = eqsat.optimize(graph, [swap, shorter])
    assert structural_equal(best, relay.tanh(relay.nn.relu(x) * y) + relay.nn.relu(y))

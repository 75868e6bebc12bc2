"""Contraction dissolves classes that offer no choice and changes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from eqsat.extraction import EXTRACTORS, Problem, dag_cost, exact, tree
from eqsat.extraction.contract import Contraction

from .strategies import optimum, problems


def test_a_chain_without_choice_becomes_one_node() -> None:
    chain: list[Any] = [[(1.0, [])], *[[(1.0, [i])] for i in range(99_999)]]
    problem = Problem.from_lists(chain, [99_999])
    small = Contraction(problem)
    assert small.problem.num_nodes == 1
    assert small.problem.costs == [100_000.0]
    assert small.expand(small.problem.roots * 0).tolist() == list(range(100_000))


def test_free_leaves_and_what_is_made_of_them_alone_disappear() -> None:
    # 0 and 1 are free inputs that two nodes share, 2 is a free pair of them, 3 and 4 compute from it in two ways each
    node = [(2.0, [2, 0]), (3.0, [2])]
    problem = Problem.from_lists([[(0.0, [])], [(0.0, [])], [(0.0, [0, 1])], node, node, [(1.0, [3, 4])]], [5])
    small = Contraction(problem)
    assert small.problem.num_classes == 3
    assert small.problem.children == [[], [], [], [], [0, 1]]


def test_roots_and_shared_costs_stay() -> None:
    problem = Problem.from_lists([[(1.0, [])], [(1.0, [0])], [(1.0, [0])], [(1.0, [1, 2])]], [3, 1])
    assert Contraction(problem).problem.num_classes == 3  # only class 2 has a single user and is no root


def test_classes_that_need_each_other_alone_do_not_matter() -> None:
    ring: Any = [[(1.0, [1])], [(1.0, [0])], [(5.0, [3])], [(1.0, [])]]
    problem = Problem.from_lists(ring, [2])
    for extractor in EXTRACTORS.values():
        assert extractor(problem).cost == 6.0


@settings(max_examples=80, deadline=None)
@given(problem=problems(max_nodes=2) | problems(least_cost=-2, max_nodes=2))
def test_costs_of_trees_graphs_and_the_optimum_stay(problem: Problem) -> None:
    small = Contraction(problem)
    best, trees = exact(small.problem), tree(small.problem)
    assert best.cost == pytest.approx(optimum(problem))
    assert dag_cost(problem, small.expand(best.choice)) == pytest.approx(best.cost)
    if min(problem.costs) >= 0:
        assert trees.tree_cost == pytest.approx(tree(problem).tree_cost)
    back = small.restrict(tree(problem).choice)
    assert dag_cost(small.problem, back) == pytest.approx(tree(problem).cost)
    np.testing.assert_array_equal(small.restrict(small.expand(best.choice)), best.choice)

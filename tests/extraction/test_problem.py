"""What a problem refuses, and what pricing and checking a choice say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat.errors import ExtractionError
from eqsat.extraction import Problem, dag_cost, extract

DIAMOND = Problem.from_lists([[(1.0, [1, 2])], [(2.0, [3])], [(4.0, [3])], [(8.0, [])]], [0])
ARRAYS = {
    "node_class": np.array([0, 1]),
    "child_offsets": np.array([0, 1, 1]),
    "child": np.array([1]),
    "cost": np.array([1.0, 2.0]),
    "roots": np.array([0]),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.array([1.0])}, "1 costs need 1 entries"),
        ({"cost": np.array([1.0, np.nan])}, "node 1 costs nan"),
        ({"cost": np.array([[[1.0, 2.0]]])}, "one dimension"),
        ({"cost": ["a", "b"]}, "cost is not an array of float64"),
        ({"child": np.array([5]), "num_classes": 2}, r"child\[0\] is 5: there are the classes 0 to 1"),
        ({"child": np.array([-1])}, r"child\[0\] is -1"),
        ({"child": np.array([0.5])}, "child must hold integers"),
        ({"child_offsets": np.array([0, 2, 1])}, "child_offsets must rise"),
        ({"roots": np.array([], int)}, "there is no root class"),
        ({"roots": np.array([4])}, "root class 4 has no finite extraction"),
        ({"node_ids": ["only one"]}, "node_ids has 1 entries, 2 are needed"),
    ],
)
def test_bad_arrays_are_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ExtractionError, match=message):
        Problem(**{**ARRAYS, **change})


def test_a_shared_class_is_paid_once_in_the_dag_and_twice_in_the_tree() -> None:
    result = extract(DIAMOND, "tree")
    assert (result.cost, result.tree_cost) == (15.0, 23.0)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([0, 1, 2, -1], "reaches class 3 and has no node"),
        ([0, 1, 2, 1], "not one of its nodes"),
        ([0, 1, 2, 99], "not one of its nodes"),
        ([0, 1], "4 node numbers"),
    ],
)
def test_a_choice_that_is_no_extraction_is_refused(choice: list[int], message: str) -> None:
    with pytest.raises(ExtractionError, match=message):
        dag_cost(DIAMOND, choice)


def test_a_cyclic_choice_is_refused() -> None:
    problem = Problem.from_lists([[(1.0, [1])], [(1.0, [0]), (9.0, [])]], [0])
    with pytest.raises(ExtractionError, match="cycle through class 0"):
        dag_cost(problem, [0, 1])
    assert dag_cost(problem, [0, 2]) == 10.0


def test_unknown_methods_and_times_are_refused() -> None:
    with pytest.raises(ExtractionError, match="no extraction method 'magic'; there are tree, dag, local, exact, auto"):
        extract(DIAMOND, "magic")
    for seconds in (0, -1.0, float("nan"), "5"):
        with pytest.raises(ExtractionError, match="seconds must be a positive number"):
            extract(DIAMOND, "auto", seconds=seconds)

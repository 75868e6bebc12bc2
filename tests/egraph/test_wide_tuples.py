"""Tuples that are too wide for a table are left as they are; the rest of the graph is optimized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.egraph.vocabulary import WIDEST_TUPLE
from eqsat.relay.expr import Call, Expr, Tuple
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order

x = relay.var("x", shape=(2, 3))


def calls(expr: Expr) -> list[str]:
    """The names of the operators of a graph, sorted."""
    return sorted([node.op.name for node in post_order(expr) if isinstance(node, Call)])


@pytest.mark.parametrize("count", [WIDEST_TUPLE, WIDEST_TUPLE + 1, 5000])
def test_what_is_around_a_concatenation_of_any_width_is_optimized(count: int) -> None:
    graph = relay.nn.relu(relay.nn.relu(relay.concatenate([x] * count, axis=0)))
    best = eqsat.optimize(graph)
    assert calls(best) in (["concatenate", "nn.relu"], ["tile"], ["nn.relu", "tile"])
    array = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(best, {"x": array}), evaluate(graph, {"x": array}))


def test_the_fields_keep_their_order() -> None:
    count = 40_000  # more tuples than one joins
    scales = [relay.const(float(index)) for index in range(7)]
    fields = [x * scales[index % 7] for index in range(count)]
    best = eqsat.optimize(Tuple(fields))
    assert isinstance(best, Tuple)
    array = np.ones((2, 3), np.float32)
    found = evaluate(best, {"x": array})
    assert [float(each[0, 0]) for each in found] == [index % 7 for index in range(count)]


def test_a_field_of_a_wide_tuple_is_found() -> None:
    whole = relay.split(relay.var("y", shape=(600, 2)), 600, axis=0)
    parts = [relay.nn.relu(relay.nn.relu(whole[index])) for index in range(600)]
    best = eqsat.optimize(relay.concatenate(parts, axis=0))
    array = np.random.default_rng(0).standard_normal((600, 2)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(best, {"y": array}), np.maximum(array, 0))
    assert calls(best).count("nn.relu") <= 600


def test_concatenations_whose_parts_are_too_many_together_stay() -> None:
    half = [x] * (WIDEST_TUPLE - 1)
    inner = relay.concatenate(half, axis=0)
    graph = relay.concatenate([inner, relay.nn.relu(x), inner], axis=0)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    best = eqsat.extract(saturation)
    assert best.cost <= best.input_cost


def test_constants_in_a_wide_concatenation_are_folded() -> None:
    parts = [relay.const(np.full((1, 3), index, np.float32)) for index in range(1000)]
    best = eqsat.optimize(relay.concatenate(parts, axis=0) + relay.var("z", shape=(1000, 3)))
    assert calls(best) == ["add"]


def test_wide_tuples_are_explained() -> None:
    graph = relay.nn.relu(relay.nn.relu(relay.concatenate([x] * 600, axis=0)))
    explained = eqsat.extract(eqsat.saturate(graph, explain=True))
    assert explained.explanation.steps


@pytest.mark.parametrize("count", [12, 100])
def test_slices_in_order_are_what_they_are_taken_of(count: int) -> None:
    y = relay.var("y", shape=(4 * count, 2))
    parts = [relay.strided_slice(y, begin=[4 * i], end=[4 * i + 4], strides=[1], axes=[0]) for i in range(count)]
    saturation = eqsat.saturate(relay.concatenate(parts, axis=0))
    assert saturation.stop_reason == "saturated"
    assert eqsat.extract(saturation).cost == 0


@pytest.mark.parametrize("count", [12, 100])
def test_outputs_of_a_split_in_order_are_what_is_split(count: int) -> None:
    whole = relay.split(relay.var("y", shape=(2, 4 * count)), count, axis=1)
    assert eqsat.extract(eqsat.saturate(relay.concatenate(list(whole), axis=1))).cost == 0


def split_into(count: int) -> Expr:
    whole = relay.split(relay.var("y", shape=(count, 2)), count, axis=0)
    return Tuple([relay.nn.relu(relay.nn.relu(whole[index])) for index in range(count)])


def summed_up(count: int) -> Expr:
    total: Expr = x
    for index in range(count):
        total = total + relay.var(f"i{index}", shape=(2, 3))
    return total


def fields(count: int) -> Expr:
    return Tuple([relay.nn.relu(relay.nn.relu(relay.var(f"i{index}", shape=(2, 3)))) for index in range(count)])


@pytest.mark.parametrize("graph", [split_into, summed_up, fields])
def test_work_grows_with_the_number_of_parts_and_not_faster(
    graph: Callable[[int], Expr], count_calls: Callable[[Callable[[], Any]], int]
) -> None:
    few, many = (count_calls(lambda: eqsat.optimize(graph(count))) for count in (150, 600))  # noqa: B023 - at once
    assert many < 4.2 * few

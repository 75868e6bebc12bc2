"""A graph very many operators deep goes through every stage at the default recursion limit."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import eqsat
from eqsat import relay
from eqsat.ir import structural_equal
from eqsat.relay.expr import Expr
from eqsat.rules import rewrite, variables

DEPTH = 20_000


x = relay.var("x", shape=(2, 3))


def chain(length: int) -> Expr:
    value: Expr = x
    for index in range(length):
        value = relay.nn.relu(value) if index % 4 < 2 else relay.tanh(value)
    return value


@pytest.fixture(scope="module", autouse=True)
def _default_recursion_limit() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture(scope="module")
def deep() -> Expr:
    return chain(DEPTH)


def test_it_compares_equal_to_itself_built_again(deep: Expr) -> None:
    assert structural_equal(deep, chain(DEPTH))
    assert not structural_equal(deep, relay.nn.relu(chain(DEPTH - 1)))


def test_types_are_inferred(deep: Expr) -> None:
    typed = relay.transform.InferType()(eqsat.IRModule.from_expr(deep))
    assert typed["main"].body.checked_type == relay.TensorType((2, 3), "float32")


def test_it_prints_and_parses(deep: Expr) -> None:
    text = deep.astext()
    assert text.count("\n") > DEPTH
    assert structural_equal(relay.fromtext(text), deep, map_free_vars=True)


def test_it_is_saturated_under_one_rule_and_extracted(deep: Expr) -> None:
    (a,) = variables("a")
    rule = rewrite("relu-twice", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a))
    saturation = eqsat.saturate(deep, [rule])
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count == DEPTH + 1
    extraction = eqsat.extract(saturation)
    assert extraction.cost == DEPTH - DEPTH // 4
    assert extraction.optimal

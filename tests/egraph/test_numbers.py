"""What is known to hold real numbers: where NaN takes no part, a softmax over one element is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eqsat
from eqsat import relay
from eqsat.relay.expr import Constant, Expr
from eqsat.rules import default

SIZE = relay.Any()


def product(*shape: object) -> Expr:
    """What a matrix product computes: real numbers."""
    return relay.nn.dense(relay.var("data", shape=(*shape, 4)), relay.var("weight", shape=(4, 4)))


def image(*shape: object) -> Expr:
    return relay.reshape(product(*shape), newshape=(1, 1, -1, 4))


def is_real(value: Expr) -> bool:
    """Whether a softmax over the only element is known to be one."""
    weights = relay.nn.softmax(relay.reshape(relay.sum(value), newshape=(1,)))
    return isinstance(eqsat.extract(eqsat.saturate(weights, default)).expr, Constant)


@pytest.mark.parametrize(
    "average", [relay.mean, relay.max, relay.min, relay.nn.global_avg_pool2d, relay.nn.global_max_pool2d]
)
def test_averages_of_some_real_numbers_are_real_numbers(average: Callable[[Expr], Expr]) -> None:
    assert is_real(average(image(5)))
    assert is_real(average(image(SIZE)))  # sizes that are open are taken not to be zero


def test_the_mean_of_no_numbers_is_none() -> None:
    assert not is_real(relay.mean(product(0)))


def test_logarithms_of_real_numbers_may_be_none() -> None:
    assert is_real(product(5))
    assert not is_real(relay.log(product(5)))


@pytest.mark.parametrize(("scale", "kept"), [(0.5, True), (-0.5, False), (0.0, False)])
def test_minus_infinity_stays_under_a_positive_scale(scale: float, kept: bool) -> None:
    data, weight = relay.var("data", shape=(5, 4)), relay.var("weight", shape=(4, 4))
    assert is_real(relay.nn.dense(data * relay.const(scale, "float32"), weight)) == kept

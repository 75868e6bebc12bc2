"""Values that are each other's multiples, but for rounding: scales that move into weights come to an end.

Where ``y`` is ``x * 3`` and ``z`` is ``y * 0.33333334``, ``z`` is ``x`` once ``1.00000001`` has been rounded to 1. So
``x @ w`` is ``y @ (w * 0.33333334)``, which is ``x @ (w * 0.33333334 * 3)``, and so on with ever new weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr

WIDTH = 64
"""The weights are larger than what is computed while the rules run."""

const = relay.const
X = relay.var("x", shape=(4, WIDTH))
IMAGE = relay.var("image", shape=(1, 16, 8, 8))
RANDOM = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.5, 2, shape).astype("float32")


def number(value: float) -> Expr:
    return const(np.float32(value))


def both(y: Expr, z: Expr) -> Expr:
    """Products of two values, the first of which is needed by itself, too."""
    return nn.matmul(y, const(drawn(WIDTH, WIDTH))) + nn.matmul(z, const(drawn(WIDTH, WIDTH))) * relay.tanh(y)


def convolved(y: Expr, z: Expr) -> Expr:
    first, second = (
        nn.conv2d(each, const(drawn(16, 16, 3, 3)), kernel_size=(3, 3), channels=16, padding=(1, 1)) for each in (y, z)
    )
    return first + second * relay.tanh(y)


SCALES = drawn(WIDTH)
ROW, INVERSE = const(SCALES), const(1 / SCALES)
CHANNELS = drawn(16, 1, 1)


def with_third(y: Expr) -> Expr:
    return both(y, y * number(1 / 3))


def opposites(x: Expr) -> Expr:
    left, right = relay.tanh(x), relay.sigmoid(x)
    return both(relay.negative(left) * relay.negative(right), relay.negative(left) * right)


CIRCLES: dict[str, Callable[[], Expr]] = {
    "a number and its reciprocal": lambda: with_third(X * number(3)),
    "numbers whose product is 1": lambda: both(X * number(2), X * number(2) * number(0.5)),
    "vectors": lambda: both(X * ROW, X * ROW * INVERSE),
    "a quotient": lambda: both(X / number(3), X / number(3) * number(3)),
    "opposites": lambda: opposites(X),
    "ramps": lambda: both(nn.relu(X * number(3)), nn.relu(X * number(3) * number(1 / 3))),
    "a shift and a scale": lambda: both(X * number(3) + number(0.3), (X * number(3)) * number(1 / 3)),
    "a shift, a scale and back": lambda: (lambda y: both(y, (y - number(0.3)) * number(1 / 3)))(
        X * number(3) + number(0.3)
    ),
    "normalized and back": lambda: (lambda y: both(y, y * ROW + INVERSE))((X - INVERSE) / ROW),
    "a scaled product": lambda: with_third(nn.matmul(X, const(drawn(WIDTH, WIDTH))) * number(3)),
    "a scaled bias": lambda: with_third(
        nn.bias_add(nn.matmul(X, const(drawn(WIDTH, WIDTH))), const(drawn(WIDTH))) * number(3)
    ),
    "channels": lambda: (lambda y: convolved(y, y * const(1 / CHANNELS)))(IMAGE * const(CHANNELS)),
    "channels, shifted": lambda: (lambda y: convolved(y, (y - const(CHANNELS)) * const(1 / CHANNELS)))(
        IMAGE * const(CHANNELS) + const(CHANNELS)
    ),
}


def weighed(x: Expr) -> Expr:
    return nn.bias_add(nn.matmul(x, const(drawn(WIDTH, WIDTH))), const(drawn(WIDTH)))


def filtered(x: Expr) -> Expr:
    return nn.bias_add(nn.conv2d(x, const(drawn(16, 16, 3, 3)), padding=(1, 1)), const(drawn(16)))


def max_pool(x: Expr) -> Expr:
    return nn.max_pool2d(x, pool_size=(3, 3), padding=(1, 1))


LINKS: dict[str, tuple[Expr, Callable[[Expr], Expr], float]] = {
    "ramps": (X, lambda x: nn.relu(weighed(x)), 3),
    "leaky ramps": (X, lambda x: nn.leaky_relu(weighed(x), alpha=0.1), 3),
    "transposes": (relay.var("x", shape=(WIDTH, WIDTH)), lambda x: relay.transpose(weighed(x)), 3),
    "views": (X, lambda x: relay.reshape(weighed(relay.reshape(x, (4, WIDTH))), (4, 1, WIDTH)), 2),
    "maximum pools": (IMAGE, lambda x: max_pool(filtered(x)), 3),
    "average pools": (IMAGE, lambda x: nn.avg_pool2d(filtered(x), pool_size=(3, 3), padding=(1, 1)), 3),
}
"""What scales pass on the way into a weight: the input, a link of a chain, and the operators of a link in the end."""


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("what", LINKS)
def test_scales_that_the_next_link_takes_back_pass_what_is_between_once(what: str, factor: int) -> None:
    x, link, operators = LINKS[what]
    for _ in range(3):
        x = link(x * number(1 / factor)) * number(factor)
    found = eqsat.saturate(x, limits=eqsat.Limits(seconds=20))
    assert found.stop_reason == "saturated"
    assert found.node_count < 60 * 3
    assert eqsat.extract(found).cost <= 3 * operators + 1


@pytest.mark.parametrize("what", CIRCLES)
def test_circles_of_constants_saturate(what: str) -> None:
    graph = CIRCLES[what]()
    found = eqsat.saturate(graph, limits=eqsat.Limits(seconds=20))
    assert found.stop_reason == "saturated"
    assert found.node_count < 60
    assert eqsat.extract(found).cost <= 8


def test_a_scale_still_goes_into_the_weights_behind_it() -> None:
    graph = with_third(relay.exp(X) * number(3))
    found = eqsat.extract(eqsat.saturate(graph))
    assert found.cost == 7  # exp, the scale for the tanh alone, tanh, two products, their product and the sum

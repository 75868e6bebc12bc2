"""Random long chains of operators with constants, for the rule that composes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eqsat import relay
from eqsat.egraph.chains import LONG
from eqsat.relay.expr import Expr
from eqsat.relay.op import transpose
from eqsat.rules.verify.instances import Instance

SHAPE = (3, 3, 3)
"""That of all links, so that they may be transposed."""


def chains(rng: random.Random, count: int) -> Iterator[Instance]:
    """As many chains that are just long, or longer."""
    for _ in range(count):
        dtype = rng.choice(["float32", "float64"])
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        x = relay.var("x", shape=SHAPE, dtype=dtype)
        chain: Expr = x
        has_bounds = rng.random() < 0.5
        for _ in range(LONG + rng.randrange(4)):
            chain = _link(chain, rng, numbers, dtype, has_bounds)
        data = numbers.normal(size=SHAPE)
        data.flat[rng.sample(range(data.size), 2)] = np.inf, -np.inf
        yield Instance((chain,), {x: data.astype(dtype)})


def _link(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str, has_bounds: bool) -> Expr:
    """A link, which bounds a value or is a sum of two that come from one.

    A sum of values that are bounded, or are scaled by numbers of either sign, would end a chain.
    """

    def constant(shape: tuple[int, ...]) -> Any:
        return relay.const(numbers.uniform(0.7, 1.4, shape), dtype)

    def either_sign(constant: Any) -> Expr:
        array = constant.data.numpy()
        return relay.const(np.where(numbers.random(array.shape) < 0.5, -array, array), dtype)

    def vector() -> Expr:
        made: Expr = constant(SHAPE[:1])
        return made

    c, d = (constant(SHAPE[rng.randrange(len(SHAPE) + 1) :]) for _ in range(2))
    links: list[Callable[[], Any]] = [
        lambda: x + c,
        lambda: c - x,
        lambda: x - c,
        lambda: x * c,
        lambda: c * x,
        lambda: x / c,
        lambda: relay.negative(x),
        lambda: transpose(x, axes=rng.sample(range(len(SHAPE)), len(SHAPE))),
        lambda: relay.nn.bias_add(x, vector(), axis=rng.randrange(len(SHAPE))),
        lambda: relay.nn.batch_norm(x, vector(), vector(), vector(), vector(), axis=rng.randrange(len(SHAPE)))[0],
    ]
    bounds: list[Callable[[], Any]] = [
        lambda: x * either_sign(c),
        lambda: relay.nn.relu(x - c),
        lambda: relay.clip(x, -1.0 - rng.random(), 1.0),
        lambda: relay.maximum(x, c),
        lambda: relay.minimum(d, x),
    ]
    sums: list[Callable[[], Any]] = [
        lambda: x * c + x * d,
        lambda: (x + c) + (x + d),
        lambda: x * c - (d - x),
        lambda: transpose(x + c) + transpose(x * d),
    ]
    link: Expr = rng.choice([*links, *(bounds if has_bounds else sums)])()
    return link

"""Random chains of operators with constants, views and products, for the rule that composes them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from eqsat import relay
from eqsat.egraph.chains import LONG
from eqsat.egraph.view_runs import MANY
from eqsat.relay.expr import Expr
from eqsat.relay.op import transpose
from eqsat.rules.verify.instances import Instance

SHAPE = (3, 3, 3)
"""That of all links, so that they may be transposed."""


LENGTHS = {
    "constants": LONG,
    "views": 2 * MANY,
    "products": 2,
    "weights": LONG,
    "parts": 1,
    "pools": LONG // 2,
    "integers": LONG,
}
"""The kinds of chains -> the links from which on they are composed."""


def chains(rng: random.Random, count: int) -> Iterator[Instance]:
    """As many chains of all kinds that are just long, or longer."""
    for _ in range(count):
        kind, has_bounds = rng.choice([*LENGTHS]), rng.random() < 0.5
        dtype = rng.choice(["int8", "uint16", "int32"] if kind == "integers" else ["float32", "float64"])
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        x = relay.var("x", shape=SHAPE, dtype=dtype)
        chain: Expr = x
        for _ in range(LENGTHS[kind] + rng.randrange(4)):
            if kind == "constants":
                chain = _link(chain, rng, numbers, dtype, has_bounds)
            else:
                links = {
                    "views": _viewed,
                    "products": _multiplied,
                    "weights": _weighted,
                    "parts": _parted,
                    "pools": _pooled,
                    "integers": _whole,
                }
                chain = links[kind](chain, rng, numbers, dtype)
        data = numbers.normal(size=SHAPE) if kind != "integers" else numbers.integers(-(1 << 31), 1 << 31, SHAPE)
        if kind == "constants":
            data.flat[rng.sample(range(data.size), 2)] = np.inf, -np.inf
        yield Instance((chain,), {x: data.astype(dtype)})


def _viewed(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """An elementwise operator over a view."""
    turned: Any = transpose(x, axes=rng.sample(range(len(SHAPE)), len(SHAPE)))
    shape = rng.choice([(27, 1, 1), (3, 9, 1), (1, 1, 27)])
    folded: Any = relay.reshape(relay.tanh(relay.reshape(x, shape)), SHAPE)
    c = relay.const(numbers.uniform(0.7, 1.4, rng.choice([(), (3,), (3, 1)])), dtype)
    views: list[Callable[[], Any]] = [
        lambda: relay.tanh(turned),
        lambda: turned * relay.sigmoid(turned + c),
        lambda: relay.nn.bias_add(turned, relay.const(numbers.normal(size=3), dtype), axis=rng.randrange(3)),
        lambda: relay.where(relay.greater(turned, c), turned, relay.negative(turned)),
        lambda: folded + relay.const(0.5, dtype),
        lambda: relay.reverse(turned, axis=rng.randrange(3)) + relay.const(0.5, dtype),
        lambda: relay.tanh(relay.take(x, relay.const(numbers.permutation(3)), axis=rng.randrange(3))),
        lambda: relay.reshape(transpose(relay.reshape(x, (3, 9, 1)), axes=(1, 2, 0)), SHAPE) * relay.const(0.9, dtype),
    ]
    link: Expr = rng.choice(views)()
    return link


def _multiplied(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """A product by a constant matrix, scaled and shifted."""

    def constant(*shape: int) -> Any:
        return relay.const(numbers.normal(size=shape), dtype)

    products: list[Callable[[], Any]] = [
        lambda: relay.nn.matmul(x, constant(3, 3)),
        lambda: relay.nn.matmul(x, constant(3, 3), transpose_b=True),
        lambda: relay.nn.dense(x, constant(3, 3)),
    ]
    product = rng.choice(products)()
    shifts: list[Callable[[], Any]] = [
        lambda: product + constant(3),
        lambda: constant() + product * constant(3),
        lambda: (product - constant(1, 3)) / relay.const(numbers.uniform(0.7, 1.4, 3), dtype),
        lambda: relay.nn.bias_add(product, constant(3), axis=rng.choice([-1, 2])),
    ]
    link: Expr = rng.choice(shifts)()
    return link


def _weighted(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """A product with a constant weight, with sums and products with constants behind it."""
    weight, is_convolution = numbers.uniform(0.3, 0.6, (3, 3)), rng.random() < 0.5
    result: Any = relay.nn.dense(x, relay.const(weight, dtype))
    if is_convolution:
        product = rng.choice([relay.nn.conv1d, relay.nn.conv1d_transpose])
        result = product(x, relay.const(weight[..., None], dtype))
    for _ in range(rng.randrange(4)):
        result = _behind(result, 1 if is_convolution else 2, rng, numbers, dtype)
    link: Expr = rng.choice([relay.tanh, relay.nn.relu, relay.sigmoid])(result)
    return link


def _behind(x: Any, axis: int, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Any:
    """A sum or product of what has channels along an axis."""
    channels = (3,) + (1,) * (len(SHAPE) - 1 - axis)
    c = relay.const(numbers.uniform(0.3, 0.6, rng.choice([channels, channels, (), SHAPE])), dtype)
    vectors = [relay.const(numbers.uniform(0.3, 0.6, 3), dtype) for _ in range(4)]
    steps: list[Callable[[], Any]] = [
        lambda: x * c,
        lambda: c - x,
        lambda: (x + c) / (c + relay.const(1.0, dtype)),
        lambda: relay.nn.bias_add(x, vectors[0], axis=axis),
        lambda: relay.nn.batch_norm(x, *vectors, axis=axis)[0],
    ]
    return rng.choice(steps)()


def _whole(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """A link of integers, which wrap."""

    def constant() -> Any:
        return relay.const(numbers.integers(-9, 9, rng.choice([(), (3,)])).astype(dtype), dtype)

    links: list[Callable[[], Any]] = [
        lambda: x + constant(),
        lambda: constant() - x,
        lambda: x * constant(),
        lambda: x * constant() - x * constant(),
        lambda: relay.maximum(x, constant()),
        lambda: relay.minimum(constant(), x),
        lambda: relay.clip(x, -rng.choice([3.5, 1e3, np.inf]), rng.choice([3.5, 1e3])),
        lambda: relay.nn.relu(x),
    ]
    link: Expr = rng.choice(links)()
    return link


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


def _parted(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """Parts along an axis that are joined again after elementwise work on each."""
    axis = rng.randrange(len(SHAPE))
    sections: Any = rng.choice([3, (1,), (2,)])
    split: Any = relay.split(x, sections, axis)
    starts = [0, 1, 2, 3] if isinstance(sections, int) else [0, *sections, 3]
    slices = [relay.strided_slice(x, (one,), (other,), (1,), axes=(axis,)) for one, other in pairwise(starts)]
    is_one, is_split = rng.random() < 0.5, rng.random() < 0.5
    shape = tuple(1 if place == axis else 3 for place in range(len(SHAPE)))[rng.randrange(len(SHAPE) + 1) :]
    c = relay.const(numbers.uniform(0.7, 1.4, shape), dtype)

    is_wide = rng.random() < 0.5

    def worked(part: Any, length: int) -> Any:
        mine = tuple(
            length if is_wide and place - len(shape) == axis - len(SHAPE) else dim for place, dim in enumerate(shape)
        )
        d = c if is_one else relay.const(numbers.uniform(0.7, 1.4, mine), dtype)
        return relay.tanh(part * d) + part

    lengths = [other - one for one, other in pairwise(starts)]
    parts = [worked(split[place] if is_split else part, lengths[place]) for place, part in enumerate(slices)]
    link: Expr = relay.concatenate(parts, axis)
    return link


def _pooled(x: Expr, rng: random.Random, numbers: np.random.Generator, dtype: str) -> Expr:
    """A pool of what is scaled, shifted and bounded by numbers."""
    size, pad = rng.choice([(1, 0), (3, 1), (2, 1)])
    scaled: Any = x * relay.const(numbers.uniform(0.7, 1.4, rng.choice([(), (3, 1)])), dtype)
    shifted = scaled + relay.const(numbers.normal(), dtype)
    links: list[Callable[[], Any]] = [
        lambda: relay.nn.max_pool1d(relay.nn.relu(shifted), size, padding=(pad, 0 if size == 2 else pad)),
        lambda: relay.nn.max_pool1d(-scaled, size, padding=(pad, size - 1 - pad)),
        lambda: relay.nn.avg_pool1d(shifted, size, padding=(pad, size - 1 - pad), count_include_pad=rng.random() < 0.5),
    ]
    link: Expr = rng.choice(links)()
    return link

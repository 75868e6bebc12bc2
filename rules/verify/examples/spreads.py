"""Instances of rules on what is repeated as often as sizes say, which are open."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.op import (
    add,
    broadcast_to,
    concatenate,
    cumsum,
    expand_dims,
    gather_nd,
    greater,
    less_equal,
    logical_and,
    multiply,
    shape_of,
    strided_slice,
    subtract,
    take,
    tile,
)
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import TensorType
from eqsat.rules.verify.examples.ranges import OPEN, along, counting, number, size

FAR = 2**63 - 1


def open_data(dtype: str = "float32") -> Any:
    return Var("data", TensorType(OPEN, dtype))


def repeated(data: Expr, like: Expr | None = None) -> Any:
    """``data``, repeated for all places of a tensor of open sizes."""
    return broadcast_to(data, shape_of(open_data() if like is None else like, dtype="int64"))


def part(draw: Draw, label: str) -> Any:
    """What can be repeated along both axes, or one."""
    rows, columns = OPEN
    return Var(label, TensorType(draw.rng.choice(((rows, 1), (1, columns), (columns,), (1, 1), ())), "float32"))


def of_two(draw: Draw) -> Any:
    operator = draw.rng.choice((add, multiply, subtract, greater))
    return operator(repeated(part(draw, "x")), repeated(part(draw, "y")))


def with_number(draw: Draw, is_first: bool) -> Any:
    given = repeated(const(np.float32(draw.rng.randint(-2, 2))))
    other = part(draw, "y") if draw.chance(0.5) else const(np.float32(draw.rng.randint(-2, 2)))
    operator = draw.rng.choice((add, multiply, subtract, greater))
    return operator(given, other) if is_first else operator(other, given)


def tiled(draw: Draw) -> Any:
    """What is repeated along its axes of one element, or along a new one, and rarely along another axis."""
    rows, columns = (expand_dims(size(open_data(), axis), axis=0) for axis in (0, 1))
    once, width = const([1], "int64"), draw.rng.randint(1, 3)
    data = Var("x", TensorType(draw.rng.choice(((1, width), (1, 1), (width,), (width, 1)))))
    repeats = [once, rows, columns] if draw.chance(0.1) else draw.rng.choice(([rows, once], [columns, rows, once]))
    return tile(data, concatenate(repeats, axis=0))


def rows_repeated(draw: Draw, label: str = "x") -> Any:
    """A row, mostly, that is repeated for each row of a tensor."""
    width = draw.rng.randint(1, 3)
    if label == "constant":
        data: Expr = const(np.asarray([draw.rng.randint(-2, 2) for _ in range(width)], "float32").reshape(1, width))
    else:
        data = Var(label, TensorType((draw.rng.choice((1, 1, OPEN[0])), width)))
    rows = expand_dims(size(open_data(), 0), axis=0)
    return broadcast_to(data, concatenate([rows, const([width], "int64")], axis=0))


def along_repeated(draw: Draw, name: str) -> Any:
    """An operator along an axis of what is repeated, mostly the one along which it is not."""
    data = rows_repeated(draw, "constant" if name == "sums" else "x")
    axis = draw.rng.choice((1, 1, -1, 0))
    if name == "sums":
        return cumsum(data, axis=axis)
    if name == "join":
        return concatenate([data, rows_repeated(draw, "y")], axis=axis)
    return strided_slice(data, [draw.rng.randint(-2, 1)], [draw.rng.choice((1, 2, FAR))], [1], axes=[axis])


def by_repeated(draw: Draw) -> Any:
    index = const(np.asarray([[draw.rng.randint(0, 2) for _ in range(draw.rng.randint(1, 3))]]), "int64")
    places = broadcast_to(index, shape_of(Var("like", TensorType((OPEN[0], index.data.shape[1]))), dtype="int64"))
    return take(Var("table", TensorType((3, 3))), places, axis=draw.rng.randint(0, 1), mode="fast")


def with_other(draw: Draw, is_first: bool) -> Any:
    given, other = repeated(part(draw, "x")), part(draw, "y")
    operator = draw.rng.choice((add, multiply, subtract, greater))
    return operator(given, other) if is_first else operator(other, given)


def more_axes(draw: Draw) -> Any:
    return expand_dims(repeated(part(draw, "x")), axis=draw.rng.randint(-3, 2), num_newaxis=draw.rng.randint(1, 2))


def looked_up(draw: Draw, by_tuples: bool) -> Any:
    data, shape = repeated(number(draw.rng.randint(-2, 2))), draw.rng.choice(((1,), (1, 3), (1, 2, 3)))
    if by_tuples:
        return gather_nd(data, const(np.zeros((draw.rng.randint(1, 2), *shape), "int64")))
    return take(data, const(np.zeros(shape, "int64")), axis=draw.rng.randint(0, 1), mode="fast")


def sums(draw: Draw) -> Any:
    return cumsum(repeated(number(draw.rng.choice((0, 0, 1)))), axis=draw.rng.randint(-1, 1))


def neighbours(draw: Draw, begin: int) -> Any:
    """All but one of a range, along one axis of two, and a number before it."""
    data = open_data()
    axis = draw.rng.choice((1, 1, 1, 0))
    length = size(data, axis)
    counted = repeated(along(counting(length), axis), data)
    first = strided_slice(counted, [0], [1], [1], axes=[axis]) - number(1)
    stop = expand_dims(length + number(1) if begin else length, axis=0)
    ends = [const(np.asarray([FAR]), "int64"), stop][:: 1 if axis else -1]
    begins = [0, begin][:: 1 if axis else -1]
    joined = concatenate([first, counted], axis=axis)
    return strided_slice(joined, const(begins, "int64"), concatenate(ends, axis=0), const(np.ones(2), "int64"))


def shifted(draw: Draw) -> Any:
    data = open_data(draw.rng.choice(("int8", "int32", "int64")))
    return data - (data + const(draw.rng.randint(-100, 100), data.type_annotation.dtype))


def attending(draw: Draw, mask: str) -> Any:
    queries, keys = OPEN if draw.chance(0.5) else (OPEN[0], OPEN[0])
    types = [TensorType((2, 2, length, 4)) for length in (queries, keys, keys)]
    query, key, value = (Var(label, ty) for label, ty in zip("qkv", types, strict=True))
    lengths = size(query, 2), size(key, 2)
    shown: Any = Var("shown", TensorType(draw.rng.choice(((1, keys), (2, 1, 1, keys), (1, 1))), "bool"))
    if mask == "repeated":
        several = [expand_dims(each, axis=0) for each in lengths]
        heads = [number(each) for each in draw.rng.choice(((2, 2), (2, 1), (1, 1)))]
        sizes = concatenate([*[expand_dims(each, axis=0) for each in heads], *several], axis=0)
        shown = broadcast_to(shown, sizes)
    else:
        ordered = less_equal(along(counting(lengths[1]), 1), along(counting(lengths[0]), 0))
        shown = logical_and(ordered, shown) if mask == "more" else ordered
    return nn.masked_attention(query, key, value, shown, scale=0.5, causal=draw.chance(0.2))


EXAMPLES: dict[str, Examples] = {
    "tile-of-ones-by-sizes": tiled,
    "slice-of-repeated": partial(along_repeated, name="slice"),
    "join-of-repeated": partial(along_repeated, name="join"),
    "sums-of-repeated-constant": partial(along_repeated, name="sums"),
    "take-by-repeated": by_repeated,
    "function-of-repeated": of_two,
    "function-with-repeated": partial(with_other, is_first=False),
    "function-of-repeated-and-more": partial(with_other, is_first=True),
    "function-with-repeated-number": partial(with_number, is_first=False),
    "function-of-repeated-number": partial(with_number, is_first=True),
    "axes-of-repeated": more_axes,
    "take-of-repeated-number": partial(looked_up, by_tuples=False),
    "gather-of-repeated-number": partial(looked_up, by_tuples=True),
    "sums-of-zero": sums,
    "all-but-one-before-range": partial(neighbours, begin=1),
    "one-before-range": partial(neighbours, begin=0),
    "difference-of-shifted": shifted,
    "mask-repeated": partial(attending, mask="repeated"),
    "mask-in-order": partial(attending, mask="ordered"),
    "mask-in-order-and-more": partial(attending, mask="more"),
}

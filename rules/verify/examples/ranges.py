"""Instances of rules on ranges: their sizes are open, as otherwise they are constants."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.op import (
    add,
    arange,
    broadcast_to,
    concatenate,
    equal,
    expand_dims,
    gather_nd,
    isnan,
    less_equal,
    multiply,
    negative,
    reshape,
    shape_of,
    take,
    tanh,
    transpose,
    trilu,
    where,
)
from eqsat.relay.op.draw import Draw
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.verify.examples.attention import FORMS

OPEN = (AnyDim("n"), AnyDim("m"))


def number(value: int) -> Expr:
    return const(value, "int64")


def size(data: Expr, axis: int) -> Any:
    return take(shape_of(data, dtype="int64"), number(axis), axis=0)


def counting(stop: Expr) -> Any:
    return arange(number(0), stop, number(1), dtype="int64")


def along(places: Any, axis: int, rank: int = 2) -> Any:
    """Places along an axis of so many."""
    return reshape(places, [-1 if at == axis else 1 for at in range(rank)])


def matrix(draw: Draw) -> tuple[Any, Any, Any]:
    """A matrix, and the places of its rows and of its columns; rarely the other way round."""
    data = Var("x", TensorType(OPEN, draw.dtype))
    other = Var("y", TensorType(OPEN))
    rows, columns = counting(size(data, 0)), counting(size(draw.rng.choice((data, other)), 1))
    rank = draw.rng.randint(2, 4)
    row, column = sorted(draw.rng.sample(range(rank), 2), reverse=draw.chance(0.1))
    return data, along(rows, row, rank), along(columns, column, rank)


def every_row(draw: Draw, as_number: bool) -> Any:
    data, rows, columns = matrix(draw)
    width = size(data, 1)
    flat = reshape(data, draw.rng.choice(([-1], [-1, 1])))
    return take(flat, columns + rows * (width if as_number else expand_dims(width, axis=0)), axis=0, mode="fast")


def named_pairs(draw: Draw) -> Any:
    data, *places = matrix(draw)
    rank = len(places[0].attrs.newshape)
    sizes = shape_of(places[0] + places[1], dtype="int64")
    pairs = concatenate([expand_dims(broadcast_to(each, sizes), axis=rank) for each in places], axis=-1)
    return gather_nd(data, transpose(pairs, axes=[rank, *range(rank)]))


def every_place(draw: Draw) -> Any:
    shape: list[Dim] = [2, 3, 2]
    axis = draw.rng.randrange(3)
    shape[axis] = OPEN[0]
    data = Var("x", TensorType(shape, draw.dtype))
    return take(data, along(counting(size(data, axis)), draw.rng.randrange(2)), axis=axis, mode="fast")


def causal(draw: Draw, lower: bool, form: str = "", guarded: bool = False) -> Any:
    """softmax(c q k' + 0 where keys are not behind queries, else a low number) v; or zeros for NaN in the softmax"""
    queries, keys = OPEN if draw.chance(0.5) else (OPEN[0], OPEN[0])
    types = [TensorType((2, 2, length, 4)) for length in (queries, keys, keys)]
    query, key, value = (Var(label, ty) for label, ty in zip("qkv", types, strict=True))
    lengths = size(query, 2), size(key, 2)
    if lower:
        truth = broadcast_to(const(np.asarray(True)), concatenate([expand_dims(each, axis=0) for each in lengths], 0))
        shown = trilu(truth, number(0), upper=False)
    else:
        shown = less_equal(along(counting(lengths[1]), 1), along(counting(lengths[0]), 0))
    low = draw.rng.choice((-np.inf, np.finfo("float32").min, np.finfo("float32").min / 2))
    scores = nn.matmul(query, key, transpose_b=True)
    scores = scores * const(np.float32(0.5)) if "scaled" in form else scores
    scores = tanh(scores) * const(np.float32(2)) if "capped" in form else scores
    soft = nn.softmax(scores + where(shown, const(np.float32(0)), const(np.float32(low))))
    return where(isnan(soft), const(np.float32(0)), soft) if guarded else nn.matmul(soft, value)


def triangle(draw: Draw) -> Any:
    data = Var("x", TensorType(OPEN))
    filled = broadcast_to(const(np.asarray(draw.rng.choice((1, 2)), draw.dtype)), shape_of(data, dtype="int64"))
    part = trilu(filled, number(draw.rng.randint(-1, 1)), upper=draw.chance(0.5))
    return equal(part, const(np.asarray(0, draw.dtype)))


def at_least(draw: Draw) -> Any:
    """A range from some number on, compared with one that is mostly no larger."""
    first, step, least = (number(draw.rng.randint(low, 3)) for low in (0, 1, -2))
    stop = size(Var("x", TensorType(OPEN)), draw.rng.randrange(2))
    return less_equal(least, along(arange(first, stop, step, dtype="int64"), draw.rng.randrange(3), 3))


SUMS = ("sum", "sum-with-vector", "multiple", "multiple-with-vector")


def open_rows(draw: Draw, name: str) -> Any:
    """An operator on all rows of a tensor that has nobody knows how many."""
    width = draw.rng.randint(1, 3)
    dtype = draw.rng.choice(("float32", "float64"))
    x, y = (Var(label, TensorType((*OPEN, width), dtype)) for label in "xy")
    flat, other = (reshape(data, [-1, width]) for data in (x, y))
    vector = draw.constant((width,), dtype)
    if name == "matmul":
        return nn.matmul(flat, draw.constant((width, 2), dtype))
    if name == "dense":
        return nn.dense(flat, draw.constant((2, width), dtype))
    if name == "layer-norm":
        return nn.layer_norm(flat, vector, draw.constant((width,), dtype))
    if name == "bias":
        return nn.bias_add(flat, vector)
    if name == "unary":
        return nn.relu(flat) if draw.chance(0.5) else negative(flat)
    operator = add if name.startswith("sum") else multiply
    return operator(flat, vector if name.endswith("vector") else other)


def sized_batches(draw: Draw, biased: bool) -> Any:
    """A product of rows of heads with a matrix, viewed as the batches that they come from, of computed sizes."""
    heads, width, outputs = (draw.rng.randint(1, 3) for _ in range(3))
    dtype = draw.rng.choice(("float32", "float64"))
    data = Var("x", TensorType((*OPEN, heads, width), dtype))
    rows = reshape(data, [-1, heads * width])
    if draw.chance(0.5):
        product = nn.matmul(rows, draw.constant((heads * width, outputs), dtype))
    else:
        product = nn.dense(rows, draw.constant((outputs, heads * width), dtype))
    lengths = [expand_dims(size(data, axis), axis=0) for axis in (0, 1)]
    shape = concatenate([*lengths, const([outputs], "int64")], axis=0)
    return reshape(product + draw.constant((outputs,), dtype) if biased else product, shape)


EXAMPLES: dict[str, Examples] = {
    "sized-product-of-batches": partial(sized_batches, biased=False),
    "sized-biased-product-of-batches": partial(sized_batches, biased=True),
    **{
        f"gather-of-every-row{width}{form}": partial(every_row, as_number=bool(form))
        for width in ("", "-of-size")
        for form in ("", "-by-number")
    },
    "gather-of-pairs": named_pairs,
    "gather-of-range": every_place,
    "triangle-of-numbers": triangle,
    "nan-of-lower-keys": partial(causal, lower=True, guarded=True),
    "nan-of-ordered-keys": partial(causal, lower=False, guarded=True),
    "range-is-at-least": at_least,
    **{
        f"{name}-of-open-rows": partial(open_rows, name=name)
        for name in ("matmul", "dense", "layer-norm", "bias", "unary", *SUMS)
    },
    **{
        f"{form}{'lower' if lower else 'ordered'}-causal-attention": partial(causal, lower=lower, form=form)
        for lower in (True, False)
        for form in FORMS
    },
}

"""Instances of rules on arithmetic, activations and normalizations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from eqsat.egraph.rule import Examples
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.op import add, cast, clip, cumsum, expand_dims, mean, multiply, reshape, rsqrt, sum
from eqsat.relay.op.draw import FLOATS, Draw
from eqsat.relay.ty import TensorType


def floats(draw: Draw, rank: int | None = None) -> tuple[Var, TensorType]:
    """A variable of floating-point numbers, and its type."""
    ty = draw.tensor(rank, draw.rng.choice(FLOATS))
    return Var("x", ty), ty


def cast_sums(draw: Draw) -> Any:
    """Running sums of integers, cast to integers of another width or the same."""
    data = draw.tensor(draw.rng.randint(1, 3), draw.rng.choice(("int64", "int32", "uint8")))
    sums = cumsum(Var("x", data), axis=draw.rng.randrange(len(data.shape)), exclusive=draw.chance(0.3))
    return cast(sums, dtype=draw.rng.choice(("int32", "int64", "int8")))


def number(value: float, like: TensorType) -> Any:
    """A scalar constant of the dtype of ``like``."""
    return const(np.asarray(value).astype(like.dtype))


def by_large_constants(draw: Draw, operator: Callable[..., Expr]) -> Expr:
    """``x`` combined with two constants of which the first is mostly large."""
    large, other = (draw.constant((draw.rng.choice((30, 30, 1)), 36), draw.dtype) for _ in range(2))
    return operator(operator(Var("x", TensorType((36,), draw.dtype)), large), other)


def ramp(draw: Draw) -> Any:
    """clip(x + a, 0, b) / b"""
    data, ty = floats(draw)
    end = draw.rng.choice((0.5, 1.0, 3.0))
    return clip(data + number(draw.rng.choice((0.5, 1.0, 3.0)), ty), 0.0, end) * number(1 / end, ty)


def wide_clip(draw: Draw) -> Any:
    """clip(x, the least number, the greatest number or infinity), of real numbers"""
    dtype = draw.rng.choice(("float32", "float64"))
    whole = Var("x", draw.tensor(None, "int32"))
    greatest = float(np.finfo(dtype).max)
    return clip(cast(whole, dtype), -greatest, draw.rng.choice((greatest, math.inf)))


def written_out_mean(draw: Draw) -> Any:
    """A sum, mostly divided by the number of summands."""
    data, ty = floats(draw, max(1, draw.rank))
    axis = draw.axis(len(ty.shape))
    count = ty.concrete_shape[axis] if draw.chance(0.8) else 7
    return sum(data, axis=axis, keepdims=draw.chance(0.5)) * number(1 / max(1, count), ty)


def scaled_weighted_sum(draw: Draw) -> Any:
    """(x u + y v) s with one number s, and factors that mostly broadcast against the data."""
    ty = TensorType((draw.rng.randint(2, 3), draw.rng.randint(2, 4)), draw.rng.choice(("float32", "float64")))
    rows, columns = ty.concrete_shape
    data = [Var(name, ty) for name in "xy"]
    shapes = ((columns,), (1, columns), (rows, 1), (columns,), (rows, 1), ())
    factors = [Var(name, TensorType(draw.rng.choice(shapes), ty.dtype)) for name in "uv"]
    return (data[0] * factors[0] + data[1] * factors[1]) * number(draw.rng.choice((0.5, -2.0, 0.125)), ty)


def behind_weight(draw: Draw, between: Callable[[Expr, Expr], Expr], behind: Callable[[Expr, Expr], Expr]) -> Any:
    """What a weight makes, with a function of it and a vector, and one of that and a number or a vector."""
    dtype, units = draw.rng.choice(FLOATS), draw.rng.randint(2, 4)
    product = nn.dense(Var("x", TensorType((2, 3), dtype)), draw.constant((units, 3), dtype))
    vector, last = draw.constant((units,), dtype), draw.constant(draw.rng.choice(((units,), (), (1,))), dtype)
    if behind is nn.bias_add:
        last = draw.constant((units,), dtype)
    elif behind is multiply and draw.chance(0.7):
        last = number(draw.rng.choice((0.5, 2.0, 0.125)), TensorType((), dtype))
    return behind(between(product, vector), last)


def along_rows(draw: Draw, between: Callable[[Expr, Expr], Expr], behind: Callable[[Expr, Expr], Expr]) -> Any:
    """The same, where one of the two functions has a vector and the other one a constant along other axes, mostly."""
    dtype, rows, units = draw.rng.choice(FLOATS), draw.rng.randint(2, 3), draw.rng.randint(2, 4)
    product = nn.dense(Var("x", TensorType((2, rows, 3), dtype)), draw.constant((units, 3), dtype))
    vector, other = draw.constant((units,), dtype), draw.constant(draw.rng.choice(((rows, 1), (rows, units))), dtype)
    if between is nn.bias_add:
        return behind(nn.bias_add(product, vector, axis=-1), other)
    return nn.bias_add(between(product, other), vector, axis=-1)


def scaled_view_of_weighted(draw: Draw) -> Any:
    """A view of what a weight makes, times a number."""
    dtype = draw.rng.choice(FLOATS)
    product = nn.dense(Var("x", TensorType((2, 3), dtype)), draw.constant((4, 3), dtype))
    views = (
        lambda data: reshape(data, newshape=(4, 2)),
        lambda data: reshape(data, newshape=(8,)),
        lambda data: expand_dims(data, axis=1),
    )
    ty = TensorType(draw.rng.choice(((), (1,))), dtype)
    return draw.rng.choice(views)(product) * draw.constant(ty.concrete_shape, dtype)


def batch_norm(draw: Draw) -> Any:
    """Batch normalization written out, in any association."""
    data, ty = floats(draw, draw.rng.choice((2, 3, 4)))
    axis = draw.rng.randrange(1, len(ty.shape))
    shape = (ty.shape[axis], *[1] * (len(ty.shape) - axis - 1))
    scale, shift, center, variance = (Var(name, TensorType(shape, ty.dtype)) for name in ("g", "b", "m", "v"))
    root, moved = rsqrt(variance + number(1e-3, ty)), data - center
    ways = ((scale * moved) * root, scale * (moved * root), moved * (scale * root))
    multiple = scale * root
    return draw.rng.choice((*[way + shift for way in ways], data * multiple + (shift - center * multiple)))


def instance_norm(draw: Draw) -> Any:
    """(x - mean(x)) / sqrt(variance(x) + eps), mostly over all axes but the first two."""
    data, ty = floats(draw, draw.rng.choice((3, 4)))
    axes = tuple(range(draw.rng.choice((2, 2, 2, 1)), len(ty.shape)))
    centered = data - mean(data, axis=axes, keepdims=True)
    return centered * rsqrt(mean(centered * centered, axis=axes, keepdims=True) + number(1e-3, ty))


def between_casts(draw: Draw, norm: Callable[..., Expr], parameters: int) -> Any:
    """A normalization of float16 as float32, mostly narrowed again, and mostly by numbers that float16 has."""
    data = draw.tensor(draw.rng.randint(1, 3), "float16")
    axis = draw.rng.randrange(len(data.shape))
    among = draw.rng.choice(((0.5, 1.0, 3.0), (0.5, 1.0, 3.0), (0.1, 1.0)))
    vectors = [
        np.array([draw.rng.choice(among) for _ in range(data.concrete_shape[axis])], "f4") for _ in range(parameters)
    ]
    wide = norm(cast(Var("x", data), "float32"), *map(const, vectors), axis=axis, epsilon=1e-3)
    return cast(wide, draw.rng.choice(("float16", "float16", "float16", "float64")))


def short_root_mean_square(draw: Draw) -> Any:
    """x / sqrt(mean(x^2) + eps), mostly of float16."""
    ty = TensorType((2, draw.rng.randint(1, 4)), draw.rng.choice(("float16", "float16", "float32")))
    data, epsilon = Var("x", ty), number(draw.rng.choice((0.0, 1e-3)), ty)
    return data * rsqrt(mean(data * data, axis=-1, keepdims=draw.chance(0.9)) + epsilon)


EXAMPLES: dict[str, Examples] = {
    "rms-norm-of-short": short_root_mean_square,
    "cast-into-running-sum": cast_sums,
    "add-add-large-constant": partial(by_large_constants, operator=add),
    "multiply-multiply-large-constant": partial(by_large_constants, operator=multiply),
    "hard-sigmoid-scaled": ramp,
    "clip-real-numbers": wide_clip,
    "mean": written_out_mean,
    "scale-into-weighted-sum": scaled_weighted_sum,
    "scale-through-view": scaled_view_of_weighted,
    "scale-through-relu": partial(behind_weight, between=lambda x, b: nn.relu(x), behind=multiply),
    "scale-through-leaky-relu": partial(behind_weight, between=lambda x, b: nn.leaky_relu(x), behind=multiply),
    "scale-of-bias": partial(behind_weight, between=nn.bias_add, behind=multiply),
    "shift-of-bias": partial(behind_weight, between=nn.bias_add, behind=add),
    "bias-bias": partial(behind_weight, between=nn.bias_add, behind=nn.bias_add),
    "bias-of-shift": partial(behind_weight, between=add, behind=nn.bias_add),
    "bias-and-shift": partial(along_rows, between=nn.bias_add, behind=add),
    "bias-of-affine-is-sum": lambda draw: along_rows(draw, draw.rng.choice((add, multiply)), nn.bias_add),
    "multiple-of-bias": partial(along_rows, between=nn.bias_add, behind=multiply),
    "batch-norm": batch_norm,
    "instance-norm": instance_norm,
    "layer-norm-between-casts": partial(between_casts, norm=nn.layer_norm, parameters=2),
    "rms-norm-between-casts": partial(between_casts, norm=nn.rms_norm, parameters=1),
}

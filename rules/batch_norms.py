"""Batch normalization: taken apart where its statistics are constants, and recognised where it is written out."""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_tuple_get_item
from eqsat.relay.op import negative, reshape, rsqrt, sqrt
from eqsat.relay.ty import TensorType
from eqsat.rules.types import Shape, floats, is_float, rank_of
from eqsat.rules.values import attribute, computed_parts, epsilon_of, scalar

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE

x, gamma, beta, center, spread = variables("x gamma beta center spread")
(eps,) = constants("eps")
g, b, m, v = constants("g b m v")

batch_norm = nn.batch_norm(x, g, b, m, v)
normalized = is_tuple_get_item(batch_norm, 0)


def epsilon_like(attrs: Attrs, statistic: TensorType) -> Array:
    """The epsilon of a batch norm as a scalar of its statistics' dtype."""
    return np.asarray(attrs.epsilon, dtype=statistic.dtype)


def along_axis(attrs: Attrs, of: TensorType) -> Shape | Refusal:
    """The shape that lays a vector along the channel axis."""
    rank = len(of.shape)
    axis = attrs.axis % rank
    channels = of.shape[axis]
    return (channels,) + (1,) * (rank - axis - 1) if isinstance(channels, int) else refuse("unknown channel count")


epsilon = compute(epsilon_like, attrs_of(batch_norm), type_of(v))


def affine(scales: bool, centers: bool) -> Rewrite:
    """batch_norm(x) = x s + (b - m s), s = g / sqrt(v + eps)"""
    deviation = sqrt(v + epsilon)
    scale = g / deviation if scales else scalar(1, v) / deviation
    shift = b - m * scale if centers else negative(m * scale)
    suffix = {(True, True): "", (True, False): "-scaled", (False, True): "-centered", (False, False): "-plain"}
    return rewrite(
        f"batch-norm-is-affine{suffix[scales, centers]}",
        normalized,
        nn.bias_add(
            x * reshape(scale, newshape=compute(along_axis, attrs_of(batch_norm), type_of(x))),
            shift,
            axis=attribute(batch_norm, "axis"),
        ),
        when(lambda attrs: (bool(attrs.scale), bool(attrs.center)) == (scales, centers), attrs_of(batch_norm)),
        floats(x, v),
        soundness=ROUNDING,
    )


centered = x - center
deviation = rsqrt(spread + eps)
standard = (gamma * centered) * deviation | gamma * (centered * deviation) | centered * (gamma * deviation)
multiple = gamma * deviation
written_out = standard + beta | x * multiple + (beta - center * multiple)
parameters = (gamma, beta, center, spread)


def channels_of(data: TensorType, first: TensorType, *others: TensorType) -> tuple[Shape, int] | Refusal:
    """The shape of a parameter as a vector, and the axis of the data along which all parameters lie."""
    if not is_float(data, first) or any(other != first for other in others) or first.dtype != data.dtype:
        return refuse("the parameters differ in type")
    axis = rank_of(data) - rank_of(first)
    count = first.shape[0] if first.shape else None
    if axis < 1 or not isinstance(count, int) or any(dim != 1 for dim in first.shape[1:]) or count != data.shape[axis]:
        return refuse("the parameters do not lie along one axis")
    return (count,), axis


channels = computed_parts(channels_of, type_of(x), *map(type_of, parameters))
vectors = [reshape(parameter, newshape=channels(0)) for parameter in parameters]

batch_norms = RuleSet(
    "batch-norms",
    [
        *[affine(scales, centers) for scales in (True, False) for centers in (True, False)],
        # gamma (x - center) / sqrt(spread + eps) + beta, of finite parameters; or multiplied out
        rewrite(
            "batch-norm",
            written_out,
            is_tuple_get_item(
                nn.batch_norm(x, *vectors, axis=channels(1), epsilon=compute(epsilon_of, value_of(eps))), 0
            ),
            soundness=FINITE,
        ),
    ],
)

"""Batch normalization: recognised in arithmetic, and taken apart where its statistics are constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_tuple_get_item
from eqsat.relay.op import reshape, sqrt
from eqsat.relay.ty import TensorType

ROUNDING = Soundness.ROUNDING

(x,) = variables("x")
gamma, beta, mean, var, eps = constants("gamma beta mean var eps")

batch_norm = nn.batch_norm(x, gamma, beta, mean, var)
normalized = is_tuple_get_item(batch_norm, 0)


def epsilon_like(attrs: Any, statistic: TensorType) -> Any:
    """The epsilon of a batch norm as a scalar of its statistics' dtype."""
    return np.asarray(attrs.epsilon, dtype=statistic.dtype)


def along_axis(attrs: Any, of: TensorType) -> Any:
    """The shape that lays a vector along the channel axis."""
    rank = len(of.shape)
    axis = attrs.axis % rank
    channels = of.shape[axis]
    return (channels,) + (1,) * (rank - axis - 1) if isinstance(channels, int) else refuse("unknown channel count")


def has_scale_and_center(attrs: Any) -> bool:
    return bool(attrs.scale and attrs.center)


epsilon = compute(epsilon_like, attrs_of(batch_norm), type_of(var))
scale = gamma / sqrt(var + epsilon)
shift = beta - mean * scale

normalization = RuleSet(
    "normalization",
    [
        # batch_norm(x) = x s + (beta - mean s), s = gamma / sqrt(var + eps)
        rewrite(
            "batch-norm-is-affine",
            normalized,
            nn.bias_add(
                x * reshape(scale, newshape=compute(along_axis, attrs_of(batch_norm), type_of(x))),
                shift,
                axis=compute(lambda attrs: attrs.axis, attrs_of(batch_norm)),
            ),
            when(has_scale_and_center, attrs_of(batch_norm)),
            soundness=ROUNDING,
        ),
    ],
)

"""Rotary embedding of positions, beyond Relay: halves of each head's elements are turned as points of a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import check_dtype, divided, ranked, tensor, unify
from eqsat.relay.ty import Type


def _rotary_type(attrs: Any, args: Sequence[Type]) -> Type:
    """(B, H, S, D), or (B, S, H * D) of joined heads, and angles of (B, S, D / 2): the first's type."""
    joined = attrs.heads > 0
    data = ranked(args[0], 3 if joined else 4, "the data")
    heads, width = attrs.heads if joined else 1, data.shape[-1]
    half = divided(width, 2 * heads, f"{width} elements are no halves of {heads} heads")
    angles = (data.shape[0], data.shape[-2], half)
    for arg in args[1:]:
        for dim, wanted in zip(ranked(arg, 3, "cosines and sines").shape, angles, strict=True):
            unify(dim, wanted, "the sizes of angles and data")
    check_dtype(*map(tensor, args))
    return data


def _rotary(attrs: Any, data: Any, cos: Any, sin: Any) -> Any:
    if attrs.heads > 0:
        parts = data.reshape(*data.shape[:2], attrs.heads, -1)
        cos, sin = cos[:, :, None], sin[:, :, None]
    else:
        parts, cos, sin = data, cos[:, None], sin[:, None]
    first, second = np.split(parts, 2, axis=-1)
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.reshape(data.shape)


rotary_embedding = define(
    "nn.rotary_embedding",
    "data cos sin",
    Field("heads", "int", 0),  # above 0 the heads are joined
    infer=_rotary_type,
    kernel=_rotary,
    kind=OpPattern.OPAQUE,
)

__all__ = ["rotary_embedding"]

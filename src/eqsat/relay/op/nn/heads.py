"""Scaled dot-product attention, beyond Relay: softmax(scale Q K' + mask) V for each batch and head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.relay.op.nn.activation import softmax_of
from eqsat.relay.op.op import Builder, Field, define
from eqsat.relay.op.types import broadcast_shape, check_dtype, ranked, size, tensor, unify
from eqsat.relay.ty import TensorType, Type


def _attention_type(attrs: Any, args: Sequence[Type]) -> Type:
    """(B, H, Q, D), (B, H, K, D), (B, H, K, E) -> (B, H, Q, E); a mask broadcasts to (B, H, Q, K)."""
    query, key, value = (ranked(arg, 4, "query, key and value") for arg in args[:3])
    lead = [unify(unify(query.shape[axis], key.shape[axis]), value.shape[axis]) for axis in (0, 1)]
    unify(query.shape[3], key.shape[3], "the sizes of queries and keys")
    length = unify(key.shape[2], value.shape[2], "the numbers of keys and values")
    if len(args) > 3:
        broadcast_shape((*lead, query.shape[2], length), tensor(args[3]).shape)
    return TensorType((*lead, query.shape[2], value.shape[3]), check_dtype(*map(tensor, args)))


def _attention(attrs: Any, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    wide = [part.astype(np.promote_types(part.dtype, np.float32), copy=False) for part in (query, key, value)]
    scores = np.matmul(wide[0], np.swapaxes(wide[1], 2, 3)) * wide[0].dtype.type(attrs.scale)
    probabilities = softmax_of(scores if mask is None else scores + mask, -1)
    return np.matmul(probabilities, wide[2]).astype(query.dtype, copy=False)


def _flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    query, key, value = map(tensor, args[:3])
    scores = TensorType((*query.shape[:3], key.shape[2]), query.dtype)
    widths = [dim if isinstance(dim, int) else 1 for dim in (query.shape[3], value.shape[3])]
    return size(scores) * (2 * sum(widths) + 5)


def _define(name: str, arguments: str) -> Builder:
    return define(
        f"nn.{name}", arguments, Field("scale", "float"), infer=_attention_type, kernel=_attention, flops=_flops
    )


attention = _define("attention", "query key value")
masked_attention = _define("masked_attention", "query key value mask")

__all__ = ["attention", "masked_attention"]

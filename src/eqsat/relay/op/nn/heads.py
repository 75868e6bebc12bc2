"""What attention is made of, beyond Relay: scaled dot products, and rotary embedding of positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.nn.activation import softmax_of
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import broadcast_shape, check_dtype, divided, ranked, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type

# ---- scaled dot-product attention: softmax(cap(scale Q K') + mask) V for each batch and head
#
# A query to which a mask shows no key gets zeros, as in ONNX.


def _split_type(ty: Type, heads: int) -> TensorType:
    """(B, Q, H * D) -> (B, H, Q, D)"""
    batch, length, width = ranked(ty, 3, "query, key and value that join their heads").shape
    part = divided(width, heads, f"{width} elements are not those of {heads} heads")
    return TensorType((batch, heads, length, part), tensor(ty).dtype)


def _heads_apart(attrs: Any, args: Sequence[Type]) -> list[TensorType]:
    """The types of query, key and value with their heads as an axis."""
    if attrs.query_heads < 1 or attrs.key_heads < 1:
        return [ranked(arg, 4, "query, key and value") for arg in args[:3]]
    heads = (attrs.query_heads, attrs.key_heads, attrs.key_heads)
    return [_split_type(arg, count) for arg, count in zip(args, heads, strict=False)]


def _check_groups(queries: Dim, keys: Dim) -> None:
    """As many heads of keys, or a group of heads of queries for each."""
    if isinstance(queries, int) and isinstance(keys, int) and (not keys or queries % keys):
        raise TypeCheckError(f"{queries} heads of queries are no groups for {keys} of keys")


def _attention_type(attrs: Any, args: Sequence[Type]) -> Type:
    """(B, H, Q, D), (B, G, K, D), (B, G, K, E) -> (B, H, Q, E); a mask broadcasts to (B, H, Q, K)."""
    query, key, value = _heads_apart(attrs, args)
    batch = unify(unify(query.shape[0], key.shape[0]), value.shape[0])
    heads, length = query.shape[1:3]
    _check_groups(heads, unify(key.shape[1], value.shape[1], "the heads of keys and values"))
    unify(query.shape[3], key.shape[3], "the sizes of queries and keys")
    keys = unify(key.shape[2], value.shape[2], "the numbers of keys and values")
    if len(args) > 3:
        mask = tensor(args[3])
        broadcast_shape((batch, heads, length, keys), mask.shape)
        check_dtype(query, *[mask for _ in range(mask.dtype != "bool")])
    dtype, width = check_dtype(query, key, value), value.shape[3]
    if attrs.query_heads < 1:
        return TensorType((batch, heads, length, width), dtype)
    return TensorType((batch, length, multiply_dims(heads, width)), dtype)


def _split(values: Any, heads: int) -> Any:
    batch, length, width = values.shape
    return values.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def _attention(attrs: Any, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    joined, parts = attrs.query_heads > 0, [query, key, value]
    if joined:
        heads = (attrs.query_heads, attrs.key_heads, attrs.key_heads)
        parts = [_split(part, count) for part, count in zip(parts, heads, strict=True)]
    wide = [part.astype(np.promote_types(part.dtype, np.float32), copy=False) for part in parts]
    group = wide[0].shape[1] // max(wide[1].shape[1], 1)
    wide[1:] = [np.repeat(part, group, axis=1) for part in wide[1:]]
    scores = np.matmul(wide[0], np.swapaxes(wide[1], 2, 3)) * wide[0].dtype.type(attrs.scale)
    if attrs.softcap:
        cap = scores.dtype.type(attrs.softcap)
        scores = np.tanh(scores / cap) * cap
    shown = np.ones(scores.shape, bool, like=scores)
    if attrs.causal:
        shown = np.tri(*scores.shape[2:], like=scores) > 0
    if mask is not None:
        shown = shown & (mask if mask.dtype == bool else mask != -np.inf)
        scores = scores if mask.dtype == bool else scores + mask
    scores = np.where(shown, scores, -np.inf)
    some = np.any(np.broadcast_to(shown, scores.shape), axis=-1, keepdims=True)
    weights = softmax_of(np.where(some, scores, 0), -1) * some  # a query to which nothing is shown gets zeros
    result = np.matmul(weights, wide[2]).astype(query.dtype, copy=False)
    return result.transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1) if joined else result


def _flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    query, key, value = _heads_apart(attrs, args)
    scores = TensorType((*query.shape[:3], key.shape[2]), query.dtype)
    widths = [dim if isinstance(dim, int) else 1 for dim in (query.shape[3], value.shape[3])]
    return size(scores) * (2 * sum(widths) + (8 if attrs.softcap else 5))


def _define(name: str, arguments: str) -> Builder:
    return define(
        f"nn.{name}",
        arguments,
        Field("scale", "float"),
        Field("query_heads", "int", 0),  # above 0 the heads are joined: (B, Q, H * D), and so the result
        Field("key_heads", "int", 0),
        Field("causal", "bool", False),  # no query sees keys behind its own place
        Field("softcap", "float", 0.0),  # above 0 no scaled score is larger: cap(s) = softcap tanh(s / softcap)
        infer=_attention_type,
        kernel=_attention,
        flops=_flops,
    )


attention = _define("attention", "query key value")
masked_attention = _define("masked_attention", "query key value mask")

# ---- rotary embedding: two halves of each head's elements, or neighbours, are turned as points of a plane


def _rotary_type(attrs: Any, args: Sequence[Type]) -> Type:
    """(B, H, S, D), or (B, S, H * D) of joined heads, and angles of (B, S, W / 2): the first's type."""
    joined = attrs.heads > 0
    data = ranked(args[0], 3 if joined else 4, "the data")
    heads, width = attrs.heads if joined else 1, data.shape[-1]
    half = divided(width, 2 * heads, f"{width} elements are no halves of {heads} heads")
    if attrs.width > 0:
        if attrs.width % 2 or (isinstance(half, int) and attrs.width > 2 * half):
            raise TypeCheckError(f"of {width} elements of {heads} heads, {attrs.width} of each cannot be turned")
        half = attrs.width // 2
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
    width = attrs.width or parts.shape[-1]
    turning, rest = parts[..., :width], parts[..., width:]
    if attrs.interleaved:
        first, second = turning[..., ::2], turning[..., 1::2]
    else:
        first, second = np.split(turning, 2, axis=-1)
    points = [first * cos - second * sin, second * cos + first * sin]
    if attrs.interleaved:
        turned = np.stack(points, axis=-1).reshape(turning.shape)
    else:
        turned = np.concatenate(points, axis=-1)
    return np.concatenate([turned, rest], axis=-1).reshape(data.shape)


rotary_embedding = define(
    "nn.rotary_embedding",
    "data cos sin",
    Field("heads", "int", 0),  # above 0 the heads are joined
    Field("width", "int", 0),  # how many of each head's elements are turned, the first ones; 0 is all
    Field("interleaved", "bool", False),  # neighbours are the points, not elements of two halves
    infer=_rotary_type,
    kernel=_rotary,
    kind=OpPattern.OPAQUE,
)

__all__ = ["attention", "masked_attention", "rotary_embedding"]

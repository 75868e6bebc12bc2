"""Attention that splits its operands into heads by itself.

The reshapes and transposes that split queries, keys and values into heads, and join the heads of the result, become
part of the attention operator. So does the repetition of keys and values for groups of query heads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Rewrite, RuleSet
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import reshape, take, transpose
from eqsat.relay.ty import TensorType
from eqsat.rules.axes import permutation
from eqsat.rules.types import rank_of

q, k, v, mask = variables("q k v mask")
(indices,) = constants("indices")

HEADS = 2
"""The axis of heads before it is put in front of the places."""


def puts_heads_first(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a transpose of (batch, place, head, element) to (batch, head, place, element), of counted heads."""
    known = rank_of(ty) == 4 and isinstance(ty.shape[HEADS], int) and ty.shape[HEADS] != 0
    return known and permutation(attrs, 4) == (0, 2, 1, 3)


def head_count(ty: TensorType) -> int:
    return int(ty.shape[HEADS])  # type: ignore[arg-type]


def heads_joined(part: DFPattern) -> DFPattern:
    """(batch, place, head, element) -> (batch, place, head * element)"""
    return reshape(part, newshape=(0, 0, -1))  # type: ignore[no-any-return]


def heads_first(whole: DFPattern, of: DFPattern) -> DFPattern:
    """(batch, place, head * element) -> (batch, head, place, element), with as many heads as ``of``"""
    apart = reshape(whole, newshape=compute(lambda ty: (0, 0, head_count(ty), -1), type_of(of)))
    return transpose(apart, axes=(0, 2, 1, 3))  # type: ignore[no-any-return]


def repeats_heads(picked: Attrs, picked_too: Attrs, key: TensorType, value: TensorType, rows: Array) -> bool:
    """Guard: gathers repeat each head of the keys and of the values equally often."""
    if rank_of(key) != 4 or rank_of(value) != 4 or key.shape[1] != value.shape[1] or rows.ndim != 1:
        return False
    heads = key.shape[1]
    if not isinstance(heads, int) or not heads or len(rows) % heads or {picked.axis, picked_too.axis} - {1, -3}:
        return False
    return bool(np.array_equal(rows, np.repeat(np.arange(heads), len(rows) // heads)))


def joined(name: str, operator: Callable[..., DFPattern], *masks: DFPattern) -> Rewrite:
    """attention(T q, T k, T v) = T(split(attention(join q, join k, join v)))"""
    turned = [transpose(part) for part in (q, k, v)]
    apart = operator(*turned, *masks)
    whole = like(
        apart,
        *map(heads_joined, (q, k, v)),
        *masks,
        query_heads=compute(head_count, type_of(q)),
        key_heads=compute(head_count, type_of(k)),
    )
    return rewrite(
        name,
        apart,
        heads_first(whole, q),
        *[when(puts_heads_first, attrs_of(each), type_of(part)) for each, part in zip(turned, (q, k, v), strict=True)],
    )


def grouped(name: str, operator: Callable[..., DFPattern], *masks: DFPattern) -> Rewrite:
    """attention(q, repeat k, repeat v) = attention(q, k, v)"""
    keys, values = take(k, indices), take(v, indices)
    apart = operator(q, keys, values, *masks)
    return rewrite(
        name,
        apart,
        like(apart, q, k, v, *masks),
        when(repeats_heads, attrs_of(keys), attrs_of(values), type_of(k), type_of(v), value_of(indices)),
    )


joined_heads = RuleSet(
    "joined-heads",
    [
        joined("joined-heads", nn.attention),
        joined("joined-heads-masked", nn.masked_attention, mask),
        grouped("grouped-heads", nn.attention),
        grouped("grouped-heads-masked", nn.masked_attention, mask),
    ],
)

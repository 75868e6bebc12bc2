"""Attention that splits its operands into heads by itself.

The reshapes and transposes that split queries, keys and values into heads, and join the heads of the result, become
part of the attention operator. So does the repetition of keys and values for groups of query heads, and so do such
groups where the queries of a group are rows of one head. Rotary embeddings are recognised as transformers write them
out, x cos + (-b, a) sin, of halves (a, b) of each head's elements.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Compute, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item
from eqsat.relay.op import cos, expand_dims, negative, reshape, sin, split, squeeze, take, transpose
from eqsat.relay.ty import TensorType
from eqsat.rules.axes import permutation
from eqsat.rules.types import rank_of, same_sizes

q, k, v, mask = variables("q k v mask")
x, angles, cosines, sines = variables("x angles cosines sines")
indices, c, s = constants("indices c s")

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
    return reshape(part, newshape=(0, 0, -1))


def heads_first(whole: DFPattern, of: DFPattern) -> DFPattern:
    """(batch, place, head * element) -> (batch, head, place, element), with as many heads as ``of``"""
    apart = reshape(whole, newshape=compute(lambda ty: (0, 0, head_count(ty), -1), type_of(of)))
    return transpose(apart, axes=(0, 2, 1, 3))


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


def is_of_one_head(*types: TensorType) -> bool:
    """Guard: there is one head, which may be a view of what has none."""
    return all(rank_of(ty) == 4 and ty.shape[1] == 1 for ty in types)


def without_head(part: DFPattern) -> DFPattern:
    """(batch, 1, place, element) -> (batch, place, element)"""
    return squeeze(part, axis=[1])


def one_head(name: str, operator: Callable[..., DFPattern], *masks: DFPattern) -> list[Rewrite]:
    """The same where keys and values have one head, whose axis no transpose needs to move, or queries have one too."""
    turned = transpose(q)
    shared, single = operator(turned, k, v, *masks), operator(q, k, v, *masks)
    key_value = [without_head(k), without_head(v)]
    return [
        rewrite(
            f"{name}-of-shared",
            shared,
            heads_first(
                like(
                    shared,
                    heads_joined(q),
                    *key_value,
                    *masks,
                    query_heads=compute(head_count, type_of(q)),
                    key_heads=1,
                ),
                q,
            ),
            when(puts_heads_first, attrs_of(turned), type_of(q)),
            when(is_of_one_head, type_of(k), type_of(v)),
        ),
        rewrite(
            f"{name}-of-one",
            single,
            expand_dims(like(single, without_head(q), *key_value, *masks, query_heads=1, key_heads=1), axis=1),
            when(is_of_one_head, type_of(q), type_of(k), type_of(v)),
        ),
    ]


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


repeated_heads = take(x, indices)
turned_heads = transpose(repeated_heads)
embedded_heads = nn.rotary_embedding(repeated_heads, cosines, sines)


def repeats_along(axis: int) -> Callable[[Attrs, TensorType, TensorType], bool]:
    """Guard: a gather takes heads, which are ``axis`` of four axes."""

    def guard(attrs: Attrs, ty: TensorType, places: TensorType) -> bool:
        return rank_of(ty) == 4 and rank_of(places) == 1 and attrs.axis in (axis, axis - 4) and not attrs.batch_dims

    return guard


viewed = reshape(q)


def views_heads_as_rows(ty: TensorType, view: TensorType, key: TensorType, value: TensorType) -> bool:
    """Guard: a view of queries puts those of neighbouring heads that share keys and values one after the other."""
    if any(rank_of(each) != 4 for each in (ty, view, key, value)) or not same_sizes(key.shape[:2], value.shape[:2]):
        return False
    (batch, heads, _, width), groups = ty.shape, view.shape[1]
    if not isinstance(heads, int) or not isinstance(groups, int) or not groups or heads % groups or heads == groups:
        return False
    return key.shape[1] == groups and same_sizes((batch, width), (view.shape[0], view.shape[3]))


def is_for_all_rows(attrs: Attrs, *masks: TensorType) -> bool:
    """Guard: all queries of a batch see the same keys."""
    return not attrs.causal and all(set(ty.shape[-3:-1]) <= {1} for ty in masks)


def rows_as_heads(name: str, operator: Callable[..., DFPattern], *masks: DFPattern) -> Rewrite:
    """attention(view q, k, v) = view(attention(q, k, v))"""
    of_rows = operator(viewed, k, v, *masks)
    return rewrite(
        name,
        of_rows,
        reshape(like(of_rows, q, k, v, *masks), newshape=compute(lambda ty: (0, ty.shape[1], -1, 0), type_of(viewed))),
        when(views_heads_as_rows, *map(type_of, (q, viewed, k, v))),
        when(is_for_all_rows, attrs_of(of_rows), *map(type_of, masks)),
        soundness=Soundness.ROUNDING,
    )


joined_heads = RuleSet(
    "joined-heads",
    [
        joined("joined-heads", nn.attention),
        joined("joined-heads-masked", nn.masked_attention, mask),
        *one_head("joined-heads", nn.attention),
        *one_head("joined-heads-masked", nn.masked_attention, mask),
        grouped("grouped-heads", nn.attention),
        grouped("grouped-heads-masked", nn.masked_attention, mask),
        # heads may be repeated before they are put in front of the places, and before they are turned by angles
        rewrite(
            "heads-first-of-repeated",
            turned_heads,
            like(repeated_heads, like(turned_heads, x), indices, axis=1),
            when(repeats_along(HEADS), attrs_of(repeated_heads), type_of(x), type_of(indices)),
            when(puts_heads_first, attrs_of(turned_heads), type_of(repeated_heads)),
        ),
        rewrite(
            "rotary-embedding-of-repeated",
            embedded_heads,
            like(repeated_heads, like(embedded_heads, x, cosines, sines), indices),
            when(repeats_along(1), attrs_of(repeated_heads), type_of(x), type_of(indices)),
        ),
        rows_as_heads("rows-as-heads", nn.attention),
        rows_as_heads("rows-as-heads-masked", nn.masked_attention, mask),
    ],
)

# ---- rotary embeddings

WRITTEN = ("float32", "float16")
"""Element types that the operator is of."""
MOST_ANGLES = 1 << 16
"""Elements up to which constant angles are repeated for each of more than two batches."""

halves = split(x)
first, second = is_tuple_get_item(halves, 0), is_tuple_get_item(halves, 1)
turned = is_op("concatenate")(is_tuple((negative(second), first)))
exchanged = is_op("concatenate")(is_tuple((second, first)))


def written_out(cosine: DFPattern, sine: DFPattern) -> DFPattern:
    return x * cosine + turned * sine


def turns_halves(cut: Attrs, joined: Attrs, ty: TensorType) -> bool:
    """Guard: the last axis of (batch, head, place, element) is cut in two halves, and joined again."""
    if rank_of(ty) != 4 or ty.dtype not in WRITTEN or {cut.axis, joined.axis} - {3, -1}:
        return False
    width, at = ty.shape[3], cut.indices_or_sections
    return isinstance(width, int) and width % 2 == 0 and at in (2, (width // 2,))


turns = when(turns_halves, attrs_of(halves), attrs_of(turned), type_of(x))


def angles_of(value: Array, ty: TensorType, sign: int = 1) -> Array | Refusal:
    """What both halves are multiplied by, the first one ``sign`` times as much: (batch, place, element).

    Args:
        value: The constant factor.
        ty: The type of what is turned.
        sign: 1, or -1.
    """
    batch, _, places, width = ty.shape
    if not isinstance(batch, int) or not isinstance(places, int) or not isinstance(width, int):
        return refuse("a dimension is not known")
    shape = (1,) * (4 - value.ndim) + value.shape
    if shape[1] != 1 or shape[2:] != (places, width):
        return refuse("heads are multiplied by different numbers")
    if not np.array_equal(value[..., : width // 2], sign * value[..., width // 2 :]):
        return refuse("halves are multiplied by different numbers")
    if batch > 2 and batch * value.size > MOST_ANGLES:
        return refuse("the angles of all batches are too many")
    half = value.reshape(shape)[:, 0, :, width // 2 :]
    return np.ascontiguousarray(np.broadcast_to(half, (batch, places, width // 2)))


def constant_angles(factor: DFPattern, sign: int = 1) -> Compute:
    return compute(lambda value, ty: angles_of(value, ty, sign), value_of(factor), type_of(x))


def are_of(found: TensorType, ty: TensorType) -> bool:
    """Guard: there are angles for each place of each batch."""
    return rank_of(found) == 3 and same_sizes(found.shape[:2], (ty.shape[0], ty.shape[2]))


def are_of_one(found: TensorType, ty: TensorType) -> bool:
    """Guard: there are angles for each place, which are the same in all of several batches."""
    known = isinstance(ty.shape[1], int) and ty.shape[1] != 0
    return known and rank_of(found) == 3 and same_sizes(found.shape[:2], (1, ty.shape[2])) and ty.shape[0] != 1


both = is_op("concatenate")(is_tuple((angles, angles)))
by_cos, by_sin = expand_dims(cos(both)), expand_dims(sin(both))


def puts_in_heads(joined: Attrs, *views: Attrs) -> bool:
    """Guard: angles are joined along their last axis, and an axis for the heads is added."""
    return joined.axis in (2, -1) and all(each.axis in (1, -3) and each.num_newaxis == 1 for each in views)


def embedding_by_angles(name: str, result: DFPattern, holds: Callable[[TensorType, TensorType], bool]) -> Rewrite:
    """x cos(angles) + turned sin(angles) = result, where angles are computed, and are the same for every head"""
    return rewrite(
        name,
        written_out(by_cos, by_sin),
        result,
        turns,
        when(puts_in_heads, attrs_of(both), attrs_of(by_cos), attrs_of(by_sin)),
        when(holds, type_of(angles), type_of(x)),
        soundness=Soundness.ROUNDING,
    )


cosines_low, cosines_high, sines_low, sines_high = variables("cosines_low cosines_high sines_low sines_high")
in_halves = is_op("concatenate")(
    is_tuple((first * cosines_low - second * sines_low, second * cosines_high + first * sines_high))
)


def joins_halves(cut: Attrs, joined: Attrs, ty: TensorType, *factors: TensorType) -> bool:
    """Guard: the last axis is cut in two halves and joined again; each element of a half has a factor of its own."""
    rank = rank_of(ty)
    if rank < 1 or {cut.axis, joined.axis} - {rank - 1, -1}:
        return False
    width, at = ty.shape[-1], cut.indices_or_sections
    if not isinstance(width, int) or width % 2 or at not in (2, (width // 2,)):
        return False
    if any(not 0 < rank_of(each) <= rank or each.shape[-1] != width // 2 for each in factors):
        return False
    return same_sizes(factors[0].shape, factors[1].shape) and same_sizes(factors[2].shape, factors[3].shape)


def factors_joined(low: DFPattern, high: DFPattern) -> DFPattern:
    """The factors of both halves, one after the other."""
    return like(in_halves, is_tuple((low, high)), axis=compute(lambda ty: rank_of(ty) - 1, type_of(low)))


tables = cos(angles), sin(angles)
batches_as_heads = reshape(x, newshape=compute(lambda ty: (1, -1, 0, ty.shape[3]), type_of(x)))
apart = transpose(x)
embedded, embedded_head = nn.rotary_embedding(apart, cosines, sines), nn.rotary_embedding(x, cosines, sines)

rotary = RuleSet(
    "rotary",
    [
        rewrite(
            "rotary-embedding",
            written_out(c, s),
            nn.rotary_embedding(x, constant_angles(c), constant_angles(s)),
            turns,
            soundness=Soundness.ROUNDING,
        ),
        # x c + (b, a) s, where s has the sign of the half
        rewrite(
            "rotary-embedding-by-signs",
            x * c + exchanged * s,
            nn.rotary_embedding(x, constant_angles(c), constant_angles(s, -1)),
            when(turns_halves, attrs_of(halves), attrs_of(exchanged), type_of(x)),
            soundness=Soundness.ROUNDING,
        ),
        # (a, b) of two halves: (a c - b s, b c' + a s') = (a, b) (c, c') + (-b, a) (s, s')
        rewrite(
            "rotary-in-halves",
            in_halves,
            x * factors_joined(cosines_low, cosines_high)
            + like(in_halves, is_tuple((negative(second), first))) * factors_joined(sines_low, sines_high),
            when(
                joins_halves,
                attrs_of(halves),
                attrs_of(in_halves),
                type_of(x),
                *map(type_of, (cosines_low, cosines_high, sines_low, sines_high)),
            ),
        ),
        embedding_by_angles("rotary-embedding-by-angles", nn.rotary_embedding(x, *tables), are_of),
        embedding_by_angles(
            "rotary-embedding-of-batches",
            reshape(
                nn.rotary_embedding(batches_as_heads, *tables),
                newshape=compute(lambda ty: (-1, ty.shape[1], 0, ty.shape[3]), type_of(x)),
            ),
            are_of_one,
        ),
        # T: (batch, place, head, element) to (batch, head, place, element); embed(T x) = T(split(embed(join x)))
        rewrite(
            "joined-rotary-embedding",
            embedded,
            heads_first(like(embedded, heads_joined(x), cosines, sines, heads=compute(head_count, type_of(x))), x),
            when(puts_heads_first, attrs_of(apart), type_of(x)),
        ),
        rewrite(
            "rotary-embedding-of-one-head",
            embedded_head,
            expand_dims(like(embedded_head, without_head(x), cosines, sines, heads=1), axis=1),
            when(is_of_one_head, type_of(x)),
        ),
    ],
)

"""Rotary embeddings of neighbours, and of some elements of each head.

GPT-J and its relatives turn neighbouring elements, (a, b) to (a cos - b sin, b cos + a sin), where others turn elements
of two halves. They write (-b, a) as two slices that are stacked: a gather with signs, which go to the sines.
"""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item
from eqsat.relay.op import expand_dims, negative, split, strided_slice, take, transpose
from eqsat.relay.op.index import slice_bounds
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import permutation
from eqsat.rules.joined_heads import MOST_ANGLES, WRITTEN
from eqsat.rules.operators import view
from eqsat.rules.types import floats_alike, rank_of, same_type

x, u, cosines, sines = variables("x u cosines sines")
indices, c, s = constants("indices c s")

LONGEST = 1 << 12
"""Elements along an axis of which neighbours are gathered."""

# ---- (-b, a) for neighbours a and b

second_ones, first_ones = strided_slice(x), strided_slice(x)
stacked = is_op("concatenate")(is_tuple((expand_dims(negative(second_ones)), expand_dims(first_ones))))
swapped = view(stacked)
weighted = swapped * u


def takes_every_second(attrs: Attrs, ty: TensorType, start: int) -> bool:
    """Whether a slice takes every second element of the last axis, from ``start`` on, and all along other axes."""
    rank, width = rank_of(ty), ty.shape[-1] if ty.shape else None
    if not isinstance(width, int) or width % 2 or not 0 < width <= LONGEST or attrs.slice_mode != "end":
        return False
    bounds = slice_bounds(attrs, rank)
    if [(axis, begin, stride) for axis, begin, _, stride in bounds] != [(rank - 1, start, 2)]:
        return False
    end = bounds[0][2]
    return end is None or end >= width - 1 + start


def are_neighbours(second: Attrs, first: Attrs, joined: Attrs, data: TensorType, stack: TensorType) -> bool:
    """Guard: the second of each two neighbours, then the first ones, are stacked along a new last axis."""
    slices = takes_every_second(second, data, 1) and takes_every_second(first, data, 0)
    return (
        slices and rank_of(stack) == rank_of(data) + 1 and joined.axis in (-1, rank_of(data)) and stack.shape[-1] == 2
    )


def exchanged(width: int) -> Array:
    """The places 1, 0, 3, 2, and so on."""
    return np.arange(width) ^ 1


def width_of(ty: TensorType) -> int:
    """The number of elements along the last axis, which is known."""
    return int(ty.shape[-1])  # type: ignore[arg-type]


def alternating(ty: TensorType) -> Array:
    """The signs of (-b, a)."""
    return np.resize(np.asarray([-1, 1], ty.dtype), width_of(ty))


neighbours = RuleSet(
    "neighbours",
    [
        # (-b, a) u = (b, a) (-1, 1) u
        rewrite(
            "neighbours-are-gathered",
            weighted,
            take(x, compute(lambda ty: exchanged(width_of(ty)), type_of(x)), axis=-1, mode="fast")
            * (u * compute(alternating, type_of(x))),
            when(
                are_neighbours,
                attrs_of(second_ones),
                attrs_of(first_ones),
                attrs_of(stacked),
                type_of(x),
                type_of(stacked),
            ),
            when(same_type, type_of(swapped), type_of(x)),
            floats_alike(x, u),
        ),
    ],
)

# ---- rotary embedding of neighbours by constants

taken = take(x, indices)
embedded_pairs = x * c + taken * s


def exchanges(attrs: Attrs, places: Array, ty: TensorType) -> bool:
    """Guard: a gather exchanges neighbours along the last of four axes."""
    if rank_of(ty) != 4 or ty.dtype not in WRITTEN or attrs.axis not in (-1, 3) or attrs.batch_dims:
        return False
    width = ty.shape[3]
    return isinstance(width, int) and width % 2 == 0 and bool(np.array_equal(places, exchanged(width)))


def angles_of(value: Array, ty: TensorType, heads: int, sign: int) -> Array | Refusal:
    """What pairs are multiplied by, one half of them ``sign`` times as much as the other: (batch, place, pair).

    Args:
        value: the constant factor.
        ty: the type of what is turned.
        heads: its axis of heads.
        sign: 1 for cosines, -1 for sines.
    """
    if not is_static(ty) or value.ndim > 4:
        return refuse("a dimension is not known")
    shape = (1,) * (4 - value.ndim) + value.shape
    batch, width, places = ty.concrete_shape[0], ty.concrete_shape[3], ty.concrete_shape[3 - heads]
    if shape[heads] != 1 or shape[3 - heads] != places or shape[3] != width:
        return refuse("heads are multiplied by different numbers")
    if not np.array_equal(value[..., ::2], sign * value[..., 1::2]):
        return refuse("neighbours are multiplied by different numbers")
    if batch > 2 and batch * value.size > MOST_ANGLES:
        return refuse("the angles of all batches are too many")
    each = value.reshape(shape).take(0, heads)[..., 1::2]
    return np.ascontiguousarray(np.broadcast_to(each, (batch, places, width // 2)))


def heads_outward(data: DFPattern) -> DFPattern:
    return transpose(data, axes=(0, 2, 1, 3))


def of_neighbours(name: str, heads: int) -> Rewrite:
    """x c + (-b, a) s = embed(x), with the heads along the axis ``heads`` of ``x``"""
    cosine = compute(lambda value, ty: angles_of(value, ty, heads, 1), value_of(c), type_of(x))
    sine = compute(lambda value, ty: angles_of(value, ty, heads, -1), value_of(s), type_of(x))
    if heads == 1:
        result = nn.rotary_embedding(x, cosine, sine, interleaved=True)
    else:
        result = heads_outward(nn.rotary_embedding(heads_outward(x), cosine, sine, interleaved=True))
    return rewrite(
        name,
        embedded_pairs,
        result,
        when(exchanges, attrs_of(taken), value_of(indices), type_of(x)),
        soundness=Soundness.ROUNDING,
    )


# ---- some elements of each head are turned, and joined with the others

parts = split(x)
turning, rest = is_tuple_get_item(parts, 0), is_tuple_get_item(parts, 1)
turned = transpose(turning)
embedded, embedded_turned = nn.rotary_embedding(turning, cosines, sines), nn.rotary_embedding(turned, cosines, sines)
turned_back = transpose(embedded_turned)


def some_of_all(
    cut: Attrs, joined: Attrs, embedding: Attrs, part: TensorType, other: TensorType, ty: TensorType
) -> bool:
    """Guard: of two parts of each head, the first one is turned, and they are joined again."""
    if rank_of(ty) != 4 or embedding.heads or embedding.width or {cut.axis, joined.axis} - {3, -1}:
        return False
    if not all(isinstance(each.shape[3], int) for each in (part, other, ty)):
        return False
    return width_of(part) + width_of(other) == width_of(ty)


def exchanges_places_and_heads(first: Attrs, second: Attrs) -> bool:
    return permutation(first, 4) == permutation(second, 4) == (0, 2, 1, 3)


width = compute(width_of, type_of(turning))


def partial(name: str, part: DFPattern, embedding: DFPattern, *turns: DFPattern) -> Rewrite:
    """concat(embed(a), b) = embed(x) of the elements a only, where x is (a, b)"""
    whole = is_op("concatenate")(is_tuple((part, rest)))
    if turns:
        result = heads_outward(like(embedding, heads_outward(x), cosines, sines, width=width))
    else:
        result = like(embedding, x, cosines, sines, width=width)
    types = type_of(turning), type_of(rest), type_of(x)
    return rewrite(
        name,
        whole,
        result,
        when(some_of_all, attrs_of(parts), attrs_of(whole), attrs_of(embedding), *types),
        *([when(exchanges_places_and_heads, *map(attrs_of, turns))] if turns else []),
    )


partly_turned = RuleSet(
    "partly-turned",
    [
        of_neighbours("rotary-embedding-of-neighbours", 1),
        of_neighbours("rotary-embedding-of-neighbours-behind-places", 2),
        partial("rotary-embedding-of-some", embedded, embedded),
        partial("rotary-embedding-of-some-behind-places", turned_back, embedded_turned, turned, turned_back),
    ],
)

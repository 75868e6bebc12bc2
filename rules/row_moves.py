"""What moves whole rows is a gather of rows, and so is one such move after another.

Windows of images are cut out and put back by views and transposes, and images are rolled by parts that are exchanged,
as in shifted-window attention: all of it moves the elements of each place of the image together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables
from eqsat.egraph.rule import RuleSet
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple, is_tuple_get_item
from eqsat.relay.op import concatenate, reshape, split, take, transpose
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.operators import permutation, rank_of
from eqsat.rules.shape import codes

MOST_ROWS = 1 << 15
"""Rows whose places are written down."""

SHORTEST = 8
"""Elements of a row, below which to gather them one by one takes longer than to move all."""

(x,) = variables("x")
i, j = constants("i j")

viewed = reshape(x)
turned = transpose(viewed)
picked = take(viewed, i)
gathered = take(x, i)
gathered_again = take(gathered, j)
halves = split(x)
low, high = is_tuple_get_item(halves, 0), is_tuple_get_item(halves, 1)
rolled = concatenate(is_tuple([high, low]))


def row_places(rows: TensorType, view: TensorType) -> Any:
    """The numbers of rows where these are in a view of them that keeps them whole."""
    if not is_static(rows) or not is_static(view) or rank_of(rows) != 2 or rank_of(view) < 3:
        return refuse("it is no view of rows, or a dimension is not known")
    if rows.shape[1] != view.shape[-1] or rows.concrete_shape[1] < SHORTEST:
        return refuse("rows are parted or joined, or short")
    if not 0 < rows.concrete_shape[0] <= MOST_ROWS:
        return refuse("there are no rows, or too many")
    return np.arange(rows.concrete_shape[0]).reshape(view.concrete_shape[:-1])


def moved_rows(root: DFPattern, move: Callable[..., Any], *how: Any) -> Any:
    """``root``, which moves a view of the rows ``x``, as a view of a gather of them.

    Args:
        root: what matched.
        move: the places of rows after the move, given those in the view and what ``how`` refers to.
        how: what else is known of the move.
    """

    def places(rows: TensorType, view: TensorType, *of: Any) -> Any:
        before = row_places(rows, view)
        after = move(before, *of) if isinstance(before, np.ndarray) else before
        return after.ravel() if isinstance(after, np.ndarray) else after

    moved = take(x, compute(places, type_of(x), type_of(viewed), *how), axis=0, mode="fast")
    return reshape(moved, newshape=compute(codes, type_of(root)))


def transposed(places: NDArray[Any], attrs: Any) -> Any:
    order = permutation(attrs, places.ndim + 1)
    return places.transpose(order[:-1]) if order[-1] == places.ndim else refuse("elements of a row are parted")


def taken(places: NDArray[Any], attrs: Any, indices: NDArray[Any]) -> Any:
    axis = _axis(attrs, places.ndim + 1)
    if axis is None or axis == places.ndim or indices.ndim != 1:
        return refuse("rows are parted, or there are other axes")
    if not are_within(indices, places.shape[axis]):
        return refuse("an index is out of range")
    return places.take(indices, axis)


def _axis(attrs: Any, rank: int) -> int | None:
    """The axis of a gather that counts from the front, if it has one and no batches."""
    return None if attrs.axis is None or attrs.batch_dims else attrs.axis % rank


def are_within(indices: NDArray[Any], length: int) -> bool:
    """Whether indices mean the same whatever becomes of those out of range."""
    return not np.any((indices < 0) | (indices >= length))


def roll(cut: Any, joined: Any, first: TensorType, second: TensorType) -> Any:
    """The places of what is the second part of an axis, then the first one."""
    axis = joined.axis % rank_of(first)
    if cut.axis % rank_of(first) != axis:
        return refuse("it is cut and joined along different axes")
    lengths = first.shape[axis], second.shape[axis]
    if not all(isinstance(length, int) for length in lengths):
        return refuse("a length is not known")
    behind = [dim for dim in first.shape[axis + 1 :] if isinstance(dim, int)]
    if prod(behind) < SHORTEST or sum(lengths) > MOST_ROWS:
        return refuse("what is moved together is short, or there is too much of it")
    return np.roll(np.arange(sum(lengths)), lengths[1])


def composed(inner: NDArray[Any], outer: NDArray[Any], first: Any, second: Any, ty: TensorType) -> Any:
    """The indices of a gather of a gather along the first axis of a tensor of type ``ty``."""
    if any(_axis(attrs, rank_of(ty)) != 0 for attrs in (first, second)) or inner.ndim != 1:
        return refuse("they are along other axes")
    return inner[outer] if are_within(outer, len(inner)) else refuse("an index is out of range")


row_moves = RuleSet(
    "row-moves",
    [
        # (b, a) of the parts a and b of an axis
        rewrite(
            "roll-is-gather",
            rolled,
            take(
                x,
                compute(roll, attrs_of(halves), attrs_of(rolled), type_of(low), type_of(high)),
                axis=compute(lambda attrs: attrs.axis, attrs_of(rolled)),
                mode="fast",
            ),
        ),
        # T view(rows) = view(rows[places])
        rewrite(
            "transpose-of-rows",
            turned,
            moved_rows(turned, transposed, attrs_of(turned)),
        ),
        # view(rows)[i] = view(rows[places])
        rewrite(
            "gather-of-rows",
            picked,
            moved_rows(picked, taken, attrs_of(picked), value_of(i)),
        ),
        # x[i][j] = x[i[j]]
        rewrite(
            "gather-of-gather",
            gathered_again,
            like(
                gathered,
                x,
                compute(composed, value_of(i), value_of(j), attrs_of(gathered), attrs_of(gathered_again), type_of(x)),
            ),
        ),
    ],
)

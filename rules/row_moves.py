"""Operators that move or repeat whole rows are gathers, and two gathers of rows are one.

Shifted-window attention cuts windows out of images and puts them back by views and transposes, and rolls images by
exchanging two parts. All of this moves the elements at each place of an image together. Channel shuffles exchange the
parts of one axis. Attention repeats the heads of keys and values for groups of queries; the gather that does it needs
no sizes, which an expansion may have had computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    distinct,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Ref, Refusal, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item
from eqsat.relay.op import concatenate, reshape, reverse, split, squeeze, take, transpose
from eqsat.relay.op.index import bounded
from eqsat.relay.ty import Dim, TensorType, is_static
from eqsat.rules.axes import permutation
from eqsat.rules.operators import view
from eqsat.rules.shape import expanded, reshaped
from eqsat.rules.types import rank_of
from eqsat.rules.values import attribute, computed_parts

x, sizes = variables("x sizes")
i, j = constants("i j")

# ---- rows

MOST_ROWS = 1 << 15
"""Rows whose places are written down."""

SHORTEST = 8
"""Elements of a row, below which to gather them one by one takes longer than to move all."""

viewed = reshape(x)
turned = transpose(viewed)
picked = take(viewed, i)
gathered = take(x, i)
gathered_again = take(gathered, j)
reversed_once = reverse(x)
reversed_twice = reverse(reversed_once)
halves = split(x)
low, high = is_tuple_get_item(halves, 0), is_tuple_get_item(halves, 1)
rolled = concatenate(is_tuple([high, low]))


def row_places(rows: TensorType, view: TensorType) -> Array | Refusal:
    """The number of the row at each place of a view that keeps rows whole."""
    if not is_static(rows) or not is_static(view) or rank_of(rows) != 2 or rank_of(view) < 3:
        return refuse("it is no view of rows, or a dimension is not known")
    if rows.shape[1] != view.shape[-1] or rows.concrete_shape[1] < SHORTEST:
        return refuse("rows are parted or joined, or short")
    if not 0 < rows.concrete_shape[0] <= MOST_ROWS:
        return refuse("there are no rows, or too many")
    return np.arange(rows.concrete_shape[0]).reshape(view.concrete_shape[:-1])


def moved_rows(root: DFPattern, move: Callable[..., Array | Refusal], *how: Ref) -> DFPattern:
    """A move of a view of the rows ``x``, which ``root`` matched, as a view of a gather of the rows.

    Args:
        root: the pattern of the move.
        move: gets the number of the row at each place of the view and what ``how`` refers to; returns these numbers
            after the move, or a refusal.
        how: what ``move`` needs of the match.
    """

    def places(rows: TensorType, view: TensorType, *of: object) -> Array | Refusal:
        before = row_places(rows, view)
        after = before if isinstance(before, Refusal) else move(before, *of)
        return after if isinstance(after, Refusal) else after.ravel()

    moved = take(x, compute(places, type_of(x), type_of(viewed), *how), axis=0, mode="fast")
    return reshaped(moved, root, is_matched=False)


def transposed(places: Array, attrs: Attrs) -> Array | Refusal:
    """The places after a transpose."""
    order = permutation(attrs, places.ndim + 1)
    return places.transpose(order[:-1]) if order[-1] == places.ndim else refuse("elements of a row are parted")


def taken(places: Array, attrs: Attrs, indices: Array) -> Array | Refusal:
    """The places after a gather."""
    axis = _axis(attrs, places.ndim + 1)
    if axis is None or axis == places.ndim or indices.ndim != 1:
        return refuse("rows are parted, or there are other axes")
    if not are_within(indices, places.shape[axis]):
        return refuse("an index is out of range")
    return places.take(indices, axis)


def _axis(attrs: Attrs, rank: int) -> int | None:
    """The axis of a gather, counted from the front; None where it has no axis, or has batches."""
    return None if attrs.axis is None or attrs.batch_dims else attrs.axis % rank


def are_within(indices: Array, length: int) -> bool:
    """Whether no index is out of range, so that the mode of the gather does not matter."""
    return not np.any((indices < 0) | (indices >= length))


def roll(cut: Attrs, joined: Attrs, first: TensorType, second: TensorType) -> Array | Refusal:
    """The indices of the second part of an axis, then those of the first one."""
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


def composed(inner: Array, outer: Array, first: Attrs, second: Attrs, ty: TensorType) -> Array | Refusal:
    """The indices of a gather of a gather along one axis of a tensor of type ``ty``."""
    axis = _axis(first, rank_of(ty))
    if axis is None or axis != _axis(second, rank_of(ty)) or inner.ndim != 1:
        return refuse("they are along different axes")
    places = bounded(outer, len(inner), second.mode) if second.mode != "fast" and len(inner) else outer
    return inner[places] if are_within(places, len(inner)) else refuse("an index is out of range")


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
                axis=attribute(rolled, "axis"),
                mode="fast",
            ),
        ),
        # T view(rows) = view(rows[places])
        rewrite("transpose-of-rows", turned, moved_rows(turned, transposed, attrs_of(turned))),
        # view(rows)[i] = view(rows[places])
        rewrite("gather-of-rows", picked, moved_rows(picked, taken, attrs_of(picked), value_of(i))),
        # x[i][j] = x[i[j]]
        rewrite(
            "gather-of-gather",
            gathered_again,
            like(
                gathered,
                x,
                compute(composed, value_of(i), value_of(j), attrs_of(gathered), attrs_of(gathered_again), type_of(x)),
            ),
            distinct(gathered_again, gathered, x),
            contracts=True,
        ),
        rewrite(
            "reverse-twice",
            reversed_twice,
            x,
            when(
                lambda once, again, ty: (once.axis - again.axis) % rank_of(ty) == 0,
                attrs_of(reversed_once),
                attrs_of(reversed_twice),
                type_of(x),
            ),
            contracts=True,
        ),
    ],
)


# ---- parts of one axis that are exchanged

LEAST_ROW = 16
"""Elements that must move together: fewer are transposed faster than gathered."""
MOST_INDICES = 1 << 14

parts = view(x)
exchanged = transpose(parts)
joined = view(exchanged)


def known(dims: Sequence[Dim]) -> list[int] | None:
    """Dimensions as numbers, None where some are unknown."""
    numbers = [dim for dim in dims if isinstance(dim, int)]
    return numbers if len(numbers) == len(dims) else None


def shuffle(attrs: Attrs, split: TensorType, whole: TensorType) -> tuple[int, Array] | Refusal:
    """The axis of ``whole`` that a transpose shuffles after a reshape to ``split``, and the indices in new order."""
    order = permutation(attrs, rank_of(split))
    moved = [place for place, axis in enumerate(order) if place != axis]
    if not moved:
        return refuse("nothing is exchanged")
    first, last = moved[0], moved[-1] + 1
    middle, rest = known(split.shape[first:last]), known(split.shape[last:])
    if not middle or rest is None or 0 in (*middle, *rest):
        return refuse("an axis that moves is of unknown length, or nothing is there")
    count, row = prod(middle), prod(rest)
    if row < LEAST_ROW or count > MOST_INDICES:
        return refuse("single elements move, or there are too many")
    for axis in range(rank_of(whole)):
        after = known(whole.shape[axis + 1 :])
        if whole.shape[axis] == count and after is not None and prod(after) == row:
            indices = np.arange(count).reshape(middle).transpose([each - first for each in order[first:last]])
            return axis, indices.reshape(-1)
    return refuse("more than one axis is shuffled")


found = computed_parts(shuffle, attrs_of(exchanged), type_of(parts), type_of(x))

shuffles = RuleSet(
    "shuffles",
    [
        rewrite(
            "shuffle-is-gather",
            joined,
            reshaped(take(x, found(1), axis=found(0), mode="fast"), joined, is_matched=False),
        )
    ],
)


# ---- a new axis that is expanded, then joined with another one


def repeats(whole: TensorType, spread: TensorType, result: TensorType) -> tuple[tuple[int], int, Array] | Refusal:
    """The axis of one element, the axis along which the result repeats the rest, and the indices that do it.

    Args:
        whole: the tensor, with an axis of one element more.
        spread: with that axis expanded.
        result: with that axis as a part of the one before it (each element is repeated) or behind it (all are).
    """
    added = [axis for axis, (one, many) in enumerate(zip(whole.shape, spread.shape, strict=False)) if one != many]
    if len(added) != 1 or rank_of(spread) != rank_of(whole) or rank_of(result) != rank_of(whole) - 1:
        return refuse("it is not expanded along one axis that is joined then")
    (new,) = added
    if whole.shape[new] != 1:
        return refuse("a dimension is not known")
    shape, times = whole.shape[:new] + whole.shape[new + 1 :], spread.shape[new]
    for axis, pick in ((new - 1, np.repeat), (new, np.tile)):
        if not 0 <= axis < len(shape):
            continue
        length = shape[axis]
        if not isinstance(length, int) or not isinstance(times, int) or not 1 < length * times <= MOST_INDICES:
            continue
        if result.shape == (*shape[:axis], length * times, *shape[axis + 1 :]):
            row = known(shape[axis + 1 :])
            if row is not None and prod(row) < SHORTEST:
                return refuse("single elements are repeated")
            return (new,), axis, pick(np.arange(length), times)
    return refuse("the new axis joins none of a known length")


def repeated(name: str, spread: DFPattern) -> Rewrite:
    """reshape(expand(x)) = take(squeeze(x), (0, 0, 1, 1), axis)"""
    joined = view(spread)
    found = computed_parts(repeats, type_of(x), type_of(spread), type_of(joined))
    return rewrite(name, joined, take(squeeze(x, axis=found(0)), found(2), axis=found(1), mode="fast"))


def is_one_row(attrs: Attrs, data: TensorType, places: TensorType) -> bool:
    """Guard: a gather takes the only row that there is, several times."""
    rank = rank_of(data)
    return rank > 0 and attrs.axis is not None and data.shape[attrs.axis % rank] == 1 and rank_of(places) == 1


repeating = RuleSet(
    "repeating",
    [
        rewrite(
            "gather-of-one-row",
            gathered,
            expanded(x, gathered),
            when(is_one_row, attrs_of(gathered), type_of(x), type_of(i)),
        ),
        repeated("repeat-is-gather", is_op("broadcast_to")(x)),
        repeated("dynamic-repeat-is-gather", is_op("dyn.broadcast_to")(x, sizes)),
    ],
)

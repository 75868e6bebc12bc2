"""Slices and splits of tensors, and single elements and sizes that are picked from them.

What a slice takes of an axis is a Python ``range``: a slice of a slice is a slice of ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    index_of,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.group_rules import GroupRule, NodeMap
from eqsat.egraph.rule import Array, Ref, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple_get_item
from eqsat.relay.expr import Call, Expr, Op, TupleGetItem
from eqsat.relay.op import expand_dims, shape_of, split, strided_slice, take
from eqsat.relay.op.index import slice_bounds
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.rearrange import ndarray_size
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.shape import reshaped
from eqsat.rules.types import Shape, rank_of, static_shape
from eqsat.rules.values import computed_parts

(x,) = variables("x")
(i,) = constants("i")

Ranges = dict[int, range]
"""Which elements of each axis are taken; axes that are not named are whole."""


def ranges(attrs: Attrs, ty: TensorType) -> Ranges | Refusal:
    """What a strided slice of a tensor of type ``ty`` takes."""
    found = {}
    for axis, begin, end, stride in slice_bounds(attrs, rank_of(ty)):
        dim = ty.shape[axis]
        if not isinstance(dim, int) or stride < 0:
            return refuse("the length of an axis is not known, or it is reversed")
        last = None if end is None or end > dim else end
        found[axis] = range(dim)[begin:last:stride]
    return found


def in_one_form(taken: range) -> range:
    """The same places as a range that is the same for all ways to take them: slices of slices would be many."""
    if len(taken) < 2:
        return range(taken.start, taken.start + len(taken))
    return range(taken.start, taken[-1] + 1, taken.step)


def cut(of: DFPattern, function: Callable[..., Ranges | Refusal], *refs: Ref) -> DFPattern:
    """A slice of ``of`` by the ranges that ``function`` finds from what ``refs`` refer to."""

    def bounds(*given: object) -> tuple[Shape, ...] | Refusal:
        found = function(*given)
        if isinstance(found, Refusal):
            return found
        every = [*map(in_one_form, found.values())]
        begins, ends, steps = ([getattr(taken, name) for taken in every] for name in ("start", "stop", "step"))
        return tuple(begins), tuple(ends), tuple(steps), tuple(found)

    part = computed_parts(bounds, *refs)
    return strided_slice(of, begin=part(0), end=part(1), strides=part(2), axes=part(3))


def slice_of_slice(first: Attrs, second: Attrs, ty: TensorType, between: TensorType) -> Ranges | Refusal:
    """What a slice of a slice takes, both along the axes of the tensor of type ``ty``."""
    inner, outer = ranges(first, ty), ranges(second, between)
    if isinstance(inner, Refusal):
        return inner
    if isinstance(outer, Refusal):
        return outer
    both: Ranges = {}
    for axis in sorted({*inner, *outer}):
        dim = ty.shape[axis]
        if not isinstance(dim, int):
            return refuse("the length of an axis is not known")
        taken, again = inner.get(axis, range(dim)), outer.get(axis)
        both[axis] = taken if again is None else taken[again.start : again.stop : again.step]
    return both


def keeps_order(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: nothing is reversed, so that a slice that keeps the type keeps everything."""
    return all(stride > 0 for *_, stride in slice_bounds(attrs, rank_of(ty)))


def in_order(attrs: Attrs, whole: TensorType) -> Ranges | Refusal:
    """What a slice takes of the axes that it does not take in full."""
    found = ranges(attrs, whole)
    if isinstance(found, Refusal):
        return found
    parts = {axis: taken for axis, taken in sorted(found.items()) if len(taken) != whole.shape[axis]}
    return parts or refuse("it takes everything")


def split_part(index: int, attrs: Attrs, ty: TensorType) -> Ranges | Refusal:
    """What part ``index`` of a split takes."""
    axis = axis_index(attrs.axis, rank_of(ty))
    dim, where = ty.shape[axis], attrs.indices_or_sections
    if not isinstance(dim, int):
        return refuse("the length of the axis is not known")
    if isinstance(where, int):
        return {axis: range(dim)[index * (dim // where) : (index + 1) * (dim // where)]}
    start = where[index - 1] if index else 0
    end = where[index] if index < len(where) else dim
    return {axis: range(dim)[start:end]}


inner, parts = strided_slice(x), split(x)
outer = strided_slice(inner)
part = is_tuple_get_item(parts)

slices = RuleSet(
    "slices",
    [
        rewrite(
            "slice-of-slice",
            outer,
            cut(x, slice_of_slice, attrs_of(inner), attrs_of(outer), type_of(x), type_of(inner)),
        ),
        # one form of slices that take the same: else those of which n are joined would be joined in 2^n ways
        rewrite("axes-of-slice-in-order", inner, cut(x, in_order, attrs_of(inner), type_of(x)), contracts=True),
        rewrite("slice-nothing", inner, x, when(keeps_order, attrs_of(inner), type_of(x)), contracts=True),
        rewrite("split-is-slice", part, cut(x, split_part, index_of(part), attrs_of(parts), type_of(x))),
    ],
)

# ---- single places, and sizes


def is_first(index: Array) -> bool:
    """Guard: all indices mean the first place of an axis of one element."""
    return bool(np.all((index == 0) | (index == -1)))


def takes_the_only(attrs: Attrs, ty: TensorType, index: TensorType) -> bool:
    """Guard: one element is gathered from an axis of one element."""
    if attrs.axis is None or attrs.batch_dims or 0 in index.shape or any(dim != 1 for dim in index.shape):
        return False
    return ty.shape[axis_index(attrs.axis, rank_of(ty))] == 1


def only_index(index: Array, ty: TensorType, of: TensorType, attrs: Attrs) -> Ranges | Refusal:
    """What a gather by a single number takes: one place of an axis."""
    if index.size != 1 or rank_of(ty) or attrs.axis is None or attrs.batch_dims:
        return refuse("it picks more than one place")
    axis = axis_index(attrs.axis, rank_of(of))
    dim, place = of.shape[axis], int(index.item())
    if not isinstance(dim, int) or not dim or (attrs.mode == "fast" and not -dim <= place < dim):
        return refuse("the place may not be there")
    first = min(max(place, 0), dim - 1) if attrs.mode == "clip" else place % dim
    return {axis: range(first, first + 1)}


def index_range(index: Array, ty: TensorType, of: TensorType, attrs: Attrs) -> Ranges | Refusal:
    """What a gather takes by a list of places, each as far from the one before it."""
    if not index.size or rank_of(ty) != 1 or attrs.axis is None or attrs.batch_dims:
        return refuse("it picks no list of places")
    axis = axis_index(attrs.axis, rank_of(of))
    dim = of.shape[axis]
    first = 0 if attrs.mode == "clip" else -1  # clipped, -1 is the first place
    if not isinstance(dim, int) or index.min() < first * dim or index.max() >= dim:
        return refuse("a place may not be there")
    places = index.astype(np.int64) % dim
    steps = np.unique(np.diff(places))
    if len(steps) > 1 or np.any(steps <= 0):
        return refuse("the places do not follow each other in equal steps")
    return {axis: range(int(places[0]), int(places[-1]) + 1, int(steps[0]) if len(steps) else 1)}


def same_place(attrs: Attrs, pick: Attrs, ty: TensorType) -> bool:
    """Guard: an axis is put in where a gather took one away."""
    if pick.axis is None or attrs.num_newaxis != 1:
        return False
    return bool(attrs.axis % rank_of(ty) == axis_index(pick.axis, rank_of(ty)))


gathered = take(x, i)
kept = expand_dims(gathered)
asked = shape_of(x)
counted = ndarray_size(x)


def shape_value(attrs: Attrs, ty: Type) -> Array | Refusal:
    """The value of ``shape_of``."""
    found = static_shape(ty)
    return np.asarray(found, attrs.dtype) if isinstance(found, tuple) else found


def size_value(attrs: Attrs, ty: Type) -> Array | Refusal:
    """The value of ``ndarray_size``."""
    found = static_shape(ty)
    return np.asarray(np.prod(found, dtype=np.int64), attrs.dtype) if isinstance(found, tuple) else found


gathers = RuleSet(
    "gathers",
    [
        rewrite(
            "gather-the-only",
            gathered,
            reshaped(x, gathered),
            when(is_first, value_of(i)),
            when(takes_the_only, attrs_of(gathered), type_of(x), type_of(i)),
        ),
        # expand(x[i]) = x[i:i+1]
        rewrite(
            "pick-is-slice",
            kept,
            cut(x, only_index, value_of(i), type_of(i), type_of(x), attrs_of(gathered)),
            when(same_place, attrs_of(kept), attrs_of(gathered), type_of(x)),
        ),
        # x[[2, 4, 6]] = x[2:7:2]
        rewrite(
            "gather-is-slice", gathered, cut(x, index_range, value_of(i), type_of(i), type_of(x), attrs_of(gathered))
        ),
        rewrite("shape-is-known", asked, compute(shape_value, attrs_of(asked), type_of(x))),
        rewrite("size-is-known", counted, compute(size_value, attrs_of(counted), type_of(x))),
    ],
)

# ---- slices that divide an axis, as of a gated unit or of queries, keys and values, are one split


def division(ty: TensorType, *slices: Attrs) -> tuple[Shape, int] | Refusal:
    """Where slices divide an axis, and that axis."""
    found = [ranges(attrs, ty) for attrs in slices]
    known = [each for each in found if isinstance(each, dict)]
    parts = [{axis: part for axis, part in each.items() if len(part) != ty.shape[axis]} for each in known]
    if len(parts) < len(slices):
        return refuse("what the slices take is not known")
    axes = {axis for part in parts for axis in part}
    if len(axes) != 1 or not all(parts):
        return refuse("the slices do not take parts of one axis")
    (axis,) = axes
    taken = [part[axis] for part in parts]
    starts, stops = [part.start for part in taken], [part.stop for part in taken]
    if any(part.step != 1 for part in taken) or [*starts, ty.shape[axis]] != [0, *stops]:
        return refuse("the slices do not follow each other, or leave something out")
    return tuple(starts[1:]), axis


beginning, ending = strided_slice(x).has_attr({"begin": (0,)}), strided_slice(x)
found = computed_parts(division, type_of(x), attrs_of(beginning), attrs_of(ending))
halves = split(x, indices_or_sections=found(0), axis=found(1))

THIRDS = range(3)


def third(index: int, ty: TensorType, attrs: Attrs) -> tuple[Shape, int] | Refusal:
    """Where an axis is divided into three, and that axis, if a slice takes part ``index`` of it."""
    found = ranges(attrs, ty)
    if isinstance(found, Refusal):
        return found
    parts = {axis: part for axis, part in found.items() if len(part) != ty.shape[axis]}
    if len(parts) != 1:
        return refuse("the slice does not take a part of one axis")
    ((axis, part),) = parts.items()
    width = len(part)
    if not width or part.step != 1 or ty.shape[axis] != 3 * width or part.start != index * width:
        return refuse("the slice does not take this third")
    return (width, 2 * width), axis


def third_of_split(index: int) -> Rewrite:
    """x[a:2a] = split(x)[1], of three parts: looked for one by one, since a tensor may have thousands of slices"""
    whole = strided_slice(x)
    where = computed_parts(partial(third, index), type_of(x), attrs_of(whole))
    parts = split(x, indices_or_sections=where(0), axis=where(1))
    return rewrite(f"third-{index}-of-split", whole, is_tuple_get_item(parts, index))


def divided(whole: Expr, lengths: Sequence[int], axis: int) -> list[Expr]:
    """``whole`` cut into parts of these lengths."""
    cuts = tuple(accumulate(lengths))[:-1]
    parts = Call(Op.get("split"), [whole], make_attrs(Op.get("split"), {"indices_or_sections": cuts, "axis": axis}))
    return [TupleGetItem(parts, index) for index in range(len(lengths))]


def part_of_axis(node_map: NodeMap) -> tuple[int, range] | Refusal:
    """The axis of which the slice of a match takes a part, and that part."""
    call: Any = node_map[inner][0]
    found = in_order(call.attrs, call.args[0]._checked_type)
    if isinstance(found, Refusal):
        return found
    if len(found) != 1 or any(part.step != 1 or not part for part in found.values()):
        return refuse("the slice does not take a part of one axis")
    ((axis, part),) = found.items()
    return axis, part


def axis_of_part(node_map: NodeMap) -> int | Refusal:
    """The axis of which a slice takes a part: slices of one axis may divide it."""
    found = part_of_axis(node_map)
    return found if isinstance(found, Refusal) else found[0]


def finest_division(parts: Sequence[range], whole: range) -> list[int]:
    """Which of some parts, one after the other, are ``whole``: the most that are.

    Empty if there are none. Of parts that start at one place the shortest is taken that leads to the end.
    """
    following = {whole.stop: -1}  # where the end is reached from -> the part that begins there
    for index in sorted(range(len(parts)), key=lambda index: (-parts[index].start, len(parts[index]))):
        if parts[index].stop in following:
            following.setdefault(parts[index].start, index)
    found, place = list[int](), whole.start
    while place in following and place < whole.stop:
        found.append(following[place])
        place = parts[found[-1]].stop
    return found


MOST_NESTED = 64
"""Slices of one axis of which those within each other are looked for."""


def divided_by(node_maps: Sequence[NodeMap]) -> list[list[Expr]] | Refusal:
    """The slices as parts of splits: of the axis, where three or more divide it, and of the slice around them."""
    whole: Any = node_maps[0][x][0]
    slices = [node_map[inner][0] for node_map in node_maps]
    ((axis, *_), parts) = zip(*map(part_of_axis, node_maps), strict=True)
    results: list[list[Expr]] = [[] for _ in slices]

    def divide(source: Expr, found: Sequence[int]) -> None:
        for index, part in zip(found, divided(source, [len(parts[each]) for each in found], axis), strict=True):
            results[index].append(part)

    found = finest_division(parts, range(whole._checked_type.shape[axis]))
    if len(found) > 2:
        divide(whole, found)
    within = set[int]()
    for index in sorted(range(len(parts)), key=lambda index: (len(parts[index]), parts[index].start)):
        others = [range(0) if part == parts[index] else part for part in parts]
        found = finest_division(others, parts[index]) if len(parts) <= MOST_NESTED else []
        if found and within.isdisjoint(found):
            within.update(found)
            divide(slices[index], found)
    return results if any(results) else refuse("the slices divide neither the axis nor each other")


def part_of_split(node_map: NodeMap, merged: Expr) -> Expr | Refusal:
    """A slice as the part of a split into which ``merged`` divides the same axis."""
    found = part_of_axis(node_map)
    if isinstance(found, Refusal):
        return found
    axis, part = found
    whole: Any = node_map[x][0]
    parts = merged.tuple_value if isinstance(merged, TupleGetItem) else None
    if not isinstance(merged, TupleGetItem) or not isinstance(parts, Call) or parts.op is not Op.get("split"):
        return refuse("it is no part of a split")
    start, source, ty = 0, whole, whole._checked_type
    cut = parts.args[0]
    if isinstance(cut, Call) and cut.attrs is not None and cut._checked_type not in (None, ty):  # a slice of the whole
        around = in_order(cut.attrs, ty)
        if isinstance(around, Refusal) or [*around] != [axis]:
            return refuse("it is no part of a split of a slice along the same axis")
        start, source, ty = around[axis].start, Call(cut.op, [whole], cut.attrs), cut._checked_type
    place = refuse("it has no attributes") if parts.attrs is None else split_part(merged.index, parts.attrs, ty)
    if place != {axis: range(part.start - start, part.stop - start)}:
        return refuse("the split has other parts")
    return TupleGetItem(Call(parts.op, [source], parts.attrs), merged.index)


partitions = RuleSet(
    "partitions",
    [
        *map(third_of_split, THIRDS),
        # x[:a], x[a:b], …, x[c:] are the parts of one split, x[a:b] and x[b:c] of one of x[a:c]
        GroupRule(
            "parts-are-split",
            inner,
            soundness=Soundness.EXACT,
            shared=(x,),
            key=axis_of_part,
            merge=divided_by,
            alone=part_of_split,
        ),
        # x[:a] and x[a:] are the parts of one split
        rewrite("halves-are-split", (beginning, ending), tuple([is_tuple_get_item(halves, index) for index in (0, 1)])),
    ],
)

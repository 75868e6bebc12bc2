"""Parts of tensors and tensors joined: slices, splits, concatenations, gathers.

A slice of an axis is a Python ``range``: ranges compose by slicing ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    distinct,
    index_of,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Ref, Refusal, RuleSet
from eqsat.egraph.vocabulary import is_exact
from eqsat.errors import TypeCheckError
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item, many, wildcard
from eqsat.relay.expr import Expr, const
from eqsat.relay.op import (
    concatenate,
    expand_dims,
    greater,
    shape_of,
    split,
    strided_slice,
    take,
    where,
)
from eqsat.relay.op.index import slice_bounds
from eqsat.relay.op.rearrange import ndarray_size
from eqsat.relay.op.types import axis_index, broadcast_shape
from eqsat.relay.ty import Dim, TensorType, Type
from eqsat.rules.operators import binary, rank_of, unary
from eqsat.rules.operators import shape_of as static_shape
from eqsat.rules.shape import reshaped

x, y, z, sizes = variables("x y z sizes")
i, c, d = constants("i c d")

JOINED = ("abs", "cast", "clip", "exp", "nn.gelu", "nn.leaky_relu", "nn.relu", "sigmoid", "sqrt", "tanh")
"""Operators that networks apply to branches before they join."""

Ranges = dict[int, range]
"""Which elements of each axis are taken; axes that are not named are whole."""


def ranges(attrs: Any, ty: TensorType) -> Ranges | Refusal:
    """What a strided slice of a tensor of type ``ty`` takes."""
    found = {}
    for axis, begin, end, stride in slice_bounds(attrs, rank_of(ty)):
        dim = ty.shape[axis]
        if not isinstance(dim, int) or stride < 0:
            return refuse("the length of an axis is not known, or it is reversed")
        last = None if end is None or end > dim else end
        found[axis] = range(dim)[begin:last:stride]
    return found


def cut(of: Any, function: Callable[..., Any], *refs: Ref) -> Any:
    """``of`` sliced by the ranges that ``function`` finds."""

    def part(pick: Callable[[range], int]) -> Any:
        def pick_all(*found: Any) -> Any:
            result = function(*found)
            return tuple(map(pick, result.values())) if isinstance(result, dict) else result

        return compute(pick_all, *refs)

    def axes(*found: Any) -> Any:
        result = function(*found)
        return tuple(result) if isinstance(result, dict) else result

    return strided_slice(
        of,
        begin=part(lambda r: r.start),
        end=part(lambda r: max(r.stop, r.start)),
        strides=part(lambda r: r.step),
        axes=compute(axes, *refs),
    )


# ---- slices


def slice_of_slice(first: Any, second: Any, ty: TensorType, between: TensorType) -> Any:
    inner, outer = ranges(first, ty), ranges(second, between)
    if not isinstance(inner, dict) or not isinstance(outer, dict):
        return inner if not isinstance(inner, dict) else outer
    both: Ranges = {}
    for axis in sorted({*inner, *outer}):
        dim = ty.shape[axis]
        if not isinstance(dim, int):
            return refuse("the length of an axis is not known")
        taken, again = inner.get(axis, range(dim)), outer.get(axis)
        both[axis] = taken if again is None else taken[again.start : again.stop : again.step]
    return both


def keeps_order(attrs: Any, ty: TensorType) -> bool:
    """Guard: a slice of the same type is the same."""
    return all(stride > 0 for *_, stride in slice_bounds(attrs, rank_of(ty)))


def split_part(index: int, attrs: Any, ty: TensorType) -> Any:
    """The range of part ``index`` of a split."""
    axis = axis_index(attrs.axis, rank_of(ty))
    dim, where = ty.shape[axis], attrs.indices_or_sections
    if not isinstance(dim, int):
        return refuse("the length of the axis is not known")
    if isinstance(where, int):
        return {axis: range(dim)[index * (dim // where) : (index + 1) * (dim // where)]}
    ends = (0, *where, dim)
    return {axis: range(dim)[ends[index] : ends[index + 1]]}


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
        rewrite("slice-nothing", inner, x, when(keeps_order, attrs_of(inner), type_of(x))),
        rewrite("split-is-slice", part, cut(x, split_part, index_of(part), attrs_of(parts), type_of(x))),
    ],
)

# ---- concatenations


field, before, after, rest = variables("field before after rest")


def same_axes(outer: Any, inner: Sequence[Any], ty: TensorType) -> bool:
    """Guard: concatenations within one of a tensor of type ``ty`` are along its axis."""
    return {axis_index(attrs.axis, rank_of(ty)) for attrs in (outer, *inner)} == {axis_index(outer.axis, rank_of(ty))}


inside = many(wildcard())
nested = concatenate(is_tuple([inside]))
nest = concatenate(is_tuple([many(rest, some=nested)]))


whole = concatenate(is_tuple([many(before), field, many(after)]))
sliced = strided_slice(whole)


def slice_of_part(attrs: Any, concat: Any, whole: TensorType, before: Sequence[TensorType], field: TensorType) -> Any:
    """What a slice of a concatenation takes of the field behind some others, if it takes nothing of another one."""
    axis = axis_index(concat.axis, rank_of(whole))
    found = ranges(attrs, whole)
    if not isinstance(found, dict):
        return found
    *lengths, length = [ty.shape[axis] for ty in (*before, field)]
    taken = found.get(axis)
    if not taken or not isinstance(length, int) or not all(isinstance(each, int) for each in lengths):
        return refuse("it takes no part of the joined axis")
    offset = sum([each for each in lengths if isinstance(each, int)])
    if taken[0] < offset or taken[-1] >= offset + length:
        return refuse("it takes more than one part")
    return {**found, axis: range(length)[taken[0] - offset : taken[-1] - offset + 1 : taken.step]}


piece = strided_slice(x)
row = concatenate(is_tuple([many(piece, shared=[x])]))


def joined_ranges(concat: Any, ty: TensorType, slices: Sequence[Any]) -> Any:
    """What slices of one tensor that follow each other take together."""
    axis = axis_index(concat.axis, rank_of(ty))
    dim = ty.shape[axis]
    every = [ranges(each, ty) for each in slices]
    if not isinstance(dim, int) or not all(isinstance(each, dict) for each in every):
        return refuse("what a slice takes is not known")
    along = [each.pop(axis, range(dim)) for each in every]  # type: ignore[union-attr]
    step = along[0].step
    if any(each != every[0] for each in every) or not all(along) or any(len(r) > 1 and r.step != step for r in along):
        return refuse("the slices differ in other axes")
    if any(then[0] != before[-1] + step for before, then in pairwise(along)):
        return refuse("the slices do not follow each other")
    return {**every[0], axis: range(along[0][0], along[-1][-1] + 1, step)}  # type: ignore[dict-item]


def concat_of(name: str) -> Any:
    """concat(f x, f y, ..) = f concat(x, y, ..)"""
    call = is_op(name)(field)
    whole = concatenate(is_tuple([many(call)]))
    return rewrite(
        f"concat-of-{name}",
        whole,
        like(call, like(whole, is_tuple([many(field)]))),
        when(all_same, attrs_of(call)),
        when(one_dtype, type_of(field)),
    )


def all_same(values: Sequence[Any]) -> bool:
    """Guard: attributes of all fields are the same."""
    return all(value == values[0] for value in values)


def one_dtype(types: Sequence[TensorType]) -> bool:
    """Guard: all fields have the same element type."""
    return len({ty.dtype for ty in types}) == 1


alone = concatenate(is_tuple([x]))

concats = RuleSet(
    "concats",
    [
        rewrite("concat-one", alone, x),
        # concat(.., concat(x, y, ..), ..) = concat(.., x, y, .., ..)
        rewrite(
            "flatten-concat",
            nest,
            like(nest, is_tuple([many(rest, some=inside)])),
            when(same_axes, attrs_of(nest), attrs_of(nested), type_of(nest)),
            distinct(nest, nested),
        ),
        # concat(.., x, ..)[a:b] = x[a-n:b-n] where nothing of the others is taken
        rewrite(
            "slice-of-concat",
            sliced,
            cut(
                field,
                slice_of_part,
                attrs_of(sliced),
                attrs_of(whole),
                type_of(whole),
                type_of(before),
                type_of(field),
            ),
        ),
        # concat(x[a:b], x[b:c], ..) = x[a:c]
        rewrite(
            "concat-of-slices",
            row,
            cut(x, joined_ranges, attrs_of(row), type_of(x), attrs_of(piece)),
        ),
        *map(concat_of, JOINED),
    ],
)

# ---- gathers and shapes


def is_first(index: Any) -> bool:
    """Whether an index, or all of some, mean the first of one element."""
    return bool(np.all((index == 0) | (index == -1)))


def takes_the_only(attrs: Any, ty: TensorType, index: TensorType) -> bool:
    """Whether one element is gathered from an axis of one."""
    if attrs.axis is None or attrs.batch_dims or 0 in index.shape or any(dim != 1 for dim in index.shape):
        return False
    return ty.shape[axis_index(attrs.axis, rank_of(ty))] == 1


def only_index(index: Any, ty: TensorType, of: TensorType, attrs: Any) -> Any:
    """The axis and the place that a single number picks."""
    if index.size != 1 or rank_of(ty) or attrs.axis is None or attrs.batch_dims:
        return refuse("it picks more than one place")
    axis = axis_index(attrs.axis, rank_of(of))
    dim, place = of.shape[axis], int(index.item())
    if not isinstance(dim, int) or not (0 if attrs.mode == "clip" else -dim) <= place < dim:
        return refuse("the place may not be there")
    return {axis: range(dim)[place % dim : place % dim + 1]}


def same_place(attrs: Any, pick: Any, ty: TensorType) -> bool:
    """Guard: an axis is put in where one was picked from."""
    if pick.axis is None or attrs.num_newaxis != 1:
        return False
    return bool(attrs.axis % rank_of(ty) == axis_index(pick.axis, rank_of(ty)))


gathered = take(x, i)
kept = expand_dims(gathered)
asked = shape_of(x)
counted = ndarray_size(x)


def shape_value(attrs: Any, ty: Type) -> Any:
    found = static_shape(ty)
    return np.asarray(found, attrs.dtype) if isinstance(found, tuple) else found


def size_value(attrs: Any, ty: Type) -> Any:
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
        rewrite("shape-is-known", asked, compute(shape_value, attrs_of(asked), type_of(x))),
        rewrite("size-is-known", counted, compute(size_value, attrs_of(counted), type_of(x))),
    ],
)

# ---- what broadcasts by itself


def broadcasts(root: TensorType, *operands: TensorType) -> bool:
    """Whether operands of these types broadcast to the root's shape by themselves."""
    shape: tuple[Dim, ...] = ()
    try:
        for ty in operands:
            shape = broadcast_shape(shape, ty.shape)
    except TypeCheckError:
        return False
    return is_exact(root) and shape == root.shape


def absorbed(name: str, spread: DFPattern, *rest: Any) -> list[Any]:
    """What takes in an expansion, or lets it through.

    Args:
        name: of the expansion.
        spread: its pattern: ``x``, expanded.
        rest: its arguments beside ``x``.
    """
    first, second, applied = binary(spread, y), binary(y, spread), unary(spread)
    choices = {
        "condition": (where(spread, y, z), (x, y, z)),
        "choice": (where(y, spread, z), (y, x, z)),
        "other-choice": (where(y, z, spread), (y, z, x)),
    }
    selected = where(spread, c, d)

    return [
        rewrite(
            f"{name}-into-first-operand",
            first,
            like(first, x, y),
            when(broadcasts, type_of(first), type_of(x), type_of(y)),
        ),
        rewrite(
            f"{name}-into-second-operand",
            second,
            like(second, y, x),
            when(broadcasts, type_of(second), type_of(y), type_of(x)),
        ),
        *[
            rewrite(
                f"{name}-into-{place}",
                call,
                where(*operands),
                when(broadcasts, type_of(call), *map(type_of, operands)),
            )
            for at, (place, (call, operands)) in enumerate(choices.items())
        ],
        # f(expand(x)) = expand(f(x))
        rewrite(
            f"{name}-after-function",
            applied,
            like(spread, like(applied, x), *rest),
        ),
        rewrite(
            f"{name}-after-choice",
            selected,
            like(spread, where(x, c, d), *rest),
            when(are_scalars, type_of(c), type_of(d)),
        ),
    ]


def are_scalars(*types: TensorType) -> bool:
    return not any(ty.shape for ty in types)


def _operands(place: int, spread: Expr, other: Expr) -> list[Expr]:
    """Operands of ``where``, ``spread`` at a place."""
    return [spread if at == place else other if at else greater(other, const(0.0)) for at in range(3)]


broadcasting = RuleSet(
    "broadcasting",
    [
        absorbed("expand", is_op("broadcast_to")(x)),
        absorbed("dynamic-expand", is_op("dyn.broadcast_to")(x, sizes), sizes),
    ],
)

joining = RuleSet("joining", [slices, concats, gathers, broadcasting])

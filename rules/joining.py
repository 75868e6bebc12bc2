"""Concatenations: of concatenations, of slices, of calls of one function; and slices of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eqsat.egraph.author import attrs_of, distinct, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Refusal, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op, is_tuple, many, wildcard
from eqsat.relay.op import concatenate, strided_slice
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType
from eqsat.rules.shape import broadcasting
from eqsat.rules.slices import Ranges, cut, gathers, ranges, slices
from eqsat.rules.types import EmptyPattern, rank_of, same_dtype
from eqsat.rules.writes import writes

(x,) = variables("x")

JOINED = ("abs", "cast", "clip", "exp", "nn.gelu", "nn.leaky_relu", "nn.relu", "sigmoid", "sqrt", "tanh")
"""Operators that networks apply to branches before they join."""

field, before, after, rest = variables("field before after rest")


def same_axes(outer: Attrs, inner: Sequence[Attrs], ty: TensorType) -> bool:
    """Guard: concatenations that another one joins to a tensor of type ``ty`` are along its axis."""
    return {axis_index(attrs.axis, rank_of(ty)) for attrs in (outer, *inner)} == {axis_index(outer.axis, rank_of(ty))}


inside = many(wildcard())
nested = concatenate(is_tuple([inside]))
nest = concatenate(is_tuple([many(rest, some=nested)]))


whole = concatenate(is_tuple([many(before), field, many(after)]))
with_nothing = concatenate(is_tuple([many(before), EmptyPattern(field), many(after)]))
sliced = strided_slice(whole)


def slice_of_part(
    attrs: Attrs, concat: Attrs, whole: TensorType, before: Sequence[TensorType], field: TensorType
) -> Ranges | Refusal:
    """What a slice of a concatenation takes of one field, which is behind those ``before``, if it takes of no other."""
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


def adds_nothing(concat: Attrs, field: TensorType, before: Sequence[TensorType], after: Sequence[TensorType]) -> bool:
    """Guard: a part of a concatenation, which has others, is of length zero."""
    return bool(before or after) and field.shape[axis_index(concat.axis, rank_of(field))] == 0


piece = strided_slice(x)
row = concatenate(is_tuple([many(piece, shared=[x])]))


def joined_ranges(concat: Attrs, ty: TensorType, slices: Sequence[Attrs]) -> Ranges | Refusal:
    """What slices of one tensor, which follow each other along the axis of a concatenation, take together."""
    axis = axis_index(concat.axis, rank_of(ty))
    dim = ty.shape[axis]
    every = [found for found in (ranges(each, ty) for each in slices) if isinstance(found, dict)]
    if not isinstance(dim, int) or len(every) < len(slices):
        return refuse("what a slice takes is not known")
    along = [each.pop(axis, range(dim)) for each in every]
    step = along[0].step
    if any(each != every[0] for each in every) or not all(along) or any(len(r) > 1 and r.step != step for r in along):
        return refuse("the slices differ in other axes")
    if any(then[0] != before[-1] + step for before, then in pairwise(along)):
        return refuse("the slices do not follow each other")
    return {**every[0], axis: range(along[0][0], along[-1][-1] + 1, step)}


def concat_of(name: str) -> Rewrite:
    """concat(f x, f y, ..) = f concat(x, y, ..)"""
    call = is_op(name)(field)
    whole = concatenate(is_tuple([many(call)]))
    return rewrite(
        f"concat-of-{name}",
        whole,
        like(call, like(whole, is_tuple([many(field)]))),
        when(all_same, attrs_of(call)),
        when(lambda types: same_dtype(*types), type_of(field)),
    )


def all_same(values: Sequence[object]) -> bool:
    """Guard: attributes of all fields are the same."""
    return all(value == values[0] for value in values)


alone = concatenate(is_tuple([x]))

padding = is_op("nn.pad")(x, field)
part_of_padding = strided_slice(padding)


def slice_of_data(attrs: Attrs, pad: Attrs, padded: TensorType, data: TensorType) -> Ranges | Refusal:
    """What a slice of a tensor with a margin takes of the tensor, if it takes nothing of the margin."""
    found = ranges(attrs, padded)
    if not isinstance(found, dict) or not all(isinstance(dim, int) for dim in data.shape):
        return refuse("a length is not known")
    taken: Ranges = {}
    for axis, ((before, behind), dim) in enumerate(zip(pad.pad_width, data.concrete_shape, strict=True)):
        if along := found.get(axis, range(before + dim + behind)):
            if along[0] < before or along[-1] >= before + dim:
                return refuse("it takes a part of the margin")
            taken[axis] = range(along[0] - before, along[-1] - before + 1, along.step)
        else:
            return refuse("it takes nothing")
    return taken


concats = RuleSet(
    "concats",
    [
        rewrite("concat-one", alone, x),
        # concat(.., nothing, ..) = concat(.., ..)
        rewrite(
            "concat-of-nothing",
            with_nothing,
            like(with_nothing, is_tuple([many(before), many(after)])),
            when(adds_nothing, attrs_of(with_nothing), type_of(field), type_of(before), type_of(after)),
        ),
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
                field, slice_of_part, attrs_of(sliced), attrs_of(whole), type_of(whole), type_of(before), type_of(field)
            ),
        ),
        # pad(x)[n:-m] = x
        rewrite(
            "slice-of-padding",
            part_of_padding,
            cut(x, slice_of_data, attrs_of(part_of_padding), attrs_of(padding), type_of(padding), type_of(x)),
        ),
        # concat(x[a:b], x[b:c], ..) = x[a:c]
        rewrite("concat-of-slices", row, cut(x, joined_ranges, attrs_of(row), type_of(x), attrs_of(piece))),
        *map(concat_of, JOINED),
    ],
)

joining = RuleSet("joining", [slices, writes, concats, gathers, broadcasting])

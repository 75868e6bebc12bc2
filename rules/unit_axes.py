"""``expand_dims`` and ``squeeze`` move past the operators between them, so that they meet and cancel.

A convolution along one axis is often written as one over images of a single row. A bias then stands behind the squeeze
of the row, and an activation, a padding or a transpose between that and the ``expand_dims`` for the next convolution.

Where all dimensions are known, rules on reshapes do the same.
"""

from __future__ import annotations

import math

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    given,
    like,
    non_constant,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.op import broadcast_to, expand_dims, reshape, squeeze, transpose, where
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import from_front, permutation, renumbered
from eqsat.rules.operators import binary, unary, view
from eqsat.rules.shape import codes_between, reshaped
from eqsat.rules.types import Shape, has_zero, is_scalar, rank_of
from eqsat.rules.values import computed_parts

x, y = variables("x y")
(c,) = constants("c")

viewed = view(x)
viewed_again = view(viewed)
with_constant, constant_first = binary(viewed, c), binary(c, viewed)


def long_axes(ty: TensorType) -> list[int]:
    """The axes that may have other lengths than 1."""
    return [axis for axis, dim in enumerate(ty.shape) if dim != 1]


def names_axes(attrs: Attrs) -> bool:
    """Whether a view is an ``expand_dims`` or ``squeeze``, which name the axes that they add or remove."""
    return attrs is not None and "axis" in attrs


def is_alike(attrs: Attrs, before: TensorType, after: TensorType) -> bool:
    """Whether a view keeps each axis that may have another length than 1."""
    first, second = ([ty.shape[axis] for axis in long_axes(ty)] for ty in (before, after))
    if names_axes(attrs):
        return len(first) == len(second)
    return first == second and all(isinstance(dim, int) for dim in first)


def shape_before(attrs: Attrs, before: TensorType, after: TensorType, constant: TensorType) -> Shape | Refusal:
    """The shape that a constant, which is combined with a view, must have to be combined with the viewed tensor."""
    if not is_static(constant) or has_zero(constant) or not 0 < rank_of(constant) <= rank_of(after):
        return refuse("the constant has no elements, no axes, or more than the view")
    if not is_alike(attrs, before, after):
        return refuse("the view changes more than axes of one element")
    spread = (1,) * (rank_of(after) - rank_of(constant)) + constant.concrete_shape
    long = long_axes(after)
    if any(dim != 1 for axis, dim in enumerate(spread) if axis not in long):
        return refuse("the constant repeats the view along an axis of one element")
    lengths = [1] * rank_of(before)
    for axis, place in zip(long_axes(before), long, strict=True):
        lengths[axis] = spread[place]
    return tuple(lengths)


def is_undone(outer: Attrs, inner: Attrs, before: TensorType, after: TensorType) -> bool:
    """Guard: of two views, one adds the axes that the other removes."""
    same = rank_of(before) == rank_of(after) and long_axes(before) == long_axes(after)
    return same and names_axes(outer) and names_axes(inner)


def expanded_before(attrs: Attrs, before: TensorType, between: TensorType, after: TensorType) -> Shape | Refusal:
    """The shape that data is expanded to without the axes of one element that a view adds to it or moves.

    Each axis that is repeated is one of the data, then, between the same axes that are not.
    """
    if not all(map(is_static, (before, between, after))) or not is_alike(attrs, before, between):
        return refuse("a dimension is not known, or the view changes more than axes of one element")
    old = (1,) * (rank_of(after) - rank_of(between)) + between.concrete_shape
    lengths, at = [*before.concrete_shape], 0
    for one, dim in zip(old, after.concrete_shape, strict=True):
        if one == dim == 1:
            continue
        if one == 1:
            if at == len(lengths) or before.shape[at] != 1:
                return refuse("it is repeated where the data has no axis")
            lengths[at] = dim
        else:
            while before.shape[at] == 1:
                at += 1
        at += 1
    return tuple(lengths)


# ---- two of a kind


def expanded_again(inner: Attrs, outer: Attrs, ty: TensorType) -> int | Refusal:
    """How many axes two ``expand_dims`` add at one place."""
    first, place = expanded_axes(inner, ty), outer.axis % (rank_of(ty) + inner.num_newaxis + 1)
    if not first.start <= place <= first.stop:
        return refuse("they put axes in at different places")
    return int(inner.num_newaxis + outer.num_newaxis)


def squeezed_again(inner: Attrs, outer: Attrs, ty: TensorType) -> Shape | Refusal:
    """The axes that two squeezes remove."""
    if not names_axes(inner) or not names_axes(outer) or inner.axis is None or outer.axis is None:
        return refuse("the axes are not given")
    first = from_front(inner.axis, rank_of(ty))
    left = [axis for axis in range(rank_of(ty)) if axis not in first]
    return tuple(sorted((*first, *[left[axis] for axis in from_front(outer.axis, len(left))])))


# ---- transposes


def expanded_axes(attrs: Attrs, ty: TensorType) -> range:
    """The axes of the result that an ``expand_dims`` of a tensor of type ``ty`` adds."""
    at = attrs.axis % (rank_of(ty) + 1)
    return range(at, at + attrs.num_newaxis)


def order_before(attrs: Attrs, turn: Attrs, ty: TensorType) -> tuple[int, ...]:
    """The transpose that comes before an ``expand_dims``, instead of behind it."""
    new = expanded_axes(attrs, ty)
    return renumbered([axis for axis in permutation(turn, rank_of(ty) + len(new)) if axis not in new])


def turned_axis(attrs: Attrs, turn: Attrs, ty: TensorType) -> int | Refusal:
    """Where a transpose puts the axes that an ``expand_dims`` added."""
    new = expanded_axes(attrs, ty)
    places = [place for place, axis in enumerate(permutation(turn, rank_of(ty) + len(new))) if axis in new]
    together = range(places[0], places[0] + len(places)) if places else range(0)
    return together.start if places == [*together] else refuse("the axes are put in at different places")


def order_around(attrs: Attrs, turn: Attrs, ty: TensorType) -> Shape | Refusal:
    """The transpose that comes before a squeeze, instead of behind it: removed axes stay where they are."""
    if attrs.axis is None:
        return refuse("the axes are not given")
    gone = from_front(attrs.axis, rank_of(ty))
    left = [axis for axis in range(rank_of(ty)) if axis not in gone]
    order = iter([left[axis] for axis in permutation(turn, len(left))])
    return tuple(axis if axis in gone else next(order) for axis in range(rank_of(ty)))


def without_ones(turn: Attrs, whole: TensorType, data: TensorType) -> tuple[Shape, tuple[int, ...]] | Refusal:
    """The codes of a view of ``whole`` as ``data`` without its axes of one element, and the transpose that is left.

    A batch of one stays.
    """
    order = permutation(turn, rank_of(data))
    left = [axis for axis in order if axis == 0 or data.shape[axis] != 1]
    if len(left) == len(order) or left == sorted(left):
        return refuse("no axes of one element are there, or no others are moved")
    codes = codes_between(whole.shape, [data.shape[axis] for axis in sorted(left)])
    return codes if isinstance(codes, Refusal) else (codes, renumbered(left))


# ---- padding


def width_before(attrs: Attrs, padding: Attrs, before: TensorType, after: TensorType) -> tuple[Shape, ...] | Refusal:
    """The ``pad_width`` of a view that pads it as the viewed tensor was padded."""
    if not names_axes(attrs) or attrs.axis is None or not is_alike(attrs, before, after):
        return refuse("the view changes more than axes of one element, or does not say which")
    width = [(0, 0)] * rank_of(after)
    for axis, place in zip(long_axes(before), long_axes(after), strict=True):
        width[place] = tuple(padding.pad_width[axis])
    kept = sum(any(each) for each in width) == sum(any(each) for each in padding.pad_width)
    return tuple(width) if kept else refuse("an axis of one element is padded")


# ---- one number for all elements


def is_number_of_axes(number: TensorType, *others: TensorType) -> bool:
    """Guard: a constant is one number, and has axes that add none to those of other operands."""
    return is_scalar(number) and 0 < rank_of(number) <= max(map(rank_of, others))


def numbers() -> list[Rewrite]:
    """x + (c) = x + c: a vector or matrix of one number is that number."""
    number = reshape(c, newshape=())
    places = {
        "number": (binary(x, c), (x, number), [x]),
        "ordered-number": (binary(c, x), (number, x), [x]),
        "chosen-number": (where(x, c, y), (x, number, y), [x, y]),
        "other-chosen-number": (where(x, y, c), (x, y, number), [x, y]),
    }
    return [
        rewrite(
            f"{name}-without-axes",
            whole,
            like(whole, *operands),
            when(is_number_of_axes, type_of(c), *map(type_of, others)),
            contracts=True,
        )
        for name, (whole, operands, others) in places.items()
    ]


# ---- constants that repeat themselves


def shared_axes(constant: TensorType, *others: TensorType) -> list[int]:
    """The axes of several elements of a constant along which one of the other operands surely is as long."""
    found = []
    for axis in long_axes(constant):
        behind = rank_of(constant) - axis
        if any(rank_of(ty) >= behind and ty.shape[-behind] == constant.shape[axis] for ty in others):
            found.append(axis)
    return found


MOST_ELEMENTS = 1 << 14
"""Elements up to which constants are looked at: larger ones may be weights, which are not read for this."""


def may_repeat(constant: TensorType, *others: TensorType) -> bool:
    """Guard: a constant of several long axes, one of which another operand has too."""
    return (
        is_static(constant)
        and 0 not in constant.shape
        and len(long_axes(constant)) > 1
        and math.prod(constant.concrete_shape) <= MOST_ELEMENTS
        and bool(shared_axes(constant, *others))
    )


def repeats(value: Array, axis: int) -> bool:
    """Whether all parts of an array along an axis are the first one, bit by bit."""
    first = value.take([0], axis)
    return bool(np.all((value == first) & (np.signbit(value) == np.signbit(first))))


def once(value: Array, constant: TensorType, *others: TensorType) -> Array | Refusal:
    """A constant without what it repeats where it is broadcast to the other operands anyway."""
    if np.all(value == value.flat[0]):
        return refuse("it is one number, which other rules take out")
    found = value
    for axis in shared_axes(constant, *others) if value.dtype.kind in "fiu" else ():
        if repeats(found.take([0, 1], axis), axis) and repeats(found, axis):  # the first two mostly differ
            found = found.take([0], axis)
    return found if found.shape != value.shape else refuse("nothing is repeated")


def constants_once() -> list[Rewrite]:
    """x + (c, c) = x + c"""
    places = {"constant": (binary(x, c), (x, c)), "ordered-constant": (binary(c, x), (c, x))}
    return [
        rewrite(
            f"repeated-{name}-once",
            whole,
            like(whole, *[compute(once, value_of(c), type_of(c), type_of(x)) if each is c else x for each in operands]),
            when(may_repeat, type_of(c), type_of(x)),
            non_constant(x),
            contracts=True,
        )
        for name, (whole, operands) in places.items()
    ]


moved = reshape(c, newshape=compute(shape_before, attrs_of(viewed), type_of(x), type_of(viewed), type_of(c)))
expanded, squeezed = expand_dims(x), squeeze(x)
squeezed_function = unary(squeezed)
expanded_twice, squeezed_twice = expand_dims(expanded), squeeze(squeezed)
expanded_turned, squeezed_turned = transpose(expanded), transpose(squeezed)
viewed_turned = transpose(viewed)
others_turned = computed_parts(without_ones, attrs_of(viewed_turned), type_of(x), type_of(viewed))
others_first = reshaped(transpose(reshape(x, newshape=others_turned(0)), axes=others_turned(1)), viewed_turned, False)
repeated_view = broadcast_to(viewed)
padded = is_op("nn.pad")(x, y)
padded_view = view(padded)


unit_axes = RuleSet(
    "unit-axes",
    [
        # view(x) + c = view(x + c)
        rewrite("constant-into-view", with_constant, like(viewed, like(with_constant, x, moved))),
        rewrite("ordered-constant-into-view", constant_first, like(viewed, like(constant_first, moved, x))),
        rewrite(
            "view-undone",
            viewed_again,
            x,
            when(is_undone, attrs_of(viewed_again), attrs_of(viewed), type_of(x), type_of(viewed_again)),
        ),
        # f(squeeze(x)) = squeeze(f(x))
        rewrite("squeeze-out-of-unary", squeezed_function, like(squeezed, like(squeezed_function, x))),
        # expand(expand(x)) = expand(x) by more axes
        rewrite(
            "expand-dims-twice",
            expanded_twice,
            like(
                expanded,
                x,
                num_newaxis=compute(expanded_again, attrs_of(expanded), attrs_of(expanded_twice), type_of(x)),
            ),
        ),
        rewrite(
            "squeeze-twice",
            squeezed_twice,
            squeeze(x, axis=compute(squeezed_again, attrs_of(squeezed), attrs_of(squeezed_twice), type_of(x))),
        ),
        # T expand(x) = expand'(T' x), T squeeze(x) = squeeze(T' x): mostly T' does nothing
        rewrite(
            "transpose-into-expand-dims",
            expanded_turned,
            like(
                expanded,
                transpose(x, axes=compute(order_before, attrs_of(expanded), attrs_of(expanded_turned), type_of(x))),
                axis=compute(turned_axis, attrs_of(expanded), attrs_of(expanded_turned), type_of(x)),
            ),
        ),
        rewrite(
            "transpose-into-squeeze",
            squeezed_turned,
            like(
                squeezed,
                transpose(x, axes=compute(order_around, attrs_of(squeezed), attrs_of(squeezed_turned), type_of(x))),
            ),
        ),
        # expand(T view(x)) = expand(view"(T' view'(x))), where T' has no axes of one element to move
        *[
            rewrite(
                f"{name}-of-transpose-without-ones",
                spread,
                like(spread, others_first, *rest),
                given(viewed),
            )
            for name, spread, rest in (
                ("expand", is_op("broadcast_to")(viewed_turned), ()),
                ("dynamic-expand", is_op("dyn.broadcast_to")(viewed_turned, y), (y,)),
            )
        ],
        # expand(view(x)) = view(expand(x)), where the view adds axes of one element
        rewrite(
            "expand-before-ones",
            repeated_view,
            reshaped(
                broadcast_to(
                    x,
                    shape=compute(
                        expanded_before, attrs_of(viewed), type_of(x), type_of(viewed), type_of(repeated_view)
                    ),
                ),
                repeated_view,
                False,
            ),
            when(lambda before, after: rank_of(before) < rank_of(after), type_of(x), type_of(viewed)),
        ),
        # view(pad(x)) = pad(view(x))
        rewrite(
            "view-into-pad",
            padded_view,
            like(
                padded,
                like(padded_view, x),
                y,
                pad_width=compute(
                    width_before, attrs_of(padded_view), attrs_of(padded), type_of(padded), type_of(padded_view)
                ),
            ),
        ),
        *numbers(),
        *constants_once(),
    ],
)

"""Axes of one element put in and taken out: constants travel past them, to the product that absorbs them.

Convolutions along one axis are often written as ones over images of one row, with a bias behind what takes the row's
axis out again, and an activation between that and what puts it in for the next.
"""

from __future__ import annotations

from typing import Any

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet
from eqsat.relay.expr import Constant, Expr, Var
from eqsat.relay.op import expand_dims, reshape, squeeze
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.draw import Draw
from eqsat.rules.operators import binary, ordered, rank_of, view

(x,) = variables("x")
(c,) = constants("c")

viewed = view(x)
viewed_again = view(viewed)
with_constant, constant_first = binary(viewed, c), ordered(c, viewed)


def long_axes(ty: TensorType) -> list[int]:
    """The axes that may have other lengths than 1."""
    return [axis for axis, dim in enumerate(ty.shape) if dim != 1]


def names_axes(attrs: Any) -> bool:
    """Whether a view says which axes of one element it puts in or takes out."""
    return attrs is not None and "axis" in attrs


def is_alike(attrs: Any, before: TensorType, after: TensorType) -> bool:
    """Whether a view keeps all axes that may have other lengths than 1, one by one."""
    first, second = ([ty.shape[axis] for axis in long_axes(ty)] for ty in (before, after))
    if names_axes(attrs):
        return len(first) == len(second)
    return first == second and all(isinstance(dim, int) for dim in first)


def shape_before(attrs: Any, before: TensorType, after: TensorType, constant: TensorType) -> Any:
    """The shape of a constant that does to what is viewed what it does to the view."""
    if not is_static(constant) or not 0 < rank_of(constant) <= rank_of(after):
        return refuse("the constant has no axes, or more than the view")
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


def is_undone(outer: Any, inner: Any, before: TensorType, after: TensorType) -> bool:
    """Guard: of two views one puts in the axes that the other takes out."""
    same = rank_of(before) == rank_of(after) and long_axes(before) == long_axes(after)
    return same and names_axes(outer) and names_axes(inner)


moved = reshape(c, newshape=compute(shape_before, attrs_of(viewed), type_of(x), type_of(viewed), type_of(c)))


def _image(draw: Draw) -> tuple[Expr, Expr]:
    """An image of one row, without that axis, and a constant along its channels."""
    data = Var("x", TensorType((2, 3, 1, draw.rng.choice((1, 4))), draw.dtype))
    shape = draw.rng.choice(((3, 1), (1, 3, 1), (1,), (4,), (1, 1, 1), (2, 1, 1)))
    constant = Constant(draw.array(TensorType(shape, draw.dtype)))
    return squeeze(data, axis=[2]), constant


def _undone(draw: Draw) -> Expr:
    data = Var("x", TensorType((2, 1, 3), draw.dtype))
    if draw.chance(0.5):
        return expand_dims(squeeze(data, axis=[1]), axis=draw.rng.choice((1, 1, 1, 0)))  # type: ignore[no-any-return]
    return squeeze(expand_dims(data, axis=0), axis=draw.rng.choice(([0], [0], [2])))  # type: ignore[no-any-return]


unit_axes = RuleSet(
    "unit-axes",
    [
        # view(x) + c = view(x + c)
        rewrite(
            "constant-into-view",
            with_constant,
            like(viewed, like(with_constant, x, moved)),
            examples=lambda draw: _image(draw)[0] * _image(draw)[1],
        ),
        rewrite(
            "ordered-constant-into-view",
            constant_first,
            like(viewed, like(constant_first, moved, x)),
            examples=lambda draw: _image(draw)[1] - _image(draw)[0],
        ),
        rewrite(
            "view-undone",
            viewed_again,
            x,
            when(is_undone, attrs_of(viewed_again), attrs_of(viewed), type_of(x), type_of(viewed_again)),
            examples=_undone,
        ),
    ],
)

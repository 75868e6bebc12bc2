"""Operators that only move or relabel elements: transpose, reshape, cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.egraph.author import attrs_of, compute, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet
from eqsat.relay.op import cast, reshape, transpose
from eqsat.relay.ty import TensorType, Type, is_static

(x,) = variables("x")


def composed_axes(inner: Any, outer: Any, ty: TensorType) -> Any:
    """Axes of transpose(transpose(x, inner), outer) as one transpose."""
    rank = len(ty.shape)
    first, second = axes_of(inner, rank), axes_of(outer, rank)
    return tuple(first[axis] for axis in second)


def axes_of(attrs: Any, rank: int) -> list[int]:
    """The axes of a transpose as non-negative numbers; reversed when it names none."""
    axes = attrs.axes
    return list(range(rank))[::-1] if axes is None else [int(axis) % rank for axis in axes]


def moves_nothing(attrs: Any, ty: TensorType) -> bool:
    """Whether a transpose leaves every axis of length other than 1 in its place relative to the others."""
    return axes_of(attrs, len(ty.shape)) == list(range(len(ty.shape)))


def static_shape(ty: Type) -> Any:
    """The dimensions of a type, as the ``newshape`` of a reshape."""
    return ty.concrete_shape if is_static(ty) else refuse("a dimension is not known")


def widens(first: TensorType, second: TensorType) -> bool:
    """Whether every value of the first dtype is a value of the second."""
    return np.can_cast(first.dtype, second.dtype, casting="safe")


inner_transpose = transpose(x)
outer_transpose = transpose(inner_transpose)
inner_reshape = reshape(x)
outer_reshape = reshape(inner_reshape)
inner_cast = cast(x)
outer_cast = cast(inner_cast)

shape = RuleSet(
    "shape",
    [
        rewrite(
            "transpose-transpose",
            outer_transpose,
            transpose(x, axes=compute(composed_axes, attrs_of(inner_transpose), attrs_of(outer_transpose), type_of(x))),
        ),
        rewrite(
            "transpose-nothing",
            inner_transpose,
            x,
            when(moves_nothing, attrs_of(inner_transpose), type_of(x)),
        ),
        rewrite("reshape-reshape", outer_reshape, reshape(x, newshape=compute(static_shape, type_of(outer_reshape)))),
        rewrite("reshape-nothing", inner_reshape, x),
        # a cast that keeps every value, then another: the second alone
        rewrite(
            "cast-cast",
            outer_cast,
            cast(x, dtype=compute(lambda ty: ty.dtype, type_of(outer_cast))),
            when(widens, type_of(x), type_of(inner_cast)),
        ),
        rewrite("cast-nothing", inner_cast, x),
    ],
)

"""Views, transposes, layouts and casts: of each other, and those that do nothing."""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Refusal, RuleSet, Soundness
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import broadcast_to, cast, clip, layout_transform, reshape, tile, transpose
from eqsat.relay.op.shape import reshape_codes
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.axes import permutation
from eqsat.rules.operators import binary, unary, view
from eqsat.rules.types import Shape, rank_of, static_shape

x, y = variables("x y")
(a,) = constants("a")


def composed_axes(inner: Attrs, outer: Attrs, ty: Type) -> tuple[int, ...]:
    """The axes of the one transpose that does what two do."""
    first, second = permutation(inner, rank_of(ty)), permutation(outer, rank_of(ty))
    return tuple(first[axis] for axis in second)


def moves_nothing(attrs: Attrs, ty: Type) -> bool:
    return permutation(attrs, rank_of(ty)) == tuple(range(rank_of(ty)))


def moves_ones_only(attrs: Attrs, ty: TensorType) -> bool:
    """Whether a transpose keeps the order of all axes whose length is not 1."""
    kept = [axis for axis in permutation(attrs, rank_of(ty)) if ty.shape[axis] != 1]
    return kept == sorted(kept)


def codes(ty: Type, of: Type | None = None) -> Shape | Refusal:
    """The ``newshape`` of a reshape to the shape of a type.

    One dimension may be unknown, and so may those that the reshaped tensor, of type ``of``, has in the same place.
    """
    if not isinstance(ty, TensorType):
        return refuse("its type is not known")
    found = reshape_codes(of.shape if isinstance(of, TensorType) else (), ty.shape)
    if found is None or (0 in ty.shape and not is_static(ty)):
        return refuse("more than one dimension is not known")
    return found


def reshaped(data: DFPattern, root: DFPattern) -> DFPattern:
    """``data`` in the shape of what ``root`` matched."""
    newshape = compute(codes, type_of(root), type_of(data))
    return reshape(data, newshape=newshape, allowzero=compute(has_zero, type_of(root)))  # type: ignore[no-any-return]


def has_zero(ty: TensorType) -> bool:
    return 0 in ty.shape


def is_one_element(ty: TensorType, before: TensorType, after: TensorType) -> bool:
    """Guard: a tensor of one element broadcasts against another one before and after a view of it, and adds no axes."""
    return all(dim == 1 for dim in ty.shape) and rank_of(ty) <= min(rank_of(before), rank_of(after))


def widens(first: TensorType, second: TensorType) -> bool:
    """Guard: every value of the first dtype is a value of the second one."""
    return np.can_cast(first.dtype, second.dtype, casting="safe")


def layouts_meet(first: Attrs, second: Attrs) -> bool:
    return bool(first.dst_layout == second.src_layout)


def is_no_layout_change(attrs: Attrs) -> bool:
    return bool(attrs.src_layout == attrs.dst_layout)


def holds(dtype: str, attrs: Attrs) -> bool:
    """Whether a dtype holds every whole number between the bounds of a clip."""
    if dtype.startswith("float"):
        return bool(max(abs(attrs.a_min), abs(attrs.a_max)) <= 2 ** (np.finfo(dtype).nmant + 1))
    if not dtype.startswith(("int", "uint")):
        return False
    info = np.iinfo(dtype)
    return bool(info.min <= attrs.a_min and attrs.a_max <= info.max)


def keeps_whole(attrs: Attrs, data: TensorType, between: TensorType) -> bool:
    """Guard: the first of two casts keeps what a clip leaves of integers."""
    return data.dtype.startswith(("int", "uint")) and holds(between.dtype, attrs)


def truncates_once(attrs: Attrs, data: TensorType, between: TensorType, result: TensorType) -> bool:
    """Guard: two casts cut the same fractions off what a clip leaves of floats."""
    whole = all(ty.dtype.startswith(("int", "uint")) for ty in (between, result))
    return whole and data.dtype.startswith("float") and holds(between.dtype, attrs) and holds(result.dtype, attrs)


inner_transpose = transpose(x)
outer_transpose = transpose(inner_transpose)
inner_view = view(x)
outer_view = view(inner_view)
inner_cast = cast(x)
outer_cast = cast(inner_cast)
inner_expand = broadcast_to(x)
outer_expand = broadcast_to(inner_expand)
tiled = tile(x)
inner_layout = layout_transform(x)
outer_layout = layout_transform(inner_layout)
clipped = clip(x)
narrowed = cast(clipped)
cast_again = cast(narrowed)
last_dtype = compute(lambda ty: ty.dtype, type_of(cast_again))

applied = unary(x)
with_number, number_first = binary(x, y), binary(y, x)
view_of_unary, view_of_scaled, view_of_ordered = view(applied), view(with_number), view(number_first)
one_number = when(is_one_element, type_of(y), type_of(x), type_of(view_of_scaled))
one_ordered_number = when(is_one_element, type_of(y), type_of(x), type_of(view_of_ordered))

views = RuleSet(
    "views",
    [
        # views travel to the constants that absorb them, and to other views
        rewrite("view-into-unary", view_of_unary, like(applied, like(view_of_unary, x))),
        rewrite("view-into-scaled", view_of_scaled, like(with_number, like(view_of_scaled, x), y), one_number),
        rewrite(
            "view-into-ordered", view_of_ordered, like(number_first, y, like(view_of_ordered, x)), one_ordered_number
        ),
        rewrite("view-of-view", outer_view, reshaped(x, outer_view)),
        rewrite("view-nothing", inner_view, x),
        rewrite(
            "transpose-of-ones",
            inner_transpose,
            reshaped(x, inner_transpose),
            when(moves_ones_only, attrs_of(inner_transpose), type_of(x)),
        ),
        rewrite("expand-expand", outer_expand, broadcast_to(x, shape=compute(static_shape, type_of(outer_expand)))),
        rewrite("expand-nothing", inner_expand, x),
        rewrite("tile-nothing", tiled, x, when(lambda attrs: all(rep == 1 for rep in attrs.reps), attrs_of(tiled))),
    ],
)

orders = RuleSet(
    "orders",
    [
        rewrite(
            "transpose-transpose",
            outer_transpose,
            transpose(x, axes=compute(composed_axes, attrs_of(inner_transpose), attrs_of(outer_transpose), type_of(x))),
        ),
        rewrite("transpose-nothing", inner_transpose, x, when(moves_nothing, attrs_of(inner_transpose), type_of(x))),
        rewrite(
            "layout-layout",
            outer_layout,
            layout_transform(
                x,
                src_layout=compute(lambda attrs: attrs.src_layout, attrs_of(inner_layout)),
                dst_layout=compute(lambda attrs: attrs.dst_layout, attrs_of(outer_layout)),
            ),
            when(layouts_meet, attrs_of(inner_layout), attrs_of(outer_layout)),
        ),
        rewrite("layout-nothing", inner_layout, x, when(is_no_layout_change, attrs_of(inner_layout))),
    ],
)

casts = RuleSet(
    "casts",
    [
        # a cast that keeps every value, then another: the second alone
        rewrite(
            "cast-cast",
            outer_cast,
            cast(x, dtype=compute(lambda ty: ty.dtype, type_of(outer_cast))),
            when(widens, type_of(x), type_of(inner_cast)),
        ),
        rewrite("cast-nothing", inner_cast, x),
        # what a clip leaves fits into the narrow dtype: that cast does nothing
        rewrite(
            "cast-of-clip",
            cast_again,
            cast(clipped, dtype=last_dtype),
            when(keeps_whole, attrs_of(clipped), type_of(x), type_of(narrowed)),
        ),
        # NaN is no integer
        rewrite(
            "cast-of-clipped-float",
            cast_again,
            cast(clipped, dtype=last_dtype),
            when(truncates_once, attrs_of(clipped), type_of(x), type_of(narrowed), type_of(cast_again)),
            soundness=Soundness.FINITE,
        ),
    ],
)

shape = RuleSet("shape", [views, orders, casts])

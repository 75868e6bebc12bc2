"""Views, transposes, layouts, casts and expansions: of each other, past other operators, and those that do nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Refusal, Rewrite, RuleSet, Soundness
from eqsat.errors import TypeCheckError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import broadcast_to, cast, clip, cumsum, layout_transform, reshape, tile, transpose, where
from eqsat.relay.op.shape import pairwise_codes, reshape_codes
from eqsat.relay.op.types import broadcast_shape
from eqsat.relay.ty import Dim, TensorType, Type, is_exact
from eqsat.rules.axes import among_ones, permutation
from eqsat.rules.operators import binary, unary, view
from eqsat.rules.types import Shape, dtype_of, has_zero, is_integer, rank_of, same_dtype, static_shape
from eqsat.rules.values import attribute, zero

w, x, y, z, sizes, more_sizes = variables("w x y z sizes more_sizes")
c, d = constants("c d")


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


def ones_in_order(attrs: Attrs, ty: TensorType) -> tuple[int, ...]:
    """The axes of the transpose that does the same and keeps the order of the axes of one element."""
    axes = permutation(attrs, rank_of(ty))
    ones = iter([axis for axis, dim in enumerate(ty.shape) if dim == 1])
    return tuple(next(ones) if ty.shape[axis] == 1 else axis for axis in axes)


def codes(ty: Type, of: Type | None = None) -> Shape | Refusal:
    """The ``newshape`` of a reshape, of what has the type ``of``, to the shape of a type."""
    if not isinstance(ty, TensorType):
        return refuse("its type is not known")
    return codes_between(of.shape if isinstance(of, TensorType) else (), ty.shape)


def codes_between(before: Sequence[Dim], after: Sequence[Dim]) -> Shape | Refusal:
    """The ``newshape`` of a reshape from one shape to another.

    Of the dimensions behind, one may be unknown, or all that there are in the same place before. One that is computed
    from the number of elements (-1) would not be known if another were 0. Otherwise neighbouring dimensions are merged
    and split: few formats can write that, but such views meet others, with which they cancel.
    """
    found = reshape_codes(before, after)
    is_open = not all(isinstance(dim, int) for dim in after)
    if found is None or (is_open and (0 in after or {-1, 0} <= {*found})):
        found = pairwise_codes(before, after)
    return refuse("more than one dimension is not known") if found is None else found


def order_of_ones(before: TensorType, after: TensorType) -> tuple[int, ...] | Refusal:
    """The transpose that puts axes of one element elsewhere, where no reshape can say so."""
    long = [axis for axis, dim in enumerate(before.shape) if dim != 1]
    ones = [axis for axis, dim in enumerate(before.shape) if dim == 1]
    if not is_exact(before) or len(before.shape) != len(after.shape) or reshape_codes(before.shape, after.shape):
        return refuse("a reshape can say it, or its axes are not known")
    if [before.shape[axis] for axis in long] != [dim for dim in after.shape if dim != 1]:
        return refuse("more than axes of one element are moved")
    return among_ones(long, ones, after.shape)


def reshaped(data: DFPattern, root: DFPattern, is_matched: bool = True) -> DFPattern:
    """``data``, which the left side matches or the right side makes, in the shape of what ``root`` matched."""
    newshape = compute(codes, type_of(root), *[type_of(data)] * is_matched)
    return reshape(data, newshape=newshape, allowzero=compute(has_zero, type_of(root)))


def expanded(data: DFPattern, root: DFPattern) -> DFPattern:
    """``data``, broadcast to the shape of what ``root`` matched."""
    return broadcast_to(data, shape=compute(static_shape, type_of(root)))


def is_one_element(ty: TensorType, before: TensorType, after: TensorType) -> bool:
    """Guard: a tensor of one element broadcasts against another one before and after a view of it, and adds no axes."""
    return all(dim == 1 for dim in ty.shape) and rank_of(ty) <= min(rank_of(before), rank_of(after))


def widens(first: TensorType, second: TensorType) -> bool:
    """Guard: every value of the first dtype is a value of the second one."""
    if first.dtype.startswith(("int", "uint")) and second.dtype.startswith("float"):  # int64 to float64 rounds
        return bool(np.iinfo(first.dtype).max <= 2 ** (np.finfo(second.dtype).nmant + 1))
    return np.can_cast(first.dtype, second.dtype, casting="safe")


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
    return is_integer(data) and holds(between.dtype, attrs)


def truncates_once(attrs: Attrs, data: TensorType, between: TensorType, result: TensorType) -> bool:
    """Guard: two casts cut the same fractions off what a clip leaves of floats."""
    whole = all(is_integer(ty) and holds(ty.dtype, attrs) for ty in (between, result))
    return whole and data.dtype.startswith("float")


def narrows_sums(attrs: Attrs, data: TensorType, result: TensorType) -> bool:
    """Guard: integers are summed in their own dtype and cast to one that is no wider: both leave out high bits."""
    if not is_integer(data) or not is_integer(result) or attrs.dtype not in ("", data.dtype):
        return False
    return np.dtype(result.dtype).itemsize <= np.dtype(data.dtype).itemsize


def repeats_ones(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: only axes of one element, or new ones, are repeated, and each is there afterwards."""
    dims = (1,) * (len(attrs.reps) - rank_of(ty)) + ty.shape[max(rank_of(ty) - len(attrs.reps), 0) :]
    return 0 not in attrs.reps and all(rep == 1 or dim == 1 for rep, dim in zip(attrs.reps, dims, strict=True))


inner_transpose = transpose(x)
outer_transpose = transpose(inner_transpose)
inner_view = view(x)
outer_view = view(inner_view)
by_sizes = is_op("dyn.reshape")(x, sizes)
sized_view = is_op("dyn.reshape")(inner_view, sizes)
inner_cast = cast(x)
outer_cast = cast(inner_cast)
running_sum = cumsum(x)
cast_of_sums = cast(running_sum)
inner_expand = broadcast_to(x)
outer_expand = broadcast_to(inner_expand)
tiled = tile(x)
inner_layout = layout_transform(x)
outer_layout = layout_transform(inner_layout)
clipped = clip(x)
narrowed = cast(clipped)
cast_again = cast(narrowed)
cast_once = cast(clipped, dtype=dtype_of(cast_again))

applied = unary(x)
with_number, number_first = binary(x, y), binary(y, x)
view_of_unary, view_of_scaled, view_of_ordered = view(applied), view(with_number), view(number_first)
square = binary(x, x)
view_of_square = view(square)
one_number = when(is_one_element, type_of(y), type_of(x), type_of(view_of_scaled))
one_ordered_number = when(is_one_element, type_of(y), type_of(x), type_of(view_of_ordered))

views = RuleSet(
    "views",
    [
        # views travel to the constants that absorb them, and to other views, with which they are one at once
        rewrite("view-into-unary", view_of_unary, like(applied, like(view_of_unary, x))),
        rewrite("view-into-square", view_of_square, like(square, like(view_of_square, x), like(view_of_square, x))),
        rewrite("view-into-scaled", view_of_scaled, like(with_number, like(view_of_scaled, x), y), one_number),
        rewrite(
            "view-into-ordered", view_of_ordered, like(number_first, y, like(view_of_ordered, x)), one_ordered_number
        ),
        rewrite("view-of-view", outer_view, reshaped(x, outer_view), early=True),
        rewrite(
            "view-of-view-moves-ones",
            outer_view,
            transpose(x, axes=compute(order_of_ones, type_of(x), type_of(outer_view))),
        ),
        rewrite("sized-view-of-view", sized_view, reshaped(x, sized_view)),
        rewrite(
            "sized-view",
            by_sizes,
            reshape(x, newshape=compute(codes, type_of(by_sizes), type_of(x))),
            when(lambda ty: not has_zero(ty), type_of(x)),
            early=True,
        ),
        rewrite("view-nothing", inner_view, x, early=True),
        rewrite(
            "transpose-of-ones",
            inner_transpose,
            reshaped(x, inner_transpose),
            when(moves_ones_only, attrs_of(inner_transpose), type_of(x)),
        ),
        # one form of transposes that do the same: else those of n axes of one element would be n! ones
        rewrite(
            "ones-of-transpose-in-order",
            inner_transpose,
            transpose(x, axes=compute(ones_in_order, attrs_of(inner_transpose), type_of(x))),
            contracts=True,
        ),
        rewrite("expand-expand", outer_expand, expanded(x, outer_expand)),
        rewrite("expand-nothing", inner_expand, x, contracts=True),
        rewrite("tile-of-ones", tiled, expanded(x, tiled), when(repeats_ones, attrs_of(tiled), type_of(x))),
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
            early=True,
        ),
        rewrite(
            "transpose-nothing",
            inner_transpose,
            x,
            when(moves_nothing, attrs_of(inner_transpose), type_of(x)),
            contracts=True,
        ),
        rewrite(
            "layout-layout",
            outer_layout,
            layout_transform(
                x, src_layout=attribute(inner_layout, "src_layout"), dst_layout=attribute(outer_layout, "dst_layout")
            ),
            when(lambda one, two: one.dst_layout == two.src_layout, attrs_of(inner_layout), attrs_of(outer_layout)),
        ),
        rewrite(
            "layout-nothing",
            inner_layout,
            x,
            when(lambda attrs: attrs.src_layout == attrs.dst_layout, attrs_of(inner_layout)),
        ),
    ],
)

casts = RuleSet(
    "casts",
    [
        # a cast that keeps every value, then another: the second alone
        rewrite(
            "cast-cast", outer_cast, cast(x, dtype=dtype_of(outer_cast)), when(widens, type_of(x), type_of(inner_cast))
        ),
        rewrite("cast-nothing", inner_cast, x),
        rewrite(
            "cast-into-running-sum",
            cast_of_sums,
            like(running_sum, cast(x, dtype=dtype_of(cast_of_sums)), dtype=""),
            when(narrows_sums, attrs_of(running_sum), type_of(x), type_of(cast_of_sums)),
        ),
        # what a clip leaves fits into the narrow dtype: that cast does nothing
        rewrite(
            "cast-of-clip", cast_again, cast_once, when(keeps_whole, attrs_of(clipped), type_of(x), type_of(narrowed))
        ),
        # NaN is no integer
        rewrite(
            "cast-of-clipped-float",
            cast_again,
            cast_once,
            when(truncates_once, attrs_of(clipped), type_of(x), type_of(narrowed), type_of(cast_again)),
            soundness=Soundness.FINITE,
        ),
    ],
)

shape = RuleSet("shape", [views, orders, casts])

# ---- expansions: operators that broadcast take them in, others let them through


def broadcasts(root: TensorType, *operands: TensorType) -> bool:
    """Guard: operands of these types broadcast to the shape of the root by themselves."""
    shape: tuple[Dim, ...] = ()
    try:
        for ty in operands:
            shape = broadcast_shape(shape, ty.shape)
    except TypeCheckError:
        return False
    return is_exact(root) and shape == root.shape


def absorbed(name: str, expand: Callable[..., DFPattern], *rest: DFPattern) -> list[Rewrite]:
    """Operators that take in an expansion, or let it through.

    Args:
        name: how the rules call the expansion.
        expand: makes the pattern of an expansion of its arguments.
        rest: the arguments of the expansion behind the first one.
    """
    spread, nothing = expand(x, *rest), expand(zero, *rest)
    places = {
        "first-operand": (binary(spread, y), (x, y)),
        "second-operand": (binary(y, spread), (y, x)),
        "condition": (where(spread, y, z), (x, y, z)),
        "choice": (where(y, spread, z), (y, x, z)),
        "other-choice": (where(y, z, spread), (y, z, x)),
    }
    applied, selected = unary(spread), where(spread, c, d)
    added, summed = w + where(spread, y, z), w + (y + spread)
    return [
        *[
            rewrite(
                f"{name}-into-{place}",
                call,
                like(call, *operands),
                when(broadcasts, type_of(call), *map(type_of, operands)),
            )
            for place, (call, operands) in places.items()
        ],
        # what is chosen by an expansion is often added to what is as large: a mask to scores
        rewrite(
            f"{name}-into-condition-of-summand",
            added,
            w + where(x, y, z),
            when(broadcasts, type_of(added), *map(type_of, (w, x, y, z))),
        ),
        rewrite(
            f"{name}-into-summand",
            summed,
            like(summed, w, y + x),
            when(broadcasts, type_of(summed), *map(type_of, (w, y, x))),
        ),
        rewrite(f"add-{name}ed-zero", y + nothing, y, soundness=Soundness.ROUNDING, contracts=True),
        # f(expand(x)) = expand(f(x))
        rewrite(f"{name}-after-function", applied, like(spread, like(applied, x), *rest)),
        rewrite(
            f"{name}-after-choice",
            selected,
            like(spread, like(selected, x, c, d), *rest),
            when(lambda *types: not any(map(rank_of, types)), type_of(c), type_of(d)),
        ),
    ]


filled_by_sizes = is_op("dyn.full")(c, sizes)

broadcasting = RuleSet(
    "broadcasting",
    [
        absorbed("expand", is_op("broadcast_to")),
        absorbed("dynamic-expand", is_op("dyn.broadcast_to"), sizes),
        rewrite(
            "fill-is-expansion",
            filled_by_sizes,
            is_op("dyn.broadcast_to")(c, sizes),
            when(same_dtype, type_of(filled_by_sizes), type_of(c)),
        ),
        rewrite(
            "dynamic-expand-expand",
            is_op("dyn.broadcast_to")(is_op("dyn.broadcast_to")(x, sizes), more_sizes),
            is_op("dyn.broadcast_to")(x, more_sizes),
        ),
    ],
)

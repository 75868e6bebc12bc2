"""Convolutions and pools: what goes past them, and what they take in.

They absorb the padding before them. Scales and shifts travel through pools to a product that absorbs them, and pools of
branches are joined. A scale passes a maximum pool where it is positive, and a shift always does. A scale passes every
average pool, and a shift does where no padding is averaged. Both are constants that vary along the channels at most.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    base,
    compute,
    constants,
    derived,
    distinct,
    like,
    plain,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    weighted,
    when,
)
from eqsat.egraph.bases import POOLS
from eqsat.egraph.rule import Array, Base, Derived, Distinct, Guard, Refusal, Rewrite, RuleSet, Settled, Soundness
from eqsat.egraph.scales import is_moderate
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, many
from eqsat.relay.op import concatenate, mean
from eqsat.relay.op.nn.window import SPATIAL, channels_first, takes_data_only
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import reduced_axes
from eqsat.rules.joining import all_same
from eqsat.rules.operators import view
from eqsat.rules.products import CONVOLUTIONS, channel_count, scaled_weight
from eqsat.rules.shape import reshaped
from eqsat.rules.types import Shape, floats, floats_of_one_dtype, is_float, is_number, rank_of
from eqsat.rules.values import all_positive, is_finite, scales_safely, zero

(x,) = variables("x")
parameters = variables("kernel_point scale kernel_scale")
s, c, b, w, lowest, point = constants("s c b w lowest point")
(weight,) = variables("w")
ROUNDING = Soundness.ROUNDING

GLOBAL = [name for name in POOLS if "global" in name]
WINDOWED = [name for name in POOLS if name not in GLOBAL]


def _short(name: str) -> str:
    return name.removeprefix("nn.").replace("_", "-").replace(".", "-")


# ---- padding

padded = is_op("nn.pad")(x, zero)
padded_low = is_op("nn.pad")(x, lowest)
padded_twice = is_op("nn.pad")(padded, zero)


def more_padding(pad: Attrs, attrs: Attrs) -> Shape | Refusal:
    """The padding of a convolution or pool of channels-first data that does the work of a pad before it, too."""
    rank = len(attrs.strides)
    layout = attrs.get("data_layout", attrs.get("layout"))
    if layout != channels_first(rank) or pad.pad_mode != "constant":
        return refuse("it is no constant padding of channels-first data")
    widths = [tuple(width) for width in pad.pad_width]
    if any(side for width in widths[:2] for side in width) or any(side < 0 for width in widths for side in width):
        return refuse("it pads the batch or the channels, or crops")
    begins, ends = zip(*widths[2:], strict=True)
    more = (*begins, *ends)
    return tuple(map(sum, zip(more, attrs.padding, strict=True)))


def may_reach(pad: Attrs, attrs: Attrs) -> bool:
    """Guard: every window of a pool reaches beyond the padding, as formats demand, and averages count all padding."""
    more = more_padding(pad, attrs)
    sizes = tuple(attrs.pool_size) * 2
    counts = attrs.get("count_include_pad", True) or not any(attrs.padding)
    return counts and isinstance(more, tuple) and not attrs.ceil_mode and all(map(operator.lt, more, sizes))


def is_lowest(value: Array) -> bool:
    """Guard: a constant is the least value of its dtype."""
    lowest = np.iinfo(value.dtype).min if value.dtype.kind in "iu" else -np.inf
    return bool(value.size == 1 and value.dtype.kind in "iuf" and value.flat[0] == lowest)


def both_widths(inner: Attrs, outer: Attrs) -> tuple[Shape, ...] | Refusal:
    """The widths of two pads, one after the other, added up."""
    widths = [tuple(map(sum, zip(*pair, strict=True))) for pair in zip(inner.pad_width, outer.pad_width, strict=True)]
    plain = all(side >= 0 for each in (inner, outer) for width in each.pad_width for side in width)
    same = inner.pad_mode == outer.pad_mode == "constant"
    return tuple(widths) if plain and same else refuse("they differ in mode, or crop")


def into(
    name: str, pad: DFPattern, *rest: DFPattern, guard: Guard | None = None, exact: bool = False, **changes: object
) -> Rewrite:
    """f(pad(x), ..) = f(x, ..) with more padding

    Args:
        name: the operator.
        pad: the pattern of the padded data.
        rest: the other arguments.
        guard: what the padding is with.
        exact: whether every bit stays.
        changes: other attributes of the operator.
    """
    call = is_op(name)(pad, *rest)
    guards = [guard] if guard is not None else []
    if "pool" in name:
        guards.append(when(may_reach, attrs_of(pad), attrs_of(call)))
    return rewrite(
        f"pad-into-{_short(name)}",
        call,
        like(call, x, *rest, padding=compute(more_padding, attrs_of(pad), attrs_of(call)), **changes),
        *guards,
        soundness=Soundness.EXACT if exact else ROUNDING,
    )


# the zero point stands for 0
with_zero_point = when(lambda value, zero: zero.size == 1 and np.all(value == zero), value_of(lowest), value_of(point))
with_lowest = when(is_lowest, value_of(lowest))

windows = RuleSet(
    "windows",
    [
        rewrite(
            "pad-nothing", padded_low, x, when(lambda attrs: not any(map(any, attrs.pad_width)), attrs_of(padded_low))
        ),
        rewrite(
            "pad-of-pad",
            padded_twice,
            like(padded, x, zero, pad_width=compute(both_widths, attrs_of(padded), attrs_of(padded_twice))),
        ),
        into("qnn.conv2d", padded_low, weight, point, *parameters, guard=with_zero_point),
        *[into(f"nn.conv{rank}d", padded, weight) for rank in (1, 2, 3)],
        *[into(f"nn.avg_pool{rank}d", padded, count_include_pad=True) for rank in (1, 2, 3)],
        *[into(f"nn.max_pool{rank}d", padded_low, guard=with_lowest, exact=True) for rank in (1, 2, 3)],
    ],
)

# ---- scales and shifts


def scales_positively(value: Array) -> bool:
    return scales_safely(value) and all_positive(value)


def may_scale(name: str) -> Callable[[Array], bool]:
    """The guard of scales that may be moved past a pool."""
    return scales_positively if "max" in name else scales_safely


def is_along_channels(attrs: Attrs, of: TensorType, constant: TensorType) -> bool:
    """Guard: the constant varies along the channels of channels-first data only."""
    rank = rank_of(of) - 2
    return rank in SPATIAL and attrs.layout == channels_first(rank) and bool(channel_count(constant, of, 1))


def through(name: str) -> list[Rewrite]:
    """The rules that a pool commutes with a scale, a shift and a bias.

    These go inward where a weight absorbs them. Elsewhere scales and shifts go outward, where they meet.
    """
    short, is_maximum = _short(name), "max" in name
    pooled, scaled = is_op(name), x * s
    pool, affine, shifted = pooled(x), scaled + c, x + c
    biased = nn.bias_add(pool, b)

    def along(whole: DFPattern, *constants: DFPattern) -> list[Guard]:
        """The constants lie along the channels, and all are floats."""
        return [
            *[when(is_along_channels, attrs_of(whole), type_of(x), type_of(each)) for each in constants],
            when(floats_of_one_dtype, type_of(x), type_of(whole), *map(type_of, constants)),
        ]

    def may_shift(whole: DFPattern, constant: DFPattern) -> list[Guard]:
        finite = when(is_finite, value_of(constant))
        return [finite] if is_maximum else [finite, when(takes_data_only, attrs_of(whole), type_of(x))]

    def law(
        verb: str, left: DFPattern, right: DFPattern, *guards: Guard | Distinct | Base | Settled | Derived
    ) -> Rewrite:
        return rewrite(f"{verb}-{short}", left, right, *guards, soundness=ROUNDING)

    may_multiply = when(may_scale(name), value_of(s))
    may_leave = [when(is_moderate, value_of(s)), *([when(all_positive, value_of(s))] if is_maximum else [])]
    out_of_scaled, out_of_shifted, out_of_affine = pooled(scaled), pooled(shifted), pooled(affine)
    added = pool + c

    return [
        # pool(x) s = pool(x s)
        law("scale-through", pool * s, like(pool, x * s), may_multiply, *along(pool, s), weighted(x), base(pool)),
        # pool(x) + c = pool(x + c)
        law(
            "shift-through",
            added,
            like(pool, x + c),
            *along(pool, c),
            *may_shift(pool, c),
            weighted(x),
            derived(added, pool),
        ),
        # pool(x s) = pool(x) s
        law(
            "scale-out-of",
            out_of_scaled,
            like(out_of_scaled, x) * s,
            *may_leave,
            *along(out_of_scaled, s),
            distinct(scaled, x),
            base(x),
            plain(x),
        ),
        # pool(x + c) = pool(x) + c
        law(
            "shift-out-of",
            out_of_shifted,
            like(out_of_shifted, x) + c,
            *along(out_of_shifted, c),
            *may_shift(out_of_shifted, c),
            distinct(shifted, x),
            base(x),
            plain(x),
        ),
        # pool(x s + c) = pool(x) s + c
        law(
            "scale-and-shift-out-of",
            out_of_affine,
            like(out_of_affine, x) * s + c,
            *may_leave,
            *along(out_of_affine, s, c),
            *may_shift(out_of_affine, c),
            distinct(affine, scaled, x),
            base(x),
            plain(x),
        ),
        # bias(pool(x), b) = pool(bias(x, b))
        law(
            "bias-through",
            biased,
            like(pool, like(biased, x, b)),
            when(lambda bias: bias.axis == 1, attrs_of(biased)),
            when(lambda attrs, ty: attrs.layout == channels_first(rank_of(ty) - 2), attrs_of(pool), type_of(x)),
            when(is_float, type_of(x)),
            *may_shift(pool, b),
            weighted(x),
        ),
    ]


def into_conv(name: str) -> Rewrite:
    """conv(pool(x s), w) = conv(pool(x), s w)"""
    pool = is_op(name)(x * s)
    conv = nn.conv2d(pool, w)

    return rewrite(
        f"scale-through-{_short(name)}-into-conv2d",
        conv,
        like(conv, like(pool, x), scaled_weight(CONVOLUTIONS[1], "inputs", w, s, x, conv)),
        when(may_scale(name), value_of(s)),
        when(is_along_channels, attrs_of(pool), type_of(x), type_of(s)),
        when(floats_of_one_dtype, type_of(x), type_of(s), type_of(w), type_of(conv)),
        soundness=ROUNDING,
    )


# ---- branches that join


def joins_images(concat: Attrs, pools: Sequence[Attrs], images: Sequence[TensorType]) -> bool:
    """Guard: images are joined along the batch or the channels, and are equal but for that."""
    rank = rank_of(images[0])
    axis = axis_index(concat.axis, rank)
    if axis > 1 or pools[0].layout != channels_first(rank - 2) or not all(map(is_static, images)):
        return False
    rest = [(*ty.shape[:axis], *ty.shape[axis + 1 :], ty.dtype) for ty in images]
    return all(each == rest[0] for each in rest)


def concat_of_pools(name: str) -> Rewrite:
    """concat(pool x, pool y, ..) = pool(concat(x, y, ..))"""
    pool = is_op(name)(x)
    whole = concatenate(is_tuple([many(pool)]))

    short = _short(name)
    return rewrite(
        f"concat-of-{short}",
        whole,
        like(pool, like(whole, is_tuple([many(x)]))),
        when(all_same, attrs_of(pool)),
        when(joins_images, attrs_of(whole), attrs_of(pool), type_of(x)),
    )


def is_nothing(attrs: Attrs) -> bool:
    """Guard: each window is one element, and each element has one."""
    return all(each == 1 for each in (*attrs.pool_size, *attrs.strides)) and not any(attrs.padding)


def of_one(name: str) -> Rewrite:
    """pool(x) = x, for windows of one element"""
    pool = is_op(name)(x)
    return rewrite(
        f"{_short(name)}-nothing",
        pool,
        x,
        when(is_nothing, attrs_of(pool)),
        when(is_number, type_of(x)),
        soundness=Soundness.EXACT if "max" in name else ROUNDING,
    )


def is_one_place(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: there is one place in space, in a layout that the pool keeps."""
    rank = rank_of(ty) - 2
    if {attrs.layout, attrs.out_layout or attrs.layout} != {channels_first(rank)}:
        return False
    return is_number(ty) and all(dim == 1 for dim in ty.shape[2:])


def of_one_place(name: str) -> Rewrite:
    """pool(x) = x, for images of one place"""
    pool = is_op(name)(x)
    return rewrite(
        f"{_short(name)}-of-one-place",
        pool,
        x,
        when(is_one_place, attrs_of(pool), type_of(x)),
        soundness=Soundness.EXACT if "max" in name else ROUNDING,
        contracts=True,
    )


# ---- pools over all of space are reductions


def is_of_all(attrs: Attrs, ty: TensorType, root: TensorType) -> bool:
    """Guard: images whose channels come first become one element each, and a view leaves no axes of space."""
    rank = rank_of(ty) - 2
    size = attrs.get("output_size", (1,) * rank)
    layouts = {attrs.layout, attrs.out_layout or attrs.layout}
    is_whole = size is not None and {*size} == {1} and layouts == {channels_first(rank)}
    return bool(is_whole and is_static(ty) and 0 not in ty.shape and root.shape == ty.shape[:2])


def view_of_all(name: str, reduction: str) -> Rewrite:
    """view(pool(x)) = mean(x) over space: a reduction needs no view after it."""
    pool = is_op(name)(x)
    flat = view(pool)
    return rewrite(
        f"view-of-{_short(name)}",
        flat,
        is_op(reduction)(x).has_attr({"axis": compute(lambda ty: tuple(range(2, rank_of(ty))), type_of(x))}),
        floats(x),
        when(is_of_all, attrs_of(pool), type_of(x), type_of(flat)),
        soundness=ROUNDING,  # which of the zeros 0 and -0 is the greatest depends on the order
    )


def is_over_space(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a reduction leaves one element of each channel of an image, whose channels come first."""
    return rank_of(ty) == 4 and is_static(ty) and 0 not in ty.shape and [*reduced_axes(attrs, ty)] == [2, 3]


def mean_of_image(name: str, image: DFPattern, constant: DFPattern) -> Rewrite:
    """mean(x s) = view(pool(x s)) over space, as scales and shifts leave pools."""
    whole = mean(image)
    return rewrite(
        f"mean-of-{name}-image",
        whole,
        reshaped(nn.global_avg_pool2d(image), whole, is_matched=False),
        floats(x),
        when(is_over_space, attrs_of(whole), type_of(x)),
        when(lambda ty, of: bool(channel_count(ty, of, 1)), type_of(constant), type_of(x)),
        soundness=ROUNDING,
    )


OF_ALL = ("nn.global_{}_pool2d", "nn.adaptive_{}_pool1d", "nn.adaptive_{}_pool3d")


pools = RuleSet(
    "pools",
    [
        *[view_of_all(name.format(of), kind) for of, kind in (("avg", "mean"), ("max", "max")) for name in OF_ALL],
        mean_of_image("scaled", x * s, s),
        mean_of_image("shifted", x + c, c),
        *map(of_one, WINDOWED),
        *map(of_one_place, GLOBAL),
        *[rule for name in POOLS for rule in through(name)],
        *[into_conv(name) for name in WINDOWED if "2d" in name],
        *[concat_of_pools(name) for name in POOLS if "2d" in name],
    ],
)

"""Convolutions and pools absorb the padding before them."""

from __future__ import annotations

import operator

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.op.nn.window import channels_first
from eqsat.rules.types import Shape
from eqsat.rules.values import zero

x, w = variables("x w")
parameters = variables("kernel_point scale kernel_scale")
lowest, point = constants("lowest point")
ROUNDING = Soundness.ROUNDING

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


def has_no_padding(attrs: Attrs) -> bool:
    return attrs.count_include_pad or not any(attrs.padding)


def is_inside(pad: Attrs, attrs: Attrs) -> bool:
    """Guard: every window of a pool reaches beyond the padding, as formats demand."""
    more = more_padding(pad, attrs)
    sizes = tuple(attrs.pool_size) * 2
    return isinstance(more, tuple) and not attrs.ceil_mode and all(map(operator.lt, more, sizes))


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


def pads_nothing(attrs: Attrs) -> bool:
    return not any(side for width in attrs.pad_width for side in width)


def into_conv(rank: int) -> Rewrite:
    """conv(pad(x), w) = conv(x, w) with more padding"""
    conv = is_op(f"nn.conv{rank}d")(padded, w)
    return rewrite(
        f"pad-into-conv{rank}d",
        conv,
        like(conv, x, w, padding=compute(more_padding, attrs_of(padded), attrs_of(conv))),
        soundness=ROUNDING,
    )


def into_quantized() -> Rewrite:
    """qnn.conv2d(pad(x, zero point), w) = qnn.conv2d(x, w) with more padding, for the zero point stands for 0"""
    filled = is_op("nn.pad")(x, lowest)
    conv = is_op("qnn.conv2d")(filled, w, point, *parameters)
    return rewrite(
        "pad-into-qnn-conv2d",
        conv,
        like(conv, x, w, point, *parameters, padding=compute(more_padding, attrs_of(filled), attrs_of(conv))),
        when(lambda value, zero: zero.size == 1 and bool(np.all(value == zero)), value_of(lowest), value_of(point)),
        soundness=ROUNDING,
    )


def into_average(rank: int) -> Rewrite:
    """avg_pool(pad(x)) = avg_pool(x) with more padding, which counts"""
    pool = is_op(f"nn.avg_pool{rank}d")(padded)
    return rewrite(
        f"pad-into-avg-pool{rank}d",
        pool,
        like(pool, x, padding=compute(more_padding, attrs_of(padded), attrs_of(pool)), count_include_pad=True),
        when(has_no_padding, attrs_of(pool)),
        when(is_inside, attrs_of(padded), attrs_of(pool)),
        soundness=ROUNDING,
    )


def into_maximum(rank: int) -> Rewrite:
    """max_pool(pad(x)) = max_pool(x) with more padding, where the pad is with the least value"""
    pool = is_op(f"nn.max_pool{rank}d")(padded_low)
    return rewrite(
        f"pad-into-max-pool{rank}d",
        pool,
        like(pool, x, padding=compute(more_padding, attrs_of(padded_low), attrs_of(pool))),
        when(is_lowest, value_of(lowest)),
        when(is_inside, attrs_of(padded_low), attrs_of(pool)),
    )


windows = RuleSet(
    "windows",
    [
        rewrite("pad-nothing", padded_low, x, when(pads_nothing, attrs_of(padded_low))),
        rewrite(
            "pad-of-pad",
            padded_twice,
            like(padded, x, zero, pad_width=compute(both_widths, attrs_of(padded), attrs_of(padded_twice))),
        ),
        into_quantized(),
        *[make(rank) for make in (into_conv, into_average, into_maximum) for rank in (1, 2, 3)],
    ],
)

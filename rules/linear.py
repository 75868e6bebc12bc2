"""Scales and shifts absorbed by the weights and biases of convolutions and matrix products.

``w`` and the scales are constants, so what the rules build of them is folded and costs nothing at run time.
"""

from __future__ import annotations

from typing import Any

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.op import reshape
from eqsat.relay.ty import TensorType, Type, is_static

x, y = variables("x y")
w, s, b, c = constants("w s b c")

ROUNDING = Soundness.ROUNDING


def channel_count(shift: Type, of: Type, axis: int) -> Any:
    """Length of the channel ``axis`` of ``of`` when ``shift`` broadcasts against it along that axis only."""
    if not is_static(shift) or not isinstance(of, TensorType) or len(shift.shape) > len(of.shape):
        return refuse("the shape of the constant is not known")
    axis %= len(of.shape)
    padded = (1,) * (len(of.shape) - len(shift.shape)) + shift.concrete_shape
    others = padded[:axis] + padded[axis + 1 :]
    if any(dim != 1 for dim in others) or padded[axis] not in (1, of.shape[axis]):
        return refuse("the constant varies along another axis than the channels")
    return of.shape[axis] if padded[axis] != 1 else 1


def per_channel(axis: int) -> Any:
    """A computed ``newshape`` that makes a vector of a constant that varies along the channel axis only."""

    def newshape(shift: Type, of: Type) -> Any:
        channels = channel_count(shift, of, axis)
        if channels == 1 and isinstance(of, TensorType) and of.shape[axis] != 1:
            return refuse("the constant is one number, not one for each channel")
        return channels and (channels,)

    return newshape


def over_outputs(rank: int) -> Any:
    """A computed ``newshape`` that lays a per-channel scale over the output axis of a weight of ``rank`` axes."""

    def newshape(scale: Type, of: Type) -> Any:
        channels = channel_count(scale, of, 1 if rank > 2 else -1)
        return channels and (channels,) + (1,) * (rank - 1)

    return newshape


def is_nchw(attrs: Any) -> bool:
    """Whether channels are axis 1 of data and result, and outputs axis 0 of the weight."""
    return attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW" and attrs.out_layout in ("", "NCHW", None)


def on_axis_1(attrs: Any) -> bool:
    return bool(attrs.axis == 1)


def on_last_axis(attrs: Any, of: TensorType) -> bool:
    return attrs.axis in (-1, len(of.shape) - 1)


conv = nn.conv2d(x, w)
dense = nn.dense(x, w)
shifted = nn.bias_add(y, b)
shifted_again = nn.bias_add(shifted, c)

linear = RuleSet(
    "linear",
    [
        # (x (*) w) s = x (*) (w s)
        rewrite(
            "scale-into-conv",
            conv * s,
            like(conv, x, w * reshape(s, newshape=compute(over_outputs(4), type_of(s), type_of(conv)))),
            when(is_nchw, attrs_of(conv)),
            soundness=ROUNDING,
        ),
        # (x w) s = x (w s)
        rewrite(
            "scale-into-dense",
            dense * s,
            like(dense, x, w * reshape(s, newshape=compute(over_outputs(2), type_of(s), type_of(dense)))),
            soundness=ROUNDING,
        ),
        # y + c = bias(y, c) where c is one number a channel
        rewrite(
            "shift-is-conv-bias",
            conv + c,
            nn.bias_add(conv, reshape(c, newshape=compute(per_channel(1), type_of(c), type_of(conv))), axis=1),
            when(is_nchw, attrs_of(conv)),
        ),
        rewrite(
            "shift-is-dense-bias",
            dense + c,
            nn.bias_add(dense, reshape(c, newshape=compute(per_channel(-1), type_of(c), type_of(dense))), axis=-1),
        ),
        rewrite(
            "shift-of-bias",
            shifted + c,
            like(shifted, y, b + reshape(c, newshape=compute(per_channel(1), type_of(c), type_of(y)))),
            when(on_axis_1, attrs_of(shifted)),
            soundness=ROUNDING,
        ),
        # (y + b) + c = y + (b + c)
        rewrite(
            "bias-bias",
            shifted_again,
            like(shifted, y, b + c),
            when(lambda inner, outer: inner == outer, attrs_of(shifted), attrs_of(shifted_again)),
            soundness=ROUNDING,
        ),
        # (y + b) s = y s + b s
        rewrite(
            "scale-of-bias",
            shifted * s,
            like(shifted, y * s, b * reshape(s, newshape=compute(per_channel(1), type_of(s), type_of(y)))),
            when(on_axis_1, attrs_of(shifted)),
            soundness=ROUNDING,
        ),
    ],
)

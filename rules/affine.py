"""Scales and shifts of what a convolution takes in go into its weight and bias.

A shift passes a convolution that adds no padding; past padding, which is 0 whatever the shift, only the scale goes.
Matrix products and scales alone are matters of :mod:`eqsat.rules.linear`.
"""

from __future__ import annotations

from typing import Any

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.op import broadcast_to, reshape
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.linear import CONVOLUTIONS, Product, channel_count, drawn, is_something, laid_over, same_floats
from eqsat.rules.operators import rank_of, shape_of
from eqsat.rules.pools import is_usual

(x,) = variables("x")
w, s, c = constants("w s c")
ROUNDING = Soundness.ROUNDING


def has_no_padding(attrs: Any) -> bool:
    return not any(attrs.padding)


def window(attrs: Any, of: TensorType, weight: TensorType) -> Any:
    """The shape of what one output of a convolution of ``of`` is made of."""
    channels, kernel = of.shape[1], shape_of(weight)
    if not isinstance(kernel, tuple) or not isinstance(channels, int):
        return refuse("the number of channels is not known")
    return (1, channels, *[(taps - 1) * step + 1 for taps, step in zip(kernel[2:], attrs.dilation, strict=True)])


def along_channels(constant: Type, of: Type) -> Any:
    """The shape of a constant that varies along the channels of ``of`` only, with as many axes."""
    count = channel_count(constant, of, 1)
    return (1, count, *[1] * (rank_of(of) - 2)) if count else count


def outputs(weight: TensorType) -> Any:
    shape = shape_of(weight)
    return shape[:1] if isinstance(shape, tuple) else shape


def through(product: Product) -> list[Any]:
    """What passes a convolution."""
    shifted, scaled_and_shifted = product(x + c, w), product(x * s + c, w)
    image = broadcast_to(
        reshape(c, newshape=compute(along_channels, type_of(c), type_of(x))),
        shape=compute(window, attrs_of(shifted), type_of(x), type_of(w)),
    )
    bias = reshape(like(shifted, image, w), newshape=compute(outputs, type_of(w)))
    scaled = (type_of(s), type_of(x), attrs_of(scaled_and_shifted), type_of(w))
    scaled_weight = w * reshape(s, newshape=compute(laid_over(product, "inputs"), *scaled))
    inverse = compute(lambda scale: 1 / scale, value_of(s))
    return [
        # (x + c) (*) w = x (*) w + c (*) w
        rewrite(
            f"shift-through-{product.short}",
            shifted,
            nn.bias_add(like(shifted, x, w), bias, axis=1),
            when(has_no_padding, attrs_of(shifted)),
            when(lambda attrs, weight: bool(product.weight(attrs, weight)), attrs_of(shifted), type_of(w)),
            when(is_something, value_of(c)),
            when(same_floats, type_of(x), type_of(w), type_of(c), type_of(shifted)),
            soundness=ROUNDING,
            examples=drawn(product, lambda draw, call, x, w, of: call(x + of(x), w)),
        ),
        # (x s + c) (*) w = (x + c / s) (*) (s w)
        rewrite(
            f"scale-and-shift-through-{product.short}",
            scaled_and_shifted,
            like(scaled_and_shifted, x + c * inverse, scaled_weight),
            when(lambda attrs: not has_no_padding(attrs), attrs_of(scaled_and_shifted)),
            when(is_usual, value_of(s)),
            when(same_floats, type_of(x), type_of(w), type_of(s), type_of(c), type_of(scaled_and_shifted)),
            soundness=ROUNDING,
            examples=drawn(product, lambda draw, call, x, w, of: call(x * of(x) + of(x), w)),
        ),
    ]


affine = RuleSet("affine", [rule for product in CONVOLUTIONS for rule in through(product)])

"""Scales and shifts of what a convolution takes in go into its weight and bias.

A shift passes a convolution that adds no padding; past padding, which is 0 whatever the shift, only the scale goes.
Matrix products and scales alone are matters of :mod:`eqsat.rules.linear`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_tuple_get_item
from eqsat.relay.op import broadcast_to, reshape
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.linear import (
    CONVOLUTIONS,
    Product,
    as_bias,
    channel_count,
    is_something,
    laid_over,
    same_floats,
)
from eqsat.rules.operators import rank_of, shape_of
from eqsat.rules.pools import is_usual

(x,) = variables("x")
w, s, c, b = constants("w s c b")
ROUNDING = Soundness.ROUNDING


def has_no_padding(attrs: Any) -> bool:
    return not any(attrs.padding)


def window(attrs: Any, of: TensorType, weight: TensorType) -> Any:
    """The shape of what one output of a convolution of ``of`` is made of."""
    kernel = shape_of(weight)
    if rank_of(of) != rank_of(weight) or not isinstance(kernel, tuple):
        return refuse("the shift adds axes, or the shape of the weight is not known")
    channels = of.shape[1]
    if not isinstance(channels, int):
        return refuse("the number of channels is not known")
    return (1, channels, *[(taps - 1) * step + 1 for taps, step in zip(kernel[2:], attrs.dilation, strict=True)])


def beside(constant: Type, of: Type) -> Any:
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
        reshape(c, newshape=compute(beside, type_of(c), type_of(x))),
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
        ),
    ]


# ---- what no product absorbs


def is_per_channel(of: TensorType, scale: TensorType, shift: TensorType) -> bool:
    """Guard: constants that vary along axis 1, of a dtype that batch norms are common for."""
    channels = of.shape[1] if rank_of(of) > 1 else None
    if of.dtype not in ("float32", "float64") or not isinstance(channels, int) or channels == 1:
        return False
    alike = scale.dtype == shift.dtype == of.dtype
    return alike and all(channel_count(each, of, 1) == channels for each in (scale, shift))


def is_finite(*values: NDArray[Any]) -> bool:
    return all(bool(np.all(np.isfinite(value))) for value in values)


def neutral(number: float) -> Any:
    """A vector of a number, as long as ``x`` has channels."""
    return compute(lambda ty: np.full(ty.shape[1], number, ty.dtype), type_of(x))


def as_batch_norm(name: str, left: Any, shift: Any, *guards: Any) -> Any:
    """x s + c = batch_norm(x) of mean 0 and variance 1"""
    vectors = (as_bias(s, x, 1), shift, neutral(0.0), neutral(1.0))
    return rewrite(
        name,
        left,
        is_tuple_get_item(nn.batch_norm(x, *vectors, axis=1, epsilon=0.0), 0),
        *guards,
        soundness=ROUNDING,
    )


shifted, biased = x * s + c, nn.bias_add(x * s, b)

affine = RuleSet(
    "affine",
    [
        *[rule for product in CONVOLUTIONS for rule in through(product)],
        as_batch_norm(
            "affine-is-batch-norm",
            shifted,
            as_bias(c, x, 1),
            when(is_per_channel, type_of(x), type_of(s), type_of(c)),
            when(is_finite, value_of(s), value_of(c)),
        ),
        as_batch_norm(
            "bias-of-scaled-is-batch-norm",
            biased,
            b,
            when(lambda attrs, ty: attrs.axis in (1, 1 - rank_of(ty)), attrs_of(biased), type_of(x)),
            when(is_per_channel, type_of(x), type_of(s), type_of(s)),
            when(is_finite, value_of(s), value_of(b)),
        ),
    ],
)

"""Scales and shifts of the data of a convolution go into its weight and bias.

A shift passes a convolution that adds no padding. Padding is 0 whatever the shift, so where there is some only the
scale goes. Rules on matrix products, and on scales alone, are in :mod:`eqsat.rules.linear`.
"""

from __future__ import annotations

from eqsat.egraph.author import (
    attrs_of,
    bare,
    base,
    compute,
    constants,
    derived,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Guard, Refusal, Rewrite, RuleSet, Settled, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple_get_item
from eqsat.relay.op import broadcast_to, reshape
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.linear import is_nonzero
from eqsat.rules.products import CONVOLUTIONS, Product, as_bias, channel_count, scaled_weight
from eqsat.rules.types import Shape, floats_alike, rank_of, static_shape
from eqsat.rules.values import is_finite, scales_safely, vector_along

(x,) = variables("x")
w, s, c, b = constants("w s c b")
ROUNDING = Soundness.ROUNDING


def window(attrs: Attrs, of: TensorType, weight: TensorType) -> Shape | Refusal:
    """The shape of the part of ``of`` that one output of a convolution is made of."""
    kernel = static_shape(weight)
    if rank_of(of) != rank_of(weight) or not isinstance(kernel, tuple):
        return refuse("the shift adds axes, or the shape of the weight is not known")
    channels = of.shape[1]
    if not isinstance(channels, int):
        return refuse("the number of channels is not known")
    return (1, channels, *[(taps - 1) * step + 1 for taps, step in zip(kernel[2:], attrs.dilation, strict=True)])


def beside(constant: Type, of: Type) -> Shape | Refusal:
    """The shape of a constant that varies along the channels of ``of`` only, with as many axes as ``of``."""
    count = channel_count(constant, of, 1)
    return (1, count, *[1] * (rank_of(of) - 2)) if isinstance(count, int) else count


def outputs(weight: TensorType) -> Shape | Refusal:
    """The shape of a vector with an element for each output of a convolution."""
    shape = static_shape(weight)
    return shape[:1] if isinstance(shape, tuple) else shape


def through(product: Product) -> list[Rewrite]:
    """Shifts and scales of the data of a convolution, as its bias and in its weight."""
    moved, multiple = x + c, x * s
    shifted, scaled_and_shifted = product(moved, w), product(multiple + c, w)
    image = broadcast_to(
        reshape(c, newshape=compute(beside, type_of(c), type_of(x))),
        shape=compute(window, attrs_of(shifted), type_of(x), type_of(w)),
    )
    bias = reshape(like(shifted, image, w), newshape=compute(outputs, type_of(w)))
    weight = scaled_weight(product, "inputs", w, s, x, scaled_and_shifted)
    inverse = compute(lambda scale: 1 / scale, value_of(s))
    return [
        # (x + c) (*) w = x (*) w + c (*) w
        rewrite(
            f"shift-through-{product.short}",
            shifted,
            nn.bias_add(like(shifted, x, w), bias, axis=1),
            when(lambda attrs: not any(attrs.padding), attrs_of(shifted)),
            when(lambda attrs, weight: bool(product.weight(attrs, weight)), attrs_of(shifted), type_of(w)),
            when(is_nonzero, value_of(c)),
            floats_alike(x, w, c, shifted),
            derived(moved, x),
            soundness=ROUNDING,
        ),
        # (x s + c) (*) w = (x + c / s) (*) (s w)
        rewrite(
            f"scale-and-shift-through-{product.short}",
            scaled_and_shifted,
            like(scaled_and_shifted, x + c * inverse, weight),
            when(lambda attrs: any(attrs.padding), attrs_of(scaled_and_shifted)),
            when(scales_safely, value_of(s)),
            floats_alike(x, w, s, c, scaled_and_shifted),
            bare(x),
            derived(multiple, x),
            soundness=ROUNDING,
        ),
    ]


# ---- what no product absorbs


def is_per_channel(of: TensorType, scale: TensorType, shift: TensorType) -> bool:
    """Guard: constants that vary along axis 1, of a dtype of which runtimes have batch normalization."""
    channels = of.shape[1] if rank_of(of) > 1 else None
    if of.dtype not in ("float32", "float64") or not isinstance(channels, int) or channels == 1:
        return False
    alike = scale.dtype == shift.dtype == of.dtype
    return alike and all(channel_count(each, of, 1) == channels for each in (scale, shift))


def as_batch_norm(name: str, of: DFPattern, left: DFPattern, shift: DFPattern, *guards: Guard | Settled) -> Rewrite:
    """x s + c = batch_norm(x) of mean 0 and variance 1"""
    vectors = (as_bias(s, of, 1), shift, vector_along(0, of, 1), vector_along(1, of, 1))
    return rewrite(
        name,
        left,
        is_tuple_get_item(nn.batch_norm(of, *vectors, axis=1, epsilon=0.0), 0),
        base(of),
        *guards,
        soundness=ROUNDING,
    )


def shifted_batch_norm(name: str, of: DFPattern, *guards: Guard | Settled) -> Rewrite:
    return as_batch_norm(
        name,
        of,
        of * s + c,
        as_bias(c, of, 1),
        when(is_per_channel, type_of(of), type_of(s), type_of(c)),
        when(is_finite, value_of(s), value_of(c)),
        *guards,
    )


biased = nn.bias_add(x * s, b)
rows = nn.dense(x, w) | nn.matmul(x, w) | nn.batch_matmul(x, w)

affine = RuleSet(
    "affine",
    [
        *[rule for product in CONVOLUTIONS for rule in through(product)],
        shifted_batch_norm("affine-is-batch-norm", x, bare(x)),
        # of weights that absorb scales of their outputs, which lie along another axis
        shifted_batch_norm("affine-of-rows-is-batch-norm", rows, when(lambda ty: rank_of(ty) > 2, type_of(rows))),
        as_batch_norm(
            "bias-of-scaled-is-batch-norm",
            x,
            biased,
            b,
            bare(x),
            when(lambda attrs, ty: attrs.axis in (1, 1 - rank_of(ty)), attrs_of(biased), type_of(x)),
            when(is_per_channel, type_of(x), type_of(s), type_of(s)),
            when(is_finite, value_of(s), value_of(b)),
        ),
    ],
)

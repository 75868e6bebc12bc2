"""Layer, instance and group normalization: recognised in arithmetic, and scaled and shifted by constants.

A quotient by a square root is a product with ``rsqrt`` (:mod:`eqsat.rules.algebra`), so only that form is recognised.
RMSNorm is in :mod:`eqsat.rules.heads`, batch normalization in :mod:`eqsat.rules.batch_norms`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Compute, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import broadcast_to, cast, clip, mean, power, rsqrt, sqrt, sum, transpose
from eqsat.relay.ty import TensorType, Type
from eqsat.rules.axes import inverse_order, is_last, reduced_axes
from eqsat.rules.batch_norms import batch_norms
from eqsat.rules.products import as_parameter, every_channel
from eqsat.rules.types import floats, is_float, is_short_float, is_wide, keeps_floats, rank_of
from eqsat.rules.values import all_positive, epsilon_of, filled, one, scalar, vector, vector_along, zero

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE

x, gamma, beta, center, spread = variables("x gamma beta center spread")
eps, c, s = constants("eps c s")
g, b, m, v = constants("g b m v")
minus_half = filled(-0.5, "minus_half")


# ---- layer normalization

average = mean(x)
moved = x - average
variance = mean(moved * moved)
inverse = rsqrt(variance + eps)
plain = moved * inverse
layer_norm = nn.layer_norm(x, g, b)
unscaled = nn.layer_norm(x, one, zero)
unshifted = nn.layer_norm(x, gamma, zero)
scaled_only = nn.layer_norm(x, g, beta)
second_moment = mean(x * x)
bare_inverse = rsqrt(second_moment)
moment_and_more = second_moment + eps
power_of_moment = power(moment_and_more, minus_half)
power_difference = second_moment - average * average
off_average = x - like(average, x, keepdims=True)
spread_given = is_op("variance")(x, average)
channels = compute(lambda of, attrs: every_channel(of, attrs.axis), type_of(x), attrs_of(scaled_only))
turned = average - x
scaled_before, scaled_deviation = (moved * gamma) * inverse, moved * (inverse * gamma)


def over_one_axis(ty: Type, first: Attrs, second: Attrs) -> bool:
    """Guard: two reductions of ``x`` go over the same axis and keep it."""
    return same_axes(ty, first, second) and bool(first.keepdims) and len(reduced_axes(first, ty)) == 1


def same_axes(ty: Type, first: Attrs, second: Attrs) -> bool:
    """Guard: two reductions of ``x`` go over the same axes, and both keep them or both drop them."""
    return bool(first.keepdims) == bool(second.keepdims) and reduced_axes(first, ty) == reduced_axes(second, ty)


def same_spread(ty: Type, spread: Attrs, average: Attrs) -> bool:
    """Guard: a variance goes over the axes of a mean, and keeps them."""
    return same_axes(ty, spread, average) and bool(spread.keepdims) and not spread.unbiased


def axis_filled(value: float) -> Compute:
    """A vector of equal numbers, as long as the axis of ``x`` that the mean goes over."""

    def array(ty: TensorType, attrs: Attrs) -> Array | Refusal:
        return vector(value, ty.shape[reduced_axes(attrs, ty)[0]], ty.dtype)

    return compute(array, type_of(x), attrs_of(average))


def axis_averaged(attrs: Attrs, ty: Type) -> int:
    """The axis that a mean goes over, counted from the front; -1 for the last one."""
    (axis,) = reduced_axes(attrs, ty)
    return -1 if axis == rank_of(ty) - 1 else axis


def axis_last(attrs: Attrs, ty: Type) -> tuple[int, ...]:
    """The transpose that makes the axis of a normalization the last one."""
    axis = attrs.axis % rank_of(ty)
    return (*(other for other in range(rank_of(ty)) if other != axis), axis)


def axis_back(attrs: Attrs, ty: Type) -> tuple[int, ...]:
    return inverse_order(axis_last(attrs, ty))


def is_vector(of: TensorType, ty: TensorType) -> bool:
    """Guard: a parameter has one number for each place of the last axis."""
    return is_float(ty) and bool(ty.shape) and of.dtype == ty.dtype and tuple(of.shape) == (ty.shape[-1],)


def scales_and_shifts(attrs: Attrs) -> bool:
    return bool(attrs.scale and attrs.center)


def absorbing(name: str, call: DFPattern) -> list[Rewrite]:
    """Constants that scale and shift the result of a normalization, absorbed by its constant parameters."""
    laws = {
        # norm(x; g, b) s = norm(x; g s, b s)
        "scale": (s, call * s, (g * as_parameter(s, x, call), b * as_parameter(s, x, call))),
        # norm(x; g, b) + c = norm(x; g, b + c)
        "shift": (c, call + c, (g, b + as_parameter(c, x, call))),
    }
    return [
        rewrite(
            f"{verb}-into-{name}",
            whole,
            like(call, x, *parameters),
            when(scales_and_shifts, attrs_of(call)),
            floats(x, constant),
            soundness=ROUNDING,
        )
        for verb, (constant, whole, parameters) in laws.items()
    ]


def shortened(parameter: Array) -> Array | Refusal:
    """A parameter in float16, if it loses nothing."""
    with np.errstate(over="ignore"):
        short = parameter.astype(np.float16)
    return short if np.array_equal(short, parameter) else refuse("a parameter is no number of float16")


def is_widened(data: TensorType, inside: TensorType, narrowed: TensorType) -> bool:
    """Guard: float16 is normalized as float32, and narrowed again."""
    return (data.dtype, inside.dtype, narrowed.dtype) == ("float16", "float32", "float16")


def between_casts(name: str, call: Callable[..., DFPattern], *parameters: DFPattern) -> Rewrite:
    """cast(norm(cast(x))) = norm(x): a normalization of float16 has statistics of float32."""
    inside = call(cast(x), *parameters)
    narrowed = cast(inside)
    short = [compute(shortened, value_of(each)) for each in parameters]
    return rewrite(
        f"{name}-between-casts",
        narrowed,
        like(inside, x, *short),
        when(is_widened, type_of(x), type_of(inside), type_of(narrowed)),
        soundness=ROUNDING,
    )


layer_norms = RuleSet(
    "layer-norms",
    [
        between_casts("layer-norm", nn.layer_norm, g, b),
        # (mean x - x)^2 = (x - mean x)^2
        rewrite("deviation-either-way", turned * turned, moved * moved, when(is_float, type_of(x))),
        rewrite(
            "power-is-inverse-root",
            power_of_moment,
            rsqrt(moment_and_more),
            keeps_floats(power_of_moment, moment_and_more),
            when(all_positive, value_of(eps)),
            soundness=ROUNDING,
        ),
        # exporters leave out an epsilon that is nearly nothing
        rewrite("no-epsilon-is-zero", bare_inverse, rsqrt(second_moment + scalar(0, x)), floats(x)),
        # (x - mean x) / sqrt(mean((x - mean x)^2) + eps)
        rewrite(
            "layer-norm",
            plain,
            nn.layer_norm(
                x,
                axis_filled(1),
                axis_filled(0),
                axis=compute(axis_averaged, attrs_of(average), type_of(x)),
                epsilon=compute(epsilon_of, value_of(eps)),
            ),
            when(over_one_axis, type_of(x), attrs_of(average), attrs_of(variance)),
            floats(x),
            soundness=ROUNDING,
        ),
        # over another axis than the last
        rewrite(
            "layer-norm-transposed",
            layer_norm,
            transpose(
                like(
                    layer_norm, transpose(x, axes=compute(axis_last, attrs_of(layer_norm), type_of(x))), g, b, axis=-1
                ),
                axes=compute(axis_back, attrs_of(layer_norm), type_of(x)),
            ),
            when(lambda attrs, ty: attrs.axis not in (-1, rank_of(ty) - 1), attrs_of(layer_norm), type_of(x)),
            soundness=ROUNDING,
        ),
        # the scale may come in earlier
        rewrite("scale-before-norm", scaled_before, plain * gamma, when(is_wide, type_of(x)), soundness=ROUNDING),
        rewrite("scale-with-deviation", scaled_deviation, plain * gamma, soundness=ROUNDING),
        *[
            rewrite(
                f"layer-norm-{verb}",
                whole,
                like(call, x, gamma, other),
                when(is_vector, type_of(parameter), type_of(x)),
                when(lambda attrs, ty: scales_and_shifts(attrs) and is_last(attrs, ty), attrs_of(call), type_of(x)),
                soundness=ROUNDING,
            )
            for verb, call, whole, parameter, other in (
                ("scale", unscaled, unscaled * gamma, gamma, zero),
                ("shift", unshifted, unshifted + beta, beta, beta),
            )
        ],
        # norm(x; g, 0) = norm(x; g)
        rewrite(
            "layer-norm-by-no-shift",
            unshifted,
            like(unshifted, x, gamma, gamma, center=False),
            when(scales_and_shifts, attrs_of(unshifted)),
            soundness=ROUNDING,
        ),
        # norm(x; g) + b = norm(x; g, b)
        rewrite(
            "shift-of-layer-norm",
            scaled_only + c,
            like(scaled_only, x, g, broadcast_to(as_parameter(c, x, scaled_only), shape=channels), center=True),
            when(lambda attrs: bool(attrs.scale) and not attrs.center, attrs_of(scaled_only)),
            floats(x, c),
            soundness=ROUNDING,
        ),
        rewrite(
            "variance-written-out",
            spread_given,
            like(average, moved * moved),
            when(same_spread, type_of(x), attrs_of(spread_given), attrs_of(average)),
            floats(x),
            when(is_wide, type_of(x)),
            soundness=ROUNDING,
        ),
        # E x^2 - (E x)^2 = E (x - E x)^2, where the numbers are of one magnitude
        rewrite(
            "variance",
            power_difference,
            like(average, off_average * off_average),
            when(same_axes, type_of(x), attrs_of(second_moment), attrs_of(average)),
            floats(x),
            soundness=FINITE,
        ),
    ],
)

# ---- instance normalization, and lengths of one


def over_space(ty: Type, *attrs: Attrs) -> bool:
    """Guard: reductions of ``x`` go over all axes but the first two, and keep them."""
    space = tuple(range(2, rank_of(ty)))
    return bool(space) and all(each.keepdims and reduced_axes(each, ty) == space for each in attrs)


def bounds_from_below(attrs: Attrs) -> bool:
    return bool(attrs.a_min > 0 and attrs.a_max == np.inf)


squares = sum(x * x)
at_least, length = clip(squares), clip(sqrt(squares))
by_squares, by_length = x * rsqrt(at_least), x / length


def of_length_one(name: str, lhs: DFPattern, bound: DFPattern, eps_of: Callable[[Attrs], float]) -> Rewrite:
    """x / sqrt(max(sum(x x), eps)) = l2_normalize(x), with the epsilon that ``eps_of`` reads from the clip ``bound``"""
    axes = compute(reduced_axes, attrs_of(squares), type_of(x))
    return rewrite(
        name,
        lhs,
        nn.l2_normalize(x, eps=compute(eps_of, attrs_of(bound)), axis=axes),
        when(bounds_from_below, attrs_of(bound)),
        when(lambda attrs: bool(attrs.keepdims), attrs_of(squares)),
        keeps_floats(lhs, x),
        soundness=ROUNDING,
    )


others = RuleSet(
    "other-norms",
    [
        rewrite(
            "instance-norm",
            plain,
            nn.instance_norm(
                x, vector_along(1, x, 1), vector_along(0, x, 1), axis=1, epsilon=compute(epsilon_of, value_of(eps))
            ),
            when(over_space, type_of(x), attrs_of(average), attrs_of(variance)),
            when(is_short_float, type_of(x)),
            soundness=ROUNDING,
        ),
        of_length_one("l2-normalize", by_squares, at_least, lambda attrs: attrs.a_min),
        of_length_one("l2-normalize-by-length", by_length, length, lambda attrs: attrs.a_min**2),
    ],
)


normalization = RuleSet(
    "normalization",
    [
        batch_norms,
        layer_norms,
        others,
        *absorbing("layer-norm", layer_norm),
        *absorbing("instance-norm", nn.instance_norm(x, g, b)),
        *absorbing("group-norm", nn.group_norm(x, g, b)),
    ],
)

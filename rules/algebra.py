"""Arithmetic: neutral elements, constants that meet, common factors, powers and quotients.

Constants travel to the outside of an expression, where they meet: ``x - c`` becomes ``x + (-c)``, ``x / c`` becomes ``x
* (1/c)``, and ``(x a) y`` becomes ``(x y) a``. Rules on subtraction and negation keep every bit; a rule that changes
the order of two operations on floats rounds differently.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from eqsat.egraph.author import (
    bare,
    base,
    constants,
    derived,
    distinct,
    factor,
    non_constant,
    rewrite,
    term,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, ComposeChains, Distinct, Guard, Rewrite, RuleSet, Settled, Soundness
from eqsat.egraph.scales import is_moderate, is_scale
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import abs, exp, log, maximum, minimum, negative, power, rsqrt, sqrt
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.functions import functions, repeated
from eqsat.rules.operators import COMMUTATIVE
from eqsat.rules.types import floats, is_float, is_number, is_scalar, is_wide, keeps, keeps_floats
from eqsat.rules.values import (
    all_negative,
    all_positive,
    half,
    is_finite,
    keeps_order,
    minus_one,
    number_of,
    one,
    repeated_number,
    scalar,
    scales_safely,
    three,
    two,
    zero,
)

x, y, z = variables("x y z")
a, b, c, d = constants("a b c d")

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE


def is_large(ty: TensorType) -> bool:
    """Guard: more elements than constants have that are folded during saturation."""
    return is_static(ty) and math.prod(ty.concrete_shape) > 1024


Made: TypeAlias = Callable[..., tuple[Array | None, Array | None]]


def stay_numbers(made: Made) -> Callable[..., bool]:
    """Guard: the scale and the shift that are made of finite constants, or None, lose nothing when they are rounded.

    The constants have values, which is so for those that are folded during saturation.
    """

    def holds(*given: Array) -> bool:
        dtype = given[0].dtype
        if dtype.kind in "iub" or not is_finite(*given):
            return True
        with np.errstate(all="ignore"):
            scale, shift = made(*[value.astype(np.float64) for value in given])
            is_shift = shift is None or is_finite(shift.astype(dtype))
        return is_shift and (scale is None or is_scale(scale, shift, dtype))

    return holds


def are_of_one_sign(left: Array, right: Array) -> bool:
    """Guard: constants are all positive or all negative, and so is their sum, which is finite where they are.

    Integers have any sign: there is no infinity that they would be multiplied by.
    """
    are_alike = left.dtype.kind in "iu" or all_positive(left, right) or all_negative(left, right)
    return are_alike and stay_numbers(lambda a, b: (a + b, None))(left, right)


def are_of_opposite_signs(left: Array, right: Array) -> bool:
    """Guard: constants of which one is all positive and the other all negative, with a difference that is finite.

    As in :func:`are_of_one_sign`, integers have any sign.
    """
    differ = left.dtype.kind in "iu" or any(
        all_positive(one) and all_negative(other) for one, other in ((left, right), (right, left))
    )
    return differ and stay_numbers(lambda a, b: (a - b, None))(left, right)


def is_wide_scalar(ty: TensorType) -> bool:
    return is_scalar(ty) and is_wide(ty)


def is_wide_float(ty: TensorType) -> bool:
    return is_wide_scalar(ty) and is_float(ty)


# products and quotients that several rules speak of
power_of_two = power(x, two)
power_of_half = power(x, half)
power_of_three = power(x, three)
reciprocal_power = power(x, minus_one)
reciprocal = one / y
by_reciprocal, over_reciprocal = x * reciprocal, x / reciprocal
opposite = x * minus_one
greater_opposite = maximum(x, negative(x)) | maximum(negative(x), x)
by_root = x / sqrt(y)
scaled_twice = x * a + x * b
scaled_and_itself = x + x * a
scaled_difference, without_scaled, scaled_without = x * a - x * b, x - x * a, x * a - x
doubled = x + x
common_product = x * z + y * z
over_negative = b / negative(x)

neutral = RuleSet(
    "neutral",
    [
        # x + 0 may turn -0.0 into 0.0
        rewrite("add-zero", x + zero, x, soundness=ROUNDING, early=True),
        rewrite("subtract-zero", x - zero, x, early=True),
        rewrite("multiply-one", x * one, x, early=True),
        rewrite("divide-one", x / one, x, early=True),
        rewrite("power-one", power(x, one), x, early=True),
        rewrite("negate-twice", negative(negative(x)), x, when(is_number, type_of(x))),
        rewrite("abs-twice", abs(abs(x)), abs(x)),
        rewrite("abs-of-negative", abs(negative(x)), abs(x), floats(x)),
        rewrite("abs-of-opposite", abs(opposite), abs(x), keeps_floats(opposite, x)),
        rewrite("maximum-itself", maximum(x, x), x),
        # they are in either order where x is 0
        rewrite("maximum-of-opposites", greater_opposite, abs(x), floats(x), soundness=ROUNDING),
        rewrite("minimum-itself", minimum(x, x), x),
    ],
)

# what a constant does to x, in one form: x + c and x * c
canonical = RuleSet(
    "canonical",
    [
        rewrite("subtract-constant", x - a, x + negative(a), when(is_number, type_of(a)), non_constant(x), early=True),
        rewrite(
            "subtract-from-constant",
            a - x,
            x * scalar(-1, x) + a,
            when(is_number, type_of(x)),
            non_constant(x),
            early=True,
        ),
        rewrite("negate-is-multiply", negative(x), x * scalar(-1, x), when(is_number, type_of(x)), early=True),
        # and back, for rules that speak of negatives
        rewrite("multiply-minus-one", opposite, negative(x), keeps_floats(opposite, x), non_constant(x)),
        # the real quotient of integers is no integer
        rewrite(
            "divide-constant", x / a, x * (scalar(1, a) / a), floats(a), non_constant(x), soundness=ROUNDING, early=True
        ),
        rewrite("multiply-reciprocal", by_reciprocal, x / y, keeps_floats(by_reciprocal, x), soundness=ROUNDING),
        rewrite("divide-by-reciprocal", over_reciprocal, x * y, keeps_floats(reciprocal, y), soundness=ROUNDING),
        rewrite("divide-by-root", by_root, x * rsqrt(y), floats(y), soundness=ROUNDING),
        rewrite("square", power_of_two, x * x, keeps(power_of_two, x), soundness=ROUNDING, early=True),
        rewrite("cube", power_of_three, (x * x) * x, keeps_floats(power_of_three, x), soundness=ROUNDING, early=True),
        rewrite("square-root", power_of_half, sqrt(x), keeps_floats(power_of_half, x), soundness=FINITE),
        rewrite(
            "reciprocal-power",
            reciprocal_power,
            scalar(1, x) / x,
            keeps_floats(reciprocal_power, x),
            soundness=ROUNDING,
        ),
    ],
)

shifted, scaled = x + a, x * a
affine = scaled + b
rescaled = affine * c
scaled_y, shifted_y = y * b, y + b
affine_x, affine_y = x * d + a, y * c + b
scaled_shift, shifted_scale = (x + b) * a, x * b + a
moderate = when(is_moderate, value_of(a))  # or what a scalar leaves would overflow where the product does not


def meet(
    name: str,
    inner: DFPattern,
    whole: DFPattern,
    met: DFPattern,
    constants: Sequence[DFPattern],
    made: Made,
    *guards: Guard | Distinct,
    over: DFPattern | None = None,
) -> Rewrite:
    """The constant of ``whole``, which is over ``inner``, meets those that ``inner`` has beside its base ``x``.

    Args:
        constants: whose values are to be known: others would be sums and products without end.
        made: the scale and shift that the rule makes of them.
        over: the part of ``whole`` that has ``inner`` as an operand, if that is not ``whole``.
    """
    numbers = when(stay_numbers(made), *map(value_of, constants))
    conditions = distinct(whole, inner, x), derived(whole if over is None else over, inner), base(x)
    return rewrite(name, whole, met, numbers, *guards, *conditions, soundness=ROUNDING)


def outward(
    name: str,
    inner: DFPattern,
    whole: DFPattern,
    moved: DFPattern,
    is_moved: Callable[..., bool],
    stays: Settled,
    *guards: Guard,
) -> Rewrite:
    """The scalar ``a`` of ``inner``, which is over the base ``x``, leaves a product, quotient or sum with ``y``.

    It does if no scalar leaves ``y``: those of both leave at once.
    """
    terms = distinct(inner, x), base(x), non_constant(y), stays
    return rewrite(name, whole, moved, when(is_moved, type_of(a)), *guards, *terms, soundness=ROUNDING)


def both_outward(
    name: str,
    inner: tuple[DFPattern, DFPattern],
    whole: DFPattern,
    moved: DFPattern,
    is_moved: Callable[..., bool],
    *guards: Guard,
    either_order: bool = False,
    contracts: bool = False,
) -> Rewrite:
    """The scalars ``a`` and ``b`` of ``inner``, which are over the bases ``x`` and ``y``, leave the whole."""
    scalars = when(is_moved, type_of(a)), when(is_moved, type_of(b))
    bases = base(x), base(y, after=x if either_order else None)
    terms = distinct(inner[0], x), distinct(inner[1], y)
    return rewrite(name, whole, moved, *scalars, *guards, *terms, *bases, soundness=ROUNDING, contracts=contracts)


# constants travel outward and meet
meeting = RuleSet(
    "meeting",
    [
        ComposeChains(),
        meet("add-add-constant", shifted, shifted + b, x + (a + b), (a, b), lambda a, b: (None, a + b)),
        meet("multiply-multiply-constant", scaled, scaled * b, x * (a * b), (a, b), lambda a, b: (a * b, None)),
        # (x + a) b = x b + a b
        meet(
            "scale-after-shift",
            shifted,
            shifted * b,
            x * b + a * b,
            (a, b),
            lambda a, b: (None, a * b),
            when(is_number, type_of(x)),
        ),
        meet(
            "add-to-affine",
            affine,
            affine + c,
            x * a + (b + c),
            (b, c),
            lambda b, c: (None, b + c),
            distinct(affine, scaled, x),
        ),
        # (x a + b) c = x a c + b c
        meet(
            "scale-affine",
            affine,
            affine * c,
            x * (a * c) + b * c,
            (a, b, c),
            lambda a, b, c: (a * c, b * c),
            distinct(affine, scaled, x),
        ),
        # (x a + b) c + d = x a c + (b c + d): a link of most chains
        meet(
            "affine-of-affine",
            affine,
            rescaled + d,
            x * (a * c) + (b * c + d),
            (a, b, c, d),
            lambda a, b, c, d: (a * c, b * c + d),
            distinct(affine, scaled, x),
            over=rescaled,
        ),
        *[
            rewrite(
                f"{name}-large-constant",
                whole,
                met,
                when(is_large, type_of(a)),
                distinct(whole, inner, x),
                derived(whole, inner),
                base(x),
                soundness=ROUNDING,
            )
            for name, inner, whole, met in (
                ("add-add", shifted, shifted + b, x + (a + b)),
                ("multiply-multiply", scaled, scaled * b, x * (a * b)),
            )
        ],
        outward("scalar-outward", scaled, scaled * y, (x * y) * a, is_wide_scalar, factor(y), moderate),
        outward(
            "scalar-outward-of-shifted",
            scaled_shift,
            scaled_shift * y,
            ((x + b) * y) * a,
            is_wide_scalar,
            factor(y),
            moderate,
        ),
        both_outward(
            "scalars-outward",
            (scaled, scaled_y),
            scaled * scaled_y,
            (x * y) * (a * b),
            is_wide_scalar,
            moderate,
            when(is_moderate, value_of(b)),
            either_order=True,
        ),
        outward("scalar-out-of-numerator", scaled, scaled / y, (x / y) * a, is_wide_float, factor(y), moderate),
        outward(
            "scalar-out-of-shifted-numerator",
            scaled_shift,
            scaled_shift / y,
            ((x + b) / y) * a,
            is_wide_float,
            factor(y),
            moderate,
        ),
        both_outward(
            "scalars-out-of-quotient",
            (scaled, scaled_y),
            scaled / scaled_y,
            (x / y) * (a / b),
            is_wide_float,
            moderate,
            when(scales_safely, value_of(b)),
        ),
        # y / (x a) = (y / x) (1 / a); of a denominator x a + b that is near 0, another rounding would tell
        rewrite(
            "scalar-out-of-denominator",
            y / scaled,
            (y / x) * (scalar(1, a) / a),
            when(is_wide_float, type_of(a)),
            when(scales_safely, value_of(a)),
            distinct(scaled, x),
            base(x),
            factor(y),
            soundness=ROUNDING,
        ),
        # -x a = x -a, and b / -x = -b / x, to the last bit
        rewrite("negative-times-constant", negative(x) * a, x * negative(a), floats(x), non_constant(x)),
        rewrite("negative-under-constant", over_negative, negative(b) / x, floats(x)),
        # b / (x a) = (b / a) / x
        rewrite(
            "scalar-under-constant",
            b / scaled,
            (b / a) / x,
            when(is_wide_float, type_of(a)),
            when(scales_safely, value_of(a)),
            distinct(scaled, x),
            base(x),
            soundness=ROUNDING,
        ),
        outward("shift-outward", shifted, shifted + y, (x + y) + a, is_scalar, term(y)),
        outward("shift-outward-of-minuend", shifted, shifted - y, (x - y) + a, is_scalar, term(y)),
        outward("shift-outward-of-subtrahend", shifted, y - shifted, (y - x) + negative(a), is_scalar, term(y)),
        outward("shift-outward-of-scaled", shifted_scale, shifted_scale + y, (x * b + y) + a, is_scalar, term(y)),
        both_outward(
            "shifts-outward",
            (shifted, shifted_y),
            shifted + shifted_y,
            (x + y) + (a + b),
            is_scalar,
            either_order=True,
            contracts=True,
        ),
        both_outward(
            "shifts-outward-of-scaled",
            (shifted, affine_y),
            shifted + affine_y,
            (x + y * c) + (a + b),
            is_scalar,
            contracts=True,
        ),
        both_outward(
            "shifts-outward-of-both-scaled",
            (affine_x, affine_y),
            affine_x + affine_y,
            (x * d + y * c) + (a + b),
            is_scalar,
            either_order=True,
            contracts=True,
        ),
        # zeros of unknown sizes are twice and thrice themselves: there is nothing to be won
        # x a + x b = x (a + b); where signs differ, an infinite x would become NaN on one side only
        *[
            rewrite(
                name,
                whole,
                x * factor_of_x,
                when(stays_of_one_sign, *map(value_of, numbers)),
                non_constant(x),
                distinct(whole, x),
                factor(x),
                soundness=ROUNDING,
                contracts=True,
            )
            for name, whole, factor_of_x, stays_of_one_sign, numbers in (
                ("common-factor", scaled_twice, a + b, are_of_one_sign, (a, b)),
                ("common-factor-of-difference", scaled_difference, a - b, are_of_opposite_signs, (a, b)),
                ("one-and-some", scaled_and_itself, a + scalar(1, x), all_positive, (a,)),
                ("one-without-some", without_scaled, scalar(1, x) - a, all_negative, (a,)),
                ("some-without-one", scaled_without, a - scalar(1, x), all_negative, (a,)),
            )
        ],
        rewrite(
            "add-itself",
            doubled,
            x * scalar(2, x),
            when(is_number, type_of(x)),
            non_constant(x),
            distinct(doubled, x),
            factor(x),
            contracts=True,
        ),
        rewrite("common-factor-of-any-sign", scaled_twice, x * (a + b), soundness=FINITE),
        rewrite(
            "one-and-some-of-any-sign",
            scaled_and_itself,
            x * (a + scalar(1, x)),
            when(is_number, type_of(x)),
            soundness=FINITE,
        ),
        # x z + y z = (x + y) z
        rewrite("distribute", common_product, (x + y) * z, keeps(common_product, x, y), soundness=FINITE),
    ],
)


def alike(name: str, of: Callable[..., DFPattern], *guards: Guard) -> Rewrite:
    """f(x a, y a) = f(x, y) a, where no weights take in ``a``"""
    return rewrite(
        f"common-scale-of-{name}",
        of(x * a, y * a),
        of(x, y) * a,
        *guards,
        base(x),
        base(y, after=x if name != "difference" else None),
        distinct(x, y),
        bare(x),
        bare(y),
        soundness=ROUNDING,
    )


# what is scaled alike is scaled once
scaled_alike = RuleSet(
    "scaled-alike",
    [
        alike("sum", operator.add, moderate),
        alike("difference", operator.sub, moderate),
        alike("maximum", maximum, floats(x), when(keeps_order, value_of(a))),
        alike("minimum", minimum, floats(x), when(keeps_order, value_of(a))),
    ],
)

cancelling = RuleSet(
    "cancelling",
    [
        rewrite("subtract-itself", x - x, x * scalar(0, x), when(is_number, type_of(x)), soundness=FINITE),
        rewrite("add-and-subtract", (x + y) - y, x, soundness=FINITE),
        rewrite("subtract-and-add", (x - y) + y, x, soundness=FINITE),
        rewrite("divide-and-multiply", (x / y) * y, x, floats(x), soundness=FINITE),
        rewrite("multiply-and-divide", (x * y) / y, x, floats(x), soundness=FINITE),
        rewrite("log-exp", log(exp(x)), x, floats(x), soundness=FINITE),
        rewrite("exp-log", exp(log(x)), x, floats(x), soundness=FINITE),
        rewrite("sqrt-of-square", sqrt(x * x), abs(x), floats(x), soundness=FINITE),
        rewrite("square-of-sqrt", sqrt(x) * sqrt(x), x, floats(x), soundness=FINITE),
        rewrite("log-plus-log", log(x) + log(y), log(x * y), floats(x), soundness=FINITE),
        rewrite("exp-times-exp", exp(x) * exp(y), exp(x + y), floats(x), soundness=FINITE),
    ],
)


NEUTRAL = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def by_number(name: str, neutral: float) -> Rewrite:
    """f(x, (c, c, ..)) = f(x, c), where that is of the same shape, and c not ``neutral``"""
    repeated = repeated_number(neutral)
    whole = is_op(name)(x, repeated)
    return rewrite(f"{name}-by-repeated-number", whole, is_op(name)(x, number_of(repeated)), keeps(whole, x))


def in_any_order(name: str) -> Rewrite:
    """Where both f(x, y) and f(y, x) occur, they are one; swapped everywhere, sums of n numbers would be n! sums."""
    one_way, other_way = is_op(name)(x, y), is_op(name)(y, x)
    # the order of operands decides between 0.0 and -0.0
    soundness = ROUNDING if name in ("maximum", "minimum") else Soundness.EXACT
    both, one = (one_way, other_way), (other_way, other_way)
    return rewrite(f"{name}-in-any-order", both, one, soundness=soundness, early=True)


BITWISE = [f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "xor")]


def met_bits(name: str) -> Rewrite:
    """f(f(x, a), b) = f(x, f(a, b)), where the values of the constants are known"""
    of = is_op(name)
    once = of(x, a) | of(a, x)
    twice = of(once, b) | of(b, once)
    known = when(lambda one, other: one.dtype == other.dtype, value_of(a), value_of(b))
    terms = known, distinct(twice, once, x), non_constant(x)
    return rewrite(f"{name.replace('_', '-')}-twice", twice, of(x, of(a, b)), *terms, contracts=True)


commuted = RuleSet("commuted", list(map(in_any_order, COMMUTATIVE)))
bits = RuleSet("bits", list(map(met_bits, BITWISE)))
by_numbers = RuleSet("by-numbers", [by_number(name, neutral) for name, neutral in NEUTRAL.items()])

algebra = RuleSet(
    "algebra", [neutral, canonical, meeting, scaled_alike, cancelling, repeated, commuted, by_numbers, bits, functions]
)

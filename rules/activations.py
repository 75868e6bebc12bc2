"""Clips, and activations, softmax, ramps and gates recognised where they are written out in arithmetic.

``relu``, and ``maximum`` and ``minimum`` with a number, are clips; two clips in a row are one,
as are two maxima with constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from ml_dtypes import finfo

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    distinct,
    like,
    non_constant,
    real,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Compute, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import (
    abs,
    clip,
    erf,
    exp,
    less,
    less_equal,
    log,
    max,
    maximum,
    mean,
    minimum,
    ones_like,
    sigmoid,
    subtract,
    sum,
    tanh,
    where,
    zeros_like,
)
from eqsat.relay.op.nn.activation import GATE_SCALES
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType
from eqsat.rules.axes import reduced_axes
from eqsat.rules.types import floats, is_float, is_scalar, is_short_float, keeps_floats, rank_of
from eqsat.rules.values import (
    Filled,
    attribute,
    filled,
    finite_number,
    half,
    is_not_one,
    one,
    only_number,
    scalar,
    scales_safely,
    three,
    zero,
)

x, y, u = variables("x y u")
a, b, c = constants("a b c")

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE

# ---- clips


def is_ordered(*clips: Attrs) -> bool:
    return all(attrs.a_min <= attrs.a_max for attrs in clips)


def clamp(value: float, attrs: Attrs) -> float:
    return float(attrs.a_min if value < attrs.a_min else attrs.a_max if value > attrs.a_max else value)


def holds_dtype(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: the bounds of a clip are at or beyond those of its dtype."""
    if is_float(ty):
        return bounds(attrs) == (-math.inf, math.inf)
    if not ty.dtype.startswith(("int", "uint")):
        return False
    bits = int(ty.dtype.lstrip("uint"))
    low, high = (0, 2**bits) if ty.dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return bool(attrs.a_min <= low and attrs.a_max >= high - 1)


def holds_numbers(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: all real numbers of a dtype are between the bounds of a clip."""
    if not ty.dtype.startswith("float"):
        return False
    greatest = np.finfo(ty.dtype).max
    return bool(attrs.a_min <= -greatest and attrs.a_max >= greatest)


def bounds(attrs: Attrs) -> tuple[float, float]:
    return attrs.a_min, attrs.a_max


inner = clip(x)
outer = clip(inner)
at_least = maximum(x, a) | maximum(a, x)
at_most = minimum(x, a) | minimum(a, x)
softmax = nn.softmax(x)
mean_square = mean(x * x)

clips = RuleSet(
    "clips",
    [
        rewrite("relu-is-clip", nn.relu(x), clip(x, a_min=0.0, a_max=math.inf), floats(x)),
        rewrite("clip-is-relu", inner, nn.relu(x), when(lambda attrs: bounds(attrs) == (0, math.inf), attrs_of(inner))),
        rewrite(
            "maximum-is-clip",
            at_least,
            clip(x, a_min=compute(only_number, value_of(a)), a_max=math.inf),
            keeps_floats(at_least, x),
            soundness=ROUNDING,
        ),
        rewrite(
            "minimum-is-clip",
            at_most,
            clip(x, a_min=-math.inf, a_max=compute(only_number, value_of(a))),
            keeps_floats(at_most, x),
            soundness=ROUNDING,
        ),
        rewrite(
            "clip-clip",
            outer,
            clip(
                x,
                a_min=compute(lambda first, then: clamp(first.a_min, then), attrs_of(inner), attrs_of(outer)),
                a_max=compute(lambda first, then: clamp(first.a_max, then), attrs_of(inner), attrs_of(outer)),
            ),
            when(is_ordered, attrs_of(inner), attrs_of(outer)),
            floats(x),
            soundness=ROUNDING,
            contracts=True,
        ),
        rewrite("clip-nothing", inner, x, when(holds_dtype, attrs_of(inner), type_of(x))),
        rewrite(
            "clip-real-numbers", inner, x, real(x), when(holds_numbers, attrs_of(inner), type_of(x)), soundness=ROUNDING
        ),
        rewrite("relu-twice", nn.relu(nn.relu(x)), nn.relu(x), early=True),  # or scales leave ramps of ramps for ever
        # what is never negative
        rewrite("relu-of-sigmoid", nn.relu(sigmoid(x)), sigmoid(x)),
        rewrite("relu-of-exp", nn.relu(exp(x)), exp(x), floats(x)),
        rewrite("relu-of-abs", nn.relu(abs(x)), abs(x), floats(x)),
        rewrite("relu-of-square", nn.relu(x * x), x * x, floats(x)),
        rewrite("relu-of-mean-of-squares", nn.relu(mean_square), mean_square, floats(x)),
        rewrite("relu-of-softmax", nn.relu(softmax), softmax, floats(x)),
        rewrite("abs-of-relu", abs(nn.relu(x)), nn.relu(x), soundness=ROUNDING),
        rewrite("abs-of-softmax", abs(softmax), softmax, floats(x)),
        rewrite("leaky-relu-of-relu", nn.leaky_relu(nn.relu(x)), nn.relu(x)),
    ],
)

# ---- bounds that are no clips: arrays, and integers


def are_no_clips(*bounds: Array) -> bool:
    """Guard: constants of known values, of which one is an array, or which are no floats."""
    return any(bound.size != 1 for bound in bounds) or not all(bound.dtype.kind == "f" for bound in bounds)


def differ_from(highest: Callable[[Array, Array], Array]) -> Callable[[Array, Array], bool]:
    """Guard: the bound that two others make together is neither of them."""

    def holds(first: Array, second: Array) -> bool:
        both = highest(first, second)
        return not any(np.array_equal(both, np.broadcast_to(each, both.shape)) for each in (first, second))

    return holds


def bounded(name: str, highest: Callable[[Array, Array], Array]) -> list[Rewrite]:
    """max(max(x, a), b) = max(x, max(a, b)); only the order of 0.0 and -0.0 is lost.

    Where the result may be the very e-node that is rewritten, since one bound says all, that e-node stays.
    """
    of = is_op(name)
    once = of(x, a) | of(a, x)
    twice, met = of(once, b) | of(b, once), of(x, of(a, b))
    are_new = differ_from(highest)
    known = when(are_no_clips, value_of(a), value_of(b)), non_constant(x)
    return [
        rewrite(
            f"{name}-twice",
            twice,
            met,
            when(are_new, value_of(a), value_of(b)),
            *known,
            soundness=ROUNDING,
            contracts=True,
        ),
        rewrite(
            f"{name}-by-one-of-two",
            twice,
            met,
            when(lambda first, second: not are_new(first, second), value_of(a), value_of(b)),
            *known,
            soundness=ROUNDING,
            early=True,
        ),
    ]


met_bounds = RuleSet("met-bounds", [*bounded("maximum", np.maximum), *bounded("minimum", np.minimum)])

# ---- activations written out

six, sixth, root_of_half = filled(6.0, "six"), filled(1 / 6, "sixth"), filled(math.sqrt(0.5), "root_of_half")
third_power = filled(0.044715, "third_power")


def gated(value: DFPattern, gate: DFPattern) -> DFPattern:
    """value gate / 6, with quotients as they are given: a bias may take in what is added as soon as constants meet"""
    return (value * gate) * sixth | value * (gate * sixth) | (value * gate) / six | value * (gate / six)


def ends_at_six(attrs: Attrs) -> bool:
    """Guard: a clip is from 0 to 6."""
    return bounds(attrs) == (0, 6)


gate = clip(x + three)
hard = gated(x, gate)
# the same of a product with two biases, which have taken in what else was added
biased, biased_by_more = nn.bias_add(y, b), nn.bias_add(y, c)
gate_of_biased = clip(biased_by_more)
hard_of_biased = gated(biased, gate_of_biased)
odd = erf(x * root_of_half)


def is_three_more(bias: Array, more: Array) -> bool:
    """Guard: one bias is another one and 3, but for rounding."""
    eps = float(finfo(bias.dtype).eps) if bias.dtype == more.dtype and bias.dtype.kind == "f" else 0.0
    difference = more.astype(np.float64) - bias - 3
    return bias.shape == more.shape and bool(np.all(np.abs(difference) <= 4 * eps * (3 + np.abs(bias))))


def half_of_one_plus(odd: DFPattern) -> DFPattern:
    """x (1 + odd) / 2, where constants have met and as it is written before"""
    whole = (x * (odd + one)) * half | (x * half) * (odd + one) | (x + x * odd) * half
    return whole | x * half + (x * odd) * half | x * half + (x * half) * odd | x * (odd * half + half)


half_of_one_plus_erf = half_of_one_plus(odd)
cube_by_square = (x * x) * x


def inside(times: int) -> DFPattern:
    """sqrt(2 / pi) (x + 0.044715 x^3), so many times"""
    root, scaled = (
        filled(times * math.sqrt(2 / math.pi) * factor, label)
        for factor, label in ((1, "root_of_two_over_pi"), (0.044715, "third_power_scaled"))
    )
    return (
        (x + cube_by_square * third_power) * root
        | (x + ((x * third_power) * x) * x) * root
        | (((x * x) * third_power + one) * x) * root
        | (((x * third_power) * x) + one) * (x * root)
        | x * root + cube_by_square * scaled
        | x * ((x * x) * scaled + root)
    )


odd_of_cube, odd_of_half = tanh(inside(1)), tanh(x * half)
half_of_one_plus_tanh = half_of_one_plus(odd_of_cube)
by_sigmoid_of_cube = x * sigmoid(inside(2))
half_of_one_plus_tanh_of_half = half_of_one_plus(odd_of_half)


def one_plus(odd: DFPattern) -> DFPattern:
    """x (1 + odd), of which the half is elsewhere, as in a weight"""
    return x * (odd + one) | x + x * odd


one_plus_erf, one_plus_tanh, one_plus_tanh_of_half = map(one_plus, (odd, odd_of_cube, odd_of_half))

recognised = RuleSet(
    "recognised",
    [
        # x clip(x + 3, 0, 6) / 6, in any order: scalars stay where they are in float16
        rewrite(
            "hardswish",
            hard,
            nn.hardswish(x),
            when(ends_at_six, attrs_of(gate)),
            when(is_short_float, type_of(x)),
            keeps_floats(hard, x),
            soundness=ROUNDING,
            early=True,
        ),
        rewrite(
            "hardswish-of-biased",
            hard_of_biased,
            nn.hardswish(biased),
            when(ends_at_six, attrs_of(gate_of_biased)),
            when(lambda one, other: one.axis == other.axis, attrs_of(biased), attrs_of(biased_by_more)),
            when(is_three_more, value_of(b), value_of(c)),
            when(is_short_float, type_of(y)),
            keeps_floats(hard_of_biased, biased),
            soundness=ROUNDING,
        ),
        # x (1 + erf(x / sqrt 2)) / 2
        rewrite(
            "gelu",
            half_of_one_plus_erf,
            nn.gelu(x),
            keeps_floats(half_of_one_plus_erf, x),
            soundness=ROUNDING,
            contracts=True,
        ),
        # x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
        rewrite(
            "gelu-by-tanh",
            half_of_one_plus_tanh,
            nn.gelu(x, approximate="tanh"),
            when(is_short_float, type_of(x)),
            keeps_floats(half_of_one_plus_tanh, x),
            soundness=ROUNDING,
            contracts=True,
        ),
        # (1 + tanh y) / 2 = sigmoid(2 y)
        rewrite(
            "gelu-by-sigmoid",
            by_sigmoid_of_cube,
            nn.gelu(x, approximate="tanh"),
            when(is_short_float, type_of(x)),
            keeps_floats(by_sigmoid_of_cube, x),
            soundness=ROUNDING,
        ),
        # x (1 + tanh(x / 2)) / 2 = x sigmoid(x)
        rewrite(
            "swish-by-tanh",
            half_of_one_plus_tanh_of_half,
            nn.swish(x),
            keeps_floats(half_of_one_plus_tanh_of_half, x),
            soundness=ROUNDING,
        ),
    ],
)

IN_SIGHT = {
    rule.name: replace(rule, contracts=False, early=True)
    for rule in recognised
    if isinstance(rule, Rewrite) and rule.contracts
}
"""The rules that hide what a GELU is written as, which no longer do: for where it has no operator of its own."""

# the same of what is not halved; of use where such a gate is one operator, and is found before
unhalved = RuleSet(
    "unhalved",
    [
        rewrite(
            f"twice-{name}",
            whole,
            found * scalar(2, x),
            when(is_short_float, type_of(x)),
            keeps_floats(whole, x),
            soundness=ROUNDING,
        )
        for name, whole, found in (
            ("gelu", one_plus_erf, nn.gelu(x)),
            ("gelu-by-tanh", one_plus_tanh, nn.gelu(x, approximate="tanh")),
            ("swish-by-tanh", one_plus_tanh_of_half, nn.swish(x)),
        )
    ],
)

# ---- softmax


def along_one_axis(attrs: Attrs, ty: TensorType) -> int | Refusal:
    """The axis of a reduction that keeps dimensions and goes over one axis."""
    axes = reduced_axes(attrs, ty)
    if len(axes) != 1 or not attrs.keepdims:
        return refuse("it is no reduction of one axis that keeps dimensions")
    return axes[0]


def one_axis(reduced: DFPattern) -> Compute:
    """The axis of a matched reduction of ``x``."""
    return compute(along_one_axis, attrs_of(reduced), type_of(x))


def one_and_the_same(first: Attrs, second: Attrs, ty: TensorType) -> bool:
    """Guard: two reductions go over the same single axis."""
    axes = along_one_axis(first, ty), along_one_axis(second, ty)
    return isinstance(axes[0], int) and axes[0] == axes[1]


offset = x + c
total = sum(exp(x))
exponentials = exp(x) / total
highest = max(x)
moved = subtract(x, highest)
total_of_moved = sum(exp(moved))
log_softmax = nn.log_softmax(x)


def goes_over_one(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: the axis of a softmax has one element."""
    return bool(ty.shape[attrs.axis] == 1)


def goes_along(attrs: Attrs, reduced: Attrs, ty: TensorType) -> bool:
    """Guard: a softmax goes over the axis that a reduction goes over."""
    return along_one_axis(reduced, ty) == axis_index(attrs.axis, rank_of(ty))


def is_level(attrs: Attrs, shift: Array, ty: TensorType) -> bool:
    """Guard: finite numbers that are equal along the axis of a softmax, so small that sums with them lose little."""
    if not is_float(ty) or shift.dtype.name != ty.dtype:
        return False
    axis = axis_index(attrs.axis, rank_of(ty)) - rank_of(ty)
    first = np.take(shift, [0], axis) if shift.ndim >= -axis and shift.size else shift
    largest = float(np.max(np.abs(shift), initial=0))
    return largest * float(finfo(shift.dtype).eps) < 2**-10 and bool(np.all(shift == first))


def unshifted(name: str, shifted: DFPattern, guard: Callable[[DFPattern], Guard]) -> list[Rewrite]:
    """softmax(shifted) = softmax(x), and so its logarithm, where ``guard`` says that x is shifted along the axis."""
    return [
        rewrite(name.format(kind), whole, like(whole, x), keeps_floats(shifted, x), guard(whole), soundness=ROUNDING)
        for kind, whole in (("softmax", nn.softmax(shifted)), ("log-softmax", nn.log_softmax(shifted)))
    ]


softmaxes = RuleSet(
    "softmaxes",
    [
        # softmax(x + c) = softmax(x), where c is the same along the axis
        unshifted("shift-in-{}", offset, lambda whole: when(is_level, attrs_of(whole), value_of(c), type_of(offset))),
        # e^x / sum e^x: only this form overflows
        rewrite(
            "softmax",
            exponentials,
            nn.softmax(x, axis=one_axis(total)),
            keeps_floats(exponentials, x),
            soundness=FINITE,
        ),
        # e^(x - max x) / sum e^(x - max x), and its logarithm
        *[
            rewrite(
                f"stable-{name}",
                whole,
                is_op(f"nn.{name.replace('-', '_')}")(x).has_attr({"axis": one_axis(highest)}),
                keeps_floats(whole, x),
                when(one_and_the_same, attrs_of(highest), attrs_of(total_of_moved), type_of(x)),
                soundness=ROUNDING,
            )
            for name, whole in (("softmax", exp(moved) / total_of_moved), ("log-softmax", moved - log(total_of_moved)))
        ],
        # softmax(x - max x) = softmax(x)
        unshifted(
            "{}-of-stable", moved, lambda whole: when(goes_along, attrs_of(whole), attrs_of(highest), type_of(x))
        ),
        rewrite(
            "log-of-softmax",
            log(softmax),
            nn.log_softmax(x, axis=attribute(softmax, "axis")),
            floats(x),
            soundness=FINITE,
        ),
        # e^(x - x) = 1
        *[
            rewrite(
                f"{name}-of-one",
                weights,
                like(x),
                real(x),
                when(goes_over_one, attrs_of(weights), type_of(x)),
                soundness=ROUNDING,
            )
            for name, weights, like in (("softmax", softmax, ones_like), ("log-softmax", log_softmax, zeros_like))
        ],
        rewrite(
            "exp-of-log-softmax",
            exp(log_softmax),
            nn.softmax(x, axis=attribute(log_softmax, "axis")),
            floats(x),
            soundness=ROUNDING,
        ),
    ],
)

# ---- ramps, and gates: x times a function of x


def product(first: Array, second: Array) -> float | Refusal:
    """The product of two constants of one number each."""
    one, other = finite_number(first), finite_number(second)
    if isinstance(one, Refusal) or isinstance(other, Refusal):
        return refuse("a constant is not one finite number")
    return one * other


def is_number_beside(number: TensorType, ty: TensorType) -> bool:
    """Guard: one number, which adds no axes to a tensor of type ``ty`` that it is added to or multiplies."""
    return is_float(number) and is_short_float(ty) and is_scalar(number) and rank_of(number) <= rank_of(ty)


def beside(*numbers: DFPattern) -> list[Guard]:
    return [when(is_number_beside, type_of(each), type_of(x)) for each in numbers]


def ends_at_one(attrs: Attrs, factor: Array) -> bool:
    """Guard: a clip from 0 on has, multiplied by ``factor``, the upper bound 1."""
    return attrs.a_min == 0 and 0 < attrs.a_max < math.inf and Filled(1.0)(factor * float(attrs.a_max))


shifted = clip(x + a)
scaled = shifted * c
unit_ramp = clip(x * a + b)

ramps = RuleSet(
    "ramps",
    [
        rewrite(
            "hard-sigmoid",
            unit_ramp,
            nn.hard_sigmoid(x, alpha=compute(finite_number, value_of(a)), beta=compute(finite_number, value_of(b))),
            when(lambda attrs: bounds(attrs) == (0, 1), attrs_of(unit_ramp)),
            *beside(a, b),
            soundness=ROUNDING,
        ),
        # clip(x + a, 0, 1 / c) c
        rewrite(
            "hard-sigmoid-scaled",
            scaled,
            nn.hard_sigmoid(
                x, alpha=compute(finite_number, value_of(c)), beta=compute(product, value_of(a), value_of(c))
            ),
            when(ends_at_one, attrs_of(shifted), value_of(c)),
            *beside(a, c),
            soundness=ROUNDING,
        ),
    ],
)


def is_usual_ramp(attrs: Attrs) -> bool:
    """Guard: the ramp goes from -3 to 3, as that of hardswish does."""
    return all(math.isclose(*pair, abs_tol=1e-6) for pair in ((attrs.alpha, 1 / 6), (attrs.beta, 0.5)))


ramp, soft = nn.hard_sigmoid(x), nn.softplus(x)
logarithm = log(exp(x) + one)

self_gated = RuleSet(
    "self-gated",
    [
        rewrite(
            "hardswish-by-hard-sigmoid",
            x * ramp,
            nn.hardswish(x),
            when(is_usual_ramp, attrs_of(ramp)),
            floats(x),
            soundness=ROUNDING,
        ),
        rewrite("mish", x * tanh(soft), nn.mish(x), floats(x), soundness=ROUNDING),
        rewrite("silu", x * sigmoid(x), nn.swish(x), floats(x), soundness=ROUNDING),
        # only the logarithm overflows
        rewrite("softplus", logarithm, soft, keeps_floats(logarithm, x), soundness=FINITE),
    ],
)


# ---- leaky ramps


def is_slope(factor: Array) -> bool:
    """Guard: a number of more than 0 and at most 1."""
    return bool(factor.size == 1 and 0 < factor.flat[0] <= 1)


def slope(of: DFPattern) -> Compute:
    """The only element of a constant."""
    return compute(finite_number, value_of(of))


steep = x * a
above, below = less(zero, x) | less_equal(zero, x), less(x, zero) | less_equal(x, zero)
by_choice = where(above, x, steep) | where(below, steep, x)
ramp_by_choice = where(above, x, zero) | where(below, zero, x)
by_maximum = maximum(x, steep) | maximum(steep, x)
leaky_once = nn.leaky_relu(x)
leaky_twice = nn.leaky_relu(leaky_once)
two_leaky = leaky_once, leaky_twice


def keeps_signs(attrs: Attrs) -> bool:
    """Guard: the slope of a leaky ramp is not below 0."""
    return bool(0 <= attrs.alpha < math.inf)


leaky = RuleSet(
    "leaky",
    [
        rewrite(
            "leaky-relu-by-choice",
            by_choice,
            nn.leaky_relu(x, alpha=slope(a)),
            *beside(a),
            keeps_floats(by_choice, x),
            soundness=ROUNDING,
        ),
        # NaN is not above 0
        rewrite("relu-by-choice", ramp_by_choice, nn.relu(x), keeps_floats(ramp_by_choice, x), soundness=FINITE),
        rewrite(
            "leaky-relu-by-maximum",
            by_maximum,
            nn.leaky_relu(x, alpha=slope(a)),
            when(is_slope, value_of(a)),
            *beside(a),
            keeps_floats(by_maximum, x),
            soundness=ROUNDING,
        ),
        # one ramp after another, of which the first keeps signs
        rewrite(
            "leaky-relu-twice",
            leaky_twice,
            nn.leaky_relu(x, alpha=compute(lambda first, then: first.alpha * then.alpha, *map(attrs_of, two_leaky))),
            when(keeps_signs, attrs_of(leaky_once)),
            floats(x),
            soundness=ROUNDING,
            contracts=True,
        ),
        rewrite(
            "relu-of-leaky-relu",
            nn.relu(leaky_once),
            nn.relu(x),
            when(keeps_signs, attrs_of(leaky_once)),
            floats(x),
            soundness=ROUNDING,
        ),
    ],
)

# ---- gates whose inside is scaled: the scale is taken out, to weights before and behind the gate


def is_scale(factor: Array) -> bool:
    """Guard: one number other than 1 that scales safely."""
    return factor.size == 1 and scales_safely(factor) and is_not_one(factor)


# what a weight scales; elsewhere the scale would only move
weighted = is_op("nn.bias_add")(u, b) | is_op("nn.dense")(u, b) | is_op("nn.matmul")(u, b) | is_op("nn.conv2d")(u, b)


def gate_scale(attrs: Attrs, ty: TensorType) -> Array:
    """The factor of the data of gelu."""
    return np.asarray(GATE_SCALES[attrs.approximate], ty.dtype)


def scale_behind(attrs: Attrs, ty: TensorType) -> Array:
    """The factor of what gelu makes of the scaled data."""
    scale = GATE_SCALES[attrs.approximate]
    return np.asarray(0.5 / scale if attrs.approximate == "none" else 1 / scale, ty.dtype)


argument = weighted * c
by_sigmoid, smooth = weighted * sigmoid(argument), nn.gelu(weighted)

# no scale leaves the gates again, or weights would take it in for ever
scaled_gates = RuleSet(
    "scaled-gates",
    [
        # x sigmoid(x c) = silu(x c) / c, where a weight makes x
        rewrite(
            "scale-of-gate-by-sigmoid-outward",
            by_sigmoid,
            nn.swish(argument) * (scalar(1, c) / c),
            when(is_scale, value_of(c)),
            keeps_floats(by_sigmoid, weighted),
            when(is_number_beside, type_of(c), type_of(weighted)),
            distinct(argument, weighted),
            soundness=ROUNDING,
        ),
        # gelu(x) = gate(x a) b, where a weight makes x
        rewrite(
            "scale-of-gelu-outward",
            smooth,
            nn.gelu_gate(
                weighted * compute(gate_scale, attrs_of(smooth), type_of(weighted)),
                approximate=attribute(smooth, "approximate"),
            )
            * compute(scale_behind, attrs_of(smooth), type_of(weighted)),
            when(is_short_float, type_of(weighted)),
            soundness=ROUNDING,
        ),
    ],
)

gates = RuleSet("gates", [ramps, self_gated, scaled_gates])

activations = RuleSet("activations", [clips, met_bounds, recognised, unhalved, leaky, softmaxes])

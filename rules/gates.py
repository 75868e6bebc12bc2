"""Activations recognised in arithmetic: ramps (``hard_sigmoid``), and gates (``x`` times a function of ``x``)."""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Guard, Refusal, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import clip, exp, log, sigmoid, tanh
from eqsat.relay.ty import TensorType
from eqsat.rules.types import floats, floats_of_one_type, is_float, is_scalar, is_short_float, rank_of
from eqsat.rules.values import Filled, finite_number, one

x, y = variables("x y")
a, b, c = constants("a b c")
ROUNDING = Soundness.ROUNDING


def product(first: Array, second: Array) -> float | Refusal:
    """The product of two constants of one number each."""
    one, other = finite_number(first), finite_number(second)
    if isinstance(one, Refusal):
        return one
    return other if isinstance(other, Refusal) else one * other


def is_number_beside(number: TensorType, ty: TensorType) -> bool:
    """Guard: one number, which adds no axes to a tensor of type ``ty`` that it is added to or multiplies."""
    return is_float(number) and is_short_float(ty) and is_scalar(number) and rank_of(number) <= rank_of(ty)


def beside(*numbers: DFPattern) -> list[Guard]:
    return [when(is_number_beside, type_of(each), type_of(x)) for each in numbers]


# ---- ramps: max(0, min(1, alpha x + beta))


def ends_at_one(attrs: Attrs, factor: Array) -> bool:
    """Guard: a clip from 0 on has, multiplied by ``factor``, the upper bound 1."""
    return attrs.a_min == 0 and 0 < attrs.a_max < np.inf and Filled(1.0)(factor * float(attrs.a_max))


def is_from_0_to_1(attrs: Attrs) -> bool:
    """Guard: the bounds of a clip are 0 and 1."""
    return (attrs.a_min, attrs.a_max) == (0, 1)


shifted = clip(x + a)
scaled = shifted * c
inside = clip(x * a + b)

ramps = RuleSet(
    "ramps",
    [
        rewrite(
            "hard-sigmoid",
            inside,
            nn.hard_sigmoid(x, alpha=compute(finite_number, value_of(a)), beta=compute(finite_number, value_of(b))),
            when(is_from_0_to_1, attrs_of(inside)),
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

# ---- x times a function of x


def is_usual_ramp(attrs: Attrs) -> bool:
    """Guard: the ramp goes from -3 to 3, as that of hardswish does."""
    return bool(abs(attrs.alpha - 1 / 6) < 1e-6 and abs(attrs.beta - 0.5) < 1e-6)


ramp = nn.hard_sigmoid(x)
soft = nn.softplus(x)
logarithm = log(exp(x) + one)


def times(function: DFPattern) -> DFPattern:
    return x * function


self_gated = RuleSet(
    "self-gated",
    [
        rewrite(
            "hardswish-by-hard-sigmoid",
            times(ramp),
            nn.hardswish(x),
            when(is_usual_ramp, attrs_of(ramp)),
            floats(x),
            soundness=ROUNDING,
        ),
        rewrite("mish", times(tanh(soft)), nn.mish(x), floats(x), soundness=ROUNDING),
        rewrite("silu", times(sigmoid(x)), nn.swish(x), floats(x), soundness=ROUNDING),
        # only the logarithm overflows
        rewrite(
            "softplus",
            logarithm,
            soft,
            when(floats_of_one_type, type_of(logarithm), type_of(x)),
            soundness=Soundness.FINITE,
        ),
    ],
)


gates = RuleSet("gates", [ramps, self_gated])

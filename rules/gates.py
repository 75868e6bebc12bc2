"""Activations that are gates, recognised in arithmetic: ramps from 0 to 1, and ``x`` times a function of ``x``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.op import clip, exp, log, multiply, sigmoid, tanh
from eqsat.relay.ty import TensorType
from eqsat.rules.values import Filled, is_float, is_scalar, one, same_floats

x, y = variables("x y")
a, b, c = constants("a b c")
ROUNDING = Soundness.ROUNDING


def number(value: NDArray[Any]) -> Any:
    """The only element of a constant."""
    finite = value.size == 1 and value.dtype.kind == "f" and np.isfinite(value).all()
    return float(value.flat[0]) if finite else refuse("it is not one finite number")


def product(first: NDArray[Any], second: NDArray[Any]) -> Any:
    factors = number(first), number(second)
    return factors[0] * factors[1] if all(isinstance(factor, float) for factor in factors) else factors[0]


def is_single(ty: Any) -> bool:
    """Guard: floats for which runtimes have all activations and normalizations: they lack many of float64."""
    return is_float(ty) and ty.dtype != "float64"


def is_beside(beside: TensorType, ty: TensorType) -> bool:
    """Guard: one number, which adds no dimension to the tensor beside it."""
    return is_float(beside) and is_single(ty) and is_scalar(beside) and len(beside.shape) <= len(ty.shape)


def beside(*numbers: Any) -> list[Any]:
    return [when(is_beside, type_of(each), type_of(x)) for each in numbers]


# ---- ramps: max(0, min(1, alpha x + beta))


def ends_at_one(attrs: Any, factor: NDArray[Any]) -> bool:
    """Guard: what is clipped from 0 on ends, multiplied by ``factor``, at 1."""
    return attrs.a_min == 0 and 0 < attrs.a_max < np.inf and Filled(1.0)(factor * float(attrs.a_max))


def is_unit(attrs: Any) -> bool:
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
            nn.hard_sigmoid(x, alpha=compute(number, value_of(a)), beta=compute(number, value_of(b))),
            when(is_unit, attrs_of(inside)),
            *beside(a, b),
            soundness=ROUNDING,
        ),
        # clip(x + a, 0, 1 / c) c
        rewrite(
            "hard-sigmoid-scaled",
            scaled,
            nn.hard_sigmoid(x, alpha=compute(number, value_of(c)), beta=compute(product, value_of(a), value_of(c))),
            when(ends_at_one, attrs_of(shifted), value_of(c)),
            *beside(a, c),
            soundness=ROUNDING,
        ),
    ],
)

# ---- x times a function of x


def is_usual_ramp(attrs: Any) -> bool:
    """Guard: the ramp from -3 to 3."""
    return bool(abs(attrs.alpha - 1 / 6) < 1e-6 and abs(attrs.beta - 0.5) < 1e-6)


ramp = nn.hard_sigmoid(x)
soft = nn.softplus(x)
logarithm = log(exp(x) + one)


def times(function: Any) -> Any:
    return multiply(x, function)


self_gated = RuleSet(
    "self-gated",
    [
        rewrite(
            "hardswish-by-hard-sigmoid",
            times(ramp),
            nn.hardswish(x),
            when(is_usual_ramp, attrs_of(ramp)),
            when(is_float, type_of(x)),
            soundness=ROUNDING,
        ),
        rewrite("mish", times(tanh(soft)), nn.mish(x), when(is_float, type_of(x)), soundness=ROUNDING),
        rewrite("silu", times(sigmoid(x)), nn.swish(x), when(is_float, type_of(x)), soundness=ROUNDING),
        # only the logarithm overflows
        rewrite(
            "softplus",
            logarithm,
            soft,
            when(same_floats, type_of(logarithm), type_of(x)),
            soundness=Soundness.FINITE,
        ),
    ],
)


gates = RuleSet("gates", [ramps, self_gated])

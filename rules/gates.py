"""Activations that are gates, recognised in arithmetic: ramps from 0 to 1, and ``x`` times a function of ``x``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Var, const
from eqsat.relay.op import clip, exp, log, multiply, sigmoid, tanh
from eqsat.relay.ty import TensorType
from eqsat.rules.draw import FLOATS, Draw
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
    return attrs.a_min == 0 and 0 < attrs.a_max < np.inf and Filled(1.0)(factor * factor.dtype.type(attrs.a_max))


def is_unit(attrs: Any) -> bool:
    return (attrs.a_min, attrs.a_max) == (0, 1)


def _ramp(draw: Draw) -> Expr:
    data = Var("x", draw.tensor(dtype=draw.rng.choice(FLOATS)))
    ty = data.type_annotation
    assert isinstance(ty, TensorType)
    shift, end = (const(np.asarray(draw.rng.choice((0.5, 1.0, 3.0)), ty.dtype)) for _ in range(2))
    high = float(end.data.numpy())
    whole: Expr = clip(data + shift, 0.0, high) * const(np.asarray(1 / high, ty.dtype))
    return whole


def _unit_ramp(draw: Draw) -> Expr:
    data = Var("x", draw.tensor(dtype=draw.rng.choice(FLOATS)))
    ty = data.type_annotation
    assert isinstance(ty, TensorType)
    slope, shift = (const(np.asarray(draw.rng.choice((-0.25, 0.2, 0.5)), ty.dtype)) for _ in range(2))
    whole: Expr = clip(data * slope + shift, 0.0, 1.0)
    return whole


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
            examples=_unit_ramp,
        ),
        # clip(x + a, 0, 1 / c) c
        rewrite(
            "hard-sigmoid-scaled",
            scaled,
            nn.hard_sigmoid(x, alpha=compute(number, value_of(c)), beta=compute(product, value_of(a), value_of(c))),
            when(ends_at_one, attrs_of(shifted), value_of(c)),
            *beside(a, c),
            soundness=ROUNDING,
            examples=_ramp,
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
            examples=lambda draw: _times(draw, lambda data: nn.hard_sigmoid(data, 1 / 6, 0.5)),
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


def _times(draw: Draw, function: Any) -> Expr:
    data = Var("x", draw.tensor(dtype=draw.rng.choice(FLOATS)))
    whole: Expr = data * function(data)
    return whole


gates = RuleSet("gates", [ramps, self_gated])

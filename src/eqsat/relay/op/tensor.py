"""Elementwise and broadcasting operators.

Integers: ``divide``, ``trunc_divide``, ``mod`` and ``trunc_mod`` truncate toward zero, ``floor_divide`` and
``floor_mod`` round down; a division by zero gives 0. Functions such as ``exp`` give the argument's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from eqsat.relay.op.denotation import by_name
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import broadcast, compare, predicate, same_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Type

ELEMWISE, BROADCAST = OpPattern.ELEMWISE, OpPattern.BROADCAST
COMMUTATIVE, INJECTIVE = Trait.COMMUTATIVE, Trait.INJECTIVE
Relation: TypeAlias = Callable[[Any, Sequence[Type]], Type]


def _unary(name: str, function: Callable[..., Any], traits: Trait = Trait.NONE) -> Builder:
    """An elementwise operator whose result has the argument's dtype, whatever NumPy promotes to."""

    def kernel(attrs: Any, data: Any) -> Any:
        return function(data).astype(data.dtype, copy=False)

    return define(name, "data", infer=same_type, kernel=kernel, kind=ELEMWISE, traits=Trait.ELEMENTWISE | traits)


def _predicate(name: str, function: Callable[..., Any]) -> Builder:
    kernel = _plain(function)
    return define(name, "data", infer=predicate, kernel=kernel, kind=ELEMWISE, traits=Trait.ELEMENTWISE)


def _binary(
    name: str, function: Callable[..., Any], traits: Trait = Trait.NONE, infer: Relation = broadcast
) -> Builder:
    """An elementwise operator of two arguments that broadcast."""
    kernel = _plain(function)
    return define(name, "lhs rhs", infer=infer, kernel=kernel, kind=BROADCAST, traits=Trait.ELEMENTWISE | traits)


_compare = partial(_binary, infer=compare)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel without attributes."""
    return lambda attrs, *arrays: function(*arrays)


def is_float(array: Any) -> bool:
    """Whether the elements are floating-point numbers, bfloat16 included."""
    return array.dtype.kind not in "biu"


def truncated_divide(lhs: Any, rhs: Any) -> Any:
    """Quotient; of integers rounded toward zero."""
    if is_float(lhs):
        return np.divide(lhs, rhs)
    return np.floor_divide(lhs - np.fmod(lhs, rhs), rhs)


def _power(lhs: Any, rhs: Any) -> Any:
    if is_float(lhs) or lhs.dtype.kind != "i":
        # NumPy's vector instructions round even x to the power 1, which IEEE 754 and runtimes give as it is
        return np.where(rhs == 1, lhs, np.power(lhs, rhs))
    inverse = np.where(np.abs(lhs) == 1, np.power(lhs, np.abs(rhs)), 0).astype(lhs.dtype)  # 1 / n truncated
    return np.where(rhs < 0, inverse, np.power(lhs, np.maximum(rhs, 0)))


@by_name("sigmoid")
def sigmoid_of(data: Any) -> Any:
    """1 / (1 + e^-x), without overflow."""
    small = np.exp(-np.abs(data))
    return np.where(data >= 0, 1, small).astype(data.dtype, copy=False) / (1 + small)


@by_name("rsqrt")
def _rsqrt(data: Any) -> Any:
    return 1 / np.sqrt(data)


@by_name("fast_exp")
def _fast_exp(data: Any) -> Any:
    return np.exp(np.clip(data, -88.3762626647950, 88.3762626647949))


def _bitwise_not(data: Any) -> Any:
    return np.logical_not(data) if data.dtype == bool else np.bitwise_not(data)


# ---- the error function, which NumPy lacks: Chebyshev interpolants of Python's ``math.erf``

_SPLIT, _END = 1.0, 6.0  # erf(6) is 1 to double precision


def _near(u: Any) -> Any:
    """erf(x) / x over u in [-1, 1], where x^2 = (u + 1) / 2 * _SPLIT^2."""
    x = np.sqrt((u + 1) / 2) * _SPLIT
    return np.array([math.erf(v) / v if v else 2 / math.sqrt(math.pi) for v in x])


def _far(u: Any) -> Any:
    """erfc(x) e^(x^2) over u in [-1, 1], where x runs from _SPLIT to _END."""
    x = (u + 1) / 2 * (_END - _SPLIT) + _SPLIT
    return np.array([math.erfc(v) * math.exp(v * v) for v in x])


@cache
def _interpolants() -> tuple[Any, Any]:
    """The coefficients for :func:`_near` and :func:`_far`."""
    from numpy.polynomial.chebyshev import chebinterpolate

    return chebinterpolate(_near, 14), chebinterpolate(_far, 26)


@by_name("erf")
def erf_of(data: Any) -> Any:
    """Elementwise erf(x) as float64, accurate to about 1e-15."""
    from numpy.polynomial.chebyshev import chebval

    of_near, of_far = _interpolants()
    x = np.asarray(data, np.float64)
    size = np.minimum(np.abs(x), _END)
    square = size * size
    near = size * chebval(square * (2 / _SPLIT**2) - 1, of_near)
    far = 1 - np.exp(-square) * chebval((size - _SPLIT) * (2 / (_END - _SPLIT)) - 1, of_far)
    return np.copysign(np.where(size < _SPLIT, near, far), x)


# ---- operators

abs = _unary("abs", np.abs)
acos = _unary("acos", np.arccos)
acosh = _unary("acosh", np.arccosh)
asin = _unary("asin", np.arcsin)
asinh = _unary("asinh", np.arcsinh)
atan = _unary("atan", np.arctan)
atanh = _unary("atanh", np.arctanh)
bitwise_not = _unary("bitwise_not", _bitwise_not)
ceil = _unary("ceil", np.ceil)
copy = _unary("copy", np.copy, Trait.MOVES)
cos = _unary("cos", np.cos)
cosh = _unary("cosh", np.cosh)
erf = _unary("erf", erf_of)
exp = _unary("exp", np.exp)
floor = _unary("floor", np.floor)
log = _unary("log", np.log)
log2 = _unary("log2", np.log2)
log10 = _unary("log10", np.log10)
negative = _unary("negative", np.negative, INJECTIVE)
round = _unary("round", np.rint)
rsqrt = _unary("rsqrt", _rsqrt)
sigmoid = _unary("sigmoid", sigmoid_of)
sign = _unary("sign", np.sign)
sin = _unary("sin", np.sin)
sinh = _unary("sinh", np.sinh)
sqrt = _unary("sqrt", np.sqrt)
tan = _unary("tan", np.tan)
tanh = _unary("tanh", np.tanh)
trunc = _unary("trunc", np.trunc)

fast_erf = _unary("fast_erf", erf_of)
fast_exp = _unary("fast_exp", _fast_exp)
fast_tanh = _unary("fast_tanh", np.tanh)

isfinite = _predicate("isfinite", np.isfinite)
isinf = _predicate("isinf", np.isinf)
isnan = _predicate("isnan", np.isnan)
logical_not = _predicate("logical_not", np.logical_not)

add = _binary("add", np.add, COMMUTATIVE)
subtract = _binary("subtract", np.subtract)
multiply = _binary("multiply", np.multiply, COMMUTATIVE)
divide = _binary("divide", truncated_divide)
trunc_divide = _binary("trunc_divide", lambda lhs, rhs: np.trunc(truncated_divide(lhs, rhs)).astype(lhs.dtype))
floor_divide = _binary("floor_divide", np.floor_divide)
mod = _binary("mod", np.fmod)
trunc_mod = _binary("trunc_mod", np.fmod)
floor_mod = _binary("floor_mod", np.mod)
power = _binary("power", _power)
maximum = _binary("maximum", np.maximum, COMMUTATIVE)
minimum = _binary("minimum", np.minimum, COMMUTATIVE)
bitwise_and = _binary("bitwise_and", np.bitwise_and, COMMUTATIVE)
bitwise_or = _binary("bitwise_or", np.bitwise_or, COMMUTATIVE)
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, COMMUTATIVE)
left_shift = _binary("left_shift", lambda lhs, rhs: np.left_shift(lhs, rhs).astype(lhs.dtype, copy=False))
right_shift = _binary("right_shift", lambda lhs, rhs: np.right_shift(lhs, rhs).astype(lhs.dtype, copy=False))

equal = _compare("equal", np.equal, COMMUTATIVE)
not_equal = _compare("not_equal", np.not_equal, COMMUTATIVE)
less = _compare("less", np.less)
less_equal = _compare("less_equal", np.less_equal)
greater = _compare("greater", np.greater)
greater_equal = _compare("greater_equal", np.greater_equal)
logical_and = _compare("logical_and", np.logical_and, COMMUTATIVE)
logical_or = _compare("logical_or", np.logical_or, COMMUTATIVE)
logical_xor = _compare("logical_xor", np.logical_xor, COMMUTATIVE)


def clip_to(data: Any, low: float, high: float) -> Any:
    """``data`` limited to [low, high] intersected with the range of its dtype."""
    if not is_float(data):
        info = np.iinfo(data.dtype)
        low, high = (int(min(max(np.trunc(bound), info.min), info.max)) for bound in (low, high))
    return np.minimum(np.maximum(data, data.dtype.type(low)), data.dtype.type(high))


clip = define(
    "clip",
    "a",
    Field("a_min", "float"),
    Field("a_max", "float"),
    infer=same_type,
    kernel=lambda attrs, data: clip_to(data, attrs.a_min, attrs.a_max),
    kind=ELEMWISE,
    traits=Trait.ELEMENTWISE,
)

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
    "bitwise_xor", "ceil", "clip", "copy", "cos", "cosh", "divide", "equal", "erf", "exp", "fast_erf", "fast_exp",
    "fast_tanh", "floor", "floor_divide", "floor_mod", "greater", "greater_equal", "isfinite", "isinf", "isnan",
    "left_shift", "less", "less_equal", "log", "log2", "log10", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "power", "right_shift", "round",
    "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "trunc", "trunc_divide", "trunc_mod",
]  # fmt: skip

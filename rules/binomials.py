"""Quadratic forms as products: a x^2 + b x y + c y^2 = a (x + p y) (x + q y)."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np

from eqsat.egraph.author import constants, refuse, rewrite, type_of, value_of, variables
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay.ty import TensorType
from eqsat.rules.types import is_float, keeps_floats
from eqsat.rules.values import computed_parts

x, y = variables("x y")
letters = constants("a b c")


def roots(dtype: str, *coefficients: Array | float) -> tuple[float, float, float] | Refusal:
    """The a, p and q of a x^2 + b x y + c y^2 = a (x + p y) (x + q y).

    Args:
        dtype: what the coefficients are rounded to.
        coefficients: a, b and c.
    """
    if any(np.size(value) != 1 for value in coefficients):
        return refuse("a coefficient is not one number")
    a, b, c = (float(np.reshape(value, -1)[0]) for value in coefficients)
    inside = b * b - 4 * a * c
    noise = 8 * float(np.finfo(dtype).eps) * b * b
    if not a or not b or not c or not np.isfinite(inside) or inside < -noise:
        return refuse("there are no real factors")
    root = sqrt(inside) if inside > noise else 0.0
    return a, (b + root) / (2 * a), (b - root) / (2 * a)


def binomial(given: tuple[bool, ...]) -> Rewrite:
    """The rule for a form whose coefficients are constants where ``given`` is true, and 1 elsewhere."""
    xx, xy, yy = [
        part * letter if is_given else part
        for part, letter, is_given in zip((x * x, x * y, y * y), letters, given, strict=True)
    ]
    whole = ((xy + xx) + yy) | ((xy + yy) + xx) | ((xx + yy) + xy)
    refs = [value_of(letter) for letter, is_given in zip(letters, given, strict=True) if is_given]

    def factors(ty: TensorType, *values: Array) -> tuple[Array, ...] | Refusal:
        if not is_float(ty) or ty.dtype == "bfloat16":
            return refuse("the numbers are no floats")
        rest = iter(values)
        found = roots(ty.dtype, *[next(rest) if is_given else 1.0 for is_given in given])
        return found if isinstance(found, Refusal) else tuple([np.asarray(number, ty.dtype) for number in found])

    factor = computed_parts(factors, type_of(x), *refs)
    name = "".join(letter for letter, is_given in zip("abc", given, strict=True) if is_given)
    return rewrite(
        f"binomial-{name}",
        whole,
        ((x + y * factor(1)) * (x + y * factor(2))) * factor(0),
        keeps_floats(whole, x, y),
        soundness=Soundness.FINITE,
    )


binomials = RuleSet("binomials", [binomial(given) for given in product((True, False), repeat=3) if any(given)])

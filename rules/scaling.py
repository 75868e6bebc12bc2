"""The scale of attention travels to weights that absorb it.

``softmax(q k' s)`` needs no multiplication where ``q`` or ``k`` is a product with weights, however it was reshaped and
transposed on its way (:mod:`eqsat.rules.transposes` and :mod:`eqsat.rules.linear` know the rest of the way). Relay has
no operator for attention as a whole. That ``(x y) s`` is ``(x s) y`` is used under a softmax only: along a chain of
products the scales would be parted in exponentially many ways.
"""

from __future__ import annotations

from typing import Any

from eqsat.egraph.author import apart, constants, like, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.op import where
from eqsat.rules.operators import rank_of, view
from eqsat.rules.pools import is_usual
from eqsat.rules.values import is_float, is_scalar, keeps_floats

x, y, mask, condition = variables("x y mask condition")
s, c = constants("s c")
ROUNDING = Soundness.ROUNDING


def fits(number: Any, *others: Any) -> bool:
    """Guard: one number of the dtype of other floats, of no more axes than these."""
    alike = is_float(number, *others) and all(ty.dtype == number.dtype for ty in others)
    return alike and is_scalar(number) and all(rank_of(number) <= rank_of(ty) for ty in others)


def scores(name: str, product: Any) -> list[Any]:
    """softmax(x y s) = softmax((x s) y) = softmax(x (y s)), with or without a mask"""
    plain = product(x, y)
    scaled = plain * s
    found = []
    for form, inside in (("", scaled), ("masked-", scaled + mask), ("chosen-", where(condition, scaled, mask))):
        whole = nn.softmax(inside)
        for side, better in (("left", like(plain, x * s, y)), ("right", like(plain, x, y * s))):
            moved = {"": better, "masked-": better + mask, "chosen-": where(condition, better, mask)}[form]
            found.append(
                rewrite(
                    f"scale-of-{form}scores-into-{side}-of-{name}",
                    whole,
                    like(whole, moved),
                    when(is_usual, value_of(s)),
                    when(fits, type_of(s), type_of(x), type_of(y), type_of(plain)),
                    soundness=ROUNDING,
                )
            )
    return found


def is_no_scalar(ty: Any) -> bool:
    return not is_scalar(ty)


viewed = view(x)
row_scaled = y * c
scaled_rows = x * row_scaled

scaling = RuleSet(
    "scaling",
    [
        *[
            rule
            for name, product in (("matmul", nn.matmul), ("batch-matmul", nn.batch_matmul))
            for rule in scores(name, product)
        ],
        # view(x) s = view(x s)
        rewrite(
            "scale-through-view",
            viewed * s,
            like(viewed, x * s),
            when(fits, type_of(s), type_of(x), type_of(viewed)),
        ),
        # x (y c) = (x y) c: a row of constants, as the gamma of RMSNorm, gets where weights absorb it; x y may overflow
        rewrite(
            "row-outward",
            scaled_rows,
            (x * y) * c,
            keeps_floats(scaled_rows, x),
            when(is_no_scalar, type_of(c)),
            apart(row_scaled, y),
            soundness=Soundness.FINITE,
        ),
    ],
)

"""Whether linear constraints can hold together: elimination of one unknown after the other, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

Form: TypeAlias = Mapping[Any, Fraction]
"""A sum: unknown -> its factor. The unknown ``()`` is 1."""

MOST = 400
"""Constraints; with more, nothing is said."""


def infeasible(constraints: Sequence[tuple[Form, bool]]) -> bool:
    """Whether no values of the unknowns satisfy all constraints, each a form that is above 0, or at least not below.

    Args:
        constraints: forms, and of each whether it must be above 0.

    Returns:
        True only where that is certain.
    """
    rows = [(dict(form), strict) for form, strict in constraints]
    while True:
        for form, strict in rows:
            if not any(key != () for key in form):
                value = form.get((), Fraction(0))
                if value < 0 or (strict and value == 0):
                    return True
        counts: dict[Hashable, list[int]] = {}
        for form, _ in rows:
            for key, factor in form.items():
                if key != ():
                    counts.setdefault(key, [0, 0])[factor > 0] += 1
        if not counts:
            return False
        chosen = min(counts, key=lambda key: counts[key][0] * counts[key][1])
        above = [(form, strict) for form, strict in rows if form.get(chosen, 0) > 0]
        below = [(form, strict) for form, strict in rows if form.get(chosen, 0) < 0]
        rows = [(form, strict) for form, strict in rows if chosen not in form]
        if len(rows) + len(above) * len(below) > MOST:
            return False
        rows += [
            (_combined(one, -other[chosen], other, one[chosen]), strict or also)
            for one, strict in above
            for other, also in below
        ]


def _combined(one: Form, by: Fraction, other: Form, and_by: Fraction) -> dict[Hashable, Fraction]:
    result = {key: factor * by for key, factor in one.items()}
    for key, factor in other.items():
        result[key] = result.get(key, Fraction(0)) + factor * and_by
    return {key: factor for key, factor in result.items() if factor}

"""How operators are defined such that they compute with numbers and with terms.

An array of terms takes NumPy's functions, as an array of numbers does, and gives terms. What NumPy has no function for
stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

BY_VALUE = "the values of its arguments decide which elements it reads"
BY_INDEX = "it adds elements at indices that are given"
BY_RANK = "it sorts elements by their values"
TRANSFORM = "NumPy has Fourier transforms of numbers only"
OVERLAPPING = "it adds up what windows that overlap give"
BITS = "it reads bits, not numbers"
RANDOM = "it draws random numbers"
"""Reasons why an operator has no denotation."""


def by_name(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorate a function of real numbers, element by element, that terms know by its name.

    An array of terms has a method ``real_function(name)`` for it. It need not follow how the numbers are approximated.
    """

    def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(function)
        def of(data: Any) -> Any:
            named = getattr(data, "real_function", None)
            return function(data) if named is None else named(name)

        return of

    return decorate

"""Values of terms over constants, and whether a constant is the value of a term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.certificates.terms import Terms
from eqsat.errors import EvaluationError
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.traits import Trait
from eqsat.relay.visitor import children_first

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
}
"""Operators of which a chain over constants is computed in double precision and rounded once."""

_MOST_ROUNDED = 1 << 16
"""Bytes up to which it is kept what a constant was before it was rounded: chains are of small constants."""


class Values:
    """Computes terms over constants, each once.

    Args:
        terms: The terms.
    """

    def __init__(self, terms: Terms):
        self.terms = terms
        self._wide: dict[int, Any] = {}  # constant that was computed -> its value before it was rounded

    def check(self, term: int, constant: int) -> bool:
        """Check that a term over constants has the value of another one, which is a constant or a tuple of some.

        Returns:
            Whether it has every bit of it; else it is a sum or product that was rounded once, and not at each step.

        Raises:
            EvaluationError: It has not that value, or none.
        """
        found, told = self._value(term), self._value(constant)
        is_equal = _equal(found, told)
        if is_equal and (isinstance(told, tuple) or told.nbytes > _MOST_ROUNDED):
            return True
        wide = self._unrounded(term)
        is_near = wide is not None and _within_one_unit(wide, told)
        if not is_near and not is_equal:
            raise EvaluationError(f"{self.terms.told(term)} has another value than the constant")
        if is_near and not np.array_equal(wide, _widened(told)):
            self._wide.setdefault(constant, wide)
        return is_equal

    def _value(self, term: int) -> Any:
        """The value of a term, an array or a tuple of arrays."""
        terms = self.terms
        found: dict[int, Any] = {}

        def below(one: int) -> tuple[int, ...]:
            return () if one != term and terms.constant_of(one) is not None else terms.children[one]

        for one in children_first([term], below):
            head = terms.heads[one]
            constant = terms.array_of(one) if one != term or head.kind == "constant" else None
            if constant is not None:
                found[one] = constant
                continue
            values = [found[child] for child in terms.children[one]]
            if head.kind == "tuple":
                found[one] = tuple(values)
            elif head.kind == "project" and isinstance(values[0], tuple) and head.value < len(values[0]):
                found[one] = values[0][head.value]
            elif head.op is not None and head.op.kernel is not None and not head.op.get_attr("TOpIsStateful"):
                found[one] = evaluate_op(head.op, head.value, values)
            else:
                raise EvaluationError(f"{terms.told(one)} is no constant")
        return found[term]

    def _unrounded(self, term: int) -> Any:
        """The value in double precision of a sum or product of constants, or of one whose elements are moved."""
        terms, head = self.terms, self.terms.heads[term]
        constants = [terms.constant_of(child) for child in terms.children[term]]
        known = [each for each in constants if each is not None]
        if head.op is None or len(known) < len(constants) or not known:
            return None
        wide = [self._wide[each] if each in self._wide else _widened(terms.array_of(each)) for each in known]
        if any(each is None for each in wide):
            return None
        with np.errstate(all="ignore"):
            if head.op.name in _ARITHMETIC:
                return np.asarray(_ARITHMETIC[head.op.name](*wide))
            if head.op.has(Trait.MOVES) and len(wide) == 1:
                return np.asarray(evaluate_op(head.op, head.value, wide))
        return None


def _widened(array: Any) -> Any:
    is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return array.astype(np.float64) if is_float else None


def _equal(found: Any, told: Any) -> bool:
    if isinstance(found, tuple) or isinstance(told, tuple):
        both = isinstance(found, tuple) and isinstance(told, tuple) and len(found) == len(told)
        return both and all(map(_equal, found, told))
    alike = found.dtype == told.dtype and found.shape == told.shape
    return bool(alike and np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(told).tobytes())


_UNITS_OF_BFLOAT16 = 2.0**-7, 2.0**-133
"""The distance of 1 to the next number, and of 0."""


def _within_one_unit(wide: Any, told: Any) -> bool:
    """Whether a constant is a number of double precision rounded to its dtype, or next to that."""
    if isinstance(told, tuple) or wide.shape != told.shape or _widened(told) is None:
        return False
    one_unit, least = _UNITS_OF_BFLOAT16
    if told.dtype.name != "bfloat16":
        one_unit, least = float(np.finfo(told.dtype).eps), float(np.finfo(told.dtype).smallest_subnormal)
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(told.astype(np.float64) - wide) <= one_unit * np.abs(wide) + least))

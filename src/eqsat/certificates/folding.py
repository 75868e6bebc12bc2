"""Values of terms over constants, and whether a constant is the value of a term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ml_dtypes import finfo

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
"""Operators whose chains over constants may be computed in double precision and rounded once."""

_MOST_KEPT = 1 << 16
"""Largest value, in bytes, that is stored in double precision; chains consist of small constants."""


class Values:
    """Computes terms over constants.

    Args:
        terms: The terms.
    """

    def __init__(self, terms: Terms):
        self.terms = terms
        self._wide: dict[int, Any] = {}

    def check(self, term: int, constant: int) -> bool:
        """Check that a term over constants has the value of another term, which is a constant or a tuple of constants.

        Returns:
            Whether all bits agree; otherwise it is a sum or product that was rounded once instead of at each step.

        Raises:
            EvaluationError: It has another value, or cannot be computed.
        """
        told = self.value(constant)
        if _equal(self.value(term), told):
            return True
        wide = self._unrounded(term)
        if wide is None or not _within_one_unit(wide, told):
            raise EvaluationError(f"{self.terms.told(term)} has another value than the constant")
        return False

    def value(self, term: int) -> Any:
        """Return the value of a term, an array or a tuple of arrays, rounded at each step."""
        terms, found = self.terms, dict[int, Any]()
        for one in children_first([term], lambda one: self._operands(one, one == term)):
            head, values = terms.heads[one], [found[child] for child in self._operands(one, one == term)]
            if not values and terms.constant_of(one) is not None and (one != term or head.kind == "constant"):
                found[one] = terms.array_of(one)
            elif head.kind == "tuple":
                found[one] = tuple(values)
            elif head.kind == "project" and isinstance(values[0], tuple) and head.value < len(values[0]):
                found[one] = values[0][head.value]
            elif head.op is not None and head.op.kernel is not None and not head.op.get_attr("TOpIsStateful"):
                found[one] = evaluate_op(head.op, head.value, values)
            else:
                raise EvaluationError(f"{terms.told(one)} is not a constant")
        return found[term]

    def _operands(self, term: int, is_computed: bool) -> tuple[int, ...]:
        """What a term is computed from: nothing if its value is known, and not to be computed."""
        known = self.terms.constant_of(term) is not None and not is_computed
        return () if known else self.terms.children[term]

    def _unrounded(self, term: int) -> Any:
        """The value of a term in double precision where it is of sums, products and moved elements; else None."""
        terms, found = self.terms, dict[int, Any]()
        for one in children_first([term], lambda one: () if one in self._wide else terms.children[one]):
            op, below = terms.heads[one].op, [found[child] for child in terms.children[one] if child in found]
            wide = self._wide.get(one)
            if wide is None and op is not None and below and len(below) == len(terms.children[one]):
                with np.errstate(all="ignore"):
                    if op.name in _ARITHMETIC:
                        wide = np.asarray(_ARITHMETIC[op.name](*below))
                    elif op.has(Trait.MOVES) and len(below) == 1:
                        wide = np.asarray(evaluate_op(op, terms.heads[one].value, below))
            if wide is None and terms.constant_of(one) is not None and one != term:
                wide = _widened(terms.array_of(one))
            if wide is not None:
                found[one] = wide
                if wide.nbytes <= _MOST_KEPT:
                    self._wide[one] = wide
        return found.get(term)


def _widened(array: Any) -> Any:
    is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return array.astype(np.float64) if is_float else None


def _equal(found: Any, told: Any) -> bool:
    if isinstance(found, tuple) or isinstance(told, tuple):
        both = isinstance(found, tuple) and isinstance(told, tuple) and len(found) == len(told)
        return both and all(map(_equal, found, told))
    alike = found.dtype == told.dtype and found.shape == told.shape
    return bool(alike and np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(told).tobytes())


def _within_one_unit(wide: Any, told: Any) -> bool:
    """Return whether a constant is a double-precision number rounded to its dtype, or a neighbour of it."""
    if isinstance(told, tuple) or wide.shape != told.shape or _widened(told) is None:
        return False
    one_unit, least = [float(each) for each in (finfo(told.dtype).eps, finfo(told.dtype).smallest_subnormal)]
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(told.astype(np.float64) - wide) <= one_unit * np.abs(wide) + least))

"""Which values are known to be zero, however they are computed."""

from __future__ import annotations

from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.traits import Trait

_KEEP_ZEROS = ("cast", "full", "dyn.full")
"""Operators that move no elements and whose results are zero where their first argument is."""
_ZEROS = ("zeros", "dyn.zeros", "zeros_like")
_MOST_ELEMENTS = 1 << 20


def is_zero(expr: Expr) -> bool:
    """Whether all elements of ``expr`` are known to be zero."""
    while isinstance(expr, Call) and isinstance(expr.op, Op):
        if expr.op.name in _ZEROS:
            return True
        if not expr.op.has(Trait.MOVES) and expr.op.name not in _KEEP_ZEROS:
            return False
        expr = expr.args[0]
    return isinstance(expr, Constant) and expr.data.size <= _MOST_ELEMENTS and not expr.data.numpy().any()

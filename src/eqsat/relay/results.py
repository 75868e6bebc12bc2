"""Several results of one function: its body is a tuple of them, or several where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.relay.expr import Expr, Tuple, TupleGetItem
from eqsat.relay.ty import TupleType, Type

_WIDEST = 64
"""Results beyond which they are tuples of so many: tables are as wide as the widest tuple, and cost its square."""


def body_of(results: Sequence[Expr]) -> Expr:
    """The body of a function that gives these results."""
    if len(results) == 1:
        return results[0]
    if len(results) <= _WIDEST:
        return Tuple(results)
    return Tuple([Tuple(results[start : start + _WIDEST]) for start in range(0, len(results), _WIDEST)])


def results_of(body: Expr, ty: Type) -> list[Expr]:
    """The results that :func:`body_of` made a body of, or of one that is equal to it.

    Args:
        body: the body.
        ty: its type.
    """
    return [result for part in _fields(body, ty) for result, _ in _fields(*part)]


def _fields(expr: Expr, ty: Type) -> list[tuple[Expr, Type]]:
    """The fields of a tuple, or what is none, with their types."""
    if not isinstance(ty, TupleType):
        return [(expr, ty)]
    exprs = expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, index) for index in range(len(ty.fields))]
    return list(zip(exprs, ty.fields, strict=True))

"""The calls that mark the edges on which values enter and leave a region for an external compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard, TypeVar

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.op.annotation import compiler_begin, compiler_end
from eqsat.relay.visitor import children_first

T = TypeVar("T")

DEFAULT_TARGET = "default"
"""The target of what no external compiler takes."""

BEGIN = Op.get("annotation.compiler_begin")
END = Op.get("annotation.compiler_end")


def begin(value: Expr, target: str) -> Expr:
    """``value`` entering a region of ``target``; the type is kept."""
    return _of_type(compiler_begin(value, target), value)


def end(value: Expr, target: str) -> Expr:
    """``value`` leaving a region of ``target``; the type is kept."""
    return _of_type(compiler_end(value, target), value)


def _of_type(call: Expr, value: Expr) -> Expr:
    call._checked_type = value._checked_type
    return call


def is_begin(expr: Expr) -> TypeGuard[Call]:
    """Whether ``expr`` is a ``compiler_begin``."""
    return type(expr) is Call and expr.op is BEGIN


def is_end(expr: Expr) -> TypeGuard[Call]:
    """Whether ``expr`` is a ``compiler_end``."""
    return type(expr) is Call and expr.op is END


def needs_first(roots: Sequence[T], needs: Callable[[T], Sequence[T]], cycle: Callable[[T], PassError]) -> list[T]:
    """List all that ``roots`` need, each after what it needs itself; raises ``cycle`` of what needs itself."""
    order = children_first(roots, needs)
    done: set[T] = set()
    for item in order:
        for needed in needs(item):
            if needed not in done:
                raise cycle(needed)
        done.add(item)
    return order

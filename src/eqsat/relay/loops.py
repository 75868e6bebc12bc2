"""Loops, which are functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat.relay.expr import Expr, Function, Let, Tuple, Var, var
from eqsat.relay.scope_builder import ScopeBuilder


def while_loop(cond: Callable[..., Expr], loop_vars: Sequence[Expr], loop_bodies: Callable[..., Sequence[Expr]]) -> Let:
    """Return a function that repeats a computation while a condition holds, and returns the last values as a tuple.

    Args:
        cond: Of the values, one argument each: a bool scalar, whether to go on.
        loop_vars: Variables like those that the values have in the loop, by name and type; of another expression the
            type counts, if it is known.
        loop_bodies: Of the values: the next values.
    """
    variables = [
        var(given.name_hint if isinstance(given, Var) else f"arg{index}", _type_of(given))
        for index, given in enumerate(loop_vars)
    ]
    loop: Any = Var("while_loop")
    builder = ScopeBuilder()
    with builder.if_scope(cond(*variables)):
        builder.ret(loop(*loop_bodies(*variables)))
    with builder.else_scope():
        builder.ret(Tuple(variables))
    return Let(loop, Function(variables, builder.get()), loop)


def _type_of(given: Expr) -> Any:
    return given.type_annotation if isinstance(given, Var) else given._checked_type

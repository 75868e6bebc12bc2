"""Binding variables to expressions."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Function, Var
from eqsat.relay.visitor import substitute


def bind(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Return an expression in which some variables are replaced by other expressions.

    Args:
        expr: The expression. If it is a function, its parameters may also be replaced; they are then no longer
            parameters, and the free variables of their replacements become parameters.
        binds: Variable -> replacement. Replacements are inserted unchanged, and parameters of functions inside ``expr``
            are not replaced.

    Raises:
        ArgumentError: A key is not a variable, or a value is not an expression.
    """
    for variable, value in binds.items():
        if not isinstance(variable, Var) or not isinstance(value, Expr):
            raise ArgumentError(f"bind replaces variables by expressions, not {variable!r} by {value!r}")
    return bind_function(expr, binds) if isinstance(expr, Function) else substitute(expr, binds)


def bind_function(function: Function, binds: Mapping[Var, Expr]) -> Function:
    """Do what :func:`bind` does with a function."""
    body = substitute(function.body, binds)
    kept = [param for param in function.params if param not in binds]
    if body is function.body and len(kept) == len(function.params):
        return function
    known = {*function.params, *free_vars(function)}
    kept += [variable for variable in free_vars(body) if variable not in known]
    return Function(kept, body, function.ret_type, function.type_params, function.attrs)

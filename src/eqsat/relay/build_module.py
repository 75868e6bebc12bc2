"""Binding parameters of a function to values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Constant, Expr, Function, const
from eqsat.relay.visitor import substitute


def bind_params_by_name(function: Function, params: Mapping[str, Any]) -> Function:
    """``function`` with the parameters named in ``params`` replaced by constants.

    Args:
        function: the function.
        params: name -> NDArray, NumPy array, number or Constant; names that no parameter has are ignored.

    Raises:
        ArgumentError: two parameters have one of the names.
    """
    replacements: dict[Expr, Expr] = {}
    bound: set[str] = set()
    for param in function.params:
        name = param.name_hint
        if name in params:
            if name in bound:
                raise ArgumentError(f"two parameters are named {name!r}: bind_params_by_name cannot tell them apart")
            bound.add(name)
            value = params[name]
            replacements[param] = value if isinstance(value, Constant) else const(value, getattr(value, "dtype", None))
    if not replacements:
        return function
    body = substitute(function.body, replacements)
    kept = [param for param in function.params if param not in replacements]
    known = {*function.params, *free_vars(function)}
    kept += [variable for variable in free_vars(body) if variable not in known]
    return Function(kept, body, function.ret_type, function.type_params, function.attrs)

"""Binding parameters of a function to values, and evaluating it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.bind import bind_function
from eqsat.relay.executor import create_executor as create_executor
from eqsat.relay.expr import Constant, Expr, Function, Var, const


def bind_params_by_name(function: Function, params: Mapping[str, Any]) -> Function:
    """``function`` with the parameters named in ``params`` replaced by constants.

    Args:
        function: the function.
        params: name -> NDArray, NumPy array, number or Constant; names that no parameter has are ignored.

    Raises:
        ArgumentError: two parameters have one of the names.
    """
    binds: dict[Var, Expr] = {}
    bound: set[str] = set()
    for param in function.params:
        name = param.name_hint
        if name in params:
            if name in bound:
                raise ArgumentError(f"two parameters are named {name!r}: bind_params_by_name cannot tell them apart")
            bound.add(name)
            value = params[name]
            binds[param] = value if isinstance(value, Constant) else const(value, getattr(value, "dtype", None))
    return bind_function(function, binds)

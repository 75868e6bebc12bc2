"""Executors, under the name that TVM's users know: they evaluate by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eqsat.errors import ArgumentError, EvaluationError
from eqsat.nd import array
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Constant, Expr, Function, GlobalVar, Var
from eqsat.relay.interpreter import evaluate
from eqsat.relay.module import IRModule

_KINDS = ("aot", "debug", "graph", "vm")


class Executor:
    """Evaluates functions and expressions, whatever the kind, device and target.

    Args:
        mod: The module in which GlobalVars are looked up, and whose ``main`` is evaluated if nothing else is given.
        params: Values of parameters of functions, by name.
    """

    def __init__(self, mod: IRModule, params: Mapping[str, Any]):
        self.mod = mod
        self.params = dict(params)

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Var, Any] | None = None) -> Any:
        """Return the value of an expression. For a function, return a callable that takes its arguments.

        Arguments are NumPy arrays, NDArrays or constants, by position or by the names of the parameters. The value is
        an NDArray, or a tuple of NDArrays.

        Args:
            expr: The expression; by default ``main``.
            binds: Values of its free variables.

        Raises:
            ArgumentError: A free variable has no value.
            EvaluationError: A call has too few or too many arguments, or a value cannot be computed.
        """
        if isinstance(expr, GlobalVar) or expr is None:
            expr = self.mod[expr or "main"]
        values = {variable: _as_value(value) for variable, value in (binds or {}).items()}
        missing = [variable.name_hint for variable in free_vars(expr) if variable not in values]
        if missing:
            raise ArgumentError(f"%{missing[0]} is free in what is evaluated: make it a parameter or give it in binds")
        if isinstance(expr, Function):
            return self._callable(expr, values)
        return _as_arrays(evaluate(expr, values, self.mod))

    def _callable(self, function: Function, values: Mapping[Var, Any]) -> Callable[..., Any]:
        known = {param: self.params[param.name_hint] for param in function.params if param.name_hint in self.params}
        params = [param for param in function.params if param not in known]

        def call(*args: Any, **kwargs: Any) -> Any:
            named = [param for param in params[len(args) :] if param.name_hint in kwargs]
            if len(args) + len(named) != len(params) or len(named) != len(kwargs):
                names = [param.name_hint for param in params]
                raise EvaluationError(f"the function takes {names} and is given {len(args)} values and {list(kwargs)}")
            given = {**known, **dict(zip(params, args, strict=False))}
            given.update((param, kwargs[param.name_hint]) for param in named)
            return _as_arrays(evaluate(function, {**values, **{key: _as_value(given[key]) for key in given}}, self.mod))

        return call


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """Return an executor.

    Args:
        kind: ``"debug"``, ``"graph"``, ``"vm"`` or ``"aot"``, which all evaluate alike.
        mod: The module.
        device: Accepted as in TVM: everything is computed by NumPy.
        target: As ``device``.
        params: Values of parameters, by name.

    Raises:
        ArgumentError: There is no executor of that kind.
    """
    if kind not in _KINDS:
        raise ArgumentError(f"there is no executor {kind!r}: use one of {list(_KINDS)}")
    return Executor(IRModule() if mod is None else mod, params or {})


def _as_value(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_as_value, value))
    return value.data if isinstance(value, Constant) else value


def _as_arrays(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_arrays, value))
    return array(value) if hasattr(value, "dtype") else value

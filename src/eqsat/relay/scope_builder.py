"""Building nested lets and ifs statement by statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Expr, If, Let, TupleWrapper, Var, var
from eqsat.relay.ty import Type


class _Scope:
    """The lets of a scope, in order, and what it returns; between its two branches an if is not complete."""

    def __init__(self) -> None:
        self.lets: list[tuple[Var, Expr]] = []
        self.result: Expr | None = None
        self.pending: tuple[Expr, Expr] | None = None

    def close(self) -> Expr:
        if self.pending is not None:
            raise ArgumentError("an if_scope needs an else_scope after it")
        if self.result is None:
            raise ArgumentError("the scope returns nothing: call ret at its end")
        body = self.result
        for variable, value in reversed(self.lets):
            body = Let(variable, value, body)
        return body


class ScopeBuilder:
    """Builds an expression of nested lets and ifs::

    builder = relay.ScopeBuilder()
    with builder.if_scope(condition):
        twice = builder.let("twice", x + x)
        builder.ret(twice)
    with builder.else_scope():
        builder.ret(x)
    expression = builder.get()
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Var | str | tuple[str, Type | str | None], value: Any) -> Var:
        """Bind ``value`` to a variable and return it; ``var`` is a variable, a name, or a name and a type.

        Raises:
            ArgumentError: ``value`` is not an expression.
        """
        variable = _variable(var)
        self._scopes[-1].lets.append((variable, _expression(value, f"the value of %{variable.name_hint}")))
        return variable

    def ret(self, value: Any) -> None:
        """Set the result of the scope.

        Raises:
            ArgumentError: The scope has a result already, or ``value`` is not an expression.
        """
        scope = self._scopes[-1]
        if scope.result is not None or scope.pending is not None:
            raise ArgumentError("the scope returns something already")
        scope.result = _expression(value, "what a scope returns")

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """The branch of an if that is taken where ``cond`` holds, as a context; the scope returns what the if does.

        Raises:
            ArgumentError: The scope around it returns something already, or the branch returns nothing.
        """
        around = self._scopes[-1]
        if around.result is not None or around.pending is not None:
            raise ArgumentError("the scope around the if returns something already")
        with self._branch() as branch:
            yield
        around.pending = (_expression(cond, "the condition of an if"), branch.close())

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch of the if before it, as a context.

        Raises:
            ArgumentError: There is no if before it, or the branch returns nothing.
        """
        around = self._scopes[-1]
        if around.pending is None:
            raise ArgumentError("an else_scope needs an if_scope before it")
        with self._branch() as branch:
            yield
        around.result, around.pending = If(*around.pending, branch.close()), None

    @contextmanager
    def _branch(self) -> Iterator[_Scope]:
        depth = len(self._scopes)
        self._scopes.append(_Scope())
        try:
            yield self._scopes[-1]
        finally:
            del self._scopes[depth:]

    def get(self) -> Expr:
        """Return the expression.

        Raises:
            ArgumentError: It is not complete.
        """
        if len(self._scopes) != 1:
            raise ArgumentError("the expression is complete where no branch is open: call get outside of it")
        return self._scopes[0].close()


def _variable(given: Var | str | tuple[str, Type | str | None]) -> Var:
    if isinstance(given, Var):
        return given
    if isinstance(given, str):
        return var(given)
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return var(*given)
    raise ArgumentError(f"let takes a Var, a name, or a name and a type, not {given!r}")


def _expression(given: Any, what: str) -> Expr:
    value = given.astuple() if isinstance(given, TupleWrapper) else given
    if not isinstance(value, Expr):
        raise ArgumentError(f"{what} must be an expression, not {given!r}")
    return value

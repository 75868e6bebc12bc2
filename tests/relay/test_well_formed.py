"""``well_formed``: each variable is bound in one place, and used only there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eqsat import relay
from eqsat.relay import Function, Let, Tuple, TupleGetItem, Var, const
from eqsat.relay.analysis import well_formed

ONE = const(1.0)
X, Y, Z = Var("x"), Var("y"), Var("z")
FREE = Var("free")


def nested_functions() -> Function:
    return Function([X], Let(Y, Function([Z], Z * X), Y(X)))


@pytest.mark.parametrize(
    "expr",
    [
        X,
        Let(X, ONE, X),
        Function([X], X),
        Let(Y, Function([X], X), Let(Z, ONE, Z)),
        Tuple([FREE, Let(X, FREE, X)]),
        TupleGetItem(X, 2),
        nested_functions(),
        Let(X, Function([Y], X(Y)), X),  # which is recursive
        relay.If(FREE, Let(X, ONE, X), Let(Y, ONE, Y)),
    ],
)
def test_expressions_that_are_well_formed(expr: relay.Expr) -> None:
    assert well_formed(expr)


@pytest.mark.parametrize(
    "expr",
    [
        Let(X, ONE, Let(X, ONE, X)),  # bound again inside
        Tuple([Let(X, ONE, X), Let(X, ONE, X)]),  # and beside
        Function([X, X], X),
        Function([X], Let(X, ONE, X)),
        Tuple([X, Let(X, ONE, X)]),  # free, then bound
        Tuple([Let(X, ONE, X), X]),  # bound, then used outside
        relay.If(FREE, Let(X, ONE, X), X),
    ],
)
def test_expressions_that_are_not(expr: relay.Expr) -> None:
    assert not well_formed(expr)


def test_what_is_shared_counts_once() -> None:
    let = Let(X, ONE, X + X)
    assert well_formed(Tuple([let, let]))


def test_clauses_bind_the_variables_of_their_patterns() -> None:
    header = relay.GlobalTypeVar("Box")
    box = relay.Constructor("Box", [relay.TensorType(())], header)
    relay.TypeData(header, [], [box])
    case: Callable[[Var], relay.Clause] = lambda var: relay.Clause(  # noqa: E731
        relay.PatternConstructor(box, [relay.PatternVar(var)]), var
    )
    assert well_formed(relay.Match(FREE, [case(X), case(Y)]))
    assert not well_formed(relay.Match(FREE, [case(X), case(X)]))


def test_depth_does_not_matter() -> None:
    expr: relay.Expr = ONE
    for _ in range(50_000):
        expr = Let(Var("x"), ONE, expr)
    assert well_formed(expr)

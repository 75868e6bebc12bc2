"""Functions, lets and branches: what is bound inside them stays there."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, default_rng

import eqsat
from eqsat import relay
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order

SHAPE = (2, 3)


@st.composite
def binding_graphs(draw: st.DrawFn) -> Expr:
    """A graph over x and y with lets, branches, functions that capture and functions that are called."""
    return _grow(default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(1, 12)))


X, Y = relay.var("x", shape=SHAPE), relay.var("y", shape=SHAPE)


def _grow(rng: Generator, size: int) -> Expr:
    return _expr(rng, size, [X, Y])


def _expr(rng: Generator, size: int, scope: list[Expr]) -> Expr:
    """An expression of about ``size`` operators over what is in scope. (Small: it may recurse.)"""
    if size <= 0:
        return scope[int(rng.integers(len(scope)))]
    first, second = (_expr(rng, (size - 1) // 2, scope) for _ in range(2))
    match ["unary", "binary", "neutral", "let", "if", "function"][int(rng.integers(6))]:
        case "unary":
            return [relay.nn.relu, relay.tanh, relay.negative][int(rng.integers(3))](first)
        case "binary":
            return first + second
        case "neutral":
            return relay.negative(relay.negative(first * relay.const(np.float32(1)) + relay.const(np.float32(0))))
        case "let":
            bound = relay.var("v", shape=SHAPE)
            return relay.Let(bound, first, _expr(rng, (size - 1) // 2, [*scope, bound]))
        case "if":
            return relay.If(relay.sum(first) > relay.const(np.float32(0)), first, second)
        case _:
            param = relay.var("p", shape=SHAPE)
            return relay.Function([param], _expr(rng, (size - 1) // 2, [*scope, param]))(first)


def values(graph: Expr) -> Any:
    rng = default_rng(0)
    given = {name: rng.uniform(-2, 2, SHAPE).astype("float32") for name in ("x", "y")}
    return evaluate(graph, {var.name_hint: given[var.name_hint] for var in free_vars(graph)})


@settings(max_examples=10, deadline=None)
@given(graph=binding_graphs())
def test_no_bound_variable_escapes_and_values_are_kept(graph: Expr) -> None:
    best = eqsat.optimize(graph)
    assert set(free_vars(best)) <= set(free_vars(graph))
    for node in post_order(best):
        if isinstance(node, relay.Function):
            assert set(free_vars(node)) <= {X, Y} | bound_above(best)
    np.testing.assert_allclose(values(best), values(graph), rtol=1e-4, atol=1e-4)


def bound_above(graph: Expr) -> set[Expr]:
    """All variables that are bound anywhere in a graph."""
    functions = [node for node in post_order(graph) if isinstance(node, relay.Function)]
    return {param for function in functions for param in function.params}


def test_an_equality_inside_a_function_is_not_one_outside() -> None:
    p = relay.var("p", shape=SHAPE)
    inner = relay.Function([p], relay.negative(relay.negative(p)))
    graph = relay.Tuple([inner(X), relay.negative(relay.negative(Y))])
    best = eqsat.optimize(graph)
    assert free_vars(best) == [X, Y]
    np.testing.assert_array_equal(values(best)[0], values(graph)[0])


def test_both_branches_are_optimized_and_neither_is_evaluated_in_vain() -> None:
    condition = relay.sum(X) > relay.const(np.float32(0))
    graph = relay.If(condition, relay.negative(relay.negative(X)), relay.nn.relu(relay.nn.relu(Y)))
    best = eqsat.optimize(graph)
    assert isinstance(best, relay.If)
    assert best.true_branch is X
    assert eqsat.ir.structural_equal(best.false_branch, relay.nn.relu(Y))

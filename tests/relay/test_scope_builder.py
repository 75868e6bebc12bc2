"""``ScopeBuilder`` builds nested lets and ifs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.ir import assert_structural_equal
from eqsat.relay import ScopeBuilder
from eqsat.relay.interpreter import evaluate


def test_lets_are_nested_in_their_order() -> None:
    x = relay.var("x", shape=(2,))
    builder = ScopeBuilder()
    a = builder.let("a", x + x)
    b = builder.let(("b", relay.TensorType((2,))), a * a)
    c = builder.let(relay.var("c"), b - a)
    builder.ret(c)
    assert_structural_equal(
        builder.get(), relay.Let(a, x + x, relay.Let(b, a * a, relay.Let(c, b - a, c))), map_free_vars=True
    )
    assert (a.name_hint, b.type_annotation) == ("a", relay.TensorType((2,)))


def test_an_if_is_what_its_scope_returns() -> None:
    cond, x = relay.var("cond", shape=(), dtype="bool"), relay.var("x", shape=(2,))
    builder = ScopeBuilder()
    twice = builder.let("twice", x + x)
    with builder.if_scope(cond):
        builder.ret(builder.let("squared", twice * twice))
    with builder.else_scope():
        with builder.if_scope(cond):
            builder.ret(x)
        with builder.else_scope():
            builder.ret(twice)
    function = relay.Function([cond, x], builder.get())
    values = np.array([1, 2], np.float32)
    for given, expected in ((True, [4, 16]), (False, [2, 4])):
        found = evaluate(function.body, {"cond": np.array(given), "x": values})
        np.testing.assert_array_equal(found, expected)


def test_an_operator_of_several_outputs_is_bound_as_a_tuple() -> None:
    x = relay.var("x", shape=(2,))
    builder = ScopeBuilder()
    parts = builder.let("parts", relay.split(x, 2))
    builder.ret(relay.TupleGetItem(parts, 0))
    assert isinstance(builder.get().value, relay.Call)  # type: ignore[attr-defined]


def returned_twice(builder: ScopeBuilder, x: Any) -> None:
    builder.ret(x)
    builder.ret(x)


def if_after_return(builder: ScopeBuilder, x: Any) -> None:
    builder.ret(x)
    with builder.if_scope(x):
        builder.ret(x)


def if_without_else(builder: ScopeBuilder, x: Any) -> None:
    with builder.if_scope(x):
        builder.ret(x)
    builder.get()


def else_without_if(builder: ScopeBuilder, x: Any) -> None:
    with builder.else_scope():
        builder.ret(x)


def branch_without_result(builder: ScopeBuilder, x: Any) -> None:
    with builder.if_scope(x):
        builder.let("a", x)


def got_inside(builder: ScopeBuilder, x: Any) -> None:
    with builder.if_scope(x):
        builder.get()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (returned_twice, "the scope returns something already"),
        (if_after_return, "the scope around the if returns something already"),
        (if_without_else, "an if_scope needs an else_scope after it"),
        (else_without_if, "an else_scope needs an if_scope before it"),
        (branch_without_result, "the scope returns nothing: call ret at its end"),
        (got_inside, "the expression is complete where no branch is open"),
        (lambda builder, x: builder.get(), "the scope returns nothing: call ret"),
        (lambda builder, x: builder.let("a", 1), "the value of %a must be an expression, not 1"),
        (lambda builder, x: builder.let(1, x), "let takes a Var, a name, or a name and a type, not 1"),
        (lambda builder, x: builder.ret(None), "what a scope returns must be an expression, not None"),
    ],
)
def test_what_is_no_expression_yet_is_said(build: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        build(ScopeBuilder(), relay.var("x", shape=(), dtype="bool"))


def test_an_error_in_a_branch_leaves_the_builder_outside_of_it() -> None:
    x = relay.var("x", shape=(), dtype="bool")
    builder = ScopeBuilder()
    with pytest.raises(RuntimeError, match="mine"), builder.if_scope(x):
        raise RuntimeError("mine")
    builder.ret(x)
    assert builder.get() is x


def test_loops() -> None:
    def body(i: Any, total: Any) -> list[Any]:
        return [i + relay.const(1), total + i]

    i, total = relay.var("i", "int32"), relay.var("total", "int32")
    loop = relay.loops.while_loop(lambda i, total: i < relay.const(5), [i, total], body)
    call = loop(relay.const(1), relay.const(0))
    assert [value.item() for value in evaluate(call)] == [5, 10]
    typed = relay.transform.InferType()(eqsat.IRModule.from_expr(call))["main"]
    assert str(typed.ret_type) == "(int32, int32)"


def test_variables_of_loops_have_names_and_types() -> None:
    x = relay.const(1.0)
    known = relay.transform.InferType()(eqsat.IRModule.from_expr(x))["main"].body
    for given, name, ty in ((x, "arg0", None), (known, "arg0", relay.scalar_type("float32"))):
        loop = relay.loops.while_loop(lambda i: i < relay.const(5.0), [given], lambda i: [i + i])
        (param,) = loop.value.params
        assert (param.name_hint, param.type_annotation) == (name, ty)

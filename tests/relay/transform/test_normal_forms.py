"""ToANormalForm: operands are variables, values are the same, and each is computed where it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import relay
from eqsat.ir import assert_structural_equal
from eqsat.relay import transform
from eqsat.relay.interpreter import evaluate
from eqsat.relay.prelude import Prelude
from eqsat.relay.visitor import post_order


def normal(text: str) -> relay.IRModule:
    return transform.ToANormalForm()(relay.parse(f'#[version = "0.0.5"]\n{text}'))


def assert_becomes(text: str, expected: str) -> None:
    """The body of ``@main`` in normal form is ``expected``, but for the names of variables."""
    wanted = relay.parse(f'#[version = "0.0.5"]\n{expected}')
    assert_structural_equal(normal(text), wanted)


def test_every_value_gets_a_name_in_the_order_of_computation() -> None:
    assert_becomes(
        "def @main(%x: int32) { (%x + 1) * 2 }",
        "def @main(%x: int32) { let %a = 1; let %b = %x + %a; let %c = 2; let %d = %b * %c; %d }",
    )


def test_what_branches_share_is_computed_before_them() -> None:
    assert_becomes(
        """def @main(%c: bool, %x: int32) {
          %0 = negative(%x);
          if (%c) { abs(%0) } else { exp(%0) }
        }""",
        """def @main(%c: bool, %x: int32) {
          let %a = negative(%x);
          let %b = if (%c) { let %d = abs(%a); %d } else { let %e = exp(%a); %e };
          %b
        }""",
    )


def test_lets_within_expressions_come_out() -> None:
    assert_becomes(
        "def @main(%x: int32) { (let %y = abs(%x); %y) + %x }",
        "def @main(%x: int32) { let %y = abs(%x); let %a = %y; let %b = %a + %x; %b }",
    )


def test_one_value_may_have_several_names() -> None:
    assert_becomes(
        "def @main(%x: int32) { %0 = abs(%x); let %y = %0; let %z = %0; %y + %z }",
        "def @main(%x: int32) { let %y = abs(%x); let %z = %y; let %a = %y + %z; let %b = %a; let %c = %b; %c }",
    )


def test_functions_are_bound_and_primitive_ones_left_alone() -> None:
    assert_becomes(
        """def @main(%x: int32) {
          %2 = fn (%y: int32, Primitive=1) { %1 = abs(%y); exp(%1) };
          fn (%z: int32) { %2(negative(%z)) }
        }""",
        """def @main(%x: int32) {
          let %f = fn (%z: int32) -> int32 {
            let %a = negative(%z);
            let %p = fn (%y: int32, Primitive=1) -> int32 { %1 = abs(%y); exp(%1) };
            let %b = %p(%a);
            %b
          };
          %f
        }""",
    )


def test_functions_of_other_compilers_stay() -> None:
    text = 'def @main(%x: int32, Compiler="c") -> int32 { (%x + 1) * 2 }'
    assert_becomes(text, text)


def test_matches_and_recursion_compute_the_same() -> None:
    prelude = Prelude()
    n = relay.var("n", "int32")
    once = relay.Function([n], relay.Tuple([n + relay.const(1), n * n]))
    _, cons, nil = prelude.mod.get_type("List")
    items = cons(relay.const(2), cons(relay.const(3), nil()))
    mod = prelude.mod.copy()
    mod["main"] = relay.Function([], prelude.length(prelude.map(once, items)) + prelude.sum(items))
    anf = transform.ToANormalForm()(mod)
    assert evaluate(anf["main"].body, {}, anf) == evaluate(mod["main"].body, {}, mod) == 7
    assert transform.ToANormalForm()(anf)["sum"] is not None


@st.composite
def programs(draw: st.DrawFn) -> relay.Function:
    """A function of two numbers, with ifs, lets, tuples and shared parts."""
    pool: list[relay.Expr] = [relay.var("x", "float32"), relay.var("y", "float32"), relay.const(0.5)]
    params = [node for node in pool if isinstance(node, relay.Var)]
    for _ in range(draw(st.integers(1, 8))):
        a, b, c = (draw(st.sampled_from(pool)) for _ in range(3))
        let = relay.Var("v", relay.scalar_type("float32"))
        made = [
            a + b,
            relay.abs(a) * b,
            relay.If(relay.less(a, b), a, relay.negative(c)),
            relay.If(relay.less(a, b), relay.abs(c), b + c),
            relay.Let(let, relay.abs(a), let - b),
            relay.Tuple([a, relay.negative(b)])[1],
            relay.Call(relay.Function([let], let * a), [b]),
        ]
        pool.append(draw(st.sampled_from(made)))
    return relay.Function(params, relay.Tuple([pool[-1], draw(st.sampled_from(pool))]))


@settings(max_examples=80, deadline=None)
@given(programs(), st.floats(-2, 2, width=32), st.floats(-2, 2, width=32))
def test_any_program_computes_the_same_with_names_as_operands(program: relay.Function, x: float, y: float) -> None:
    mod = transform.InferType()(relay.IRModule.from_expr(program))
    anf = transform.ToANormalForm()(mod)["main"]
    for node in post_order(anf):
        if isinstance(node, (relay.Call, relay.Tuple, relay.TupleGetItem)):
            assert all(isinstance(child, (relay.Var, relay.Op)) for child in node.children())
    inputs = [dict(zip(function.params, map(np.float32, (x, y)), strict=True)) for function in (program, anf)]
    np.testing.assert_array_equal(evaluate(anf.body, inputs[1]), evaluate(program.body, inputs[0]))
    back = transform.ToGraphNormalForm()(relay.IRModule.from_expr(anf))["main"]
    assert not any(isinstance(node, relay.Let) for node in post_order(back))


def test_of_an_expression_without_its_module() -> None:
    x = relay.var("x", "int32")
    a, b = relay.Var("a"), relay.Var("b")
    expected = relay.Let(a, relay.abs(x), relay.Let(b, a + a, b))
    shared = relay.abs(x)
    assert_structural_equal(transform.ToANormalFormExpr(shared + shared), expected, map_free_vars=True)


def test_deep_graphs() -> None:
    expr: relay.Expr = relay.var("x", "float32")
    for _ in range(20_000):
        expr = relay.negative(expr)
    anf = transform.ToANormalFormExpr(expr)
    assert sum(isinstance(node, relay.Let) for node in post_order(anf)) == 20_000


@pytest.mark.parametrize("name", ["ToANormalForm"])
def test_it_is_a_pass_of_that_name(name: str) -> None:
    assert getattr(transform, name)().info.name == name

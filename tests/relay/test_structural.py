"""Structural equality and hashing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat import IRModule, cpu, ir, relay, tir
from eqsat.errors import EqsatError
from eqsat.relay.parser.parser import Parser
from eqsat.relay.visitor import rewrite_post_order

from .graphs import exprs

X, Y = relay.var("x"), relay.var("y")


def equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    found = ir.structural_equal(a, b, map_free_vars)
    assert ir.structural_equal(b, a, map_free_vars) is found
    if found:
        assert ir.structural_hash(a, map_free_vars) == ir.structural_hash(b, map_free_vars)
    return found


class TestVariables:
    def test_free_variables_are_themselves(self) -> None:
        assert equal(X, X)
        assert not equal(X, relay.var("x"))

    def test_or_correspond_one_to_one(self) -> None:
        assert equal(X, relay.var("z"), map_free_vars=True)
        assert equal(X + Y, Y + X, map_free_vars=True)
        assert not equal(X + X, X + Y, map_free_vars=True)
        assert not equal(X + Y, X + X, map_free_vars=True)

    def test_annotations_count(self) -> None:
        assert not equal(relay.var("x", shape=(1,)), X, map_free_vars=True)
        assert not equal(relay.var("x", shape=(1,)), relay.var("x", shape=(2,)), map_free_vars=True)
        assert equal(relay.var("x", shape=(1,)), relay.var("y", shape=(1,)), map_free_vars=True)

    def test_bound_variables_go_by_position(self) -> None:
        a, b = relay.var("a"), relay.var("b")
        assert equal(relay.Function([X, Y], X + Y), relay.Function([a, b], a + b))
        assert not equal(relay.Function([X, Y], X + Y), relay.Function([a, b], b + a))
        assert not equal(relay.Function([X], X), relay.Function([a, b], a))
        assert equal(relay.Let(X, Y, X), relay.Let(a, Y, a))
        assert not equal(relay.Let(X, Y, X), relay.Let(a, Y, Y))

    def test_a_copy_of_a_variable_is_the_variable(self) -> None:
        assert equal(X, relay.Var(X.vid))

    def test_global_variables(self) -> None:
        f = relay.GlobalVar("f")
        assert equal(f, f)
        assert not equal(f, relay.GlobalVar("f"))
        assert equal(f, relay.GlobalVar("f"), map_free_vars=True)
        assert not equal(f, relay.GlobalVar("g"), map_free_vars=True)


class TestSharing:
    def test_a_shared_call_is_not_two_equal_ones(self) -> None:
        shared = relay.nn.relu(X)
        assert not equal(shared + shared, relay.nn.relu(X) + relay.nn.relu(X))
        v = relay.var("v")
        assert not equal(relay.Let(v, relay.nn.relu(X), v + v), relay.nn.relu(X) + relay.nn.relu(X))

    def test_the_hash_sees_sharing_where_it_counts(self) -> None:
        relu = relay.nn.relu(X)
        assert ir.structural_hash(relu + relu) != ir.structural_hash(relay.nn.relu(X) + relay.nn.relu(X))
        pair = relay.Tuple([X, relu])
        first = relay.TupleGetItem(pair, 0)
        shared, apart = first + first, relay.TupleGetItem(pair, 0) + relay.TupleGetItem(pair, 0)
        assert ir.structural_hash(shared * relu) == ir.structural_hash(apart * relu)
        one = relay.const(1.0)
        assert ir.structural_hash(one + one) == ir.structural_hash(relay.const(1.0) + relay.const(1.0))

    def test_constants_projections_and_empty_tuples_are_values(self) -> None:
        one = relay.const(1.0)
        assert equal(one + one, relay.const(1.0) + relay.const(1.0))
        pair = relay.Tuple([X, Y])
        item = relay.TupleGetItem(pair, 0)
        assert equal(item + item, relay.TupleGetItem(pair, 0) + relay.TupleGetItem(pair, 0))
        empty = relay.Tuple([])
        assert equal(relay.Tuple([empty, empty]), relay.Tuple([relay.Tuple([]), relay.Tuple([])]))

    def test_full_tuples_are_nodes(self) -> None:
        pair = relay.Tuple([X])
        assert not equal(relay.Tuple([pair, pair]), relay.Tuple([relay.Tuple([X]), relay.Tuple([X])]))


class TestValues:
    @pytest.mark.parametrize(
        ("a", "b", "same"),
        [
            (0.0, 0.0, True),
            (0.0, -0.0, False),
            (np.float32("nan"), np.float32("nan"), True),
            (1, 1.0, False),
            (np.zeros(2, "float32"), np.zeros((2, 1), "float32"), False),
            (np.zeros(2, "int8"), np.zeros(2, "uint8"), False),
        ],
    )
    def test_constants_compare_bit_by_bit(self, a: Any, b: Any, same: bool) -> None:
        assert equal(relay.const(a), relay.const(b)) is same

    def test_attributes(self) -> None:
        assert equal(relay.nn.conv2d(X, Y, strides=(1, 1)), relay.nn.conv2d(X, Y))
        assert not equal(relay.nn.conv2d(X, Y, strides=(2, 2)), relay.nn.conv2d(X, Y))

    def test_float_attributes_within_a_tolerance(self) -> None:
        assert equal(relay.nn.leaky_relu(X, alpha=0.1), relay.nn.leaky_relu(X, alpha=0.1 + 1e-10))
        assert not equal(relay.nn.leaky_relu(X, alpha=0.1), relay.nn.leaky_relu(X, alpha=0.1 + 1e-8))

    def test_function_attributes_in_any_order(self) -> None:
        f = relay.Function([X], X)
        assert equal(f.with_attr("a", 1).with_attr("b", 2), f.with_attr("b", 2).with_attr("a", 1))
        assert not equal(f.with_attr("a", 1), f.with_attr("a", True))
        assert not equal(f.with_attr("a", 1), f.with_attr("a", tir.IntImm("int64", 1)))
        assert not equal(f.with_attr("a", 1), f)

    def test_operators_and_kinds(self) -> None:
        assert not equal(X + Y, X - Y)
        assert not equal(X + Y, relay.Tuple([X, Y]))
        assert not equal(relay.TupleGetItem(X, 0), relay.TupleGetItem(X, 1))

    def test_types(self) -> None:
        assert equal(relay.TensorType((1, relay.Any())), relay.TensorType((1, relay.Any())))
        assert not equal(relay.TensorType((1,)), relay.TensorType((tir.IntImm("int64", 1),)))
        assert not equal(relay.TensorType((1,)), relay.TupleType([relay.TensorType((1,))]))

    def test_result_types(self) -> None:
        ty = relay.TensorType(())
        assert not equal(relay.Function([X], X, ty), relay.Function([X], X))


class TestModules:
    def test_functions_by_name(self) -> None:
        def module(*names: str) -> IRModule:
            mod = IRModule()
            for name in names:
                p = relay.var("p")
                mod[name] = relay.Function([p], relay.tanh(p))
            return mod

        assert equal(module("f", "g"), module("g", "f"))
        assert not equal(module("f"), module("g"))

    def test_calls_between_functions(self) -> None:
        def module(callee: str) -> IRModule:
            p, q = relay.var("p"), relay.var("q")
            mod = IRModule({"f": relay.Function([p], p), "g": relay.Function([p], p)})
            mod["main"] = relay.Function([q], relay.Call(mod.get_global_var(callee), [q]))
            return mod

        assert equal(module("f"), module("f"))
        assert not equal(module("f"), module("g"))


class TestAssertion:
    def test_it_names_the_first_difference(self) -> None:
        ir.assert_structural_equal(X + Y, X + Y)
        with pytest.raises(EqsatError, match=r"a call of tanh and a call of nn\.relu \(node 3 of the left"):
            ir.assert_structural_equal(relay.tanh(X) + Y, relay.nn.relu(X) + Y)

    def test_programs_written_for_tvm_catch_a_value_error(self) -> None:
        with pytest.raises(ValueError, match="shared on the left only"):
            ir.assert_structural_equal(relay.Tuple([X + Y] * 2), relay.Tuple([X + Y, X + Y]))


@settings(deadline=None)
@given(exprs())
def test_a_copy_with_other_names_is_equal(expr: relay.Expr) -> None:
    copy = rewrite_post_order(
        expr,
        lambda old, new: relay.Var("_" + new.name_hint, new.type_annotation) if isinstance(new, relay.Var) else new,
    )
    assert equal(expr, expr)
    assert equal(expr, copy, map_free_vars=True)


@settings(deadline=None)
@given(exprs(), exprs(), st.booleans())
def test_equality_is_symmetric_and_hashes_agree(a: relay.Expr, b: relay.Expr, map_free_vars: bool) -> None:
    equal(a, b, map_free_vars)


def test_devices_of_variables_count() -> None:
    def identity(device: Any) -> relay.Function:
        x = relay.var("x", shape=(2,))
        x.virtual_device_ = device
        return relay.Function([x], relay.nn.relu(x))

    assert ir.structural_equal(identity(cpu(0)), identity(cpu(0)))
    assert not ir.structural_equal(identity(cpu(0)), identity(None))
    typed = relay.transform.InferType()(IRModule.from_expr(identity(cpu(1))))
    assert typed["main"].params[0].virtual_device_ == cpu(1)


def test_graphs_of_any_depth() -> None:
    def chain() -> relay.Expr:
        expr: relay.Expr = X
        for _ in range(20_000):
            expr = relay.tanh(expr)
        return expr

    assert equal(chain(), chain())


def test_functions_named_in_attributes_are_those_of_the_module() -> None:
    x, y = relay.var("x"), relay.var("y")
    helper = relay.GlobalVar("helper")
    module = IRModule({helper: relay.Function([y], y)})
    module["main"] = relay.Function([x], relay.nn.relu(x), attrs={"uses": helper, "all": [helper]})
    parser = Parser(module.astext(), None)
    parser.version(required=True)
    again = parser.module()
    assert equal(module, again)
    assert not equal(module["main"], again["main"])
    assert equal(module["main"], again["main"], map_free_vars=True)

"""Patterns are built under Relay's names, and hold what they were built from."""

from __future__ import annotations

import pytest

from eqsat import relay
from eqsat.errors import OperatorError, PatternError
from eqsat.relay.dataflow_pattern import (
    K_BROADCAST,
    K_ELEMWISE,
    K_INJECTIVE,
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_elemwise,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)

from .helpers import matches


def test_leaves() -> None:
    x = relay.var("x")
    assert isinstance(is_expr(x), ExprPattern)
    assert is_expr(x).expr is x
    assert isinstance(is_op("add"), ExprPattern)
    assert is_op("add").expr is relay.op.get("add")
    assert isinstance(is_var("x"), VarPattern)
    assert is_var("x").name == "x"
    assert is_var().name == ""
    assert isinstance(is_constant(), ConstantPattern)
    assert isinstance(wildcard(), WildcardPattern)


def test_calls() -> None:
    a, b = wildcard(), wildcard()
    call = is_op("add")(a, b)
    assert isinstance(call, CallPattern)
    assert call.args == (a, b)
    assert is_op("add")(None).args is None
    assert is_op("zeros")().args == ()


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda a, b: a + b, "add"),
        (lambda a, b: a - b, "subtract"),
        (lambda a, b: a * b, "multiply"),
        (lambda a, b: a / b, "divide"),
    ],
)
def test_arithmetic_on_patterns_calls_the_operator(build, name: str) -> None:
    a, b = wildcard(), wildcard()
    call = build(a, b)
    assert call.op.expr.name == name
    assert call.args == (a, b)


def test_functions_tuples_and_control_flow() -> None:
    a, b, c = wildcard(), wildcard(), wildcard()
    function = FunctionPattern([a, b], a + b)
    assert function.params == (a, b)
    assert function.body.args == (a, b)
    assert FunctionPattern(None, a).params is None
    fields = is_tuple([a, b])
    assert isinstance(fields, TuplePattern)
    assert fields.fields == (a, b)
    assert len(fields) == 2
    assert fields[1] is b
    assert is_tuple(None).fields is None
    item = is_tuple_get_item(fields, 1)
    assert isinstance(item, TupleGetItemPattern)
    assert item.tuple is fields
    assert item.index == 1
    branch = is_if(a, b, c)
    assert isinstance(branch, IfPattern)
    assert (branch.cond, branch.true_branch, branch.false_branch) == (a, b, c)
    let = is_let(a, b, c)
    assert isinstance(let, LetPattern)
    assert (let.var, let.value, let.body) == (a, b, c)


def test_tuple_patterns_index_their_fields() -> None:
    with pytest.raises(IndexError):
        is_tuple([wildcard()])[1]
    with pytest.raises(TypeError):
        is_tuple([wildcard()]).astype("float32")


def test_conditions() -> None:
    ty = relay.TensorType((1, 2), "float16")
    assert isinstance(has_type(ty), TypePattern)
    assert has_type(ty).type is ty
    assert isinstance(has_dtype("float16"), DataTypePattern)
    assert has_dtype("float16").dtype == "float16"
    assert isinstance(has_shape([10, 10]), ShapePattern)
    assert has_shape([10, 10]).shape == (10, 10)
    assert isinstance(has_attr({"TOpPattern": 0}), AttrPattern)
    assert is_op("add").has_attr({"TOpPattern": K_ELEMWISE}).attrs["TOpPattern"] == 0
    p = wildcard()
    assert has_dtype("float16", p).pattern is p
    assert p.has_shape([1]).pattern is p
    assert (K_ELEMWISE, K_BROADCAST, K_INJECTIVE) == (0, 1, 2)


def test_alternatives_and_options() -> None:
    a, b = wildcard(), wildcard()
    assert isinstance(a | b, AltPattern)
    assert ((a | b).left, (a | b).right) == (a, b)
    option = a.optional(is_op("nn.relu"))
    assert option.left is a
    assert option.right.args == (a,)


def test_dominators() -> None:
    parent, path, child = wildcard(), wildcard(), wildcard()
    for region in (dominates(parent, path, child), child.dominates(parent, path)):
        assert isinstance(region, DominatorPattern)
        assert (region.parent, region.path, region.child) == (parent, path, child)
    assert isinstance(child.dominates(parent).path, WildcardPattern)


def test_every_call_makes_a_new_pattern() -> None:
    assert wildcard() != wildcard()
    assert is_op("add") != is_op("add")


def test_a_pattern_may_be_labelled() -> None:
    assert wildcard().label is None
    assert wildcard(label="x").label == "x"
    assert is_constant(label="c").label == "c"
    assert is_var("n", label="v").label == "v"


def test_operator_builders_build_patterns_from_patterns() -> None:
    x, w = wildcard(), wildcard()
    any_conv = relay.nn.conv2d(x, w)
    assert isinstance(any_conv, CallPattern)
    assert any_conv.args == (x, w)
    a, b = relay.var("a"), relay.var("b")
    strided = relay.nn.conv2d(x, w, strides=(2, 2))
    assert matches(strided, relay.nn.conv2d(a, b, strides=(2, 2), padding=(1, 1)))
    assert not matches(strided, relay.nn.conv2d(a, b))


def test_written_attributes_match_in_their_stored_form() -> None:
    padded = relay.nn.conv2d(wildcard(), wildcard(), padding=(1, 1))
    assert matches(padded, relay.nn.conv2d(relay.var("a"), relay.var("b"), padding=(1, 1, 1, 1)))


def test_expressions_inside_patterns_stand_for_themselves() -> None:
    x, y = relay.var("x"), relay.var("y")
    assert matches(wildcard() + relay.const(0.0), x + relay.const(0.0))
    assert not matches(relay.const(0.0) + wildcard(), x + relay.const(1.0))
    assert matches(x + wildcard(), x + y)
    assert not matches(x - wildcard(), y - y)


def test_is_elemwise_is_a_call_of_an_elementwise_operator() -> None:
    x = relay.var("x")
    assert matches(is_elemwise, relay.nn.relu(x))
    assert not matches(is_elemwise, x + x)
    assert not matches(is_elemwise, relay.nn.softmax(x))


def test_unknown_operators_and_numbers_are_refused() -> None:
    with pytest.raises(OperatorError, match=r"nn\.rleu.*did you mean"):
        is_op("nn.rleu")
    with pytest.raises(PatternError, match=r"relay\.const"):
        wildcard() * 2

"""Operators that programs add in the way of TVM: a name, and then what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

import eqsat
from eqsat import relay
from eqsat.relay.expr import Op
from eqsat.relay.op import op as own
from eqsat.relay.testing import run_infer_type
from eqsat.relay.traits import Trait


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Op, "_registry", dict(Op._registry))


def registered(*arguments: str) -> Op:
    own.register("mine.op", "For tests.")
    for name in arguments:
        own.get("mine.op").add_argument(name, "Tensor", "An argument.")
    return own.get("mine.op")


def type_of(op: Op, *shapes: tuple[int, ...]) -> relay.Type:
    args = [relay.var("x", shape=shape) for shape in shapes]
    return run_infer_type(relay.Call(op, args)).checked_type


def test_identity_is_the_type_of_the_argument() -> None:
    op = registered("data")
    op.add_type_rel("Identity")
    assert type_of(op, (2, 3)) == relay.TensorType((2, 3))


def test_arguments_broadcast() -> None:
    op = registered("left", "right")
    op.add_type_rel("Broadcast")
    assert type_of(op, (10, 4), (5, 10, 1)) == relay.TensorType((5, 10, 4))


def test_a_relation_of_ones_own_is_given_types_and_attributes() -> None:
    op = registered("data")
    op.set_attrs_type_key("DictAttrs")
    op.add_type_rel("mine", lambda types, attrs: relay.TensorType([attrs.times * types[0].shape[0]], types[0].dtype))
    call = relay.Call(op, [relay.var("x", shape=(3,))], eqsat.ir.make_node("DictAttrs", times=4))
    assert run_infer_type(call).checked_type == relay.TensorType((12,))


def test_arguments_are_counted_and_then_named() -> None:
    op = registered()
    op.set_num_inputs(2)
    assert op.num_inputs == 2
    op.add_argument("data", "Tensor", "The first.")
    assert (op.num_inputs, (op.arguments or ())[0]) == (2, "data")
    op.add_argument("weight", "Tensor", "The second.")
    op.add_argument("bias", "Tensor", "One more.")
    assert op.arguments == ("data", "weight", "bias")
    op.set_num_inputs(1)
    assert op.arguments == ("data",)


def test_what_else_is_set() -> None:
    op = registered("data")
    op.set_support_level(1)
    own.register_pattern("mine.op", own.OpPattern.ELEMWISE)
    own.register_stateful("mine.op", True)
    assert (op.get_attr("TOpPattern"), op.get_attr("TOpIsStateful"), op.has(Trait.STATEFUL)) == (0, True, True)
    own.register_stateful("mine.op", False)
    assert not op.has(Trait.STATEFUL)


def test_patterns_and_text_know_the_operator() -> None:
    from eqsat.relay.dataflow_pattern import is_op, wildcard

    call = relay.Call(registered("data"), [relay.var("x", shape=(2,))])
    assert is_op("mine.op")(wildcard()).match(call)
    assert eqsat.ir.structural_equal(relay.fromtext(call.astext()), call, map_free_vars=True)


def without_relation(op: Op) -> Any:
    return type_of(op, (2,))


def open_type(op: Op) -> Any:
    op.add_type_rel("mine", lambda types, attrs: None)
    return type_of(op, (2,))


def two_arguments(op: Op) -> Any:
    op.add_type_rel("Identity")
    return type_of(op, (2,), (2,))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (without_relation, "there is no type relation"),
        (open_type, "type relation 'mine' gave None, which is no type"),
        (two_arguments, r"mine\.op takes 1 arguments \('data',\), not 2"),
        (lambda op: op.add_type_rel("Mine"), r"no type relation 'Mine': give a function, or one of \['Broadcast'"),
        (lambda op: registered(), "operator 'mine.op' is registered twice"),
    ],
)
def test_what_does_not_fit_is_said(use: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        use(registered("data"))

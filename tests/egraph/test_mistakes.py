"""What is wrong with a rule is said when it is made, not by its matching nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eqsat
from eqsat import relay
from eqsat.errors import OperatorError, RewriteError, RuleError
from eqsat.relay import dataflow_pattern
from eqsat.relay.dataflow_pattern import DFPatternCallback, has_attr, is_op, wildcard
from eqsat.relay.op import op as registry
from eqsat.relay.op.op import Field, define
from eqsat.rules import attrs_of, compute, like, rewrite, rule, type_of, variables, when

A, B = variables("a b")
SOFTMAX = is_op("nn.softmax")(A)
RELU = is_op("nn.relu")(A)


def anything(*_: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: rewrite("r", RELU, A, when(anything, type_of(B))),
            "a guard uses 'b', which the left side does not match",
        ),
        (lambda: rewrite("r", RELU, A, when(anything, attrs_of(A))), "asks 'a' for attributes, and it matches no call"),
        (lambda: rewrite("r", RELU, A, when(anything, A)), "say what of a pattern, such as type_of"),
        (lambda: rewrite("r", RELU, A, when(lambda x, y: True, type_of(A))), "missing a required argument: 'y'"),
        (lambda: rewrite("r", RELU, A, when(type_of(A))), "a guard is made of a function"),
        (lambda: rewrite("r", RELU, A, anything), "is no condition: make one by when"),
        (lambda: rewrite("r", RELU, A, soundness="exact"), "give one of Soundness.EXACT"),
        (
            lambda: rewrite("r", SOFTMAX.has_attr({"axs": 1}), A),
            "nn.softmax has no attribute 'axs': did you mean 'axis'",
        ),
        (lambda: rewrite("r", RELU.has_attr({"axis": 1}), A), "nn.relu has no attribute 'axis'"),
        (lambda: rewrite("r", has_attr({"axs": 1}, SOFTMAX), A), "no attribute 'axs'"),
        (
            lambda: rewrite("r", (SOFTMAX | RELU).has_attr({"axs": 1}), A),
            "nn.relu or nn.softmax has no attribute 'axs'",
        ),
        (lambda: rewrite("r", SOFTMAX.has_attr({"axis": "last"}), A), "axis='last' is not of kind int"),
        (lambda: rule("r", SOFTMAX.has_attr({"axs": 1})), "no attribute 'axs'"),
        (lambda: rewrite("r", is_op("add").has_attr({"TOpPatern": 0})(A, B), A), "did you mean 'TOpPattern'"),
        (lambda: rewrite("r", SOFTMAX, like(SOFTMAX, A, axs=1)), "no attribute 'axs'"),
        (lambda: rewrite("r", SOFTMAX, is_op("cast")(A)), "cast on the right side needs attribute 'dtype'"),
        (
            lambda: rewrite("r", SOFTMAX, relay.nn.softmax(A, axis=compute(anything, type_of(B)))),
            "a computed value uses 'b'",
        ),
        (lambda: rewrite("r", is_op("nn.relu")(A, B), A), r"nn.relu has 1 arguments \(data\), not 2"),
        (lambda: rewrite("r", RELU, is_op("add")(A)), r"add has 2 arguments \(lhs, rhs\), not 1"),
        (lambda: rewrite("r", RELU), "there is no right side"),
        (lambda: rule("r", "nn.relu"), "the left side must be a pattern"),
        (lambda: rewrite(DFPatternCallback(), relay.var("x")), "dataflow_pattern.rewrite.* rewrites an expression"),
        (lambda: rewrite(RELU, A), "a rule has a name first"),
    ],
)
def test_a_mistake(make: Callable[[], Any], reason: str) -> None:
    with pytest.raises(RuleError, match=reason):
        make()


def test_mistakes_in_attributes_that_builders_are_given() -> None:
    with pytest.raises(OperatorError, match=r"nn\.softmax has no attribute 'axs'"):
        relay.nn.softmax(A, axs=1)
    with pytest.raises(OperatorError, match="axis='last' is not of kind int"):
        relay.nn.softmax(A, axis="last")


def test_an_operator_that_does_not_exist() -> None:
    with pytest.raises(OperatorError, match=r"there is no operator 'nn.rellu'; did you mean 'nn.relu'\?"):
        is_op("nn.rellu")


def test_the_two_functions_named_rewrite_name_each_other() -> None:
    call: Any = dataflow_pattern.rewrite
    with pytest.raises(RewriteError, match=r"eqsat\.rules\.rewrite makes rules"):
        call("r", RELU, A)


def test_the_pattern_language_takes_what_matches_nothing() -> None:
    """As Relay's does, whose tests say so."""
    x = relay.var("x", shape=(2, 2))
    assert not SOFTMAX.has_attr({"axs": 1}).match(relay.nn.softmax(x))


def test_what_functions_may_hold_is_not_known() -> None:
    for pattern in (wildcard().has_attr({"Composite": "mine"})(A), wildcard().has_attr({"foo": 1})):
        rewrite("r", pattern, pattern)


@pytest.fixture
def own_operators() -> Any:
    """An operator of eqsat's own way, and one of TVM's, of whose attributes nothing is declared."""
    define("test.scale", "data", Field("factor", "float", 1.0), infer=lambda attrs, types: types[0])
    registry.register("test.tvm")
    registry.register_op_attr("test.tvm", "test.priority", 3)
    yield
    for name in ("test.scale", "test.tvm"):
        del relay.Op._registry[name]


@pytest.mark.usefixtures("own_operators")
def test_attributes_of_operators_that_users_add() -> None:
    rewrite("r", is_op("test.scale")(A).has_attr({"factor": 1.0}), A)
    with pytest.raises(RuleError, match="did you mean 'factor'"):
        rewrite("r", is_op("test.scale")(A).has_attr({"facto": 1.0}), A)
    rewrite("r", is_op("test.tvm")(A, B).has_attr({"any": 1}), A)
    rewrite("r", is_op("test.tvm").has_attr({"test.priority": 3})(A), A)
    rewrite("r", is_op("add").has_attr({"test.priority": 3})(A, B), A)  # it may be registered later


def test_relays_callbacks_are_rules_whatever_they_ask_for() -> None:
    class Callback(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = SOFTMAX.has_attr({"axs": 1})

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            raise AssertionError("it matches nothing")

    x = relay.var("x", shape=(2, 2))
    assert isinstance(eqsat.optimize(relay.nn.softmax(x), rules=[Callback()]), relay.Call)

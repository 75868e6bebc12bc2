"""Rules wait until their patterns may match."""

from __future__ import annotations

import numpy as np

import eqsat
from eqsat import relay, rules
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Expr
from eqsat.rules import rewrite

x = wildcard(label="x")
VAR = relay.var("v", shape=(2, 3))

MAKES_TANH = rewrite("makes-tanh", is_op("exp")(is_op("abs")(x)), is_op("tanh")(is_op("abs")(x)))
NEEDS_TANH = rewrite("needs-tanh", is_op("tanh")(is_op("abs")(x)), is_op("sin")(x))
APART = rewrite("apart", is_op("abs")(is_op("exp")(x)), x)


def live(graph: Expr, *some: object) -> list[str]:
    """The rules that were compiled in the end."""
    (region,) = eqsat.saturate(graph, some).regions
    return [turn.name for turn in region.runner.turns.values() if turn.runner.is_live]


def test_operators_that_never_meet_wake_no_rule() -> None:
    assert live(relay.exp(relay.abs(VAR)), APART) == []
    assert live(relay.Tuple([relay.abs(VAR), relay.exp(VAR)]), APART) == []
    assert live(relay.abs(relay.exp(VAR)), APART) == ["apart"]


def test_what_one_rule_makes_wakes_another() -> None:
    assert live(relay.exp(relay.abs(VAR)), NEEDS_TANH, MAKES_TANH) == ["needs-tanh", "makes-tanh"]
    assert live(relay.exp(VAR), NEEDS_TANH, MAKES_TANH) == []


def test_what_is_found_equal_wakes_a_rule() -> None:
    meet = rewrite("meet", is_op("negative")(is_op("negative")(x)), x)
    graph = relay.abs(relay.negative(relay.negative(relay.exp(VAR))))
    assert live(graph, APART) == []
    assert live(graph, APART, meet) == ["apart", "meet"]


def test_constants_of_another_value_wake_no_rule() -> None:
    add_zero = rules.default.only("add-zero")
    assert live(VAR + relay.const(np.float32(1.0)), add_zero) == []
    assert live(VAR + relay.const(np.float32(0.0)), add_zero) == ["add-zero"]

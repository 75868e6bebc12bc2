"""Rules wait until their patterns may match."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.runner import Runner
from eqsat.egraph.schedule import Schedule
from eqsat.relay.dataflow_pattern import DFPattern, is_op, wildcard
from eqsat.relay.expr import Expr
from eqsat.relay.infer import infer_types
from eqsat.relay.structural import structural_equal
from eqsat.rules import rewrite

x = wildcard(label="x")
VAR = relay.var("v", shape=(2, 3))

MAKES_TANH = rewrite("makes-tanh", is_op("exp")(is_op("abs")(x)), is_op("tanh")(is_op("abs")(x)))
NEEDS_TANH = rewrite("needs-tanh", is_op("tanh")(is_op("abs")(x)), is_op("sin")(x))
APART = rewrite("apart", is_op("abs")(is_op("exp")(x)), x)


def live(graph: Expr, *some: object) -> list[str]:
    """The rules that were compiled in the end."""
    runner = Runner(EGraph(), graph, infer_types(graph), Schedule.of(some), eqsat.Limits())
    runner.run()
    return [turn.entry.name for turn in runner.turns.values() if turn.runner.is_live]


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


EITHER_OP = is_op("abs") | is_op("tanh")
INNER = relay.negative(VAR)


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        (is_op("sin")(is_op("abs")(x) | is_op("tanh")(x)), INNER),  # another side of an alternative
        (is_op("sin")(EITHER_OP(x)), INNER),  # another operator below one
        (EITHER_OP(is_op("negative")(x)), relay.sin(VAR)),  # another operator on top
    ],
    ids=["side", "below", "top"],
)
def test_other_ways_to_match_are_found_when_they_come(pattern: DFPattern, left: Expr) -> None:
    gone = rewrite("gone", pattern, x)
    makes_tanh = rewrite("makes-tanh", is_op("exp")(x), is_op("tanh")(x))
    graph = relay.Tuple([relay.sin(relay.abs(INNER)), relay.sin(relay.exp(INNER))])
    best = eqsat.extract(eqsat.saturate(graph, [gone, makes_tanh])).expr
    assert structural_equal(best, relay.Tuple([left, left]))


def test_constants_of_another_value_wake_no_rule() -> None:
    add_zero = rules.default.only("add-zero")
    assert live(VAR + relay.const(np.float32(1.0)), add_zero) == []
    assert live(VAR + relay.const(np.float32(0.0)), add_zero) == ["add-zero"]

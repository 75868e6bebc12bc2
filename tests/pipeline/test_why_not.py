"""What became of a rule, and why it did not act or its result was not chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.cost import OpCount
from eqsat.errors import RuleError
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.relay.expr import Expr, Function
from eqsat.rules import attrs_of, distinct, non_constant, real, refuse, rewrite, single_use, type_of, value_of, when

X = relay.var("x", shape=(2, 4))
Y = relay.var("y", shape=(2, 4))
a, b = wildcard(label="a"), wildcard(label="b")
c = is_constant(label="c")


def relu(value: Any) -> Any:
    return is_op("nn.relu")(value)


def saturated(graph: Expr, *acting: Any, **keywords: Any) -> eqsat.Saturation:
    return eqsat.saturate(Function([X, Y], graph), acting, explain=True, **keywords)


def told(graph: Expr, rule: Any, **keywords: Any) -> tuple[str, str]:
    found = saturated(graph, rule).why_not(rule, **keywords)
    return found.outcome, " ".join(found.reasons)


TWICE = rewrite("twice", relu(relu(a)), relu(a))
inner = relu(a)
ONCE = rewrite("once", relu(inner), inner, single_use(inner))


def test_the_nearest_place_is_told_where_nothing_matches() -> None:
    outcome, reason = told(nn.relu(relay.tanh(X)) + relay.sin(Y), TWICE)
    assert outcome == "unmatched"
    assert reason.startswith("at nn.relu(tanh(%x)): nn.relu is wanted, tanh is there")


def test_a_second_user_is_told() -> None:
    shared = nn.relu(X)
    outcome, reason = told(nn.relu(shared) + shared, ONCE)
    assert (outcome, reason) == (
        "refused",
        "at nn.relu(nn.relu(%x)): the condition does not hold: nn.relu(a) is used 2 times",
    )


def planted() -> list[tuple[str, Any, Expr, str]]:
    call, soft = is_op("nn.relu")(a), is_op("nn.softmax")(a)
    two = relay.const(2.0)

    def is_wide(ty: Any) -> bool:
        return bool(ty.dtype == "float64")

    return [
        (
            "type",
            rewrite("r", call, call, when(is_wide, type_of(a))),
            nn.relu(X),
            "is_wide does not hold: a is of type",
        ),
        (
            "attributes",
            rewrite("r", soft, relu(a), when(lambda attrs: attrs.axis == 0, attrs_of(soft))),
            nn.softmax(X, 1),
            "nn.softmax(a) has axis=1",
        ),
        ("value", rewrite("r", a * c, a + a, when(lambda v: v == 3, value_of(c))), X * two, "c has the value 2.0"),
        ("no value", rewrite("r", a * b, a + b, when(lambda v: v == 3, value_of(b))), X * Y, "b is no constant"),
        ("reason", rewrite("r", call, a, when(lambda ty: refuse("too flat"), type_of(a))), nn.relu(X), ": too flat"),
        ("same", rewrite("r", a + b, b + a, distinct(a, b)), X + X, "a and b are the same value"),
        ("constant", rewrite("r", a * b, b * a, non_constant(b)), X * two, "b is a constant"),
        ("numbers", rewrite("r", call, a, real(a)), nn.relu(relay.log(X)), "a is not known to hold real numbers only"),
        (
            "failure",
            rewrite("r", call, a, when(lambda ty: ty.colour, type_of(a))),
            nn.relu(X),
            "has no attribute 'colour'",
        ),
    ]


@pytest.mark.parametrize(("rule", "graph", "reason"), [each[1:] for each in planted()], ids=[e[0] for e in planted()])
def test_the_condition_that_does_not_hold_is_told(rule: Any, graph: Expr, reason: str) -> None:
    found = saturated(graph, TWICE).why_not(rule)
    assert found.outcome == "refused"
    assert reason in " ".join(found.reasons)


def test_the_reason_of_a_python_rule_is_told() -> None:
    @rules.rule("python", relu(a))
    def python(a: Expr) -> Any:
        return refuse("it is Monday")

    assert told(nn.relu(X), python) == ("refused", "at nn.relu(%x): it is Monday")


def test_a_chosen_result_is_said_to_be() -> None:
    assert told(nn.relu(nn.relu(X)), TWICE) == ("chosen", "")


def test_what_a_result_costs_more_is_told() -> None:
    dear = rewrite("dear", relu(a), relu(is_op("tanh")(is_op("sigmoid")(a))))
    found = saturated(nn.relu(X), dear, limits=eqsat.Limits(iterations=1)).why_not("dear")
    assert (found.outcome, found.reasons) == (
        "declined",
        ("the cheapest graph with its result: the result costs 2 more",),
    )


def test_the_price_is_that_of_the_cost_model() -> None:
    class Dear(OpCount):
        def __call__(self, node: Any) -> float:
            return 10.0 if node.op == "tanh" else super().__call__(node)

    swap = rewrite("swap", relu(a), is_op("tanh")(a))
    saturation = saturated(nn.relu(X), swap)
    assert saturation.why_not("swap").outcome in ("chosen", "declined")
    found = saturation.why_not("swap", cost_model=Dear())
    assert found.reasons == ("the cheapest graph with its result: the result costs 9 more",)


def test_a_run_that_kept_nothing_says_how_to_learn_more() -> None:
    found = eqsat.saturate(nn.relu(nn.relu(X)), [TWICE]).why_not("twice")
    assert found.outcome == "acted"
    assert "saturate with explain=True" in str(found)


def test_the_answer_can_be_of_one_node() -> None:
    far, near = nn.relu(nn.relu(X)), nn.relu(relay.tanh(Y))
    saturation = saturated(far + near, TWICE)
    assert saturation.why_not("twice").outcome == "chosen"
    found = saturation.why_not("twice", near)
    assert found.outcome == "unmatched"
    assert "tanh is there" in str(found)
    with pytest.raises(RuleError, match="not in the given graph"):
        saturation.why_not("twice", relay.tanh(X))


def test_a_limit_that_ended_the_run_is_told() -> None:
    grow = rewrite("grow", is_op("tanh")(a), is_op("tanh")(is_op("exp")(is_op("tanh")(a))))
    late = rewrite("late", relu(a), a)
    graph = nn.relu(relay.tanh(X))
    saturation = saturated(graph, grow, limits=eqsat.Limits(iterations=2))
    assert saturation.stop_reason == "iterations"
    found = saturation.why_not(late)
    assert (found.outcome, found.reasons) == ("cut", ("the run stopped at its limit of iterations: give it more",))


def test_a_rule_that_is_unknown_is_named_with_those_like_it() -> None:
    with pytest.raises(RuleError, match=r"the run had no rule 'twic': .* similar names are twice"):
        saturated(nn.relu(X), TWICE).why_not("twic")


def test_rules_without_a_pattern_are_refused() -> None:
    with pytest.raises(RuleError, match="fold-constants has no pattern that could be matched"):
        eqsat.saturate(nn.relu(X)).why_not("fold-constants")


def test_several_left_sides_that_match_apart_are_told() -> None:
    joined = rewrite("joined", (relu(a), is_op("tanh")(a)), (a, a))
    found = saturated(nn.relu(X) + relay.tanh(Y), TWICE).why_not(joined)
    assert "not all of them together" in str(found)


def test_nothing_like_the_left_side_is_told() -> None:
    found = saturated(X + Y, TWICE).why_not("twice")
    assert str(found) == "twice: its left side matches nowhere\n  nothing in the graph is like nn.relu(nn.relu(a))"


def test_every_shipped_rule_can_be_asked_about() -> None:
    graph = nn.relu(X * relay.const(np.float32(2)) + Y)
    saturation = eqsat.saturate(Function([X, Y], graph))
    for rule in rules.default:
        if isinstance(rule, (eqsat.rules.Rewrite, eqsat.rules.PythonRule)):
            assert str(saturation.why_not(rule)).startswith(rule.name)

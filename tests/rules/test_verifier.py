"""The verifier finds what is wrong with a rule, and says it so that it can be mended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

import eqsat
from eqsat import relay, rules
from eqsat.egraph.rule import Rewrite, RuleSet, Soundness
from eqsat.errors import EqsatError
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.op import clip, tanh, transpose
from eqsat.rules import base, compute, rewrite, type_of, variables, when
from eqsat.rules.values import one, scalar
from eqsat.rules.verify import table, verify

x, y, z = variables("x y z")


def shipped(name: str) -> Rewrite:
    """A shipped rule by its name."""
    (rule,) = [rule for each in rules.sets.values() for rule in each if rule.name == name][:1]
    assert isinstance(rule, Rewrite)
    return rule


def without_guards(name: str) -> Rewrite:
    return dataclasses.replace(shipped(name), when=())


def claimed_exact(name: str) -> Rewrite:
    return dataclasses.replace(shipped(name), soundness=Soundness.EXACT)


def claimed_rounding(name: str) -> Rewrite:
    return dataclasses.replace(shipped(name), soundness=Soundness.ROUNDING)


outer_transpose = transpose(transpose(x))
clipped = clip(x)

BROKEN: list[tuple[str, Callable[[], Rewrite]]] = [
    ("a neutral element of the wrong value", lambda: rewrite("add-one", x + one, x, soundness=Soundness.ROUNDING)),
    ("the operands of an ordered operator swapped", lambda: rewrite("subtract-swapped", x - y, y - x)),
    ("only one of two factors scaled", lambda: rewrite("distribute-half", (x + y) * z, x * z + y)),
    ("a wrong constant", lambda: rewrite("double", x + x, x * scalar(3, x), when(lambda ty: True, type_of(x)))),
    ("-0.0 forgotten", lambda: claimed_exact("add-zero")),
    ("rounding forgotten", lambda: claimed_exact("multiply-multiply-constant")),
    ("infinities forgotten", lambda: claimed_rounding("multiply-and-divide")),
    ("overflow forgotten", lambda: claimed_rounding("log-exp")),
    ("shapes forgotten", lambda: without_guards("view-of-reduction")),
    ("integer quotients forgotten", lambda: without_guards("divide-constant")),
    ("casts that lose values forgotten", lambda: without_guards("cast-cast")),
    ("axes in the wrong order", lambda: rewrite("transpose-transpose-kept", outer_transpose, transpose(x))),
    ("bounds of a clip ignored", lambda: rewrite("clip-is-relu-always", clipped, nn.relu(x))),
    ("negative numbers forgotten", lambda: rewrite("relu-nothing", nn.relu(x), x)),
    ("the positivity of a scale forgotten", lambda: without_guards("scale-through-relu")),
    ("other axes than the channels forgotten", lambda: rewrite("bias-is-add", nn.bias_add(x, y), x + y)),
]


@pytest.mark.parametrize(("what", "make"), BROKEN, ids=[what for what, _ in BROKEN])
def test_a_broken_rule_is_caught(what: str, make: Callable[[], Rewrite]) -> None:
    (verdict,) = verify(make(), 200)
    assert verdict.status in ("unsound", "failed"), table([verdict])
    assert verdict.detail


def test_a_counterexample_is_a_program_of_both_sides_with_the_values() -> None:
    (verdict,) = verify(rewrite("relu-nothing", nn.relu(x), x), 60)
    lines = verdict.detail.splitlines()
    assert lines[0].startswith("# the sides differ at [")
    assert any("nn.relu(" in line for line in lines)
    assert any(line.startswith("    'v0': array(") for line in lines)


def test_the_smallest_of_the_counterexamples_is_told() -> None:
    (verdict,) = verify(rewrite("relu-nothing", nn.relu(x), x), 60)
    (value,) = [line for line in verdict.detail.splitlines() if line.startswith("    'v0': array(")]
    assert len(value) < 120


def test_a_rule_that_no_instance_satisfies_is_an_error() -> None:
    never = rewrite("never", nn.relu(x), x, when(lambda ty: False, type_of(x)))
    (verdict,) = verify(never, 5)
    assert verdict.status == "unmatched"
    assert not verdict.ok
    assert "no instance of the left side was found" in verdict.detail


def test_a_rule_that_changes_the_type_is_caught() -> None:
    wider = rewrite("wider", tanh(x), relay.cast(x, dtype="float64"))
    (verdict,) = verify(wider, 20)
    assert verdict.status in ("unsound", "failed")
    assert "float64" in verdict.detail


def test_a_rule_whose_python_part_fails_is_named() -> None:
    failing = rewrite("failing", tanh(x), x * compute(lambda ty: 1 / 0, type_of(x)))
    (verdict,) = verify(failing, 5)
    assert verdict.status == "failed"
    assert "failing" in verdict.detail
    assert "ZeroDivisionError" in verdict.detail


def test_a_rule_that_makes_ever_larger_terms_ends_the_run_at_a_limit() -> None:
    growing = rewrite("growing", tanh(x), tanh(x + scalar(1, x)))
    data = relay.var("x", shape=(2,))
    saturation = eqsat.saturate(relay.tanh(data), [growing], limits=eqsat.Limits(iterations=5))
    assert saturation.stop_reason == "iterations"
    assert saturation.report.rules["growing"].matches >= 5


def test_callbacks_of_relay_are_verified_too() -> None:
    class Wrong(relay.dataflow_pattern.DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = relay.dataflow_pattern.wildcard()
            self.pattern = is_op("nn.relu")(self.x)

        def callback(self, pre, post, node_map):
            return node_map[self.x][0]

    (verdict,) = verify(Wrong(), 40)
    assert (verdict.rule, verdict.status) == ("Wrong", "unsound")


def test_examples_stand_in_where_no_instance_can_be_drawn() -> None:
    wild = rewrite("topk-nothing", is_op("sort")(is_op("sort")(x)), is_op("sort")(x))
    (verdict,) = verify(wild, 5)
    assert verdict.status == "failed"
    assert "give the rule examples=" in verdict.detail
    drawn = dataclasses.replace(wild, examples=lambda draw: relay.sort(relay.sort(relay.var("x", draw.tensor(1)))))
    assert verify(drawn, 5)[0].ok


def test_a_right_side_that_uses_what_the_left_does_not_match_is_refused_at_once() -> None:
    with pytest.raises(EqsatError, match="'y', which the left side does not match"):
        rewrite("unbound", nn.relu(x), y)
    with pytest.raises(EqsatError, match="'y', which the left side does not match"):
        rewrite("unbound-base", nn.relu(x), x, base(y))


def test_sets_add_up_and_are_told_by_name() -> None:
    both = RuleSet("mine", [shipped("add-zero")]) + rules.fold
    assert [rule.name for rule in both] == ["add-zero", "fold-constants"]
    with pytest.raises(EqsatError, match="no rule 'nothing'"):
        both.only("nothing")

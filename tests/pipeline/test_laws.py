"""What holds of every graph and every shipped rule set."""

from __future__ import annotations

import random
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import extraction, relay, rules
from eqsat.egraph import runner
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.expr import Expr
from eqsat.relay.structural import assert_structural_equal, structural_equal
from eqsat.rules import rewrite

from .graphs import assert_same_values, mixed_graphs, typed_graphs, without_copies

SETS = list(rules.sets.values())
MODELS = [extraction.OpCount(), extraction.Roofline("cpu")]


@pytest.mark.parametrize("rule_set", SETS, ids=lambda each: each.name)
@settings(max_examples=3, deadline=None)
@given(graph=typed_graphs(), model=st.sampled_from(MODELS))
def test_the_result_computes_what_the_input_does_and_costs_no_more(rule_set, graph: Expr, model) -> None:
    best = eqsat.extract(eqsat.saturate(graph, rule_set), model)
    assert best.cost <= best.input_cost * (1 + 1e-9)
    assert best.lower_bound <= best.cost * (1 + 1e-9)
    assert_same_values(graph, best.expr)
    again = eqsat.extract(eqsat.saturate(best.expr, ()), model, "tree").input_cost
    assert again == pytest.approx(best.cost, rel=1e-6)


@settings(max_examples=8, deadline=None)
@given(graph=typed_graphs(), seed=st.integers(0, 1000))
def test_the_order_of_the_rules_does_not_matter(graph: Expr, seed: int) -> None:
    shuffled = random.Random(seed).sample(list(rules.default), len(rules.default))
    first, second = (eqsat.extract(eqsat.saturate(graph, each)) for each in (rules.default, shuffled))
    assert second.cost == pytest.approx(first.cost)
    assert structural_equal(first.expr, second.expr)


def numbers(*shape: int) -> Expr:
    return relay.const(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def biased_and_shifted_along_another_axis() -> Expr:
    """What a bias and a shift along another axis add to a convolution is one constant."""
    convolved = relay.nn.conv2d(relay.var("x", shape=(1, 3, 7, 7)), numbers(4, 3, 3, 3))
    return relay.nn.bias_add(numbers(5) + convolved, numbers(4))


def scaled_between_biases() -> Expr:
    """Likewise of a bias before a scale along another axis."""
    product = relay.nn.dense(relay.var("x", shape=(2, 6, 8)), numbers(5, 8))
    scaled = relay.nn.bias_add(product, numbers(5), axis=-1) * numbers(6, 1)
    return relay.nn.bias_add(scaled, numbers(5), axis=-1)


def biased_between_shifts() -> Expr:
    """A bias between two shifts: rules that replace two of the sums at once must not hide the third from each other."""
    product = relay.nn.dense(relay.var("x", shape=(2, 6, 8)), numbers(5, 8))
    return relay.nn.bias_add(numbers(6, 5) + product, numbers(5), axis=-1) + numbers(6, 5)


@settings(max_examples=4, deadline=None)
@example(graph=biased_and_shifted_along_another_axis(), seed=0)
@example(graph=scaled_between_biases(), seed=0)
@example(graph=biased_between_shifts(), seed=0)
@given(graph=typed_graphs(size=6), seed=st.integers(0, 1000))
def test_no_rewrite_order_beats_saturation(graph: Expr, seed: int) -> None:
    comparison = eqsat.compare_orders(graph, list(rules.default), orders=2, seed=seed, random_runs=1)
    assert comparison.saturation.stop == "saturated"
    assert comparison.saturation.cost <= comparison.best.cost + 1e-9
    for row in comparison.rows:
        assert_same_values(graph, row.expr)


@settings(max_examples=8, deadline=None)
@given(graph=typed_graphs())
def test_the_pass_computes_the_same_and_leaves_every_node_typed(graph: Expr) -> None:
    module = eqsat.IRModule.from_expr(graph)
    better = relay.transform.EqualitySaturation()(module)
    assert_same_values(module["main"], better["main"])
    assert all(node.checked_type for node in nodes(better["main"].body))


@settings(max_examples=40, deadline=None)
@given(graph=mixed_graphs())
def test_without_rules_the_result_is_what_was_given(graph: Expr) -> None:
    best = eqsat.optimize(graph, rules=[])
    assert_structural_equal(without_copies(best), graph)
    module = relay.transform.InferType()(eqsat.IRModule.from_expr(graph))
    assert_structural_equal(without_copies(eqsat.optimize(module, rules=[])["main"]), without_copies(module["main"]))


@settings(max_examples=20, deadline=None)
@given(graph=st.one_of(mixed_graphs(), typed_graphs()), rule_set=st.sampled_from([rules.default, ()]))
def test_the_text_of_every_result_parses_to_an_equal_module(graph: Expr, rule_set) -> None:
    module = eqsat.optimize(relay.transform.InferType()(eqsat.IRModule.from_expr(graph)), rules=rule_set)
    assert_structural_equal(relay.fromtext(module.astext()), module, map_free_vars=True)


def nodes(root: Expr) -> list[Expr]:
    return [node for node in relay.visitor.post_order(root) if not isinstance(node, relay.Op)]


def twice_a_shifted_quotient() -> Expr:
    """(c + x) / 1, twice in a sum: whether x + x is made depends on when a sum of equals hides."""
    shifted = relay.const(np.float32(-0.25)) + relay.var("x", shape=(3, 3))
    return shifted / relay.const(np.float32(1)) + shifted / relay.const(np.float32(1))


@settings(max_examples=6, deadline=None)
@example(graph=twice_a_shifted_quotient())
@given(graph=typed_graphs(size=6))
def test_rules_that_wait_find_what_all_rules_find_at_once(graph: Expr) -> None:
    """The same classes and cost; of e-nodes that rules hide, more or fewer may have been made before."""
    waiting = eqsat.saturate(graph)
    with patch.object(runner, "_WATCHED", 0):
        at_once = eqsat.saturate(graph)
    assert waiting.class_count == at_once.class_count
    assert waiting.stop_reason == at_once.stop_reason
    assert eqsat.extract(waiting).cost == eqsat.extract(at_once).cost


@dataclass(frozen=True)
class AllCost(extraction.CostModel):
    """Every operator costs the same; of equally cheap graphs one without tanh is better."""

    cost: float

    @property
    def ties(self) -> extraction.CostFunction:
        return lambda node: float(node.op == "tanh")

    def __call__(self, node: extraction.CostNode) -> float:
        return self.cost if node.runs else 0.0


@pytest.mark.parametrize("cost", [1.0, 1.5, 0.3])
def test_ties_decide_between_graphs_of_equal_cost(cost: float) -> None:
    x, var = wildcard(), relay.var("v", shape=(2, 3))
    same = rewrite("same", is_op("tanh")(x), is_op("sigmoid")(x))  # not true: what counts is which is taken
    best = eqsat.extract(eqsat.saturate(relay.exp(relay.tanh(var)), [same]), cost_model=AllCost(cost))
    assert structural_equal(best.expr, relay.exp(relay.sigmoid(var)))
    assert best.cost == best.lower_bound == 2 * cost

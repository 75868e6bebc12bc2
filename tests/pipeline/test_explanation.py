"""Why a graph was chosen: origins of its nodes, and rewrites that can be replayed."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings

import eqsat
from eqsat import relay, rules
from eqsat.egraph.lower import region_children
from eqsat.egraph.symbols import Interner
from eqsat.errors import ArgumentError
from eqsat.ir import structural_equal
from eqsat.relay.expr import Expr
from eqsat.rules.verify import verify_equal

from .graphs import assert_same_values, typed_graphs


def explained(graph: Expr, rule_set=rules.default):
    extraction = eqsat.extract(eqsat.saturate(graph, rule_set, explain=True))
    return extraction.explanation, extraction.expr


def test_steps_lead_from_the_input_to_the_result() -> None:
    x = relay.var("x", shape=(4, 4))
    explanation, _ = explained(relay.nn.relu(relay.nn.relu(x * relay.const(2.0) * relay.const(3.0))))
    assert [step.rule for step in explanation.steps()] == [
        "relu-twice",
        "multiply-multiply-constant",
        "fold-constants",
    ]
    graphs = list(explanation.graphs())
    assert len(graphs) == 4
    assert structural_equal(graphs[-1], relay.nn.relu(x * relay.const(6.0)))


def test_every_node_says_which_rule_made_it() -> None:
    x = relay.var("x", shape=(4, 4))
    explanation, best = explained(relay.nn.relu(relay.nn.relu(x * relay.const(2.0) * relay.const(3.0))))
    assert structural_equal(best, relay.nn.relu(x * relay.const(6.0)))
    origins = [(eqsat.relay.analysis.free_vars(node), origin) for node, origin in explanation.origins.items()]
    assert sorted(origin for _, origin in origins) == ["fold-constants", "input", "input", "multiply-multiply-constant"]


def test_what_is_shared_is_rewritten_once() -> None:
    x = relay.var("x", shape=(4, 4))
    for _ in range(30):  # written out as a tree the derivation would have 2**30 steps
        twice = relay.transpose(relay.transpose(relay.tanh(x)))
        x = x + twice
    explanation, best = explained(x)
    assert str(explanation).splitlines() == [
        "30 x transpose-transpose: transpose transpose -> transpose",
        "30 x transpose-nothing: transpose -> nothing",
    ]
    graphs = list(explanation.graphs())
    assert structural_equal(graphs[0], x)
    assert structural_equal(graphs[-1], best)


def test_explaining_grows_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(length: int) -> int:
        x = relay.var("x", shape=(4, 4))
        for _ in range(length):
            x = relay.tanh(x + relay.const(0.0))
        explanation, _ = explained(x)
        count = 0

        def counted(terms: Interner[object], index: int) -> object:
            nonlocal count
            count += 1
            return look_up(terms, index)

        look_up = Interner.__getitem__
        with monkeypatch.context() as patch:
            patch.setattr(Interner, "__getitem__", counted)
            assert len(explanation.steps()) == length
            assert len(explanation.origins) == length + 1
        return count

    assert looked_up(400) < 4.2 * looked_up(100)


def test_changes_say_what_replaced_what_and_where() -> None:
    x = relay.var("x", shape=(4, 4))
    for index in range(3):
        x = relay.tanh(x * relay.const(2.0) * relay.const(4.0))
        x.args[0].span = f"product {index}"
    explanation, _ = explained(x)
    products, folded = explanation.changes()
    assert products.places == ("product 2", "product 1", "product 0")
    assert str(products) == "3 x multiply-multiply-constant: multiply multiply -> multiply multiply  (at product 2)"
    assert str(folded) == "1 x fold-constants: multiply -> constant"


def test_operands_that_change_places_are_a_step_of_their_own() -> None:
    x = relay.var("x", shape=(4, 4))
    explanation, best = explained(relay.const(0.0) + x)
    assert structural_equal(best, x)
    assert [step.rule for step in explanation.steps()] == ["commute", "add-zero"]


def test_a_python_rule_is_a_step() -> None:
    class ReluOfRelu(relay.dataflow_pattern.DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = relay.dataflow_pattern.wildcard()
            relu = relay.dataflow_pattern.is_op("nn.relu")
            self.pattern = relu(relu(self.x))

        def callback(self, pre, post, node_map):
            return relay.nn.relu(node_map[self.x][0])

    x = relay.var("x", shape=(4, 4))
    explanation, _ = explained(relay.nn.relu(relay.nn.relu(relay.nn.relu(x))), [ReluOfRelu()])
    assert {step.rule for step in explanation.steps()} == {"ReluOfRelu"}


def test_a_step_that_is_wrong_is_found_out() -> None:
    x = relay.var("x", shape=(4, 4))
    assert verify_equal(relay.nn.relu(x), relay.nn.relu(relay.nn.relu(x))).ok
    wrong = verify_equal(relay.nn.relu(x), relay.abs(x))
    assert wrong.status == "unsound"
    assert "the sides differ at" in wrong.detail


def test_without_explain_there_is_nothing_to_explain() -> None:
    extraction = eqsat.extract(eqsat.saturate(relay.nn.relu(relay.var("x", shape=(4,)))))
    with pytest.raises(ArgumentError, match="explain=True"):
        extraction.explanation.steps()


def operators(graph: Expr) -> set[str]:
    return {node.op.name for node in relay.visitor.post_order(graph) if isinstance(node, relay.Call)}


def inner_nodes(graph: Expr) -> set[Expr]:
    return {node for node in relay.visitor.post_order(graph, children=region_children) if region_children(node)}


@settings(max_examples=12, deadline=None)
@given(graph=typed_graphs())
def test_each_rewrite_keeps_the_values(graph: Expr) -> None:
    explanation, best = explained(graph)
    steps, graphs = explanation.steps(), list(explanation.graphs())
    assert operators(graphs[0]) == operators(graph)  # what the graph has twice, an e-graph has once
    assert structural_equal(graphs[-1], best)
    assert len(steps) + 1 <= len(graphs) <= len(steps) + 2
    for step in steps:
        before, after = (inner_nodes(side) for side in (step.before, step.after))
        assert (set(step.removed), set(step.added)) == (before - after, after - before)
        verdict = verify_equal(step.before, step.after, instances=3)
        assert verdict.status != "unsound", f"{step}\n{verdict.detail}"
    for whole in graphs:
        assert_same_values(graph, whole)
    assert set(explanation.origins.values()) <= {"input", "fold-constants", *(rule.name for rule in rules.default)}


@settings(max_examples=5, deadline=None)
@given(graph=typed_graphs())
@example(graph=-relay.var("x", shape=(4, 4)) - relay.var("x", shape=(4, 4)))
def test_to_be_explained_changes_nothing(graph: Expr) -> None:
    by_steps = [rule for rule in rules.default if rule.name != "compose-chains"]  # which are what is explained
    _, best = explained(graph)
    plain = eqsat.extract(eqsat.saturate(graph, by_steps))
    assert eqsat.extract(eqsat.saturate(best, ())).cost == pytest.approx(plain.cost)

"""Repeated layers: where they are, and that they are optimized once only where that gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

import eqsat
from eqsat import extraction, relay, rules
from eqsat.extraction import CostNode
from eqsat.layers.find import LayeredGraph, Layers
from eqsat.layers.optimize import Saturated, optimize_with_report
from eqsat.layers.proof import LayerProof
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.options import Options
from eqsat.pipeline.saturate import bodies_of
from eqsat.relay import nn
from eqsat.relay.expr import Call, Expr, Function, Tuple

from .graphs import assert_same_values
from .layered import SHAPE, Network, Weights, networks, weights_of

STEPS = [("add", 1), ("dense", 1), ("bias", 1), ("relu", 1), ("one", 1), ("half", 1), ("scale", 1), ("add", 8)]
"""Of a layer in which there is something to find."""

RULES = rules.sets["fold"] + rules.sets["algebra"] + rules.sets["affine"] + rules.sets["scaling"]
"""Rules that ask for values."""


def network(count: int = 9, change: Callable[[list[Weights]], None] = lambda weights: None, **kinds: bool) -> Function:
    """A network of so many layers of ``STEPS``, their weights changed."""
    rng = default_rng(0)
    weights = [weights_of(STEPS, rng) for _ in range(count)]
    change(weights)
    return Network(STEPS, weights, **kinds).function()


def layers_of(function: Function) -> list[Layers]:
    return LayeredGraph(*bodies_of(function)).chains()


def few(function: Function, **options: Any) -> Extraction:
    return optimize_with_report(function, RULES, **options)


def whole(function: Function, **options: Any) -> Extraction:
    return eqsat.extract(eqsat.saturate(function, RULES), **options)


def was_reused(result: Extraction, function: Function) -> bool:
    """Whether fewer nodes were lowered than the graph has calls."""
    calls = sum(isinstance(node, Call) for node in relay.visitor.post_order(function))
    return len(result.regions[-1].lowered.nodes) < calls


def assert_same(one: Extraction, other: Extraction) -> None:
    for figure in ("input_cost", "cost", "lower_bound", "optimal"):
        assert getattr(one, figure) == pytest.approx(getattr(other, figure), rel=1e-9), figure
    assert_same_values(one.expr, other.expr)


@settings(max_examples=6, deadline=None)
@given(network=networks(), model=st.sampled_from([extraction.OpCount(), extraction.Roofline("cpu")]))
def test_the_result_is_that_of_the_whole(network: Network, model: Callable[[CostNode], float]) -> None:
    function = network.function()
    assert_same(few(function, cost_model=model), whole(function, cost_model=model))


@pytest.mark.parametrize("count", [6, 7, 12])
def test_a_chain_through_all_layers_is_no_reason_to_leave_layers_out(count: int) -> None:
    """Composed without its views it is as long as the layers that are kept, whatever the number of the missing ones."""
    steps = [*[("relu", 1)] * 5, ("tanh", 1), ("transposed", 1)]
    function = Network(steps, [{}] * count).function()
    assert_same(few(function), whole(function))


def test_weights_that_are_transposed_in_the_graph_are_so_in_all_layers() -> None:
    """The transposes are larger than what is computed of what rules make."""
    rng = default_rng(0)
    x = value = relay.var("x", shape=(4, 48))
    for _ in range(9):
        weight = relay.const(rng.normal(size=(48, 48)).astype("float32"))
        product = nn.matmul(relay.exp(value), relay.transpose(weight, (1, 0)))
        value = relay.sigmoid(relay.negative(relay.tanh(product * relay.const(1.0)))) + value
    function = Function([x], value)
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_most_layers_are_not_saturated(shared: bool, own: bool) -> None:
    function = network(12, shared=shared, own=own)
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))
    assert len(result.regions[-1].lowered.nodes) == len(
        few(network(24, shared=shared, own=own)).regions[-1].lowered.nodes
    )


def test_the_default_rules_do_not_stand_in_the_way() -> None:
    """They see types, attributes and what Python is asked; a rule that looked at more would cost every large model."""
    function = network(12)
    assert was_reused(optimize_with_report(function), function)


def test_two_small_layers_are_one() -> None:
    rng = default_rng(0)
    small = [("dense", 1), ("bias", 1), ("relu", 1)]
    function = Network(small, [weights_of(small, rng) for _ in range(40)]).function()
    (found,) = layers_of(function)
    assert len(found.nodes) == 20
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))


def test_results_of_layers_keep_their_order() -> None:
    function = network(10, own=True)
    result = few(function)
    assert was_reused(result, function)
    assert_same_values(function, result.expr)


def test_results_may_be_in_tuples_of_tuples() -> None:
    function = network(10, own=True)
    first, *others = function.body.fields
    nested = Function(function.params, Tuple([Tuple([first, *others[:4]]), Tuple([*others[4:], others[2]])]))
    result = few(nested)
    assert was_reused(result, nested)
    assert_same(result, whole(nested))


def change_of(layer: int, step: int, weight: Callable[[Any], Any]) -> Callable[[list[Weights]], None]:
    def change(weights: list[Weights]) -> None:
        weights[layer][step] = weight(weights[layer][step])

    return change


@pytest.mark.parametrize(
    ("step", "weight"),
    [(6, np.ones_like), (6, np.zeros_like), (2, np.zeros_like), (6, np.abs), (6, lambda w: w * 0 + np.float32(np.inf))],
    ids=["scale of ones", "scale of zeros", "bias of zeros", "positive scale", "infinite scale"],
)
def test_a_layer_of_which_more_is_known_is_not_a_copy(step: int, weight: Callable[[Any], Any]) -> None:
    """Whatever rules ask about its weights: the whole is optimized, and nothing is lost."""
    function = network(9, change_of(6, step, weight))
    result = few(function)
    assert result.cost == whole(function).cost
    if np.isfinite(weight(np.ones(6))).all():
        assert_same_values(function, result.expr)


def test_a_bias_of_zeros_is_gone_from_the_one_layer_that_has_it() -> None:
    plain, special = few(network(9)), few(network(9, change_of(6, 2, np.zeros_like)))
    assert special.cost < plain.cost


def test_a_weight_that_two_layers_share_is_seen() -> None:
    def share(weights: list[Weights]) -> None:
        weights[6] = weights[7]

    function = network(9, share)
    assert not was_reused(few(function), function)


def test_weights_that_all_layers_share_are_shared() -> None:
    def share(weights: list[Weights]) -> None:
        for one in weights:
            one[2] = weights[0][2]

    function = network(9, share)
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))


def chain(layer: Callable[[Expr, int], Expr], count: int = 12) -> Function:
    x = value = relay.var("x", shape=SHAPE)
    for number in range(count):
        value = layer(value, number)
    return Function([x], value)


def steps(value: Expr, alpha: float = 0.1, weight: float = 1.5) -> Expr:
    """Ten operators of which none goes away."""
    kept = value
    for _ in range(4):
        value = relay.tanh(nn.leaky_relu(value, alpha=alpha))
    return relay.tanh(value * relay.const(weight)) + kept


@pytest.mark.parametrize("other", [{"alpha": 0.2}, {"weight": 2.5}])
def test_layers_with_another_attribute_or_scalar_are_not_the_same(other: dict[str, float]) -> None:
    alike = chain(lambda value, number: steps(value))
    differs = chain(lambda value, number: steps(value, **(other if number == 6 else {})))
    assert was_reused(few(alike), alike)
    assert not was_reused(few(differs), differs)
    assert_same(few(differs), whole(differs))


def test_scalars_that_differ_everywhere_are_weights() -> None:
    function = chain(lambda value, number: steps(value, weight=1.5 + number / 7))
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))


def test_there_are_no_layers_where_values_are_used_far_above() -> None:
    values = [relay.var("x", shape=SHAPE)]
    for _ in range(12):
        values.append(steps(values[-1]) + (values[-2] if len(values) > 1 else values[-1]))
    assert layers_of(Function([values[0]], values[-1])) == []


def test_two_stacks_of_layers_are_both_found() -> None:
    def second(value: Expr) -> Expr:
        kept = value
        for _ in range(4):
            value = nn.relu(relay.sigmoid(value * relay.const(0.5)))
        return value + kept

    x = value = relay.var("x", shape=SHAPE)
    for make in [steps] * 8 + [second] * 9:
        value = make(value)
    function = Function([x], value)
    assert sorted(len(layers.nodes) for layers in layers_of(function)) in ([7, 8], [7, 9], [8, 8], [8, 9])
    result = few(function)
    assert was_reused(result, function)
    assert_same(result, whole(function))


def routed(value: Expr, number: int) -> Expr:
    """A layer of which a part computes with places apart and a part with them in one row, as routers of experts do."""
    rng = default_rng(number)
    mixed = nn.softmax(relay.tanh(nn.batch_matmul(value, value)))
    value = value + nn.batch_matmul(mixed, relay.transpose(value, [0, 2, 1]))
    flat = relay.reshape(value, [6, 4])
    scores = nn.softmax(nn.dense(flat, relay.const(rng.standard_normal((4, 4)).astype("f4") / 4)))
    experts = relay.tanh(flat * relay.const(rng.standard_normal(4).astype("f4"))) * scores
    return value + relay.reshape(experts, [2, 3, 4])


@pytest.mark.parametrize("count", [2, 4, 12])
def test_several_values_may_lead_from_layer_to_layer(count: int) -> None:
    """Sums of reshaped values are reshaped sums, so that a layer can be computed from the value in either shape."""

    def network(count: int) -> Function:
        x = value = relay.var("x", shape=(2, 3, 4))
        for number in range(count):
            value = routed(value, number)
        return Function([x], value)

    result = optimize_with_report(network(count))
    assert_same(result, eqsat.extract(eqsat.saturate(network(count))))
    assert was_reused(result, network(count)) == (count == 12)
    if count == 12:
        deeper = optimize_with_report(network(24))
        assert len(result.regions[-1].lowered.nodes) == len(deeper.regions[-1].lowered.nodes)


def test_what_happens_across_layers_is_not_lost() -> None:
    """Each layer ends with a transpose that the next one's first undoes."""

    def layer(value: Expr, number: int) -> Expr:
        value = relay.transpose(value, [1, 0])
        for _ in range(7):
            value = relay.tanh(value)
        return relay.transpose(value, [1, 0])

    function = chain(layer)
    result = optimize_with_report(function, rules.sets["transposes"])
    assert result.cost == eqsat.extract(eqsat.saturate(function, rules.sets["transposes"])).cost
    assert_same_values(function, result.expr)


def test_options_reach_what_is_run() -> None:
    function = network(9)
    seen: list[int] = []
    result = optimize_with_report(
        function,
        rules.sets["algebra"],
        eqsat.Limits(iterations=20),
        extraction.Roofline("cpu"),
        on_iteration=lambda report: seen.append(len(report.iterations)),
    )
    assert seen
    assert result.report.stop_reason == "saturated"
    assert result.cost == whole_cost(function)


def whole_cost(function: Function) -> float:
    saturation = eqsat.saturate(function, rules.sets["algebra"])
    return eqsat.extract(saturation, extraction.Roofline("cpu")).cost


def test_to_be_explained_a_graph_is_saturated_whole() -> None:
    function = network(9)
    result = few(function, explain=True)
    assert not was_reused(result, function)
    assert result.explanations


def test_a_limit_that_is_reached_holds_for_the_whole() -> None:
    function = network(9)
    result = few(function, limits=eqsat.Limits(iterations=1))
    assert result.report.stop_reason == "iterations"
    assert not was_reused(result, function)


def test_copies_that_are_not_proved_are_taken_where_time_was_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the whole graph is found to cost in the time that is left may be more than the copies cost."""
    function = network(9)
    best = few(function)
    monkeypatch.setattr(LayerProof, "holds", lambda self, seconds: False)
    assert few(function).cost == best.cost
    late = Saturated(function, Options.of({}, rules=RULES))
    late.options = Options.of({}, rules=[])
    result = late.extract(late.options)
    assert result.cost == best.cost < result.input_cost
    assert not result.optimal
    assert result.lower_bound <= best.cost
    assert_same_values(function, result.expr)


def test_python_rules_may_look_at_anything() -> None:
    class Nothing(relay.dataflow_pattern.DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = relay.dataflow_pattern.is_op("tanh")(relay.dataflow_pattern.wildcard())

        def callback(self, pre: Expr, post: Expr, node_map: Any) -> Expr:
            return post

    function = network(9)
    assert not was_reused(optimize_with_report(function, [Nothing()]), function)


def test_work_is_linear_in_the_number_of_layers(count_calls: Callable[[Callable[[], Any]], int]) -> None:
    """Twenty thousand operators, at the default recursion limit."""

    def work(count: int) -> int:
        function = chain(lambda value, number: steps(value), count)
        (body,) = bodies_of(function)
        found: list[Layers] = []
        calls = count_calls(lambda: found.extend(LayeredGraph(body).chains()))
        assert len(found[0].nodes) >= count - 1
        return calls

    assert work(2_000) < 11 * work(200)


def test_a_long_chain_without_cuts_is_given_up_in_linear_work(count_calls: Callable[[Callable[[], Any]], int]) -> None:
    def work(count: int) -> int:
        values = [relay.var("x", shape=SHAPE)]
        for _ in range(count):
            values.append(relay.tanh(values[-1] + values[max(0, len(values) - 3)]))
        function = Function([values[0]], values[-1])
        (body,) = bodies_of(function)
        return count_calls(lambda: LayeredGraph(body).chains())

    assert work(5_000) < 12 * work(500)


def test_a_stack_that_begins_first_may_read_what_another_one_ends_in() -> None:
    """As in T5: the first layer of the decoder begins before the encoder, whose result each layer of it reads."""
    rng = default_rng(0)

    def layer(value: Expr, *beside: Expr) -> Expr:
        value = nn.dense(relay.tanh(value), relay.const(rng.standard_normal((6, 6)).astype("f4") / 4))
        for _ in range(4):
            value = relay.sin(relay.tanh(value))
        return value * beside[0] if beside else value

    read, written = relay.var("x", shape=SHAPE), relay.var("y", shape=SHAPE)
    memory, result = read, written
    for _ in range(8):
        memory = layer(memory)
    for _ in range(8):
        result = layer(result, memory)
    function = Function([read, written], result)
    assert len(layers_of(function)) == 2
    one, other = few(function), whole(function)
    assert was_reused(one, function)
    assert_same(one, other)
    assert len(relay.visitor.post_order(one.expr)) == len(relay.visitor.post_order(other.expr))

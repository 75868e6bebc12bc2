"""Results survive pickle: a process hands them to another, which goes on with them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import onnx
import pytest

import eqsat
import eqsat.onnx
from eqsat import relay, rules
from eqsat.errors import ArgumentError
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.rules import rewrite, variables, when
from eqsat.rules.verify import verify

x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
GRAPH = relay.Function([x, y], relay.nn.relu(relay.nn.relu(x * relay.const(2.0) + y)))


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def test_a_saturation_is_extracted_by_who_unpickles_it() -> None:
    saturation = eqsat.saturate(GRAPH, rules.default)
    found = eqsat.extract(again(saturation), method="exact")
    expected = eqsat.extract(saturation, method="exact")
    assert (str(found.expr), found.cost) == (str(expected.expr), expected.cost)


def test_an_extraction_comes_back_with_its_explanation() -> None:
    extraction = eqsat.extract(eqsat.saturate(GRAPH, rules.activations, explain=True))
    found = again(extraction)
    assert (str(found.expr), found.cost, found.optimal) == (str(extraction.expr), extraction.cost, extraction.optimal)
    assert str(found.explanation) == str(extraction.explanation)


def test_a_deep_graph_comes_back() -> None:
    node: Any = x
    for _ in range(3000):
        node = relay.nn.relu(node) + y
    saturation = eqsat.saturate(node, [])
    assert again(saturation).node_count == saturation.node_count
    assert copy.deepcopy(saturation).node_count == saturation.node_count


def test_shipped_rules_are_the_same_rules_and_work() -> None:
    assert list(again(rules.default)) == list(rules.default)
    assert all(one is other for one, other in zip(again(rules.default), rules.default, strict=True))
    assert again(eqsat.Options(rules=rules.default)).schedule.rules == tuple(rules.default)
    (verdict,) = verify(again(rules.activations).rules[0], instances=3)
    assert verdict.ok


def test_rules_of_ones_own_with_functions_are_left_out_of_results() -> None:
    (a,) = variables("a")
    mine = rewrite("mine", relay.nn.relu(relay.nn.relu(a)), relay.nn.relu(a), when(lambda ty: True, rules.type_of(a)))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(mine)
    saturation = eqsat.saturate(GRAPH, [mine, rules.activations])
    found = again(saturation)
    assert eqsat.extract(found).cost == eqsat.extract(saturation).cost
    kept = [rule.name for rule in found.regions[0].rules]
    assert kept == [rule.name for rule in rules.activations]
    assert len(saturation.regions[0].rules) == len(kept) + 1


def test_an_optimization_of_a_deep_model_comes_back() -> None:
    nodes = [onnx.helper.make_node("Tanh", [f"v{index}"], [f"v{index + 1}"]) for index in range(1000)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("v0", "v1000")]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    found = again(eqsat.onnx.run(model, rules.activations))
    assert len(found.after.graph) == len(found.before.graph) == 1000
    assert found.imported.opaque == {}
    assert str(found.extraction.exprs[0].span) == "v1000"


def test_reports_comparisons_and_models_come_back() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }'
    )
    done = eqsat.onnx.run(model)
    found = again(done)
    assert [node.op_type for node in found.after.graph] == ["Relu"]
    assert (found.cost, found.optimal) == (done.cost, done.optimal)
    comparison = eqsat.compare_orders(GRAPH, list(rules.activations)[:2], random_runs=0)
    assert str(again(comparison)) == str(comparison)
    assert again(done.extraction.report) == done.extraction.report


def test_what_finite_rules_would_save_is_offered_of_an_optimization_that_comes_back() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) < float one = {1.0} > {
            e = Exp (x) a = Add (e, one) y = Log (a)
        }"""
    )
    done = eqsat.onnx.run(model)
    offer = eqsat.onnx.finite_offer(done)
    assert offer is not None
    assert eqsat.onnx.finite_offer(again(done)) == offer


@pytest.mark.parametrize("target", ["dnnl", "tensorrt", "onnxruntime"])
def test_a_partitioning_by_a_shipped_table_comes_back(target: str) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y)
        <float[4, 3, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { a = Conv (x, w) y = Relu (a) }"""
    )
    done = eqsat.onnx.partition(model, target)
    found = again(done)
    assert found.composites == done.composites != {}
    assert [node.op_type for node in found.after.graph] == [node.op_type for node in done.after.graph]


def test_copies_of_results_hold_the_same_models() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { a = Relu (x) y = Relu (a) }'
    )
    for done in (eqsat.onnx.run(model, rules.activations), eqsat.onnx.partition(model, "tensorrt", rules.activations)):
        found = copy.copy(done)
        assert vars(found) == vars(done)
        assert found.after is done.after
        assert [node.op_type for node in copy.deepcopy(done).after.graph] == [node.op_type for node in done.after.graph]


def test_a_table_of_ones_own_without_functions_comes_back() -> None:
    table = [("own.relu", is_op("nn.relu")(wildcard()))]
    saturation = eqsat.saturate(GRAPH, [eqsat.composite_rules(table)])
    assert str(eqsat.extract(again(saturation)).expr) == str(eqsat.extract(saturation).expr)


@pytest.mark.parametrize("part", ["check", "pattern", "cost"])
def test_which_entry_of_a_table_cannot_be_pickled_is_told_and_what_to_do(part: str) -> None:
    def one(*given: Any) -> Any:
        return True

    pattern = is_op("nn.relu")(is_constant(predicate=one) if part == "pattern" else wildcard())
    table: Any = [("own.tanh", is_op("tanh")(wildcard())), ("own.relu", pattern, one if part == "check" else None)]
    made = eqsat.composite_rules(table, one if part == "cost" else None)
    told = rf"entry 'own\.{'tanh' if part == 'cost' else 'relu'}' .* its {part} .*<locals>\.one.* top of a module"
    for value in (made, eqsat.saturate(GRAPH, [made])):
        with pytest.raises(ArgumentError, match=told):
            pickle.dumps(value)

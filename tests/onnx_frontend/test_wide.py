"""Nodes with very many inputs or outputs are left as they are; the rest of the model is optimized."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from .models import operators, optimized


def wide(op_type: str, count: int, **attributes: object) -> onnx.ModelProto:
    """A model of a node of so many different inputs, between operators that rules act on."""
    nodes = [helper.make_node("Add", ["x", f"c{index}"], [f"s{index}"]) for index in range(count)]
    nodes.append(helper.make_node(op_type, [f"s{index}" for index in range(count)], ["w"], **attributes))
    nodes += [helper.make_node("Relu", ["w"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.float32(index), f"c{index}") for index in range(count)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("op_type", ["Concat", "Sum", "Max"])
def test_no_model_is_refused_for_the_inputs_of_a_node(op_type: str) -> None:
    count = 2000 if op_type == "Concat" else 1200
    proto = wide(op_type, count, **({"axis": 0} if op_type == "Concat" else {}))
    best = optimized(proto)
    assert operators(best.graph) == {"Add": count - 1, op_type: 1, "Relu": 1}
    feed = {"x": np.asarray([1.5, -2.0], np.float32)}
    (one,), (other,) = ReferenceEvaluator(proto).run(None, feed), ReferenceEvaluator(best).run(None, feed)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_no_model_is_refused_for_the_outputs_of_a_node() -> None:
    count = 2000
    names = [f"s{index}" for index in range(count)]
    nodes = [helper.make_node("Split", ["x"], names, axis=0, num_outputs=count)]
    nodes += [helper.make_node("Concat", [*names[1:], names[0]], ["w"], axis=0)]
    nodes += [helper.make_node("Relu", ["w"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])],
        [helper.make_empty_tensor_value_info("y")],
    )
    best = optimized(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert operators(best.graph)["Relu"] == 1
    array = np.arange(count, dtype=np.float32)
    np.testing.assert_array_equal(ReferenceEvaluator(best).run(None, {"x": array})[0], np.roll(array, -1))


def test_no_model_is_refused_for_what_a_loop_takes_from_outside() -> None:
    count = 500
    lines = "body (int64 i, bool go, float[2] s) => (bool on, float[2] t) { on = Identity(go) t = Relu(s) }"
    body = onnx.parser.parse_graph(lines)
    body.node[-1].output[0] = "t0"
    for index in range(count):
        body.node.append(helper.make_node("Add", [f"t{index}", f"v{index}"], [f"t{index + 1}"]))
    body.node[-1].output[0] = "t"
    nodes = [helper.make_node("Add", ["x", f"c{index}"], [f"v{index}"]) for index in range(count)]
    nodes.append(helper.make_node("Loop", ["count", "yes", "x"], ["y"], body=body))
    constants = {f"c{index}": np.float32(index) for index in range(count)}
    constants |= {"count": np.asarray(2), "yes": np.asarray(True)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    best = optimized(proto)
    feed = {"x": np.asarray([1.5, -2.0], np.float32)}
    (one,), (other,) = ReferenceEvaluator(proto).run(None, feed), ReferenceEvaluator(best).run(None, feed)
    np.testing.assert_allclose(one, other, rtol=1e-4)

"""Operators without a form in the IR are computed by ONNX's reference implementation where they have constants."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from eqsat.onnx import from_bytes, import_model, optimize
from eqsat.onnx.reference import MOST_ELEMENTS
from eqsat.relay.expr import Constant
from eqsat.relay.interpreter import evaluate


def of_constants(op_type: str, *constants: np.ndarray, outputs: int = 1, **attributes: object) -> onnx.ModelProto:
    """A model without inputs whose outputs are those of one node."""
    names = [f"c{index}" for index in range(len(constants))]
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **attributes)],
        "g",
        [],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(value, name) for value, name in zip(constants, names, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def imported(model: onnx.ModelProto) -> object:
    return import_model(from_bytes(model.SerializeToString())).function.body


def test_a_node_without_operator_is_folded_where_its_inputs_are_constants() -> None:
    body = imported(of_constants("Unique", np.asarray([3.0, 1.0, 3.0], np.float32)))
    assert isinstance(body, Constant)
    np.testing.assert_array_equal(evaluate(body), [1.0, 3.0])


def test_a_scalar_stays_one() -> None:
    body = imported(of_constants("Det", np.asarray([[2.0, 0.0], [0.0, 3.0]], np.float32)))
    assert isinstance(body, Constant)
    assert body.data.shape == ()
    assert float(evaluate(body)) == pytest.approx(6.0)


def test_what_a_folded_node_gives_has_a_known_shape_downstream() -> None:
    places = np.asarray([[1, 0, 2], [0, 1, 1]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Unique", ["c"], ["u"]),
            helper.make_node("ReduceSum", ["u"], ["s"], keepdims=0),
            helper.make_node("Add", ["x", "s"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(places, "c")],
    )
    best = optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert [node.op_type for node in best.graph.node] == ["Add"]


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [("RandomUniform", {"shape": [2], "dtype": 1}), ("SequenceEmpty", {}), ("RandomNormal", {"shape": [2]})],
)
def test_random_numbers_and_sequences_are_not_constants(op_type: str, attributes: dict[str, object]) -> None:
    assert not isinstance(imported(of_constants(op_type, **attributes)), Constant)


def test_large_constants_stay_nodes() -> None:
    large = np.zeros(MOST_ELEMENTS + 1, np.float32)
    assert not isinstance(imported(of_constants("Unique", large)), Constant)


def test_the_parts_of_a_split_constant_are_constants() -> None:
    graph = helper.make_graph(
        [helper.make_node("Split", ["c"], ["a", "b"], axis=0, num_outputs=2)],
        "g",
        [],
        [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in "ab"],
        [numpy_helper.from_array(np.asarray([3, 4]), "c")],
    )
    body = imported(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert [evaluate(field).tolist() for field in body.fields] == [[3], [4]]
    assert all(isinstance(field, Constant) for field in body.fields)

"""Recurrent networks: what they compute, how they are written, and what they equal."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from eqsat.onnx import import_model
from eqsat.onnx.files import from_proto
from eqsat.relay.interpreter import evaluate

from .models import operators, optimized, parsed, round_trip

onnxruntime = pytest.importorskip("onnxruntime")

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def with_arrays(proto: onnx.ModelProto, **arrays: np.ndarray) -> onnx.ModelProto:
    proto.graph.initializer.extend([numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return proto


def weights(kind: str, width: int = 3, units: int = 4, both: int = 1, seed: int = 0, end: str = "") -> dict[str, Any]:
    """The weights and biases of a layer, named w, r and b with ``end``."""
    random, gates = np.random.default_rng(seed), GATES[kind]
    shapes = {"w": (both, gates * units, width), "r": (both, gates * units, units), "b": (both, 2 * gates * units)}
    return {name + end: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def results(proto: onnx.ModelProto) -> list[Any]:
    """What onnxruntime computes of seeded inputs."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feed_of(proto))
    return found


def feed_of(proto: onnx.ModelProto, unknown: int = 2) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        value.name: random.standard_normal(
            [dim.dim_value or unknown for dim in value.type.tensor_type.shape.dim]
        ).astype("f4")
        for value in proto.graph.input
    }


def check(proto: onnx.ModelProto, expected: dict[str, int]) -> onnx.ModelProto:
    """See that a model is optimized to the ``expected`` nodes, and computes the same."""
    after = optimized(proto)
    assert operators(after.graph) == expected
    for a, b in zip(results(after), results(proto), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return after


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("lengths", "states"), list(product((False, True), repeat=2)))
def test_a_layer_computes_what_the_runtime_does(kind: str, direction: str, lengths: bool, states: bool) -> None:
    both = 2 if direction == "bidirectional" else 1
    cell = ", c" if kind == "LSTM" else ""
    ends = ", z" if kind == "LSTM" else ""
    proto = parsed(
        f"""(float[5,2,3] x, float[{both},2,4] h, float[{both},2,4] c) => (y, last{ends}) {{
            y, last{ends} = {kind} <hidden_size = 4, direction = "{direction}"> (
                x, w, r, b, {"n" if lengths else ""}, {f"h{cell}" if states else ""})
        }}"""
    )
    with_arrays(proto, n=np.array([3, 5], "i4"), **weights(kind, both=both))
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    for after in (proto, round_trip(proto)):
        assert operators(after.graph) == {kind: 1}
        for a, b in zip(evaluate(imported.function, feed_of(proto)), results(after), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_outputs_that_nothing_uses_are_left_out(kind: str) -> None:
    proto = parsed(f"(float[5,N,3] x) => (last) {{ y, last = {kind} <hidden_size = 4> (x, w, r, b, , zeros) }}")
    if kind == "LSTM":
        proto.graph.node[0].input.append("zeros")
    with_arrays(proto, zeros=np.zeros((1, 2, 4), "f4"), **weights(kind))
    after = check(proto, {kind: 1})
    assert list(after.graph.node[0].output) == ["", "last"]
    assert list(after.graph.node[0].input) == ["x", "w", "r", "b"]


def test_biases_of_zeros_are_left_out() -> None:
    proto = parsed("(float[5,2,3] x) => (y) { y = GRU <hidden_size = 4, linear_before_reset = 1> (x, w, r, b) }")
    arrays = weights("GRU")
    with_arrays(proto, **{**arrays, "b": 0 * arrays["b"]})
    assert list(check(proto, {"GRU": 1}).graph.node[0].input) == ["x", "w", "r"]


@pytest.mark.parametrize(
    "said",
    [
        'activations = ["tanh", "relu", "Softsign"]',
        "clip = 0.3, input_forget = 0",
        "layout = 1",
    ],
)
def test_what_is_said_is_kept(said: str) -> None:
    proto = parsed(f"(float[5,2,3] x) => (y) {{ y = LSTM <hidden_size = 4, {said}> (x, w, r, b) }}")
    with_arrays(proto, **weights("LSTM"))
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    after = round_trip(proto)
    assert operators(after.graph) == {"LSTM": 1}
    if "layout" not in said:  # which the runtime does not have
        np.testing.assert_allclose(evaluate(imported.function, feed_of(proto)), results(proto)[0], atol=1e-6)
        np.testing.assert_array_equal(results(after)[0], results(proto)[0])


@pytest.mark.parametrize(
    "said",
    ['activations = ["Affine", "Tanh", "Tanh"], activation_alpha = [2.0]', 'activations = ["Elu", "Tanh", "Tanh"]'],
)
def test_activations_with_parameters_pass_through(said: str) -> None:
    proto = parsed(f"(float[5,2,3] x) => (y) {{ y = LSTM <hidden_size = 4, {said}> (x, w, r, b) }}")
    with_arrays(proto, **weights("LSTM"))
    assert import_model(from_proto(proto)).opaque
    assert list(round_trip(proto).graph.node[0].attribute) == list(proto.graph.node[0].attribute)

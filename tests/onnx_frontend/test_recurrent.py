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


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("given", [", n, h, c, p", ", , , , p"], ids=["with states", "from zeros"])
@pytest.mark.parametrize("said", ["", ", clip = 0.5"])
def test_gates_that_see_the_cells(direction: str, given: str, said: str) -> None:
    both = 2 if direction == "bidirectional" else 1
    proto = parsed(
        f"""(float[5,2,3] x, float[{both},2,4] h, float[{both},2,4] c) => (y, last, z) {{
            y, last, z = LSTM <hidden_size = 4, direction = "{direction}"{said}> (x, w, r, b{given})
        }}"""
    )
    peepholes = np.random.default_rng(2).standard_normal((both, 12)).astype("f4")
    with_arrays(proto, n=np.array([3, 5], "i4"), p=peepholes, **weights("LSTM", both=both))
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    for after in (proto, round_trip(proto)):
        assert list(after.graph.node[0].input) == list(proto.graph.node[0].input)
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


# ---- rules

NUMBERS = {"one": [1], "last": -1, "lasts": [-1], "zero": [0], "first": 0, "far": [2**62], "back": [-(2**62)]}


def layers(graph: str, *kinds: str, opset: int = 17) -> onnx.ModelProto:
    """A graph over layers of the given kinds, whose weights are w, r, b, w1, r1, b1 and so on."""
    proto = parsed(graph, opset)
    for index, kind in enumerate(kinds):
        with_arrays(proto, **weights(kind, seed=index, end=str(index or "")))
    used = {name for node in proto.graph.node for name in node.input}
    return with_arrays(proto, **{name: np.array(value) for name, value in NUMBERS.items() if name in used})


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("sizes", ["2,5", "N,S"])
@pytest.mark.parametrize(
    "end",
    [
        "t = Transpose <perm = [1, 0, 2]> (s) y = Gather <axis = 1> (t, last)",
        "y = Gather <axis = 0> (s, last)",
        "t = Transpose <perm = [1, 0, 2]> (s) c = Slice (t, lasts, far, one) y = Squeeze (c, one)",
    ],
)
def test_the_last_step_is_the_state(kind: str, sizes: str, end: str) -> None:
    proto = layers(
        f"""(float[{sizes},3] x) => (y) {{
            f = Transpose <perm = [1, 0, 2]> (x)
            h = {kind} <hidden_size = 4> (f, w, r, b)
            s = Squeeze (h, one)
            {end}
        }}""",
        kind,
    )
    check(proto, {"Transpose": 1, kind: 1, "Squeeze": 1})


@pytest.mark.parametrize(("direction", "place"), [("reverse", "last"), ("forward", "first")])
def test_another_step_is_no_state(direction: str, place: str) -> None:
    proto = layers(
        f"""(float[5,2,3] x) => (y) {{
            h = GRU <hidden_size = 4, direction = "{direction}"> (x, w, r, b)
            y = Gather <axis = 0> (h, {place})
        }}""",
        "GRU",
    )
    check(proto, {"GRU": 1, "Gather": 1})


@pytest.mark.parametrize("kind", GATES)
def test_two_directions_are_one_layer(kind: str) -> None:
    graph = f"""(float[S,N,3] x) => (y, z) {{
        h, e = {kind} <hidden_size = 4> (x, w, r, b)
        g, f = {kind} <hidden_size = 4, direction = "reverse"> (x, w1, r1, b1)
        y = Concat <axis = 1> (h, g)
        z = Concat <axis = 0> (e, f)
    }}"""
    check(layers(graph, kind, kind), {kind: 1})


def test_two_directions_in_rows_are_one_layer() -> None:
    graph = """(float[S,N,3] x) => (y) {
        h = LSTM <hidden_size = 4> (x, w, r, b)
        t = Slice (x, lasts, back, zero, lasts)
        g = LSTM <hidden_size = 4> (t, w1, r1, b1)
        s = Squeeze (h, one)
        q = Squeeze (g, one)
        u = Slice (q, lasts, back, zero, lasts)
        y = Concat <axis = 2> (s, u)
    }"""
    check(layers(graph, "LSTM", "LSTM"), {"LSTM": 1, "Transpose": 1, "Reshape": 1})


def test_layers_that_differ_in_more_than_the_direction_stay_two() -> None:
    graph = """(float[S,N,3] x) => (y) {
        h = GRU <hidden_size = 4> (x, w, r, b)
        g = GRU <hidden_size = 4, direction = "reverse", linear_before_reset = 1> (x, w1, r1, b1)
        y = Concat <axis = 1> (h, g)
    }"""
    check(layers(graph, "GRU", "GRU"), {"GRU": 2, "Concat": 1})


@pytest.mark.parametrize("sizes", ["5,2", "S,N"])
def test_time_turned_round_is_a_direction(sizes: str) -> None:
    graph = f"""(float[{sizes},3] x) => (y, z) {{
        t = Slice (x, lasts, back, zero, lasts)
        h, z = RNN <hidden_size = 4> (t, w, r, b)
        y = Slice (h, lasts, back, zero, lasts)
    }}"""
    after = check(layers(graph, "RNN"), {"RNN": 1})
    assert [attr.s for attr in after.graph.node[0].attribute if attr.name == "direction"] == [b"reverse"]


def test_transposes_between_layers_meet() -> None:
    graph = """(float[N,S,3] x) => (y) {
        f = Transpose <perm = [1, 0, 2]> (x)
        h = LSTM <hidden_size = 4> (f, w, r, b)
        s = Squeeze (h, one)
        t = Transpose <perm = [1, 0, 2]> (s)
        u = Transpose <perm = [1, 0, 2]> (t)
        g = LSTM <hidden_size = 4> (u, k, q, d)
        v = Squeeze (g, one)
        y = Transpose <perm = [1, 0, 2]> (v)
    }"""
    proto = layers(graph, "LSTM")
    more = weights("LSTM", width=4, seed=1)
    with_arrays(proto, k=more["w"], q=more["r"], d=more["b"])
    check(proto, {"Transpose": 2, "LSTM": 2, "Squeeze": 2})

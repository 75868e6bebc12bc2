"""Operators between indices and places: OneHot, NonZero, GridSample."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from eqsat.onnx import import_model, verify
from eqsat.onnx.files import from_proto
from eqsat.relay.interpreter import evaluate

from .models import operators, optimized, parsed, round_trip


def test_one_hot_rows_count_negative_indices_from_the_end() -> None:
    proto = parsed("(int64[N] x) => (float[N,3] y) <int64 d = {3}, float[2] v = {0.5, 2.0}> { y = OneHot (x, d, v) }")
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    rows = evaluate(imported.function, {"x": np.array([0, -1, 2, 3, -4])})
    np.testing.assert_array_equal(rows.argmax(1), [0, 2, 2, 0, 0])
    np.testing.assert_array_equal(rows.sum(1), [3, 3, 3, 1.5, 1.5])
    after = round_trip(proto)
    assert operators(after.graph) == {"OneHot": 1}
    assert verify(from_proto(proto), from_proto(after))[0].absolute == 0


@pytest.mark.parametrize(("given", "found"), [("Clip (x, low, high)", {"Clip": 1, "Gather": 1}), ("Neg (x)", None)])
def test_a_product_with_one_hot_rows_is_a_gather_where_all_indices_are_in_range(
    given: str, found: dict[str, int] | None
) -> None:
    proto = parsed(
        f"""(int64[N] x) => (float[N,2] y)
            <int64 d = {{3}}, float[2] v = {{0.0, 1.0}}, int64 low = {{0}}, int64 high = {{2}},
             float[3,2] w = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}}>
        {{ i = {given} r = OneHot (i, d, v) y = MatMul (r, w) }}"""
    )
    after = optimized(proto)
    assert operators(after.graph) == (found or operators(proto.graph))
    assert verify(from_proto(proto), from_proto(after))[0].relative < 1e-6


def test_as_many_places_as_there_are_is_an_unknown_size() -> None:
    proto = parsed("(float[2,3] x) => (int64[2,N] y) { n = NonZero (x) t = Transpose (n) y = Transpose (t) }")
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    np.testing.assert_array_equal(evaluate(imported.function, {"x": np.eye(2, 3, dtype="f4")}), [[0, 1], [0, 1]])
    assert operators(optimized(proto).graph) == {"NonZero": 1}


def test_the_places_in_a_constant_are_a_constant() -> None:
    graph = "(float[2,3] x) => (float[2,3] y) <float[2] kept = {1, 1}>"
    proto = parsed(f"{graph} {{ n = NonZero (kept) t = Transpose (n) y = GatherND (x, t) }}")
    assert "NonZero" not in operators(optimized(proto).graph)


@pytest.mark.parametrize("opset", [16, 20])
@pytest.mark.parametrize("grid", ["g", "constant"])
def test_samples_are_written_as_one_node(opset: int, grid: str) -> None:
    proto = parsed(
        f"""(float[1,2,5,6] x, float[1,3,4,2] g) => (y, z) {{
            y = GridSample <padding_mode = "reflection"> (x, {grid})
            n = Neg (x)
            z = GridSample <align_corners = 1> (n, {grid})
        }}""",
        opset,
    )
    array = np.random.default_rng(0).uniform(-2, 2, (1, 3, 4, 2)).astype("f4")
    proto.graph.initializer.append(numpy_helper.from_array(array, "constant"))
    assert not import_model(from_proto(proto)).opaque
    for after in (round_trip(proto), optimized(proto)):
        assert operators(after.graph) == {"GridSample": 2, "Neg": 1}
        assert all(each.relative < 1e-5 for each in verify(from_proto(proto), from_proto(after)))


def test_a_transposed_grid_meets_its_samples() -> None:
    proto = parsed(
        """(float[1,2,5,6] x, float[1,2,3,4] g) => (y) {
            t = Transpose <perm = [0, 2, 3, 1]> (g)
            r = Relu (t)
            y = GridSample (x, r)
        }""",
        20,
    )
    after = optimized(proto)
    assert sum(operators(after.graph).values()) == 3
    assert verify(from_proto(proto), from_proto(after))[0].relative < 1e-5


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_samples_are_those_of_the_runtime(mode: str, padding: str, aligned: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    said = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}'
    proto = parsed(f"(float[2,3,5,6] x, float[2,4,3,2] g) => (y) {{ y = GridSample <{said}> (x, g) }}", 20)
    random = np.random.default_rng(0)
    feed = {
        "x": random.standard_normal((2, 3, 5, 6), "f4"),
        "g": random.uniform(-1.6, 1.6, (2, 4, 3, 2)).astype("f4"),
    }
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = evaluate(import_model(from_proto(proto)).function, feed)
    np.testing.assert_allclose(found, session.run(None, feed)[0], rtol=1e-4, atol=1e-5)

"""Nodes on quantized numbers: they stay one node, and their definitions give the bytes that the runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from eqsat.onnx import import_model
from eqsat.onnx.files import from_proto
from eqsat.relay.interpreter import evaluate

from .models import operators, optimized, parsed, round_trip

onnxruntime = pytest.importorskip("onnxruntime")

DOMAIN = ', "com.microsoft": 1'
GRAPHS = {
    "MatMulInteger": "(uint8[3,5,4] u, int8[4,6] k) => (y) { y = MatMulInteger (u, k, z, t) }",
    "MatMulInteger of columns": "(uint8[5,4] u, int8[4,6] k) => (y) { y = MatMulInteger (u, k, z, t6) }",
    "MatMulInteger without zero points": "(uint8[5,4] u, uint8[4,6] k) => (y) { y = MatMulInteger (u, k) }",
    "ConvInteger": "(uint8[1,2,5,5] u, uint8[3,2,3,3] k) => (y) { y = ConvInteger <pads = [1, 1, 1, 1]> (u, k, z, p) }",
    "QLinearMatMul": "(uint8[5,4] u, int8[4,6] k) => (y) { y = QLinearMatMul (u, s, z, k, d, t, e, z) }",
    "QLinearMatMul of columns": "(uint8[5,4] u, int8[4,6] k) => (y) { y = QLinearMatMul (u, s, z, k, d6, t6, e, p) }",
    "QLinearConv": """(uint8[1,2,5,5] u, int8[3,2,3,3] k) => (y) {
        y = QLinearConv <pads = [1, 1, 1, 1]> (u, s, z, k, d, t, e, p)
    }""",
    "QLinearConv of channels": """(uint8[1,2,5,5] u, int8[3,2,3,3] k) => (y) {
        y = QLinearConv <strides = [2, 2]> (u, s, z, k, d3, t3, e, p, b3)
    }""",
    "DynamicQuantizeLinear": "(float[3,4] x) => (y, a, b) { y, a, b = DynamicQuantizeLinear (x) }",
    "QLinearAdd": "(uint8[3,4] u, uint8[4] k) => (y) { y = com.microsoft.QLinearAdd (u, s, z, k, d, p, e, z) }",
    "QLinearSigmoid": "(uint8[3,40] u) => (y) { y = com.microsoft.QLinearSigmoid (u, s, z, c, z0) }",
    "QLinearLeakyRelu": "(uint8[3,40] u) => (y) { y = com.microsoft.QLinearLeakyRelu <alpha = 0.2> (u, s, z, d, p) }",
    "QLinearConcat": """(uint8[3,4] u, uint8[3,2] k) => (y) {
        y = com.microsoft.QLinearConcat <axis = 1> (e, z, u, s, z, k, d, p)
    }""",
    "QGemm": "(uint8[5,4] u, int8[4,6] k) => (y) { y = com.microsoft.QGemm (u, s, z, k, d, t, c6, e, p) }",
    "QGemm of columns": """(uint8[4,5] u, int8[6,4] k) => (y) {
        y = com.microsoft.QGemm <transA = 1, transB = 1, alpha = 0.5> (u, s, z, k, d6, t6, c6, e, p)
    }""",
    "QLinearMul": "(uint8[3,4] u, uint8[4] k) => (y) { y = com.microsoft.QLinearMul (u, s, z, k, d, p, e) }",
}
NUMBERS: dict[str, Any] = {
    "s": np.float32(0.013),
    "d": np.float32(0.021),
    "e": np.float32(0.29),
    "c": np.float32(1 / 256),
    "z0": np.uint8(0),
    "z": np.uint8(119),
    "p": np.uint8(130),
    "t": np.int8(-3),
    "d3": np.array([0.01, 0.02, 0.03], "f4"),
    "t3": np.zeros(3, "i1"),
    "b3": np.array([-500, 0, 700], "i4"),
    "c6": np.array([-900, 500, 0, 77, 1000, -3], "i4"),
    "d6": np.linspace(0.01, 0.03, 6, dtype="f4"),
    "b6": np.linspace(-1, 1, 6, dtype="f4"),
    "b12": np.linspace(-1, 1, 12, dtype="f4"),
    "t6": np.arange(-3, 3, dtype="i1"),
}


def model_of(name: str) -> onnx.ModelProto:
    return with_numbers(parsed(GRAPHS[name], domains=DOMAIN))


def with_numbers(proto: onnx.ModelProto) -> onnx.ModelProto:
    used = {name for node in proto.graph.node for name in node.input}
    proto.graph.initializer.extend(
        [numpy_helper.from_array(np.asarray(value), name) for name, value in NUMBERS.items() if name in used]
    )
    return proto


def feed_of(proto: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    feed = {}
    for value in proto.graph.input:
        ty = value.type.tensor_type
        shape, dtype = [dim.dim_value for dim in ty.shape.dim], onnx.helper.tensor_dtype_to_np_dtype(ty.elem_type)
        if dtype == np.int8:
            drawn = random.integers(-64, 64, shape)  # Processors without VNNI saturate sums of products of eight bits.
        elif dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            drawn = random.integers(bounds.min, bounds.max, shape, endpoint=True)
        else:
            drawn = random.standard_normal(shape) * 3 + 1
        feed[value.name] = drawn.astype(dtype)
    return feed


@pytest.mark.parametrize("name", GRAPHS)
def test_the_bytes_are_those_of_the_runtime(name: str) -> None:
    proto = model_of(name)
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for seed in range(5):
        feed = feed_of(proto, seed)
        found, expected = evaluate(imported.function, feed), session.run(None, feed)
        for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [name for name in GRAPHS if "com." not in GRAPHS[name]])
def test_the_bytes_are_those_of_the_reference(name: str) -> None:
    proto = model_of(name)
    feed = feed_of(proto, 0)
    found = evaluate(import_model(from_proto(proto)).function, feed)
    for a, b in zip(
        found if isinstance(found, tuple) else (found,), ReferenceEvaluator(proto).run(None, feed), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "graph",
    [
        "(uint8[5,4] u, int8[4,6] k) => (y) { y = com.microsoft.MatMulIntegerToFloat (u, k, s, d6, z, t6, b6) }",
        "(uint8[2,5,4] u, uint8[4,6] k) => (y) { y = com.microsoft.MatMulIntegerToFloat (u, k, s, d, z, p) }",
        "(float[5,4] x, uint8[4,6] k) => (y) { y = com.microsoft.DynamicQuantizeMatMul (x, k, d, p, b6) }",
        "(uint8[5,4] u, int8[4,6] k) => (y) { y = com.microsoft.QGemm (u, s, z, k, d, t) }",
        """(uint8[2,3,4] u, int8[4,12] k) => (y) {
            y = com.microsoft.QAttention <num_heads = 2> (u, k, b12, s, d, , z, t)
        }""",
        """(uint8[2,3,4] u, int8[4,12] k, int32[2,3] m) => (y) {
            y = com.microsoft.QAttention <num_heads = 2, unidirectional = 1> (u, k, b12, s, d, m, z, t)
        }""",
        """(float[2,40] x, uint8[6,3,8] u, float[18] g) => (y) {
            y = com.microsoft.MatMulNBits <K = 40, N = 6, bits = 4, block_size = 16> (x, u, g)
        }""",
        """(float[2,40] x, uint8[6,3,8] u, float[18] g, uint8[12] v) => (y) {
            y = com.microsoft.MatMulNBits <K = 40, N = 6, bits = 4, block_size = 16> (x, u, g, v, , b6)
        }""",
        """(float[2,3,32] x, uint8[6,2,16] u, float[6,2] g) => (y) {
            y = com.microsoft.MatMulNBits <K = 32, N = 6, bits = 8, block_size = 16> (x, u, g)
        }""",
    ],
)
def test_products_in_real_numbers_are_those_of_the_runtime(graph: str) -> None:
    proto = with_numbers(parsed(graph, domains=DOMAIN))
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    feed = feed_of(proto, 0)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feed)
    least = 1e-6 * max(10, np.abs(expected).max())  # Sums of large products lose the last digits of small results.
    np.testing.assert_allclose(evaluate(imported.function, feed), expected, rtol=1e-5, atol=least)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_node_stays_as_it_is(name: str) -> None:
    proto = model_of(name)
    for after in (round_trip(proto), optimized(proto)):
        assert [list(node.input) for node in after.graph.node] == [list(node.input) for node in proto.graph.node]


def test_data_are_quantized_once() -> None:
    proto = parsed(
        """(float[3,4] x, int8[4,2] k, int8[4,2] l) => (y, z) {
            a, s, p = DynamicQuantizeLinear (x)
            b, t, q = DynamicQuantizeLinear (x)
            y = MatMulInteger (a, k, p)
            z = MatMulInteger (b, l, q)
        }"""
    )
    assert operators(optimized(proto).graph) == {"DynamicQuantizeLinear": 1, "MatMulInteger": 2}


def test_quantized_zeros_have_a_scale() -> None:
    imported = import_model(from_proto(model_of("DynamicQuantizeLinear")))
    feed = {"x": np.zeros((3, 4), "f4")}
    session = onnxruntime.InferenceSession(
        model_of("DynamicQuantizeLinear").SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for a, b in zip(evaluate(imported.function, feed), session.run(None, feed), strict=True):
        np.testing.assert_array_equal(a, b)

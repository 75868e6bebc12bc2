"""Operators of ONNX Runtime's own domain that have definitions: these compute what the runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from eqsat.onnx import import_model
from eqsat.onnx.files import from_proto
from eqsat.relay.interpreter import evaluate

from .models import operators, optimized, parsed, round_trip

onnxruntime = pytest.importorskip("onnxruntime")

DOMAIN = ', "com.microsoft": 1'
CASES = {
    "Gelu": (20, "(float[2,5] x) => (y) { y = Gelu (x) }"),
    "Gelu17": (17, "(float[2,5] x) => (y) { y = Gelu (x) }"),
    "BiasGelu": (20, "(float[2,5] x, float[5] b) => (y) { y = BiasGelu (x, b) }"),
    "FastGelu": (20, "(float[2,5] x, float[5] b) => (y) { y = FastGelu (x, b) }"),
    "FastGelu1": (20, "(float[2,5] x) => (y) { y = FastGelu (x) }"),
    "QuickGelu": (17, "(float[2,5] x) => (y) { y = QuickGelu (x) }"),
    "FusedMatMul": (17, "(float[2,5,4] x, float[2,5,3] z) => (y) { y = FusedMatMul <transA = 1, alpha=0.5> (x, z) }"),
    "FusedMatMul1": (17, "(float[2,4,5] x, float[5,3] z) => (y) { y = FusedMatMul (x, z) }"),
    "FusedConv": (
        17,
        "(float[1,3,6,6] x, float[4,3,3,3] w, float[4] b) "
        '=> (y) { y = FusedConv <kernel_shape=[3,3], activation = "Relu"> (x, w, b) }',
    ),
    "FusedConvZ": (
        17,
        "(float[1,3,6,6] x, float[4,3,3,3] w, float[4] b, float[1,4,4,4] z) "
        '=> (y) { y = FusedConv <activation = "LeakyRelu", activation_params=[0.1]> (x, w, b, z) }',
    ),
    "FusedGemm": (
        17,
        '(float[4,3] x, float[5,3] w, float[5] b) => (y) { y = FusedGemm <transB=1, activation = "Relu"> (x, w, b) }',
    ),
    "SkipLN": (
        17,
        "(float[2,3,8] x, float[2,3,8] s, float[8] g, float[8] b, float[8] c) "
        "=> (y, t) { y,m,i,t = SkipLayerNormalization <epsilon=0.001> (x, s, g, b, c) }",
    ),
    "SkipLN2": (17, "(float[2,3,8] x, float[2,3,8] s, float[8] g) => (y) { y = SkipLayerNormalization (x, s, g) }"),
    "SkipRMS": (
        17,
        "(float[2,3,8] x, float[2,3,8] s, float[8] g) "
        "=> (y, t) { y,m,i,t = SkipSimplifiedLayerNormalization <epsilon=0.001> (x, s, g) }",
    ),
    "SLN": (17, "(float[2,3,8] x, float[8] g) => (y) { y = SimplifiedLayerNormalization <epsilon=0.001> (x, g) }"),
    "SLN23": (23, "(float[2,3,8] x, float[8] g) => (y) { y = SimplifiedLayerNormalization <epsilon=0.001> (x, g) }"),
    "EmbedLN": (
        17,
        "(int32[2,3] i, int32[2,3] j, float[6,8] w, float[5,8] p, float[2,8] q, float[8] g, float[8] b) "
        "=> (y) { y, m = EmbedLayerNormalization (i, j, w, p, q, g, b) }",
    ),
    "MHA": (
        17,
        "(float[2,3,8] q, float[2,4,8] k, float[2,4,8] v, float[24] b) "
        "=> (y) { y = MultiHeadAttention <num_heads=2> (q, k, v, b) }",
    ),
    "MHAb": (
        23,
        "(float[2,3,8] q, float[2,4,8] k, float[2,4,8] v, float[1,2,3,4] a) "
        "=> (y) { y = MultiHeadAttention <num_heads=2> (q, k, v, , , a) }",
    ),
    "MHAmask": (
        17,
        "(float[2,3,8] q, float[2,4,8] k, float[2,4,8] v, int32[2,4] m, float[1,2,3,4] a) "
        "=> (y) { y = MultiHeadAttention <num_heads=2> (q, k, v, , m, a) }",
    ),
    "MHAmask3": (
        23,
        "(float[2,3,8] q, float[2,4,8] k, float[2,4,8] v, int32[2,3,4] m) "
        "=> (y) { y = MultiHeadAttention <num_heads=2, mask_filter_value=-5.0> (q, k, v, , m) }",
    ),
    "MHAends": (
        17,
        "(float[2,3,8] q, float[2,4,8] k, float[2,4,8] v) => (y) <int32[2] m = {2, 3}> "
        "{ y = MultiHeadAttention <num_heads=2> (q, k, v, , m) }",
    ),
    "MHApast": (
        17,
        "(float[2,3,8] q, float[2,3,8] k, float[2,3,8] v, int32[2,5] m, float[2,2,2,4] c, float[2,2,2,4] d) "
        "=> (y, e, f) { y, e, f = MultiHeadAttention <num_heads=2> (q, k, v, , m, , c, d) }",
    ),
    "GQA": (
        17,
        "(float[2,3,32] q, float[2,3,16] k, float[2,3,16] v) => (y, e, f) <int32[2] l = {2, 2}, int32 t = {3}> "
        "{ y, e, f = GroupQueryAttention <num_heads=4, kv_num_heads=2> (q, k, v, , , l, t) }",
    ),
    "GQAwindow": (
        17,
        "(float[2,4,32] q, float[2,4,16] k, float[2,4,16] v) => (y, e, f) <int32[2] l = {3, 3}, int32 t = {4}> "
        "{ y, e, f = GroupQueryAttention <num_heads=4, kv_num_heads=2, local_window_size=2> (q, k, v, , , l, t) }",
    ),
    "GQApast": (
        17,
        "(float[2,1,32] q, float[2,1,16] k, float[2,1,16] v, float[2,2,2,8] c, float[2,2,2,8] d) "
        "=> (y, e, f) <int32[2] l = {2, 2}, int32 t = {3}> "
        "{ y, e, f = GroupQueryAttention <num_heads=4, kv_num_heads=2, softcap=2.0> (q, k, v, c, d, l, t) }",
    ),
    "GQArotary": (
        17,
        "(float[2,3,64] q, float[2,3,32] k, float[2,3,32] v, float[5,8] c, float[5,8] s) "
        "=> (y, e, f) <int32[2] l = {2, 2}, int32 t = {3}> "
        "{ y, e, f = GroupQueryAttention <num_heads=4, kv_num_heads=2, do_rotary=1> (q, k, v, , , l, t, c, s) }",
    ),
    "Attention": (17, "(float[2,3,8] x, float[8,24] w, float[24] b) => (y) { y = Attention <num_heads=2> (x, w, b) }"),
    "AttentionU": (
        17,
        "(float[2,3,8] x, float[8,24] w, float[24] b) "
        "=> (y) { y = Attention <num_heads=2, unidirectional=1> (x, w, b) }",
    ),
    "AttentionM": (
        17,
        "(float[2,3,8] x, float[8,24] w, float[24] b, int32[2,3] m) "
        "=> (y) { y = Attention <num_heads=2> (x, w, b, m) }",
    ),
    "AttentionM3": (
        17,
        "(float[2,3,8] x, float[8,24] w, float[24] b, int32[2,3,3] m, float[1,2,3,3] a) "
        "=> (y) { y = Attention <num_heads=2> (x, w, b, m, , a) }",
    ),
    "AttentionE": (
        17,
        "(float[2,3,8] x, float[8,24] w, float[24] b) => (y) <int32[4] m = {2, 3, 0, 1}> "
        "{ y = Attention <num_heads=2> (x, w, b, m) }",
    ),
    "AttentionP": (
        17,
        "(float[2,3,8] x, float[8,24] w, float[24] b, int32[2,5] m, float[2,2,2,2,4] p) "
        "=> (y, q) { y, q = Attention <num_heads=2, unidirectional=1> (x, w, b, m, p) }",
    ),
    "AttentionS": (
        17,
        "(float[2,3,8] x, float[8,20] w, float[20] b) "
        "=> (y) { y = Attention <num_heads=2, qkv_hidden_sizes=[8,8,4]> (x, w, b) }",
    ),
    "Rotary": (
        17,
        "(float[2,3,8] x, int64[2,3] p, float[5,2] c, float[5,2] s) "
        "=> (y) { y = RotaryEmbedding <num_heads=2> (x, p, c, s) }",
    ),
    "Rotary4": (
        23,
        "(float[2,2,3,4] x, int64[2,3] p, float[5,2] c, float[5,2] s) => (y) { y = RotaryEmbedding (x, p, c, s) }",
    ),
    "Q": (17, "(float[2,5] x) => (y) <float s={0.1}, uint8 z={3}> { y = QuantizeLinear (x, s, z) }"),
    "DQ": (17, "(uint8[2,5] x) => (y) <float s={0.1}, uint8 z={3}> { y = DequantizeLinear (x, s, z) }"),
}
"""Name of a case -> the opset and the graph, whose operators but SimplifiedLayerNormalization are the runtime's."""


def model_of(name: str) -> onnx.ModelProto:
    opset, graph = CASES[name]
    proto = parsed(graph, opset, domains=DOMAIN)
    for node in proto.graph.node:
        node.domain = "" if node.op_type == "SimplifiedLayerNormalization" else "com.microsoft"
    return proto


def feed_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    feed = {}
    for value in proto.graph.input:
        ty = value.type.tensor_type
        shape, dtype = [dim.dim_value for dim in ty.shape.dim], helper.tensor_dtype_to_np_dtype(ty.elem_type)
        drawn = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        feed[value.name] = drawn.astype(dtype)
    return feed


def results(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feed)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_definition_computes_what_the_runtime_does(name: str) -> None:
    proto = model_of(name)
    imported = import_model(from_proto(proto))
    assert not imported.opaque
    feed = feed_of(proto)
    found, expected = evaluate(imported.function, feed), results(proto, feed)
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_node_stays_one_node(name: str) -> None:
    proto = model_of(name)
    feed = feed_of(proto)
    expected = results(proto, feed)
    for after in (round_trip(proto), optimized(proto)):
        assert sum(operators(after.graph).values()) == 1
        for a, b in zip(results(after, feed), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_has_a_standard_name_gets_it() -> None:
    for name, opset in {"Gelu": 20, "FusedMatMul1": 17, "Q": 17, "DQ": 17}.items():
        after = round_trip(model_of(name))
        assert [node.domain for node in after.graph.node] == [""], (name, opset)
    assert [node.domain for node in round_trip(model_of("Gelu17")).graph.node] == ["com.microsoft"]


def test_a_definition_takes_part_in_the_choice() -> None:
    proto = parsed(
        """(float[2,5,4] x, float[2,5,3] z) => (float[2,4,3] y) {
            t = Transpose <perm = [0, 2, 1]> (x)
            n = Neg (t)
            u = Neg (n)
            y = com.microsoft.FusedMatMul <transA = 1, alpha = 1.0> (x, z)
            w = com.microsoft.FusedMatMul (u, z)
        }""".replace("float[2,4,3] y", "float[2,4,3] y, float[2,4,3] w"),
        domains=DOMAIN,
    )
    feed = feed_of(proto)
    after = optimized(proto)
    assert sum(operators(after.graph).values()) <= 2, "both are one product of one transposed matrix"
    for a, b in zip(results(after, feed), results(proto, feed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_equal_nodes_are_one() -> None:
    proto = parsed(
        """(float[2,3,8] x, float[8,24] w, int32[2] m) => (float[2,3,8] y) {
            a = com.microsoft.Attention <num_heads = 2> (x, w, , m)
            b = com.microsoft.Attention <num_heads = 2> (x, w, , m)
            y = Add (a, b)
        }""",
        domains=DOMAIN,
    )
    assert operators(optimized(proto).graph) == {"Attention": 1, "Mul": 1}


def test_a_definition_over_constants_is_a_constant() -> None:
    proto = parsed(
        """(float[2] x) => (float[2] y) <float[2] c = {1.0, -1.0}> {
            g = com.microsoft.BiasGelu (c, c)
            y = Add (x, g)
        }""",
        domains=DOMAIN,
    )
    assert operators(optimized(proto).graph) == {"Add": 1}


@pytest.mark.parametrize(
    "node",
    [
        "com.microsoft.FusedMatMul <transBatchA = 1> (x, x)",
        'com.microsoft.FusedGemm <activation = "Mystery"> (m, m)',
        "com.microsoft.BiasGelu (x)",
        "com.microsoft.Attention <num_heads = 2, do_rotary = 1> (x, m, b)",
    ],
)
def test_what_is_not_defined_passes_through(node: str) -> None:
    proto = parsed(f"(float[2,4,4] x, float[4,4] m, float[4] b) => (y) {{ y = {node} }}", domains=DOMAIN)
    assert import_model(from_proto(proto)).opaque
    assert round_trip(proto).graph.node[0] == proto.graph.node[0]

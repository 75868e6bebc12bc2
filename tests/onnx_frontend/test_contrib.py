"""Operators of ONNX Runtime's own domain: what they give is known, so that what asks for its sizes is too."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from eqsat.onnx import verify
from eqsat.onnx.files import from_proto

from .models import operators, optimized, parsed

DOMAIN = ', "com.microsoft": 1'


@pytest.mark.parametrize(
    "node",
    [
        "r = com.microsoft.Gelu (x)",
        "r, mean = com.microsoft.SkipLayerNormalization (x, x, g)",
        "r = com.microsoft.QLinearAdd (q, s, z, p, s, z, s, z)",
        "r = com.microsoft.QLinearConcat <axis = 1> (s, z, q, s, z, q, s, z)",
        "r = com.microsoft.DynamicQuantizeMatMul (x, k)",
        "r = com.microsoft.QGemm <transA = 1> (m, s, z, k, s, s, , s, z)",
        "r = com.microsoft.DynamicQuantizeLSTM <hidden_size = 3> (x, w)",
    ],
)
def test_a_size_of_a_result_is_a_constant(node: str) -> None:
    inputs = "float[2,N,4] x, uint8[2,N,4] q, uint8[N,1] p, float s, uint8 z, "
    inputs += "float[1,4,12] w, float[4] g, float[4,3] k, uint8[4,2] m"
    graph = f"({inputs}) => (int64[1] y) {{ {node} y = Shape <start = 0, end = 1> (r) }}"
    assert operators(optimized(parsed(graph, domains=DOMAIN)).graph) == {"Constant": 1}


@pytest.mark.parametrize("node", ["r = com.microsoft.Mystery (x)", "r = com.microsoft.QLinearAdd (q, s, z)"])
def test_what_is_not_known_is_computed(node: str) -> None:
    graph = f"(float[2,N,4] x, uint8[2,4] q, float s, uint8 z) => (int64[1] y) {{ {node} y = Size (r) }}"
    assert "Size" in operators(optimized(parsed(graph, domains=DOMAIN)).graph)


def test_states_of_zeros_are_none() -> None:
    proto = parsed(
        """(float[5,N,4] x) => (y) {
            n = Shape <start = 1, end = 2> (x)
            shape = Concat <axis = 0> (one, n, three)
            state = Expand (zero, shape)
            y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 3> (x, w, r, , , state, state, , s, z, s, z)
        }""",
        domains=DOMAIN,
    )
    random = np.random.default_rng(0)
    weights = {name: random.integers(-99, 99, (1, size, 12)).astype("i1") for name, size in (("w", 4), ("r", 3))}
    numbers = {"one": [1], "three": [3]}
    arrays = {**weights, **{name: np.array(value) for name, value in numbers.items()}}
    arrays |= {"s": np.array([0.01], "f4"), "z": np.array([0], "i1"), "zero": np.array(0, "f4")}
    proto.graph.initializer.extend([numpy_helper.from_array(array, name) for name, array in arrays.items()])
    after = optimized(proto)
    assert operators(after.graph) == {"DynamicQuantizeLSTM": 1}
    assert verify(from_proto(proto), from_proto(after))[0].relative == 0


def test_a_part_of_a_shape_is_one_node() -> None:
    proto = parsed("(float[N,M,K] x) => (int64[2] y) { y = Shape <start = 1, end = 3> (x) }", opset=17)
    assert operators(optimized(proto).graph) == {"Shape": 1}
    older = parsed("(float[N,M,K] x) => (int64[2] y) { s = Shape (x) y = Slice (s, b, e) }", opset=13)
    older.graph.initializer.extend([numpy_helper.from_array(np.array([at]), name) for name, at in (("b", 1), ("e", 3))])
    assert operators(optimized(older).graph) == {"Shape": 1, "Slice": 1}

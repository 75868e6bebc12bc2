"""The table of a runtime's kernels says what that runtime does: onnxruntime itself is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from eqsat.cost import OpCount
from eqsat.cost.runtimes import RUNTIMES, kernels_of
from eqsat.errors import ArgumentError
from eqsat.onnx import run, to_bytes
from eqsat.onnx.files import from_proto

from .models import parsed, with_weights

REORDERED = ("ReorderInput", "ReorderOutput")
"""What onnxruntime adds around convolutions to lay their data out for the processor."""

GELU = "d = Div (t, root) e = Erf (d) s = Add (e, one)"
CONSTANTS = "float root = {1.41421356}, float one = {1}, float half = {0.5}, float two = {2}, float tiny = {0.00001}"
MEANS = "m = ReduceMean <axes = [-1], keepdims = 1> "
MATRICES = "(float[4,8] x) => (float[4,8] y)"
STACKS = "(float[2,4,8] x, float[2,8,4] z) => (float[2,4,4] y)"
TURNED = "(float[2,4,8] x, float[2,4,8] z) => (float[2,4,4] y)"
IMAGES = "(float[1,2,8,8] x) => (float[1,3,6,6] y)"

FUSED = {
    "FusedConv.nn.relu": f"{IMAGES} {{ c = Conv (x, k, b) y = Relu (c) }}",
    "FusedConv.sigmoid": f"{IMAGES} {{ c = Conv (x, k) y = Sigmoid (c) }}",
    "FusedConv.tanh": f"{IMAGES} {{ c = Conv (x, k) y = Tanh (c) }}",
    "FusedConv.nn.leaky_relu": f"{IMAGES} {{ c = Conv (x, k) y = LeakyRelu (c) }}",
    "FusedConv.nn.hard_sigmoid": f"{IMAGES} {{ c = Conv (x, k) y = HardSigmoid (c) }}",
    "FusedConv.clip": f"{IMAGES} <float six = {{6}}, float zero = {{0}}> {{ c = Conv (x, k) y = Clip (c, zero, six) }}",
    "FusedGemm.nn.relu": f"{MATRICES} {{ g = MatMul (x, w) s = Add (g, v) y = Relu (s) }}",
    "FusedGemm.sigmoid": f"{MATRICES} {{ g = Gemm (x, w, v) y = Sigmoid (g) }}",
    "FusedGemm.tanh": f"{MATRICES} {{ g = Gemm <transB = 1> (x, w) y = Tanh (g) }}",
    "FusedGemm.nn.leaky_relu": f"{MATRICES} {{ g = Gemm (x, w, v) y = LeakyRelu (g) }}",
    "BiasGelu": f"{MATRICES} <{CONSTANTS}> {{ t = Add (x, v) {GELU} p = Mul (t, s) y = Mul (p, half) }}",
    "Gelu": f"{MATRICES} <{CONSTANTS}> {{ t = Identity (x) {GELU} p = Mul (t, half) y = Mul (p, s) }}",
    "QuickGelu": f"{MATRICES} {{ s = Sigmoid (x) y = Mul (x, s) }}",
    "SkipLayerNormalization": "(float[2,4,8] x, float[2,4,8] z) => (float[2,4,8] y)"
    "{ s = Add (x, z) y = LayerNormalization (s, v, v) }",
    "LayerNormalization": f"{MATRICES} <{CONSTANTS}> {{ {MEANS} (x) d = Sub (x, m) q = Pow (d, two)"
    " r = ReduceMean <axes = [-1], keepdims = 1> (q) e = Add (r, tiny) o = Sqrt (e) n = Div (d, o)"
    " g = Mul (n, v) y = Add (g, v) }",
    "SimplifiedLayerNormalization": f"{MATRICES} <{CONSTANTS}> {{ q = Pow (x, two) {MEANS} (q) e = Add (m, tiny)"
    " o = Sqrt (e) n = Div (x, o) y = Mul (n, v) }",
    "FusedMatMul": f"{TURNED} {{ t = Transpose <perm = [0, 2, 1]> (z) y = MatMul (x, t) }}",
}
"""Name of an entry -> a model that is one kernel of it."""

MORE = [
    f"{STACKS} <{CONSTANTS}> {{ p = MatMul (x, z) y = Mul (p, half) }}",
    f"{STACKS} <{CONSTANTS}> {{ p = Mul (x, half) y = MatMul (p, z) }}",
    f"{TURNED} <{CONSTANTS}> {{ t = Transpose <perm = [0, 2, 1]> (z) p = MatMul (x, t) y = Div (p, two) }}",
    f"{MATRICES} <{CONSTANTS}> {{ t = Identity (x) {GELU} p = Mul (t, s) y = Mul (p, half) }}",
    f"{MATRICES} <{CONSTANTS}> {{ a = Mul (x, two) s = Sigmoid (a) y = Mul (x, s) }}",
]

APART = [
    f"{MATRICES} {{ g = MatMul (x, w) y = Relu (g) }}",
    f"{IMAGES} {{ c = Conv (x, k, b) y = Elu (c) }}",
    f"{MATRICES} <{CONSTANTS}> {{ t = Identity (x) {GELU} p = Mul (s, half) y = Mul (t, p) }}",
]
"""Models of which no pair is fused, or not all."""


def model(text: str) -> onnx.ModelProto:
    return with_weights(parsed(text, opset=17), k=(3, 2, 3, 3), b=(3,), w=(8, 8), v=(8,))


def kernels(proto: onnx.ModelProto, folder: Path) -> int:
    """The kernels that onnxruntime runs for a model."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "fused.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return sum(node.op_type not in REORDERED for node in onnx.load(options.optimized_model_filepath).graph.node)


def cost(proto: onnx.ModelProto) -> float:
    """The kernels that the table counts in a model as it is."""
    return run(from_proto(proto), (), cost_model=OpCount(), runtime="onnxruntime").input_cost


def test_every_entry_is_shown() -> None:
    assert set(FUSED) == {name for name, *_ in RUNTIMES["onnxruntime"]}


@pytest.mark.parametrize("text", [*FUSED.values(), *MORE])
def test_what_the_table_says_is_one_kernel_is_one(text: str, tmp_path: Path) -> None:
    assert kernels(model(text), tmp_path) == cost(model(text)) == 1


@pytest.mark.parametrize("text", APART)
def test_what_the_runtime_does_not_fuse_is_counted_apart(text: str, tmp_path: Path) -> None:
    assert kernels(model(text), tmp_path) == cost(model(text)) > 1


def test_a_value_that_is_used_elsewhere_is_not_fused() -> None:
    text = "(float[1,2,8,8] x) => (float[1,3,6,6] y, float[1,3,6,6] c) { c = Conv (x, k, b) y = Relu (c) }"
    assert cost(model(text)) == 2


def test_gelu_stays_whole_for_a_runtime_that_knows_it(tmp_path: Path) -> None:
    """Weights could take its scales: nodes less, and kernels more."""
    given = model(
        f"{MATRICES} <{CONSTANTS}> {{ t = MatMul (x, w) {GELU} p = Mul (t, s) g = Mul (p, half) y = MatMul (g, w) }}"
    )
    anywhere = run(from_proto(given))
    there = run(from_proto(given), runtime="onnxruntime")
    assert (anywhere.cost, there.cost) == (5, 3)
    assert kernels(onnx.load_from_string(to_bytes(there.after)), tmp_path) == 3


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(ArgumentError, match="there is no runtime 'tpu'; known are none, onnxruntime, openvino"):
        kernels_of("tpu")
    assert np.size(kernels_of("none")) == 0

"""Optimized models compute the same and are cheaper."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import eqsat
from eqsat.extraction import Roofline
from eqsat.onnx import at_opset, from_bytes, load, optimize, proved, run, verify
from eqsat.onnx.files import from_proto
from eqsat.rules import rewrite, variables

from .models import benchmark_module, chain, conv_batch_norm, operators, optimized, parsed, with_weights

filled_models = benchmark_module("filled_models")


def outputs(proto: onnx.ModelProto, **feed: Any) -> list[Any]:
    """What onnxruntime computes, with its own optimizer off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


# ---- what a call takes and gives


def test_the_same_type_comes_back() -> None:
    proto = conv_batch_norm()
    assert isinstance(optimize(proto), onnx.ModelProto)
    assert isinstance(optimize(from_proto(proto)), ir.Model)
    assert eqsat.onnx.optimize is optimize


@pytest.mark.parametrize(
    "proto",
    [
        conv_batch_norm(),
        parsed("(float[2] x) => (float[2] y) { c = Constant <value = float[2] {1.0, 2.0}> () y = Mul (x, c) }"),
    ],
    ids=["weights", "a constant without a name of its own"],
)
def test_the_given_model_is_not_changed(proto: onnx.ModelProto) -> None:
    before = proto.SerializeToString(deterministic=True)
    optimize(proto)
    assert proto.SerializeToString(deterministic=True) == before
    model = from_bytes(before)
    as_read = ir.to_proto(model)
    run(model)
    assert ir.to_proto(model) == as_read


def test_own_rules() -> None:
    (x,) = variables("x")
    twice = rewrite("relu-relu", eqsat.relay.nn.relu(eqsat.relay.nn.relu(x)), eqsat.relay.nn.relu(x))
    proto = parsed("(float[4] x) => (float[4] y) { a = Relu (x) y = Relu (a) }")
    assert operators(optimized(proto, twice).graph) == {"Relu": 1}


def test_what_has_no_form_in_the_opset_is_not_chosen() -> None:
    """GELU is one node from opset 20 on and five before: with the roofline's costs as with the count."""
    gelu = """(float[4] x) => (float[4] y)
        <float r = {1.4142135}, float one = {1.0}, float half = {0.5}>
    { a = Div (x, r) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half) }"""
    for model in (None, Roofline()):
        old = run(from_proto(parsed(gelu, opset=17)), cost_model=model).after
        assert "Gelu" not in operators(old.graph)
        assert len(old.graph) <= 5
    assert operators(optimized(parsed(gelu, opset=20, ir_version=9)).graph) == {"Gelu": 1}


# ---- what becomes of graphs


def test_a_batch_norm_goes_into_its_convolution() -> None:
    proto = conv_batch_norm()
    after = optimized(proto)
    assert operators(after.graph) == {"Conv": 1, "Relu": 1}
    x = np.random.default_rng(0).standard_normal((1, 2, 8, 8)).astype("f4")
    np.testing.assert_allclose(outputs(after, x=x)[0], outputs(proto, x=x)[0], rtol=1e-5, atol=1e-5)


def test_a_bias_goes_into_its_product() -> None:
    proto = with_weights(
        parsed("(float[4,3] x) => (float[4,5] y) { p = MatMul (x, w) y = Add (p, b) }"), w=(3, 5), b=(5,)
    )
    assert operators(optimized(proto).graph) == {"Gemm": 1}


def test_scales_of_an_activation_go_into_the_weights_around_it() -> None:
    """Written out, gelu is x (1 + erf(x / sqrt 2)) / 2, of which two factors are left to the products."""
    proto = with_weights(
        parsed(
            "(float[4,3] x) => (float[4,5] y) { p = Gemm (x, w, b) s = Constant <value_float=1.41421354> ()"
            " d = Div (p, s) e = Erf (d) one = Constant <value_float=1.0> () o = Add (e, one) m = Mul (p, o)"
            " half = Constant <value_float=0.5> () h = Mul (m, half) y = Gemm (h, v, c) }"
        ),
        w=(3, 6),
        b=(6,),
        v=(6, 5),
        c=(5,),
    )
    assert operators(optimized(proto).graph) == {"Gemm": 2, "Erf": 1, "Add": 1, "Mul": 1}


def test_branches_of_a_constant_condition_are_taken() -> None:
    proto = parsed(
        """(float[4] x) => (float[4] y) <bool c = {0}> {
            y = If (c) <
                then_branch = t () => (float[4] p) { p = Exp (x) },
                else_branch = e () => (float[4] q) <float[1] zero = {0.0}> { a = Add (x, zero) q = Tanh (a) }
            >
        }"""
    )
    after = optimized(proto)
    assert operators(after.graph) == {"Tanh": 1}
    assert [value.name for value in after.graph.output] == ["y"]
    onnx.checker.check_model(after)


def test_unknown_operators_stand_between_known_ones() -> None:
    """Of what one gives the type is not known: adding zero to it may spread it."""
    proto = parsed(
        """(float[4] x) => (float[4] y) <float zero = {0.0}> {
            a = Add (x, zero)
            b = my.Secret (a)
            c = Add (b, zero)
            y = Neg (c)
        }""",
        domains=', "my": 1',
    )
    assert operators(optimized(proto).graph) == {"Secret": 1, "Add": 1, "Neg": 1}


def test_equal_unknown_operators_are_computed_once_unless_they_may_differ() -> None:
    """A standard operator without form in the IR is a function of its inputs; random numbers and strangers are not."""

    def twice(call: str) -> int:
        graph = f"(float[4] x) => (float[4] y) {{ a = {call} (x) b = {call} (x) y = Add (a, b) }}"
        return len(optimized(parsed(graph, domains=', "my": 1'), *[eqsat.rules.sets["fold"]]).graph.node)

    assert twice("MeanVarianceNormalization") == 2
    assert twice("my.Secret") == 3
    assert twice("RandomUniformLike") == 3


def test_a_folded_constant_does_not_grow_the_file() -> None:
    """A million zeros are not written out."""
    proto = parsed(
        """(float[2048,2048] x) => (float[2048,2048] y) <int64[2] s = {2048, 2048}> {
            z = ConstantOfShape <value = float[1] {2.0}> (s)
            e = Exp (z)
            y = Mul (x, e)
        }"""
    )
    assert len(optimized(proto).SerializeToString()) < 100_000


def test_names_of_dynamic_dimensions_are_kept() -> None:
    proto = parsed("(float[batch,3] x) => (float[batch,3] y) <float z = {0.0}> { a = Add (x, z) y = Tanh (a) }")
    after = optimized(proto)
    assert [dim.dim_param for dim in after.graph.input[0].type.tensor_type.shape.dim] == ["batch", ""]
    assert [dim.dim_param for dim in after.graph.output[0].type.tensor_type.shape.dim] == ["batch", ""]


def test_work_grows_in_proportion_to_the_length_of_a_chain() -> None:
    """Counted in e-nodes, and by recursion, which would fail."""
    sizes = []
    for length in (500, 5000):
        report = run(from_proto(chain(length)), [eqsat.rules.sets["algebra"]]).extraction.report
        sizes.append(report.iterations[-1].nodes)
    assert sizes[1] <= 10.5 * sizes[0]


# ---- real networks


@pytest.mark.slow
def test_resnet_50_has_no_batch_norm_left() -> None:
    """53 of them; 123 nodes is what the best of the other optimizers leave."""
    proto = filled_models.fill_weights(onnx.load(filled_models.light_model("resnet50")))
    assert operators(proto.graph)["BatchNormalization"] == 53
    before = from_proto(proto)
    done = run(before)
    assert "BatchNormalization" not in operators(done.after.graph)
    assert len(done.after.graph) <= 123
    assert done.extraction.optimal
    assert all(difference.relative <= 1e-4 for difference in verify(before, done.after, runs=1, mistakes=0, seconds=0))


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_small_networks(name: str) -> None:
    before = from_proto(filled_models.fill_weights(onnx.load(filled_models.light_model(name))))
    done = run(before)
    assert "BatchNormalization" not in operators(done.after.graph)
    assert len(done.after.graph) < len(before.graph)
    assert all(difference.relative <= 1e-4 for difference in verify(before, done.after, runs=1, mistakes=0, seconds=0))


@pytest.fixture
def magika() -> Any:
    """A trained network of 95 operators, which tells file types apart."""
    return load(sorted(Path(str(files("magika"))).glob("models/*/model.onnx"))[-1])


def test_a_trained_network(magika: Any) -> None:
    done = run(magika, explain=True)
    assert len(done.after.graph) <= 59
    assert not proved(done).uncovered
    assert all(difference.relative <= 1e-4 for difference in verify(magika, done.after, runs=2))


def test_a_trained_network_whose_bytes_are_in_range_over_a_newer_opset(magika: Any) -> None:
    sets = eqsat.rules.sets
    done = run(at_opset(magika, 20), [sets["default"], sets["finite"], sets["in_range"]], explain=True)
    assert not proved(done).uncovered
    assert dict(Counter(node.op_type for node in done.after.graph)) == {
        "Gather": 1, "Reshape": 1, "Unsqueeze": 1, "LayerNormalization": 2, "Transpose": 1, "Conv": 1, "Gelu": 1,
        "GlobalMaxPool": 1, "Squeeze": 2, "Gemm": 1, "Softmax": 1,
    }  # fmt: skip
    assert all(difference.relative <= 1e-4 for difference in verify(magika, done.after, runs=2))


def test_padding_that_keeps_the_size_needs_no_sizes() -> None:
    """With stride 1 it is the kernel's less one, whatever comes in."""
    proto = parsed(
        """(float[N,C,L] x) => (float[N,3,L] y) {
            c = Conv <auto_pad = "SAME_LOWER"> (x, w)
            n = BatchNormalization (c, gamma, beta, mean, variance)
            y = Relu (n)
        }"""
    )
    with_weights(proto, w=(3, 2, 4), gamma=(3,), beta=(3,), mean=(3,), variance=(3,))
    after = optimized(proto)
    assert operators(after.graph) == {"Conv": 1, "Relu": 1}
    for length in (5, 8):
        x = np.random.default_rng(0).standard_normal((2, 2, length)).astype("f4")
        np.testing.assert_allclose(outputs(after, x=x)[0], outputs(proto, x=x)[0], rtol=1e-4, atol=1e-5)


def test_what_is_quantized_by_its_values_is_not_rounded_otherwise() -> None:
    """Two scales in a row: one only where a last bit does not decide how all is quantized."""
    scaled = "a = Mul (x, s) b = Mul (a, s)"
    shape = "(float[2,3] x) => (y)"
    quantized = parsed(f"{shape} <float s = {{0.3}}> {{ {scaled} y, scale, point = DynamicQuantizeLinear (b) }}")
    plain = parsed(f"{shape} <float s = {{0.3}}> {{ {scaled} y = Exp (b) }}")
    assert operators(optimized(quantized).graph) == {"Mul": 2, "DynamicQuantizeLinear": 1}
    assert operators(optimized(plain).graph) == {"Mul": 1, "Exp": 1}


def test_weights_are_quantized_once_and_for_all() -> None:
    proto = parsed(
        """(float[2,3] x) => (y) <float s = {0.02}, int8 z = {3}, float[3,4] w = {
            0.01, -0.01, 0.03, 9.0, -9.0, 0.5, 0.25, 0.1, 0.2, 0.3, 0.4, 0.05
        }> { q = QuantizeLinear (w, s, z) d = DequantizeLinear (q, s, z) y = MatMul (x, d) }""",
        opset=19,
    )
    after = optimized(proto)
    assert operators(after.graph) == {"DequantizeLinear": 1, "MatMul": 1}
    x = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    expected, found = (ReferenceEvaluator(each).run(None, {"x": x})[0] for each in (proto, after))
    np.testing.assert_array_equal(found, expected)

"""The shipped pattern tables: what each takes, what it leaves, and what follows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import extraction, relay
from eqsat.relay import nn, qnn, transform
from eqsat.relay.expr import Call, Function
from eqsat.relay.op.contrib import dnnl, get_pattern_table, tensorrt
from eqsat.relay.structural import assert_structural_equal

TARGETS = ["dnnl", "tensorrt"]


def var(name: str, *shape: int, dtype: str = "float32") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


def const(value: Any, dtype: str = "float32") -> Any:
    return relay.const(np.asarray(value, dtype))


def module(body: Any) -> eqsat.IRModule:
    return transform.InferType()(eqsat.IRModule.from_expr(body))


def composites(mod: eqsat.IRModule) -> list[str]:
    nodes = relay.visitor.post_order(mod["main"])
    calls = [node for node in nodes if isinstance(node, Call) and isinstance(node.op, Function)]
    return [str(call.op.attrs["Composite"]) for call in calls]


def merged(body: Any, target: str) -> list[str]:
    return composites(transform.MergeComposite(get_pattern_table(target))(module(body)))


def competing(body: Any, target: str, model: Any = None, cost: Any = None) -> Any:
    rules = eqsat.composite_rules(get_pattern_table(target), cost)
    return eqsat.extract(eqsat.saturate(module(body), rules), model or extraction.Roofline(target))


# ---- parts of networks

X = var("x", 1, 8, 6, 6)
M = var("m", 4, 8)


def conv(x: Any = X, bias: Any = None, **attrs: Any) -> Any:
    product = nn.conv2d(x, var("w", 8, 8, 3, 3), padding=1, **attrs)
    return product if bias is None else nn.bias_add(product, bias)


def dense(x: Any = M) -> Any:
    return nn.bias_add(nn.dense(x, var("u", 8, 8)), var("c", 8), axis=-1)


def gelu_by_erf(x: Any) -> Any:
    return x * const(0.5) * (relay.erf(x / const(math.sqrt(2))) + const(1.0))


def layer_norm(x: Any) -> Any:
    centred = x - relay.mean(x, axis=-1, keepdims=True)
    variance = relay.mean(relay.power(centred, const(2.0)), axis=-1, keepdims=True)
    return centred / relay.sqrt(variance + const(1e-5)) * var("gamma", 8) + var("beta", 8)


def attention() -> Any:
    q, k, v = (var(name, 2, 5, 4) for name in "qkv")
    scores = nn.batch_matmul(q, k) * const(0.5)
    return nn.batch_matmul(nn.softmax(scores), relay.transpose(v, (0, 2, 1)))


def quantized(product: Any) -> Any:
    zero, scale = const(0, "int32"), const(0.1)
    summed = nn.bias_add(product(zero, zero, scale, scale), const(np.arange(8), "int32"))
    narrowed = qnn.op.requantize(summed, scale, zero, scale, zero, out_dtype="int32")
    return relay.cast(relay.clip(narrowed, 0.0, 127.0), "int8")


def quantized_conv() -> Any:
    x, w = var("x", 1, 8, 6, 6, dtype="int8"), var("w", 8, 8, 3, 3, dtype="int8")
    attrs = {"kernel_size": (3, 3), "channels": 8, "padding": (1, 1)}
    return quantized(lambda *quantization: qnn.op.conv2d(x, w, *quantization, **attrs))


def quantized_dense() -> Any:
    x, w = var("x", 4, 8, dtype="int8"), var("w", 8, 8, dtype="int8")
    return quantized(lambda *quantization: qnn.op.dense(x, w, *quantization, units=8))


BIAS = var("b", 8)
MISH = (lambda y: y * relay.tanh(relay.log(relay.exp(y) + const(1.0))))(conv(bias=BIAS))
SWISH = (lambda y: y * relay.sigmoid(y))(conv(bias=BIAS))


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (nn.relu(conv(bias=BIAS)), "dnnl.conv2d_bias_relu"),
        (conv(bias=BIAS), "dnnl.conv2d_bias"),
        (nn.relu(conv() + var("b", 8, 1, 1)), "dnnl.conv2d_bias_relu"),
        (nn.relu(conv(bias=BIAS) + X), "dnnl.conv2d_bias_sum_relu"),
        (nn.relu(conv() + X), "dnnl.conv2d_sum_relu"),
        (relay.clip(conv(), 0.0, 6.0), "dnnl.conv2d_clip"),
        (SWISH, "dnnl.conv2d_bias_swish"),
        (MISH, "dnnl.conv2d_bias_mish"),
        (nn.relu(nn.conv2d_transpose(X, var("w", 8, 8, 3, 3))), "dnnl.deconv2d_relu"),
        (gelu_by_erf(dense()), "dnnl.dense_bias_gelu"),
        (nn.gelu(dense()), "dnnl.dense_bias_gelu"),
        (nn.batch_matmul(var("p", 2, 3, 4), var("q", 2, 5, 4)) + var("r", 5), "dnnl.matmul_bias"),
        (gelu_by_erf(M), "dnnl.gelu"),
        (layer_norm(M), "dnnl.layer_norm"),
        (quantized_conv(), "dnnl.qnn.conv2d"),
        (quantized_dense(), "dnnl.qnn.dense"),
    ],
)
def test_what_the_cpu_library_takes(body, name):
    assert merged(body, "dnnl") == [name]
    assert composites(competing(body, "dnnl").module) == [name]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (nn.relu(conv(bias=BIAS)), ["tensorrt.nn.conv2d_bias_relu"]),
        (nn.relu(conv(bias=BIAS) + X), ["tensorrt.nn.conv2d_bias_sum_relu"]),
        (attention(), ["tensorrt.transpose", "tensorrt.attention"]),
        (nn.relu(X + X), ["tensorrt.add_relu"]),
        (layer_norm(M), ["tensorrt.layer_norm_written_out"]),
        (nn.softmax(dense()), ["tensorrt.nn.dense_bias", "tensorrt.nn.softmax"]),
        (relay.concatenate((X, X), axis=1), ["tensorrt.concatenate"]),
        (relay.split(X, 2, axis=1)[1], ["tensorrt.split"]),
    ],
)
def test_what_the_accelerator_takes(body, names):
    assert merged(body, "tensorrt") == names
    assert composites(competing(body, "tensorrt").module) == names


@pytest.mark.parametrize(
    ("body", "target", "names"),
    [
        (conv() + var("b", 1, 8, 6, 6), "dnnl", ["dnnl.conv2d_sum"]),  # no bias: one number for each element
        (nn.relu(nn.dense(var("x", 4, 8, dtype="float64"), var("w", 8, 8, dtype="float64"))), "dnnl", []),
        (nn.softmax(M, axis=0), "tensorrt", []),
        (nn.relu(var("x", 4, 8, dtype="float64")), "tensorrt", []),
        (nn.relu(relay.var("x", shape=(relay.Any(), 8))), "tensorrt", []),
        (nn.max_pool2d(var("x", 1, 6, 6, 8), layout="NHWC"), "tensorrt", []),
    ],
)
def test_what_the_checks_refuse(body, target, names):
    assert merged(body, target) == names
    assert composites(competing(body, target).module) == names


def names_of(target: str) -> set[str]:
    return {name for name, _, _ in get_pattern_table(target)}


def test_code_generators_find_the_composites_of_the_cpu_library_by_the_names_of_tvm():
    eltwise = ("relu", "tanh", "sigmoid", "clip", "gelu", "swish", "mish")
    primitives = ("conv1d", "conv2d", "conv3d", "deconv2d", "deconv3d", "dense")
    followed = {f"dnnl.{each}{bias}_{last}" for each in primitives for bias in ("", "_bias") for last in eltwise}
    others = {"conv2d_bias_sum_relu", "conv2d_bias_sum", "dense_bias_sum", "qnn.conv2d", "qnn.dense"}
    expected = followed | {f"dnnl.{each}_bias" for each in primitives} | {f"dnnl.{each}" for each in others}
    assert expected <= names_of("dnnl")


def test_code_generators_find_the_composites_of_the_accelerator_by_the_names_of_tvm():
    of_networks = """
        conv1d conv2d conv3d conv2d_transpose conv3d_transpose dense bias_add batch_matmul relu leaky_relu pad
        batch_flatten softmax layer_norm batch_norm max_pool2d avg_pool2d max_pool3d avg_pool3d global_max_pool2d
        global_avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d"""
    of_tensors = """
        add subtract multiply divide power maximum minimum sigmoid tanh exp log sqrt abs negative clip sin cos atan
        ceil floor erf sum prod max min mean concatenate split squeeze expand_dims layout_transform transpose reshape
        strided_slice"""
    expected = {f"tensorrt.nn.{each}" for each in of_networks.split()} | {
        f"tensorrt.{each}" for each in of_tensors.split()
    }
    assert expected <= names_of("tensorrt")


@pytest.mark.parametrize("target", TARGETS)
def test_names_are_unique_and_of_their_target(target):
    names = [name for name, _, _ in get_pattern_table(target)]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"{target}.") for name in names)


def residual_net() -> Any:
    x = conv(bias=BIAS)
    for _ in range(3):
        x = nn.relu(conv(x, BIAS) + x)
    return nn.softmax(nn.dense(nn.batch_flatten(nn.global_avg_pool2d(x)), var("u", 10, 8)))


@pytest.mark.parametrize("target", TARGETS)
def test_the_cover_of_a_network_is_that_of_the_table_largest_first(target):
    best = competing(residual_net(), target)
    merge = transform.MergeComposite(get_pattern_table(target))
    assert_structural_equal(transform.InferType()(best.module), merge(module(residual_net())))
    assert best.cost < best.input_cost
    assert best.optimal


def test_the_whole_network_goes_to_the_accelerator():
    best = transform.InferType()(competing(residual_net(), "tensorrt").module)
    steps = [transform.AnnotateTarget("tensorrt"), transform.MergeCompilerRegions(), transform.PartitionGraph()]
    result = transform.Sequential(steps)(best)
    external = [name for name, function in result.functions.items() if "Compiler" in function.attrs]
    assert len(external) == 1
    assert isinstance(result["main"].body, Call)


def test_single_operators_of_the_cpu_library_are_annotated_too():
    steps = [transform.AnnotateTarget("dnnl"), transform.MergeCompilerRegions(), transform.PartitionGraph()]
    result = transform.Sequential(steps)(module(nn.softmax(nn.dense(M, var("u", 8, 8)))))
    assert [name for name, function in result.functions.items() if function.attrs.get("Compiler") == "dnnl"]


def test_a_fast_device_takes_what_it_can_and_a_slow_one_nothing():
    """The profile of the device that composites run on decides whether they are worth it."""
    host = extraction.Roofline("cpu")
    wide = nn.relu(nn.dense(var("x", 256, 512), var("w", 512, 512)))
    fast = competing(wide, "tensorrt", host, extraction.Roofline("tensorrt"))
    slow = competing(wide, "tensorrt", host, extraction.Roofline(_slow()))
    assert composites(fast.module) == ["tensorrt.nn.dense_relu"]
    assert fast.cost < 0.1 * fast.input_cost
    assert composites(slow.module) == []


def _slow() -> Any:
    from dataclasses import replace

    return replace(extraction.Roofline("tensorrt").device, launch=1.0)


def test_tables_are_made_of_their_parts():
    assert {name for name, _, _ in dnnl.product_entries("conv2d")} >= {"dnnl.conv2d_bias", "dnnl.conv2d_bias_sum_gelu"}
    assert {name for name, _, _ in tensorrt.singles()} >= {"tensorrt.nn.conv2d", "tensorrt.concatenate"}

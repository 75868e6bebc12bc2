"""Trained networks for oneDNN: batch norms go into weights and biases, tables of patterns take what is left.

The numbers are those of functions for the external compiler: one for each composite, and one for each operator
that no pattern takes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import transform
from eqsat.relay.dataflow_pattern import is_op, wildcard
from eqsat.relay.op.contrib import dnnl  # registers which operators the target takes alone
from eqsat.relay.visitor import post_order

from .compilers import assert_same_values, called_ops, external, functions_in, module, var

nn = relay.nn
TARGET = dnnl.__name__.rpartition(".")[2]


def pattern(*parts):
    """A row of a table: a convolution, then the parts."""
    value = is_op("nn.conv2d")(wildcard(), wildcard())
    for part in parts:
        value = is_op(part)(value, wildcard()) if part == "add" else is_op(part)(value)
    return "_".join((f"{TARGET}.conv2d", *parts)), value


BIAS, RELU, SIGMOID = pattern("add"), pattern("nn.relu"), pattern("sigmoid")
BIAS_RELU, BIAS_SIGMOID = pattern("add", "nn.relu"), pattern("add", "sigmoid")


class Parameters:
    """Values of the parameters of a network; weights have both signs and keep the size of the data."""

    def __init__(self):
        self.random = np.random.default_rng(0)

    def __call__(self, *shape):
        if len(shape) == 1:
            return relay.const(self.random.uniform(0.5, 1, shape).astype("float32"))
        return relay.const(self.random.normal(0, 2 / np.sqrt(np.prod(shape[1:])), shape).astype("float32"))


def block(x, parts, channels, new, inputs, **attrs):
    """A convolution followed by the parts."""
    groups = attrs.get("groups", 1)
    x = nn.conv2d(x, new(channels, inputs // groups, 3, 3), padding=1, **attrs)
    for part in parts:
        if part == "bias":
            x = nn.bias_add(x, new(channels))
        elif part == "norm":
            x = nn.batch_norm(x, *(new(channels) for _ in range(4)))[0]
        else:
            x = getattr(nn, part)(x) if part == "relu" else relay.sigmoid(x)
    return x


def network(*blocks):
    """Blocks of the parts, one after the other."""
    new, channels = Parameters(), 3
    x = var("data", 1, channels, 8, 8)
    for parts in blocks:
        x, channels = block(x, parts.split(), 4, new, channels), 4
    return module(x)


def partitioned(mod, table):
    passes = [
        transform.CanonicalizeOps(),
        transform.SimplifyInference(),
        transform.FoldConstant(),
        transform.FoldScaleAxis(),
        transform.FoldConstant(),
        transform.SimplifyExpr(),
        transform.FoldConstant(),
        transform.MergeComposite(table),
        transform.AnnotateTarget(TARGET),
        transform.PartitionGraph(),
    ]
    with eqsat.transform.PassContext(opt_level=3):
        return transform.Sequential(passes)(mod)


@pytest.mark.parametrize(
    ("table", "blocks", "functions"),
    [
        ([], ["norm relu", "relu"], 5),
        ([BIAS_RELU], ["norm relu", "relu"], 3),
        ([RELU], ["norm relu", "relu"], 4),
        ([BIAS_RELU, RELU], ["norm relu", "relu"], 2),
        ([BIAS, RELU], ["norm relu", "relu"], 3),
        ([RELU], ["relu", "relu"], 2),
        ([BIAS_RELU], ["relu", "relu"], 4),
        ([BIAS_RELU, RELU], ["norm sigmoid relu", "sigmoid relu"], 7),
        ([BIAS_RELU, BIAS], ["norm sigmoid relu", "sigmoid relu"], 6),
        ([BIAS_SIGMOID], ["norm sigmoid relu", "sigmoid relu"], 5),
        ([BIAS_SIGMOID, SIGMOID], ["norm sigmoid relu", "sigmoid relu"], 4),
        ([BIAS_RELU], ["bias relu", "bias norm relu"], 2),
        ([BIAS_RELU, BIAS], ["bias", "norm", "bias norm"], 3),
    ],
)
def test_dnnl_fuse(table, blocks, functions):
    before = network(*blocks)
    after = partitioned(before, table)
    assert len(external(after)) == functions
    assert called_ops(after["main"]) == []
    assert_same_values(before, after, rtol=1e-3)


def test_dnnl_fuse_mobilenet():
    """27 composites of convolution, bias and relu; pooling, dense layer and softmax alone."""
    new = Parameters()
    widths = [4, 8, 16, 16, 32, 32, *[64] * 6, 128, 128]
    x = block(var("data", 1, 3, 32, 32), ["norm", "relu"], widths[0], new, 3, strides=2)
    for inputs, outputs in pairwise(widths):
        stride = 1 if inputs == outputs else 2
        x = block(x, ["norm", "relu"], inputs, new, inputs, groups=inputs, strides=stride)
        x = block(x, ["norm", "relu"], outputs, new, inputs)
    x = nn.batch_flatten(nn.global_avg_pool2d(x))
    before = module(nn.softmax(nn.dense(x, new(10, widths[-1]))))
    after = partitioned(before, [BIAS_RELU])
    regions = [after[name] for name in external(after)]
    composites = [inner.attrs["Composite"] for region in regions for inner in functions_in(region)]
    assert composites == [BIAS_RELU[0]] * 27
    alone = sorted(name for region in regions if not functions_in(region) for name in called_ops(region))
    assert alone == ["nn.dense", "nn.global_avg_pool2d", "nn.softmax"]
    assert called_ops(after["main"]) == ["nn.batch_flatten"]
    assert not [node for node in post_order(after["main"]) if isinstance(node, relay.Constant)]
    assert_same_values(before, after, rtol=1e-3)

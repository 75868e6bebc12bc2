"""Convolutions, plain and transposed, and biases along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.onnx.converters.matrix import gemm, matrix_product
from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Expr
from eqsat.relay.op.nn.window import SPATIAL, channels_first
from eqsat.relay.op.types import axis_index

CONVOLUTIONS = tuple(f"nn.conv{rank}d" for rank in SPATIAL)
TRANSPOSED = tuple(f"nn.conv{rank}d_transpose" for rank in SPATIAL)


def padding(
    source: Source, data: Expr, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """Begins and ends of the padding, from ``pads`` or ``auto_pad``."""
    mode = source.string("auto_pad", "NOTSET")
    pads = source.ints("pads") or (0,) * (2 * len(kernel))
    if mode == "NOTSET":
        return tuple(pads)
    if mode == "VALID":
        return (0,) * (2 * len(kernel))
    source.require(mode in ("SAME_UPPER", "SAME_LOWER"), f"auto_pad {mode} is not understood")
    begins, ends = [], []
    dense = all(stride == 1 for stride in strides)  # then the padding is the same whatever the size
    dims = [1] * len(kernel) if dense else source.static_shape(data)[2:]
    for dim, tap, stride, step in zip(dims, kernel, strides, dilation, strict=True):
        total = max((-(-dim // stride) - 1) * stride + (tap - 1) * step + 1 - dim, 0)
        small = total // 2
        begins.append(total - small if mode == "SAME_LOWER" else small)
        ends.append(small if mode == "SAME_LOWER" else total - small)
    return (*begins, *ends)


@imports("Conv")
def _conv(source: Source) -> Result:
    data, weight, bias = source.optional(2, 3)
    outputs, _, *kernel = source.static_shape(weight)
    rank = len(kernel)
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    source.require(tuple(source.ints("kernel_shape") or kernel) == tuple(kernel), "kernel_shape is not the weight's")
    strides, dilation = source.ints("strides") or (1,) * rank, source.ints("dilations") or (1,) * rank
    result = build(
        f"nn.conv{rank}d",
        data,
        weight,
        strides=strides,
        dilation=dilation,
        padding=padding(source, data, kernel, strides, dilation),
        groups=source.int("group", 1),
        channels=outputs,
        kernel_size=tuple(kernel),
    )
    return result if bias is None else build("nn.bias_add", result, bias, axis=1)


@imports("ConvTranspose")
def _conv_transpose(source: Source) -> Result:
    data, weight, bias = source.optional(2, 3)
    _, per_group, *kernel = source.static_shape(weight)
    rank = len(kernel)
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    source.require(tuple(source.ints("kernel_shape") or kernel) == tuple(kernel), "kernel_shape is not the weight's")
    source.require(source.ints("output_shape") is None, "output_shape is given")
    source.require(source.string("auto_pad", "NOTSET") == "NOTSET", "auto_pad is given")
    groups = source.int("group", 1)
    result = build(
        f"nn.conv{rank}d_transpose",
        data,
        weight,
        strides=source.ints("strides") or (1,) * rank,
        dilation=source.ints("dilations") or (1,) * rank,
        padding=source.ints("pads") or (0,) * (2 * rank),
        output_padding=source.ints("output_padding") or (0,) * rank,
        groups=groups,
        channels=per_group * groups,
        kernel_size=tuple(kernel),
    )
    return result if bias is None else build("nn.bias_add", result, bias, axis=1)


@exports(*CONVOLUTIONS, *TRANSPOSED)
def _to_conv(call: Call, target: Target) -> OnnxNode:
    return convolution(call, None, target)


def convolution(call: Call, bias: Expr | None, target: Target) -> OnnxNode:
    """A convolution, with ``bias`` along the channels, as one node."""
    attrs, weight = attributes(call), target.type(call.args[1])
    rank = len(attrs.strides)
    is_transposed = op_name(call) in TRANSPOSED
    kernel_layout = f"{'IO' if is_transposed else 'OI'}{SPATIAL[rank]}"
    layouts = {attrs.data_layout, attrs.out_layout or attrs.data_layout}
    if layouts != {channels_first(rank)} or attrs.kernel_layout != kernel_layout:
        raise target.unwritable(call, f"layouts must be {channels_first(rank)} and {kernel_layout}")
    if attrs.out_dtype and attrs.out_dtype != target.type(call.args[0]).dtype:
        raise target.unwritable(call, "the result has another dtype than the data")
    said: dict[str, Any] = {
        "dilations": attrs.dilation,
        "group": attrs.groups,
        "kernel_shape": target.dims(weight.shape[2:]),
        "pads": attrs.padding,
        "strides": attrs.strides,
    }
    if is_transposed and any(attrs.output_padding):
        said["output_padding"] = attrs.output_padding
    inputs = [*call.args] if bias is None else [*call.args, bias]
    return OnnxNode("ConvTranspose" if is_transposed else "Conv", inputs, said)


@exports("nn.bias_add")
def _to_bias_add(call: Call, target: Target) -> OnnxNode:
    data, bias = call.args
    found = target.call(data, *CONVOLUTIONS, *TRANSPOSED)
    rank = target.rank(data if found is None else found.args[1])
    axis = axis_index(attributes(call).axis, rank)
    if found is not None and axis == 1:
        return convolution(found, bias, target)
    product = matrix_product(data, target)
    if product is not None and axis == rank - 1:
        return gemm(product, bias, target)
    return OnnxNode("Add", [data, target.along_axis(bias, axis, rank)])

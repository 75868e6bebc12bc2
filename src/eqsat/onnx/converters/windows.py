"""Operators of windows that slide: convolutions with biases along their channels, pooling; pooling of all of space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.onnx.converters.matrix import gemm, matrix_product
from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Expr
from eqsat.relay.op.nn.window import SPATIAL, channels_first, extent
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


@imports("Conv", "ConvTranspose")
def convolve(source: Source) -> Expr:
    """A convolution, with the bias if there is one."""
    data, weight, bias = source.optional(2, 3)
    channels, inner, *kernel = source.static_shape(weight)
    rank, groups = len(kernel), source.int("group", 1)
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    source.require(tuple(source.ints("kernel_shape") or kernel) == tuple(kernel), "kernel_shape is not the weight's")
    strides, dilation = source.ints("strides") or (1,) * rank, source.ints("dilations") or (1,) * rank
    name, more = f"nn.conv{rank}d", {}
    if source.op_type == "ConvTranspose":
        source.require(source.ints("output_shape") is None, "output_shape is given")
        source.require(source.string("auto_pad", "NOTSET") == "NOTSET", "auto_pad is given")
        more = {"output_padding": source.ints("output_padding") or (0,) * rank}
        name, channels = f"{name}_transpose", inner * groups
    result = build(
        name,
        data,
        weight,
        strides=strides,
        dilation=dilation,
        padding=padding(source, data, kernel, strides, dilation),
        groups=groups,
        channels=channels,
        kernel_size=tuple(kernel),
        **more,
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
    layouts = {attrs.data_layout, attrs.out_layout or attrs.data_layout}, attrs.kernel_layout
    wanted = {channels_first(rank)}, kernel_layout
    target.require(layouts == wanted, call, f"layouts must be {channels_first(rank)} and {kernel_layout}")
    same = not attrs.out_dtype or attrs.out_dtype == target.type(call.args[0]).dtype
    target.require(same, call, "the result has another dtype than the data")
    said: dict[str, Any] = {
        "dilations": attrs.dilation,
        "group": attrs.groups,
        "kernel_shape": target.dims(weight.shape[2:]),
        "pads": attrs.padding,
        "strides": attrs.strides,
    }
    if is_transposed and any(attrs.output_padding):
        said["output_padding"] = attrs.output_padding
    inputs = call.args if bias is None else [*call.args, bias]
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


# ---- pooling


_NAMES = {"MaxPool": "max_pool", "AveragePool": "avg_pool"}
_TYPES = {f"nn.{name}{rank}d": op_type for op_type, name in _NAMES.items() for rank in SPATIAL}


@imports("MaxPool", "AveragePool")
def _pool(source: Source) -> Result:
    (data,) = source.arguments(1)
    kernel = source.ints("kernel_shape")
    rank = len(kernel)
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    source.require(source.used_outputs() == 1, "its indices are used")
    source.ignore("storage_order")  # of the indices
    strides, dilation = source.ints("strides") or (1,) * rank, source.ints("dilations") or (1,) * rank
    pads = padding(source, data, kernel, strides, dilation)
    if source.int("ceil_mode", 0):
        _same_when_rounded_down(source, data, kernel, strides, dilation, pads)
    more = {"count_include_pad": bool(source.int("count_include_pad", 0))} if source.op_type == "AveragePool" else {}
    return build(
        f"nn.{_NAMES[source.op_type]}{rank}d",
        data,
        pool_size=kernel,
        strides=strides,
        dilation=dilation,
        padding=pads,
        **more,
    )


def _same_when_rounded_down(source: Source, data: Expr, kernel: Any, strides: Any, dilation: Any, pads: Any) -> None:
    """Decline a ceil_mode that makes a difference: what windows beyond the end see differs from the IR."""
    for axis, dim in enumerate(source.static_shape(data)[2:]):
        total = pads[axis] + pads[axis + len(kernel)]
        sizes = [extent(dim, kernel[axis], strides[axis], dilation[axis], total, up) for up in (False, True)]
        source.require(sizes[0] == sizes[1], "ceil_mode adds a window")


@exports(*_TYPES)
def _to_pool(call: Call, target: Target) -> OnnxNode:
    attrs, op_type = attributes(call), _TYPES[op_name(call)]
    rank = len(attrs.pool_size)
    fits = {attrs.layout, attrs.out_layout or attrs.layout} == {channels_first(rank)} and not attrs.ceil_mode
    target.require(fits, call, f"the layout must be {channels_first(rank)}, without ceil_mode")
    of_integers = op_type == "MaxPool" and target.opset < 12 and "int" in target.type(call).dtype
    target.require(not of_integers, call, "it is of integers")
    said = {"kernel_shape": attrs.pool_size, "strides": attrs.strides, "pads": attrs.padding}
    if any(step != 1 for step in attrs.dilation):
        target.require(target.opset >= (10 if op_type == "MaxPool" else 19), call, "windows have no dilation")
        said["dilations"] = attrs.dilation
    if op_type == "AveragePool" and attrs.count_include_pad:
        said["count_include_pad"] = 1
    return OnnxNode(op_type, call.args, said)


# ---- all of space


@imports("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(source: Source) -> Result:
    (data,) = source.arguments(1)
    rank = source.rank(data) - 2
    source.require(rank in SPATIAL, f"it has {rank} spatial dimensions")
    kind = "avg" if source.op_type == "GlobalAveragePool" else "max"
    if rank == 2:
        return build(f"nn.global_{kind}_pool2d", data)
    return build(f"nn.adaptive_{kind}_pool{rank}d", data, output_size=(1,) * rank)


@exports("nn.global_avg_pool2d", "nn.global_max_pool2d")
@exports(*(f"nn.adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in SPATIAL))
def _to_global_pool(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    size = attrs.get("output_size", (1, 1))
    target.require(size and {*size} == {1}, call, "ONNX has no adaptive pooling to other sizes than 1")
    layout = channels_first(len(size))
    target.require({attrs.layout, attrs.out_layout or attrs.layout} == {layout}, call, f"the layout must be {layout}")
    return OnnxNode(f"Global{'Average' if 'avg' in op_name(call) else 'Max'}Pool", call.args)

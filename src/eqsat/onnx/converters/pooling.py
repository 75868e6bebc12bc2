"""Pooling over windows and over all of space."""

from __future__ import annotations

from typing import Any

from eqsat.onnx.converters.convolution import padding
from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Expr
from eqsat.relay.op.nn.window import SPATIAL, channels_first, extent

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
    if {attrs.layout, attrs.out_layout or attrs.layout} != {channels_first(rank)} or attrs.ceil_mode:
        raise target.unwritable(call, f"the layout must be {channels_first(rank)}, without ceil_mode")
    if op_type == "MaxPool" and target.opset < 12 and "int" in target.type(call).dtype:
        raise target.unwritable(call, "it is of integers")
    said = {"kernel_shape": attrs.pool_size, "strides": attrs.strides, "pads": attrs.padding}
    if any(step != 1 for step in attrs.dilation):
        if target.opset < (10 if op_type == "MaxPool" else 19):
            raise target.unwritable(call, "windows have no dilation")
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
def _to_global_pool(call: Call, target: Target) -> OnnxNode:
    return _whole(call, "NCHW", target)


@exports(*(f"nn.adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in SPATIAL))
def _to_adaptive_pool(call: Call, target: Target) -> OnnxNode:
    size = attributes(call).output_size
    if size is None or any(count != 1 for count in size):
        raise target.unwritable(call, "ONNX has no adaptive pooling to other sizes than 1")
    return _whole(call, channels_first(len(size)), target)


def _whole(call: Call, layout: str, target: Target) -> OnnxNode:
    attrs = attributes(call)
    if {attrs.layout, attrs.out_layout or attrs.layout} != {layout}:
        raise target.unwritable(call, f"the layout must be {layout}")
    kind = "Average" if "avg" in op_name(call) else "Max"
    return OnnxNode(f"Global{kind}Pool", call.args)

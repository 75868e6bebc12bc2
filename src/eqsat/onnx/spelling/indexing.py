"""Operators that select elements: slices, gathers, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.onnx.spelling.source import Result, Source, build, imports
from eqsat.onnx.spelling.target import OnnxNode, Operand, Target, attributes, exports
from eqsat.relay.expr import Call, Constant
from eqsat.relay.op.types import axes_indices

# ---- slices


@imports("Slice")
def _slice(source: Source) -> Result:
    if source.opset < 10:
        (data,) = source.arguments(1)
        starts, ends, axes, steps = source.ints("starts"), source.ints("ends"), source.ints("axes"), None
    else:
        data, starts, ends, axes, steps = source.optional(3, 5)
        starts, ends = source.integers(starts), source.integers(ends)
        axes = None if axes is None else source.integers(axes)
        steps = None if steps is None else source.integers(steps)
    axes = tuple(range(len(starts))) if axes is None else axes
    axes = axes_indices(axes, source.rank(data))
    return build("strided_slice", data, begin=starts, end=ends, strides=steps or (1,) * len(starts), axes=axes)


@exports("strided_slice")
def _to_slice(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    if attrs.slice_mode != "end" or len(attrs.end) < len(attrs.begin):
        raise target.unwritable(call, "it names no end")
    count = len(attrs.begin)
    axes = tuple(range(count)) if attrs.axes is None else attrs.axes
    strides = attrs.strides * count if len(attrs.strides) == 1 else attrs.strides
    strides = strides + (1,) * (count - len(strides))
    plain = all(step == 1 for step in strides)
    if target.opset >= 10:
        bounds = [attrs.begin, attrs.end, axes, *([] if plain else [strides])]
        return OnnxNode("Slice", [data, *map(target.integers, bounds)])
    if not plain:
        raise target.unwritable(call, "slices have no steps")
    return OnnxNode("Slice", [data], {"starts": attrs.begin, "ends": attrs.end, "axes": target.axes(axes, data)})


# ---- gathers


@imports("Gather")
def _gather(source: Source) -> Result:
    data, indices = source.arguments(2)
    return build("take", data, indices, axis=source.int("axis", 0), mode="fast")  # an index out of range is an error


@exports("take")
def _to_gather(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    if attrs.batch_dims != 0:
        raise target.unwritable(call, "a Gather has no batch dimensions")
    if attrs.axis is None:
        flat = OnnxNode("Reshape", [data, target.integers([-1])])
        return OnnxNode("Gather", [flat, _in_range(call, data, 0, target)], {"axis": 0})
    return OnnxNode(
        "Gather", [data, _in_range(call, data, attrs.axis, target)], {"axis": target.axis(attrs.axis, data)}
    )


def _in_range(call: Call, data: Any, axis: int, target: Target) -> Operand:
    """The indices, which ONNX does not bring into range, where they are known to need no bringing."""
    indices, mode = call.args[1], attributes(call).mode
    if mode == "fast":
        return indices
    shape = target.type(data).shape
    size = np.prod(target.dims(shape)) if attributes(call).axis is None else target.dims(shape)[axis]
    if isinstance(indices, Constant):
        values = indices.data.numpy()
        return np.asarray(np.clip(values, 0, size - 1) if mode == "clip" else np.mod(values, size))
    dtype = target.type(indices).dtype
    if mode == "wrap" and dtype in ("int32", "int64"):
        return OnnxNode("Mod", [indices, np.asarray(size, dtype)])
    if mode == "clip" and dtype in ("int32", "int64") and target.opset >= 12:
        return OnnxNode("Clip", [indices, np.asarray(0, dtype), np.asarray(size - 1, dtype)])
    raise target.unwritable(call, f"indices of mode {mode}")


# ---- padding


@imports("Pad")
def _pad(source: Source) -> Result:
    mode = source.string("mode", "constant")
    source.require(mode in ("constant", "edge", "reflect"), f"mode {mode} is not understood")
    if source.opset < 11:
        (data,) = source.arguments(1)
        pads, fill, axes = source.ints("pads"), source.float("value", 0.0), None
        value: Any = Constant(np.asarray(fill, source.type(data).dtype))
    else:
        data, pads, value, axes = source.optional(2, 4)
        pads = source.integers(pads)
        axes = None if axes is None else source.integers(axes)
        fill = 0 if value is None else source.scalar(value)
        value = Constant(np.asarray(fill, source.type(data).dtype))
    rank = source.rank(data)
    widths = _widths(pads, axes_indices(axes, rank), rank)
    source.require(mode == "constant" or all(min(width) >= 0 for width in widths), "it crops")
    return build("nn.pad", data, value, pad_width=widths, pad_mode=mode)


def _widths(pads: Sequence[int], axes: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """(before, after) for each dimension from all begins followed by all ends."""
    given = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    return [given.get(axis, (0, 0)) for axis in range(rank)]


@exports("nn.pad")
def _to_pad(call: Call, target: Target) -> OnnxNode:
    attrs, (data, value) = attributes(call), call.args
    pads = [width[side] for side in (0, 1) for width in attrs.pad_width]
    if target.opset < 11:
        if not isinstance(value, Constant):
            raise target.unwritable(call, "the value must be constant")
        return OnnxNode("Pad", [data], {"mode": attrs.pad_mode, "pads": pads, "value": float(value.data.numpy())})
    fill = [value] if attrs.pad_mode == "constant" else []
    return OnnxNode("Pad", [data, target.integers(pads), *fill], {"mode": attrs.pad_mode})


@exports("nn.mirror_pad")
def _to_mirror_pad(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    if attrs.mode != "REFLECT":
        raise target.unwritable(call, "ONNX has no symmetric padding")
    pads = [width[side] for side in (0, 1) for width in attrs.pad_width]
    if target.opset < 11:
        return OnnxNode("Pad", call.args, {"mode": "reflect", "pads": pads})
    return OnnxNode("Pad", [*call.args, target.integers(pads)], {"mode": "reflect"})

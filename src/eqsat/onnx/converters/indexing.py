"""Operators that select elements: slices, gathers, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports
from eqsat.relay.dims import difference
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple
from eqsat.relay.op.types import axes_indices
from eqsat.relay.ty import Dim

# ---- slices


@imports("Slice")
def _slice(source: Source) -> Result:
    if source.opset < 10:
        (data,) = source.arguments(1)
        starts, ends, axes, steps = source.ints("starts"), source.ints("ends"), source.ints("axes"), None
    else:
        data, *bounds, axes, steps = source.optional(3, 5)
        starts, ends = map(source.sizes, bounds)
        axes = None if axes is None else source.integers(axes)
        steps = None if steps is None else source.integers(steps)
    axes = tuple(range(len(starts))) if axes is None else axes
    axes = axes_indices(axes, source.rank(data))
    steps = steps or (1,) * len(starts)
    dims = source.type(data).shape
    ends = [_whole_end(end, dims[axis]) for end, axis in zip(ends, axes, strict=True)]
    if all(isinstance(bound, int) for bound in (*starts, *ends)):
        return build("strided_slice", data, begin=starts, end=ends, strides=steps, axes=axes)
    source.require(axes == tuple(range(axes[0], axes[0] + len(axes))), "its axes do not follow one another")
    begin, end = (_from_front(axes[0], *filled) for filled in zip((0, _OPEN), bounds, strict=True))
    return build("dyn.strided_slice", data, begin, end, Constant(np.asarray((1,) * axes[0] + tuple(steps))))


_OPEN = 2**63 - 1
"""The end of a slice that goes on to the last element."""


def _whole_end(end: Dim, dim: Dim) -> Dim:
    """The end of a slice, counted from the back where it is known there."""
    if isinstance(end, int) or end.name is None:
        return end
    more = difference(end, dim)
    return end if more is None else _OPEN if more >= 0 else more


def _from_front(count: int, fill: int, bounds: Expr) -> Expr:
    """Bounds of slices of all axes: ``fill`` for the first ``count``, then ``bounds``."""
    first = np.full(count, fill, np.int64)
    if isinstance(bounds, Constant):
        return Constant(np.concatenate([first, bounds.data.numpy().astype(np.int64)]))
    return build("concatenate", Tuple([Constant(first), bounds]), axis=0) if count else bounds


@exports("dyn.strided_slice")
def _to_dynamic_slice(call: Call, target: Target) -> OnnxNode:
    if attributes(call).slice_mode != "end" or target.opset < 10:
        raise target.unwritable(call, "it has no ends, or they are no tensors")
    data, *bounds = call.args
    parts = [_parts(bound) for bound in bounds]
    whole = min(_matching(first, fill) for (first, _), fill in zip(parts, (0, _OPEN, 1), strict=True))
    whole = whole if all(rest is None or len(first) == whole for first, rest in parts) else 0
    begin, end, steps = (_behind(bound, *part, whole) for bound, part in zip(bounds, parts, strict=True))
    count = target.dims(target.type(bounds[0]).shape)[0]
    return OnnxNode("Slice", [data, begin, end, target.integers(range(whole, count)), steps])


def _parts(bounds: Expr) -> tuple[np.ndarray[Any, Any], Expr | None]:
    """The constant that bounds begin with, and what follows it."""
    if isinstance(bounds, Constant):
        return bounds.data.numpy(), None
    if isinstance(bounds, Call) and bounds.op is Op.get("concatenate") and isinstance(bounds.args[0], Tuple):
        fields = bounds.args[0].fields
        if len(fields) == 2 and isinstance(fields[0], Constant):
            return fields[0].data.numpy(), fields[1]
    return np.zeros(0, np.int64), bounds


def _matching(values: np.ndarray[Any, Any], fill: int) -> int:
    """How many of the first values are ``fill``, or an end as far out."""
    return next((place for place, value in enumerate(values.tolist()) if value != fill), len(values))


def _behind(bounds: Expr, first: np.ndarray[Any, Any], rest: Expr | None, start: int) -> Operand:
    """Bounds without the first ``start``."""
    if start == 0:
        return bounds
    return first[start:] if rest is None else rest


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
    shape = target.call(data, "shape_of")
    if shape is not None and plain and count == 1 and target.opset >= 15 and attributes(shape).dtype == "int64":
        return OnnxNode("Shape", shape.args, {"start": attrs.begin[0], "end": attrs.end[0]})
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

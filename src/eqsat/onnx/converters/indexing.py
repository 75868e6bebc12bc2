"""Operators that select elements or write some: slices, gathers, padding, elements at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, cast, exports
from eqsat.relay.dims import difference
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, const
from eqsat.relay.fold import GROWTH_LIMIT
from eqsat.relay.interpreter import evaluate
from eqsat.relay.op.types import axes_indices
from eqsat.relay.ty import Dim, TensorType

# ---- slices


@imports("Slice")
def _slice(source: Source) -> Result:
    data, *bounds, _, steps = source.optional(1 if source.opset < 10 else 3, 5)
    if source.opset < 10:
        starts, ends = source.ints("starts"), source.ints("ends")
    else:
        starts, ends = map(source.sizes, bounds)
    axes = source.ints("axes")
    axes = axes_indices(range(len(starts)) if axes is None else axes, source.rank(data))
    steps = source.integers(steps) if steps is not None else ()
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
    fits = attributes(call).slice_mode == "end" and target.opset >= 10
    target.require(fits, call, "it has no ends, or they are no tensors")
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
def _to_slice(call: Call, target: Target) -> OnnxNode | Expr:
    attrs, data = attributes(call), call.args[0]
    count = max(len(attrs.begin), len(attrs.end), len(attrs.strides) if len(attrs.strides) > 1 else 0)
    count = count if attrs.axes is None else len(attrs.axes)
    target.require(attrs.slice_mode == "end" and len(attrs.end) >= count, call, "it names no end")
    if not count:
        return data  # scalars cannot be sliced
    axes = tuple(range(count)) if attrs.axes is None else attrs.axes
    strides = attrs.strides * count if len(attrs.strides) == 1 else attrs.strides
    strides = strides + (1,) * (count - len(strides))
    begin = (*attrs.begin, *[0 if step >= 0 else -1 for step in strides[len(attrs.begin) :]])
    plain = all(step == 1 for step in strides)
    shape = target.call(data, "shape_of")
    if shape is not None and plain and count == 1 and target.opset >= 15 and attributes(shape).dtype == "int64":
        return OnnxNode("Shape", shape.args, {"start": begin[0], "end": attrs.end[0]})
    target.require(plain or target.opset >= 10, call, "slices have no steps")
    said = {"starts": begin, "ends": attrs.end, "axes": target.axes(axes, data)}
    return target.node("Slice", data, said if plain else {**said, "steps": strides})


# ---- gathers


@imports("Gather")
def _gather(source: Source) -> Result:
    data, indices = source.arguments(2)
    return build("take", data, indices, axis=source.int("axis", 0), mode="fast")  # an index out of range is an error


@exports("take")
def _to_gather(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    target.require(attrs.batch_dims == 0, call, "a Gather has no batch dimensions")
    if attrs.axis is None:
        flat = OnnxNode("Reshape", [data, target.integers([-1])])
        return OnnxNode("Gather", [flat, _in_range(call, data, 0, target)], {"axis": 0})
    indices = _in_range(call, data, attrs.axis, target)
    return OnnxNode("Gather", [data, indices], {"axis": target.axis(attrs.axis, data)})


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
    data, *_ = source.optional(1 if source.opset < 11 else 2, 4)
    pads, rank = source.ints("pads"), source.rank(data)
    axes = axes_indices(source.ints("axes"), rank)
    fill = source.float("value" if source.opset < 11 else "constant_value", 0.0)
    given = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :], strict=True), strict=True))
    widths = [given.get(axis, (0, 0)) for axis in range(rank)]
    source.require(mode == "constant" or all(min(width) >= 0 for width in widths), "it crops")
    value = Constant(np.asarray(fill, source.type(data).dtype))
    return build("nn.pad", data, value, pad_width=widths, pad_mode=mode)


@exports("nn.pad", "nn.mirror_pad")
def _to_pad(call: Call, target: Target) -> OnnxNode | Expr:
    attrs, (data, *value) = attributes(call), call.args
    if not attrs.pad_width:
        return data  # scalars cannot be padded
    target.require(value or attrs.mode == "REFLECT", call, "ONNX has no symmetric padding")
    said: dict[str, Any] = {
        "mode": attrs.pad_mode if value else "reflect",
        "pads": [width[side] for side in (0, 1) for width in attrs.pad_width],
    }
    for fill in value:
        if target.opset < 11:
            target.require(isinstance(fill, Constant), call, "the value must be constant")
            said["value"] = float(fill.data.numpy())  # type: ignore[attr-defined]
        elif attrs.pad_mode == "constant":
            said["constant_value"] = fill
    return target.node("Pad", data, said)


_WRITES = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}
_REDUCTIONS = {name: reduction for reduction, name in _WRITES.items()}


def _write(source: Source) -> str:
    """How updates meet what is there, or each other."""
    reduction = source.string("reduction", "none")
    source.require(reduction in _WRITES, f"reduction {reduction} is not understood")
    return _WRITES[reduction]


def _reduction(write: str, call: Call, target: Target) -> str | None:
    """The attribute that says how updates are written, None for the way that needs no saying."""
    since = {"update": 0, "add": 16, "mul": 16}.get(write, 18)
    fits = write in _REDUCTIONS and target.opset >= since
    target.require(fits, call, f"there is no way to write by {write}")
    return None if write == "update" else _REDUCTIONS[write]


# ---- along one axis


def _written(source: Source) -> tuple[Expr, Expr, Expr]:
    """Data, indices and updates; the result has the type of the data, even if nothing is known of the others."""
    data, indices, updates = source.arguments(3)
    if not all(isinstance(source.types[each], TensorType) for each in (indices, updates)):
        raise Declined("the type of its indices or updates is not known", [source.type(data)])
    return data, indices, updates


@imports("ScatterElements", "Scatter")
def _scatter(source: Source) -> Result:
    return build("scatter_elements", *_written(source), axis=source.int("axis", 0), reduction=_write(source))


@exports("scatter_elements")
def _to_scatter(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    said = {"axis": attrs.axis, "reduction": _reduction(attrs.reduction, call, target)}
    return OnnxNode("ScatterElements" if target.opset >= 11 else "Scatter", call.args, said)


# ---- at tuples of indices: the last dimension of ONNX's indices, the first of the IR's


def _with_tuples_first(indices: Expr, rank: int) -> Expr:
    if isinstance(indices, Constant):
        return Constant(indices.data.numpy().transpose(rank - 1, *range(rank - 1)))
    return build("transpose", indices, axes=(rank - 1, *range(rank - 1)))


def _with_tuples_last(indices: Expr, target: Target) -> Operand:
    rank = target.rank(indices)
    order = (rank - 1, *range(rank - 1))
    turned = target.made_by(indices, "transpose")
    if turned is not None and axes_indices(attributes(turned).axes or range(rank)[::-1], rank) == order:
        return turned.args[0]
    view = target.made_by(indices, "expand_dims", "reshape")
    if view is not None:
        (data,) = view.args
        if (1, *target.type(data).shape) == target.type(view).shape:  # tuples of one
            return target.unsqueezed(data, [rank - 1])
    return target.transposed(indices, [*range(1, rank), 0])


@imports("GatherND")
def _gather_nd(source: Source) -> Result:
    data, indices = source.arguments(2)
    rank = source.rank(indices)
    return build("gather_nd", data, _with_tuples_first(indices, rank), batch_dims=source.int("batch_dims", 0))


@exports("gather_nd")
def _to_gather_nd(call: Call, target: Target) -> OnnxNode:
    batch = attributes(call).batch_dims
    target.require(not batch or target.opset >= 12, call, "there are no batch dimensions")
    data, indices = call.args
    return OnnxNode("GatherND", [data, _with_tuples_last(indices, target)], {"batch_dims": batch or None})


@imports("ScatterND")
def _scatter_nd(source: Source) -> Result:
    data, indices, updates = _written(source)
    first = _with_tuples_first(indices, source.rank(indices))
    return build("scatter_nd", data, first, updates, mode=_write(source))


@exports("scatter_nd")
def _to_scatter_nd(call: Call, target: Target) -> OnnxNode:
    data, indices, updates = call.args
    said = {"reduction": _reduction(attributes(call).mode, call, target)}
    return OnnxNode("ScatterND", [data, _with_tuples_last(indices, target), updates], said)


# ---- from indices to places, and back


@imports("OneHot")
def _one_hot(source: Source) -> Result:
    indices, depth, values = source.arguments(3)
    source.require(source.type(indices).dtype.startswith(("int", "uint")), "its indices are no integers")
    ends = source.array(values)
    source.require(ends.shape == (2,), "its values are not two")
    off, on = (Constant(np.asarray(end)) for end in ends)
    said = {"depth": int(source.scalar(depth)), "axis": source.int("axis", -1), "dtype": ends.dtype.name}
    return build("signed_one_hot", indices, on, off, **said)


@exports("signed_one_hot")
def _to_one_hot(call: Call, target: Target) -> OnnxNode:
    attrs, (indices, *ends) = attributes(call), call.args
    values = [end.data.numpy() for end in ends if isinstance(end, Constant)]
    target.require(len(values) == 2 and target.has("OneHot"), call, "its values are no constants")
    on, off = (value.astype(attrs.dtype) for value in values)
    return OnnxNode("OneHot", [indices, np.asarray(attrs.depth, np.int64), np.stack([off, on])], {"axis": attrs.axis})


@imports("NonZero")
def _nonzero(source: Source) -> Result:
    (data,) = source.arguments(1)
    source.require(source.rank(data) > 0, "of a scalar, it is not the same everywhere")
    found = build("nonzero", data)
    if isinstance(data, Constant) and _BYTES_OF_INDEX * source.rank(data) * data.data.size <= GROWTH_LIMIT:
        return const(evaluate(found), "int64")  # how many there are is known
    return found


_BYTES_OF_INDEX = 8


@exports("nonzero")
def _to_nonzero(call: Call, target: Target) -> OnnxNode:
    target.require(target.has("NonZero"), call, "there is no such operator")
    return OnnxNode("NonZero", call.args)


@exports("argwhere")
def _to_argwhere(call: Call, target: Target) -> OnnxNode:
    target.require(target.has("NonZero") and target.rank(call.args[0]) > 0, call, "there is no such operator")
    return cast(OnnxNode("Transpose", [OnnxNode("NonZero", call.args)], {"perm": [1, 0]}), "int32")

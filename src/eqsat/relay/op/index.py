"""Operators that select elements: slices, gathers, conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import EvaluationError, TypeCheckError
from eqsat.relay.dims import least_dim
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.parameters import length, static_or_dynamic, unknown
from eqsat.relay.op.shape import FARTHEST, clamp_slice
from eqsat.relay.op.types import axes_indices, axis_index, broadcast_shape, check_dtype, shaped, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

INJECTIVE = OpPattern.INJECTIVE


def _where_type(attrs: Any, args: Sequence[Type]) -> Type:
    condition, x, y = map(tensor, args)
    shape = broadcast_shape(condition.shape, broadcast_shape(x.shape, y.shape))
    return TensorType(shape, check_dtype(x, y))


where = define(
    "where",
    "condition x y",
    infer=_where_type,
    kernel=lambda attrs, condition, x, y: np.where(condition.astype(bool, copy=False), x, y),
    kind=OpPattern.BROADCAST,
    traits=Trait.ELEMENTWISE,
)

# ---- strided slices


def slice_bounds(attrs: Any, rank: int) -> list[tuple[int, int | None, int | None, int]]:
    """(axis, begin, end, stride) of every axis that ``strided_slice`` attributes name; None is open.

    Without ``axes`` the first axes are meant, and lists that are too short leave the others open.
    """
    begin, end = attrs.begin, attrs.end
    strides = attrs.strides or (1,)
    if attrs.axes is not None and len(begin) != len(attrs.axes):
        raise TypeCheckError(f"begin {begin} and axes {attrs.axes} differ in length")
    count = max(len(begin), len(end), len(strides) if len(strides) > 1 else 0)
    axes = range(count) if attrs.axes is None else axes_indices(attrs.axes, rank)
    if max(len(axes), len(end)) > (rank if attrs.axes is None else len(axes)):
        raise TypeCheckError(f"begin {begin}, end {end} and strides {strides} do not fit {rank} dimensions")
    bounds = []
    for index, axis in enumerate(axes):
        stride = strides[index] if index < len(strides) else strides[0] if len(strides) == 1 else 1
        first = begin[index] if index < len(begin) else 0 if stride >= 0 else -1
        last = end[index] if index < len(end) else None
        if attrs.slice_mode == "size":
            stride = 1
            last = None if last is None or last < 0 else first + last
        if stride == 0:
            raise TypeCheckError("a stride must not be 0")
        bounds.append((axis, first, last, stride))
    return bounds


def _slice_dim(begin: int | None, end: int | None, stride: int, dim: Dim) -> Dim:
    if isinstance(dim, int):
        return len(range(dim)[clamp_slice(begin, end, stride, dim)])
    whole = begin == 0 and stride == 1 and (end is None or end >= FARTHEST)
    turned = begin == -1 and stride == -1 and (end is None or end <= -FARTHEST)
    return dim if whole or turned else AnyDim()


def _slice_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    result = list(shape)
    for axis, begin, end, stride in slice_bounds(attrs, len(shape)):
        result[axis] = _slice_dim(begin, end, stride, shape[axis])
    return result


def slices(attrs: Any, shape: Sequence[int]) -> tuple[slice, ...]:
    """The index that ``strided_slice`` attributes mean on an array of ``shape``."""
    index = [slice(None)] * len(shape)
    for axis, begin, end, stride in slice_bounds(attrs, len(shape)):
        index[axis] = clamp_slice(begin, end, stride, shape[axis])
    return tuple(index)


_MODE = Field("slice_mode", "str", "end", choices=("end", "size"))
_strided_slice = define(
    "strided_slice",
    "data",
    Field("begin", "ints"),
    Field("end", "ints"),
    Field("strides", "ints", (1,), told=True),
    Field("axes", "ints", None),
    _MODE,
    infer=shaped(_slice_shape),
    kernel=lambda attrs, data: data[slices(attrs, data.shape)],
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _dyn_slice_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    count = length(args[1], "begin")
    if count > len(data.shape):
        raise TypeCheckError(f"begin names {count} of {len(data.shape)} dimensions")
    return TensorType((*unknown(count), *data.shape[count:]), data.dtype)


def _sliced(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
    data, (_, first, last, steps) = tensor(args[0]), elements
    if attrs.slice_mode != "end" or first is None or last is None or steps is None:
        return None
    shape = list(data.shape)
    steps = tuple(steps) * len(first) if len(steps) == 1 else steps
    for axis, bounds in enumerate(zip(first, last, steps, strict=False)):
        shape[axis] = _taken(*bounds, shape[axis])
    return TensorType(shape, data.dtype)


def _taken(begin: Dim, end: Dim, step: Dim, dim: Dim) -> Dim:
    """How much a slice takes of an axis of size ``dim``."""
    if all(isinstance(number, int) for number in (begin, end, step, dim)):
        return len(range(dim)[clamp_slice(begin, end, step, dim)])  # type: ignore[arg-type]
    if (begin, step) != (0, 1) or (isinstance(end, int) and end < 0):
        return AnyDim()
    return dim if isinstance(end, int) and end >= FARTHEST else least_dim(dim, end)


def _dyn_slice(attrs: Any, data: Any, *bounds: Any) -> Any:
    begin, end, strides = (array.tolist() for array in bounds)
    return data[slices(attrs.replace(begin=begin, end=end, strides=strides, axes=None), data.shape)]


dyn_strided_slice = define(
    "dyn.strided_slice",
    "data begin end strides",
    _MODE,
    infer=_dyn_slice_type,
    refine=_sliced,
    kernel=_dyn_slice,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)
strided_slice = static_or_dynamic(_strided_slice, dyn_strided_slice)

# ---- gathers


def _take_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, indices = map(tensor, args)
    if attrs.axis is None:
        return TensorType(indices.shape, data.dtype)
    axis = axis_index(attrs.axis, len(data.shape))
    batch = axis_index(attrs.batch_dims, len(indices.shape) + 1)
    if batch > axis:
        raise TypeCheckError(f"batch_dims {attrs.batch_dims} reach beyond axis {attrs.axis}")
    for index in range(batch):
        unify(data.shape[index], indices.shape[index], "batch dimensions")
    return TensorType((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)


def _take(attrs: Any, data: Any, indices: Any) -> Any:
    if attrs.axis is None:
        data, axis, batch = data.reshape(-1), 0, 0
    else:
        axis = axis_index(attrs.axis, data.ndim)
        batch = axis_index(attrs.batch_dims, indices.ndim + 1)
    indices = bounded(indices, data.shape[axis], attrs.mode)
    if batch == 0:
        return np.take(data, indices, axis)
    lead, middle, tail = data.shape[:batch], data.shape[batch:axis], data.shape[axis + 1 :]
    wanted = indices.reshape(*lead, *(1,) * len(middle), -1, *(1,) * len(tail))
    taken = np.take_along_axis(data, wanted, axis)
    return taken.reshape(*lead, *middle, *indices.shape[batch:], *tail)


def bounded(indices: Any, dim: int, mode: str) -> Any:
    """``indices`` into an axis of size ``dim``: clamped (``clip``), modulo (``wrap``), or checked (``fast``)."""
    indices = indices.astype(np.int64, copy=False)
    if indices.size and dim == 0:
        raise EvaluationError("an index into an axis without elements")
    if mode == "wrap":
        return np.mod(indices, max(dim, 1))
    if mode == "clip":
        return np.clip(indices, 0, max(dim - 1, 0))
    if indices.size and (indices.min() < -dim or indices.max() >= dim):
        raise EvaluationError(f"an index is out of range for an axis of size {dim}")
    return indices


take = define(
    "take",
    "data indices",
    Field("axis", "int", None),
    Field("batch_dims", "int", 0),
    Field("mode", "str", "clip", choices=("clip", "wrap", "fast")),
    infer=_take_type,
    kernel=_take,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)

__all__ = ["strided_slice", "take", "where"]

"""Operators that read or write elements at computed places.

Negative indices count from the end, but for ``one_hot``. Indices out of range are errors, except that ``one_hot`` and
``signed_one_hot`` give rows without a hot element. Where several updates meet one place, ``update`` keeps the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import EvaluationError, TypeCheckError
from eqsat.relay.op.denotation import BY_VALUE
from eqsat.relay.op.index import bounded
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, static_or_dynamic
from eqsat.relay.op.shape import spread
from eqsat.relay.op.types import axis_index, broadcast_shape, check_dtype, ranked, tensor, tensors, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

INJECTIVE, OPAQUE = OpPattern.INJECTIVE, OpPattern.OPAQUE

# ---- along one axis


def _along_type(data: TensorType, indices: TensorType, axis: int) -> int:
    """The axis from the front; checks that the other extents of ``indices`` fit the data."""
    rank = len(data.shape)
    if len(indices.shape) != rank:
        raise TypeCheckError(f"indices must have {rank} dimensions as data has, not {len(indices.shape)}")
    found = axis_index(axis, rank)
    for place, (dim, count) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if place != found and isinstance(dim, int) and isinstance(count, int) and count > dim:
            raise TypeCheckError(f"indices have {count} rows along axis {place}, data only {dim}")
    return found


def _gather_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, indices = map(tensor, args)
    _along_type(data, indices, attrs.axis)
    return TensorType(indices.shape, data.dtype)


def _places(data: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """An index array per axis that reads ``data`` at ``indices`` along ``axis``, all else in place."""
    axis = axis_index(axis, data.ndim)
    places = list(np.ogrid[tuple(slice(count) for count in indices.shape)])
    places[axis] = bounded(indices, data.shape[axis], "fast")
    return tuple(places)


_gather = define(
    "gather",
    "data indices",
    Field("axis", "int"),
    infer=_gather_type,
    kernel=lambda attrs, data, indices: data[_places(data, indices, attrs.axis)],
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def gather(data: Any, axis: int | None = None, indices: Any = None) -> Any:
    """Elements of ``data`` at ``indices`` along ``axis``, as ``numpy.take_along_axis``.

    Only patterns may leave ``axis`` out.
    """
    return _gather(data, indices) if axis is None else _gather(data, indices, axis)


def _scatter_elements_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, indices, updates = map(tensor, args)
    _along_type(data, indices, attrs.axis)
    check_dtype(data, updates)
    if len(updates.shape) != len(indices.shape):
        raise TypeCheckError("indices and updates differ in their number of dimensions")
    for a, b in zip(indices.shape, updates.shape, strict=True):
        unify(a, b, "dimensions of indices and updates")
    return data


_WRITERS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def _written(data: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    result = data.copy()
    if reduction == "update":
        result[places] = updates
    elif reduction == "mean":
        counts = np.ones(data.shape, np.int64)
        np.add.at(counts, places, 1)
        np.add.at(result, places, updates)
        result = (result / counts).astype(data.dtype)
    else:
        _WRITERS[reduction].at(result, places, updates)
    return result


scatter_elements = define(
    "scatter_elements",
    "data indices updates",
    Field("axis", "int", 0),
    Field("reduction", "str", "update", choices=(*_WRITERS, "update", "mean")),
    infer=_scatter_elements_type,
    kernel=lambda attrs, data, indices, updates: _written(
        data, _places(data, indices, attrs.axis), updates, attrs.reduction
    ),
    kind=OPAQUE,
)

# ---- at tuples of indices: the first dimension of the indices runs over the axes of the data


def _depth(indices: TensorType, data: TensorType, batch: int = 0) -> int:
    if not indices.shape or not isinstance(indices.shape[0], int):
        raise TypeCheckError("the first dimension of indices must be known")
    if indices.shape[0] + batch > len(data.shape):
        raise TypeCheckError(f"indices of {indices.shape[0]} axes are too long for data of {len(data.shape)}")
    return indices.shape[0]


def _leading(indices: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """``indices``, one array for each of the first axes of ``shape``, checked."""
    return tuple(bounded(index, dim, "fast") for index, dim in zip(indices, shape, strict=False))


def _gather_nd_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, indices = map(tensor, args)
    depth = _depth(indices, data, attrs.batch_dims)
    for axis in range(attrs.batch_dims):
        unify(data.shape[axis], indices.shape[axis + 1], "batch dimensions")
    return TensorType((*indices.shape[1:], *data.shape[attrs.batch_dims + depth :]), data.dtype)


def _gather_nd(attrs: Any, data: Any, indices: Any) -> Any:
    batch, rest = attrs.batch_dims, indices.shape[1:]
    lead = [spread(np.arange(rest[axis]), axis, len(rest)) for axis in range(batch)]
    return data[(*lead, *_leading(indices, data.shape[batch:]))]


gather_nd = define(
    "gather_nd",
    "data indices",
    Field("batch_dims", "int", 0),
    Field("index_rank", "int", None),
    infer=_gather_nd_type,
    kernel=_gather_nd,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _scatter_nd_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, indices, updates = map(tensor, args)
    depth = _depth(indices, data)
    check_dtype(data, updates)
    expected = (*indices.shape[1:], *data.shape[depth:])
    if len(expected) != len(updates.shape):
        raise TypeCheckError(f"updates must have {len(expected)} dimensions, not {len(updates.shape)}")
    for a, b in zip(expected, updates.shape, strict=True):
        unify(a, b, "dimensions of updates and of what they replace")
    return data


def _scatter_nd(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    return _written(data, _leading(indices, data.shape), updates, attrs.mode)


scatter_nd = define(
    "scatter_nd",
    "data indices updates",
    Field("mode", "str", "update", choices=(*_WRITERS, "update")),
    infer=_scatter_nd_type,
    kernel=_scatter_nd,
    kind=OPAQUE,
)


def _adv_index_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, *indices = tensors(args[0])
    if not 0 < len(indices) <= len(data.shape):
        raise TypeCheckError(f"{len(indices)} index tensors do not fit data of {len(data.shape)} dimensions")
    shape: Sequence[Dim] = ()
    for index in indices:
        shape = broadcast_shape(shape, index.shape)
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


adv_index = define(
    "adv_index",
    "+inputs",
    infer=_adv_index_type,
    kernel=lambda attrs, inputs: inputs[0][_leading(inputs[1:], inputs[0].shape)],
    kind=INJECTIVE,
)
"""NumPy's advanced indexing: fields are the data, then one index tensor per leading axis."""

# ---- places to indices and back


def _one_hot_type(attrs: Any, args: Sequence[Type]) -> Type:
    shape = list(tensor(args[0]).shape)
    for value in args[1:]:
        ranked(value, 0, "on_value and off_value")
    if isinstance(attrs.depth, int) and attrs.depth < 0:
        raise TypeCheckError(f"depth must not be negative, not {attrs.depth}")
    shape.insert(axis_index(attrs.axis, len(shape) + 1), attrs.depth)
    return TensorType(shape, attrs.dtype)


def hot_rows(indices: Any, on: Any, off: Any, depth: int, axis: int, dtype: str) -> Any:
    """``on`` where the position along ``axis`` equals the index, ``off`` elsewhere."""
    axis = axis_index(axis, indices.ndim + 1)
    steps = spread(np.arange(depth), axis, indices.ndim + 1)
    return np.where(np.expand_dims(indices, axis) == steps, on.astype(dtype), off.astype(dtype))


_one_hot = define(
    "one_hot",
    "indices on_value off_value",
    Field("depth", "int"),
    Field("axis", "int"),
    Field("dtype", "dtype"),
    infer=_one_hot_type,
    kernel=lambda attrs, indices, on, off: hot_rows(indices, on, off, attrs.depth, attrs.axis, attrs.dtype),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
)


_dyn_one_hot = dynamic(_one_hot, "indices on_value off_value depth")
one_hot = static_or_dynamic(_one_hot, _dyn_one_hot)

signed_one_hot = define(
    "signed_one_hot",
    "indices on_value off_value",
    *_one_hot.op.fields,
    infer=_one_hot_type,
    kernel=lambda attrs, indices, on, off: hot_rows(
        np.where(indices < 0, indices.astype(np.int64) + attrs.depth, indices),
        on,
        off,
        attrs.depth,
        attrs.axis,
        attrs.dtype,
    ),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
)
"""``one_hot`` that counts negative indices from the end, as ONNX does."""

argwhere = define(
    "argwhere",
    "condition",
    infer=lambda attrs, args: TensorType((AnyDim(), len(tensor(args[0]).shape)), "int32"),
    kernel=lambda attrs, condition: np.stack(np.nonzero(np.atleast_1d(condition)), 1)[:, : condition.ndim].astype(
        np.int32
    ),
    denotation=BY_VALUE,
    kind=OPAQUE,
)


nonzero = define(
    "nonzero",
    "data",
    infer=lambda attrs, args: TensorType((len(tensor(args[0]).shape), AnyDim()), "int64"),
    kernel=lambda attrs, data: np.stack(np.nonzero(np.atleast_1d(data)))[: data.ndim].astype(np.int64),
    kind=OPAQUE,
)
"""The places of the elements that are not zero, a row of indices for each axis: what ``argwhere`` finds, transposed."""


def _unravel_type(attrs: Any, args: Sequence[Type]) -> Type:
    indices, shape = tensor(args[0]), ranked(args[1], 1, "shape")
    return TensorType((*shape.shape, *indices.shape), indices.dtype)


def _unravel(attrs: Any, indices: Any, shape: Any) -> Any:
    size = int(np.prod(shape, dtype=np.int64))
    found = np.unravel_index(bounded(indices, size, "fast") % max(size, 1), tuple(shape))
    return np.asarray(found).reshape(len(shape), *indices.shape).astype(indices.dtype)


unravel_index = define("unravel_index", "indices shape", infer=_unravel_type, kernel=_unravel, kind=INJECTIVE)


def _invert_permutation(attrs: Any, data: Any) -> Any:
    if not np.array_equal(np.sort(data), np.arange(len(data))):
        raise EvaluationError("the data are no permutation")
    return np.argsort(data).astype(data.dtype)


invert_permutation = define(
    "invert_permutation",
    "data",
    infer=lambda attrs, args: ranked(args[0], 1),
    kernel=_invert_permutation,
    kind=INJECTIVE,
)

__all__ = [
    "adv_index", "argwhere", "gather", "gather_nd", "invert_permutation", "nonzero", "one_hot", "scatter_elements",
    "scatter_nd", "signed_one_hot", "unravel_index",
]  # fmt: skip

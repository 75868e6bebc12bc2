"""Sparse tensors as lists of entries: the indices of each (entries, axes), and its value; all else is 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import EvaluationError, TypeCheckError
from eqsat.relay.expr import Tuple
from eqsat.relay.op.denotation import BY_VALUE
from eqsat.relay.op.index import bounded
from eqsat.relay.op.op import Field, OpPattern, define, tensor_of
from eqsat.relay.op.parameters import dynamic, static_or_dynamic
from eqsat.relay.op.transform import cast, cast_like
from eqsat.relay.op.types import check_dtype, ranked, tensor, unify
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type


def _integers(ty: TensorType, what: str) -> TensorType:
    if not ty.dtype.startswith(("int", "uint")):
        raise TypeCheckError(f"{what} must be integers, not {ty.dtype}")
    return ty


def _scattered_type(attrs: Any, args: Sequence[Type]) -> Type:
    indices, values = _integers(tensor(args[0]), "sparse_indices"), tensor(args[1])
    ranked(args[2], 0, "default_value")
    rank = len(indices.shape)
    if rank > 2 or len(values.shape) > 1:
        raise TypeCheckError("sparse_indices must have at most 2 dimensions and sparse_values at most 1")
    if values.shape and rank:
        unify(indices.shape[0], values.shape[0], "the numbers of sparse_indices and sparse_values,")
    axes = indices.shape[1] if rank == 2 else 1
    unify(axes, len(attrs.output_shape), "the axes of sparse_indices and output_shape,")
    return TensorType(attrs.output_shape, values.dtype)


def _scattered(attrs: Any, indices: Any, values: Any, default: Any) -> Any:
    result = np.broadcast_to(default, attrs.output_shape).astype(values.dtype)
    places = indices.T if indices.ndim == 2 else [indices]
    result[tuple(bounded(place, dim, "fast") for place, dim in zip(places, result.shape, strict=True))] = values
    return result


_scatter = define(
    "sparse_to_dense",
    "sparse_indices sparse_values default_value",
    Field("output_shape", "ints"),
    infer=_scattered_type,
    kernel=_scattered,
    kind=OpPattern.INJECTIVE,
)
dyn_sparse_to_dense = dynamic(
    _scatter, "sparse_indices sparse_values default_value output_shape", kind=OpPattern.OPAQUE
)
_either = static_or_dynamic(_scatter, dyn_sparse_to_dense)


def sparse_to_dense(sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0) -> Any:
    """A tensor that has the values at the indices and another value at all other places.

    Indices are (entries, axes), or (entries,) or a number for a result of one axis.
    """
    return _either(sparse_indices, sparse_values, tensor_of(default_value), output_shape)


def _reshape_type(attrs: Any, args: Sequence[Type]) -> Type:
    indices = _integers(ranked(args[0], 2, "sparse_indices"), "sparse_indices")
    before, after = (
        _integers(ranked(ty, 1, what), what) for ty, what in zip(args[1:], ("prev_shape", "new_shape"), strict=True)
    )
    unify(indices.shape[1], before.shape[0], "the axes of sparse_indices and prev_shape,")
    return TupleType([TensorType((indices.shape[0], after.shape[0]), indices.dtype), after])


def _reshaped(attrs: Any, indices: Any, before: Any, after: Any) -> Any:
    shape, total = after.tolist(), prod(before.tolist())
    if -1 in shape:
        shape[shape.index(-1)] = total // (-prod(shape) or 1)
    if prod(shape) != total:
        raise EvaluationError(f"a tensor of shape {tuple(before.tolist())} cannot have shape {tuple(after.tolist())}")
    steps = [prod(before.tolist()[axis + 1 :]) for axis in range(len(before))]
    places = indices.astype(np.int64) @ np.array(steps, np.int64)
    found = np.zeros((len(indices), len(shape)), np.int64)
    for axis in reversed(range(len(shape))):
        places, found[:, axis] = np.divmod(places, max(shape[axis], 1))
    return found.astype(indices.dtype), np.array(shape, after.dtype)


sparse_reshape = define(
    "sparse_reshape",
    "sparse_indices prev_shape new_shape",
    infer=_reshape_type,
    kernel=_reshaped,
    kind=OpPattern.INJECTIVE,
    outputs=2,
)
"""Where the entries (entries, axes) of a tensor are once it has another shape, and that shape; -1 is what is left."""


def _filled_type(attrs: Any, args: Sequence[Type]) -> Type:
    indices, values = ranked(args[0], 2, "sparse_indices"), ranked(args[1], 1, "sparse_values")
    unify(indices.shape[0], values.shape[0], "the numbers of sparse_indices and sparse_values,")
    shape = ranked(args[2], 1, "dense_shape")
    unify(indices.shape[1], shape.shape[0], "the axes of sparse_indices and dense_shape,")
    count = AnyDim()
    return TupleType(
        [
            TensorType((count, indices.shape[1]), "int64"),
            TensorType((count,), check_dtype(values, tensor(args[3]))),
            TensorType((AnyDim(),), "int64"),
        ]
    )


def _filled(attrs: Any, indices: Any, values: Any, shape: Any, default: Any) -> Any:
    empty = np.isin(np.arange(shape[0]), indices[:, 0], invert=True)
    (rows,) = np.nonzero(empty)
    added = np.zeros((len(rows), indices.shape[1]), np.int64)
    added[:, 0] = rows
    places = np.concatenate([indices.astype(np.int64), added])
    order = np.argsort(places[:, 0], kind="stable")
    entries = np.concatenate([values, np.full(len(rows), default.reshape(-1)[0], values.dtype)])
    return places[order], entries[order], empty.astype(np.int64)


_fill_rows = define(
    "sparse_fill_empty_rows",
    "sparse_indices sparse_values dense_shape default_value",
    infer=_filled_type,
    kernel=_filled,
    denotation=BY_VALUE,
    kind=OpPattern.OPAQUE,
    outputs=3,
)


def sparse_fill_empty_rows(sparse_indices: Any, sparse_values: Any, dense_shape: Any, default_value: Any) -> Any:
    """A tuple of indices and values with one more entry in each row that has none, and which rows these are."""
    indices, values, empty = _fill_rows(sparse_indices, sparse_values, dense_shape, default_value)
    return Tuple([cast_like(indices, sparse_indices), cast_like(values, sparse_values), cast(empty, "bool")])


__all__ = ["sparse_fill_empty_rows", "sparse_reshape", "sparse_to_dense"]

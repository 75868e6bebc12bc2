"""Sparse matrices in compressed rows.

A matrix is three tensors. Of CSR, ``data`` has the entries row by row, ``indices`` the column of each, and ``indptr``
where the entries of each row begin, and how many there are. Of BSR, data has three dimensions: the entries are blocks,
and rows and columns count blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.errors import ArgumentError, EvaluationError, TypeCheckError
from eqsat.relay.dims import add_dims, multiply_dims
from eqsat.relay.op.denotation import BY_INDEX
from eqsat.relay.op.index import bounded
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.matrix import multiply_matrices
from eqsat.relay.op.nn.window import per_axis
from eqsat.relay.op.op import Field, OpPattern, define, tensor_of
from eqsat.relay.op.types import check_dtype, ranked, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, TupleType, Type


def _compressed(args: Sequence[Type], blocks: bool = False) -> TensorType:
    """The type of the data of a matrix, of which these are data, indices and indptr."""
    data, indices, _ = tensor(args[0]), ranked(args[1], 1, "indices"), ranked(args[2], 1, "indptr")
    if len(data.shape) not in ((1, 3) if blocks else (1,)):
        raise TypeCheckError(f"the data of a sparse matrix must have {'1 or 3' if blocks else '1'} dimensions")
    unify(data.shape[0], indices.shape[0], "the numbers of data and indices,")
    return data


def _row_count(data: TensorType, indptr: Type) -> Dim:
    rows = add_dims(tensor(indptr).shape[0], -1)
    return multiply_dims(rows, data.shape[1]) if len(data.shape) == 3 else rows


def _as_dense(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    """The matrix of which these are data, indices and indptr."""
    if data.ndim == 1:
        data = data[:, None, None]
    rows, (height, width) = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), data.shape[1:]
    if len(rows) != len(indices):
        raise EvaluationError(f"indptr says that there are {len(rows)} entries, not {len(indices)}")
    blocks = np.zeros((len(indptr) - 1, -(-columns // width), height, width), data.dtype)
    np.add.at(blocks, (rows, bounded(indices, blocks.shape[1], "fast")), data)
    return blocks.transpose(0, 2, 1, 3).reshape(blocks.shape[0] * height, blocks.shape[1] * width)


def _parts(matrix: Any) -> tuple[Any, Any, Any]:
    """Data, indices and indptr of a matrix, which is a triple or has them as attributes, as SciPy's have."""
    parts = (matrix.data, matrix.indices, matrix.indptr) if hasattr(matrix, "indices") else tuple(matrix)
    if len(parts) != 3:
        raise ArgumentError(f"a sparse matrix is given as data, indices and indptr, not as {len(parts)} tensors")
    data, indices, indptr = map(tensor_of, parts)
    return data, indices, indptr


def _dense_type(attrs: Any, args: Sequence[Type]) -> Type:
    dense, data = ranked(args[0], 2, "dense_mat"), _compressed(args[1:], blocks=True)
    rows = _row_count(data, args[3])
    shape = (rows, dense.shape[0]) if attrs.sparse_lhs else (dense.shape[0], rows)
    return TensorType(shape, check_dtype(dense, data))


def _dense(attrs: Any, dense: Any, data: Any, indices: Any, indptr: Any) -> Any:
    matrix = _as_dense(data, indices, indptr, dense.shape[1])
    left, right = (matrix, dense) if attrs.sparse_lhs else (dense, matrix)
    return multiply_matrices(left, right.T, dense.dtype)


_sparse_dense = define(
    "nn.sparse_dense",
    "dense_mat sparse_data sparse_indices sparse_indptr",
    Field("sparse_lhs", "bool", False),
    infer=_dense_type,
    kernel=_dense,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(args[1]) * size(TensorType(tensor(args[0]).shape[:1])),
)


def sparse_dense(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> Any:
    """``dense_mat @ sparse_mat.T``, or ``sparse_mat @ dense_mat.T`` with ``sparse_lhs``."""
    return _sparse_dense(dense_mat, *_parts(sparse_mat), sparse_lhs)


def _convolution_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    """Of the size of the data, with as many channels as the matrix has rows."""
    data, matrix = ranked(args[0], 4, "data"), tensor(args[1])
    ranked(args[2], 1, "indices")
    if len(matrix.shape) not in (2, 3):
        raise TypeCheckError("the weight of a sparse convolution must be of blocks: 2 or 3 dimensions")
    if not all(side % 2 for side in attrs.kernel_size):
        raise TypeCheckError(f"the sides of the kernel must be odd, not {attrs.kernel_size}")
    check_dtype(data, matrix)
    channels = multiply_dims(add_dims(ranked(args[3], 1, "indptr").shape[0], -1), matrix.shape[1])
    batch, *sizes = _pixels(attrs, data)
    return TensorType(layout_change("NCHW", attrs.layout).shape((batch, channels, *sizes)), data.dtype)


def _pixels(attrs: Any, data: TensorType) -> list[Dim]:
    batch, _, *sizes = layout_change(attrs.layout, "NCHW").shape(data.shape)
    return [batch, *sizes]


def _convolution(attrs: Any, data: Any, weight: Any, indices: Any, indptr: Any) -> Any:
    images = layout_change(attrs.layout, "NCHW")(data)
    pads = [(side // 2, side // 2) for side in attrs.kernel_size]
    padded = np.pad(images, [(0, 0), (0, 0), *pads])
    windows = sliding_window_view(padded, attrs.kernel_size, axis=(2, 3)).transpose(
        (0, 2, 3, 1, 4, 5) if attrs.layout == "NCHW" else (0, 2, 3, 4, 5, 1)
    )  # the columns of the matrix are in the order in which the layout has channels and places of the kernel
    rows = windows.reshape(prod(windows.shape[:3]), prod(windows.shape[3:]))
    matrix = _as_dense(weight if weight.ndim == 3 else weight[:, :, None], indices, indptr, rows.shape[1])
    result = multiply_matrices(rows, matrix.T, data.dtype).reshape(*windows.shape[:3], len(matrix))
    return layout_change("NHWC", attrs.layout)(result)


sparse_conv2d = define(
    "nn.sparse_conv2d",
    "data weight_data weight_indices weight_indptr",
    Field("layout", "str", "NHWC", choices=("NHWC", "NCHW")),
    Field("kernel_size", "ints", (1, 1), per_axis(2)),
    infer=_convolution_type,
    kernel=_convolution,
    denotation=BY_INDEX,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(args[1]) * size(TensorType(_pixels(attrs, tensor(args[0])))),
)
"""A convolution by a matrix (O, H * W * I) in BSR, or (O, I * H * W) for data ``NCHW``; the result is of the same size.

Blocks of one column may be given without their last dimension.
"""


def _transpose_type(attrs: Any, args: Sequence[Type]) -> Type:
    _compressed(args)
    return TupleType([tensor(ty) for ty in args])


def _transposed(attrs: Any, data: Any, indices: Any, indptr: Any) -> Any:
    rows, count = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), len(indptr) - 1
    columns = bounded(indices, count, "fast")
    order = np.argsort(columns, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=count))])
    return data[order], rows[order].astype(indices.dtype), begins.astype(indptr.dtype)


_sparse_transpose = define(
    "nn.sparse_transpose",
    "sparse_data sparse_indices sparse_indptr",
    infer=_transpose_type,
    kernel=_transposed,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    outputs=3,
)


def sparse_transpose(x: Any) -> Any:
    """The transpose of a square matrix: its data, indices and indptr."""
    return _sparse_transpose(*_parts(x))


def _add_type(attrs: Any, args: Sequence[Type]) -> Type:
    dense, data = ranked(args[0], 2, "dense_mat"), _compressed(args[1:])
    check_dtype(dense, data)
    unify(dense.shape[0], _row_count(data, args[3]), "the rows of dense_mat and sparse_mat,")
    return dense


_sparse_add = define(
    "nn.sparse_add",
    "dense_mat sparse_data sparse_indices sparse_indptr",
    infer=_add_type,
    kernel=lambda attrs, dense, data, indices, indptr: dense + _as_dense(data, indices, indptr, dense.shape[1]),
    denotation=BY_INDEX,
    kind=OpPattern.OPAQUE,
    flops=lambda attrs, args, ty: size(args[1]),
)


def sparse_add(dense_mat: Any, sparse_mat: Any) -> Any:
    """The sum of a matrix and a sparse matrix."""
    return _sparse_add(dense_mat, *_parts(sparse_mat))


__all__ = ["sparse_add", "sparse_conv2d", "sparse_dense", "sparse_transpose"]

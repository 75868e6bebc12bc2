"""Matrix products. Products of float16 and of narrow integers are accumulated in wider floats (exact for
integers up to 16 bits), others in the result's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import broadcast_shape, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type

OUT_DTYPE = Field("out_dtype", "dtype", "")


def product_dtype(lhs: Any, rhs: Any, out: Any) -> Any:
    """The dtype in which to compute a sum of products of ``lhs`` and ``rhs`` for a result of dtype ``out``."""
    out = np.dtype(out)
    if out.kind in "iu":
        narrow = all(np.dtype(dtype).itemsize <= 2 and np.dtype(dtype).kind in "biu" for dtype in (lhs, rhs))
        return np.dtype(np.float64) if narrow else out
    return np.promote_types(np.dtype(np.float32), out)


def from_product(result: Any, out: Any) -> Any:
    """A computed sum of products as a contiguous array of dtype ``out``; integers wrap around."""
    if np.dtype(out).kind in "iu" and result.dtype.kind == "f":
        result = result.astype(np.int64)
    return result.astype(out, order="C", copy=False)


def multiply_matrices(lhs: Any, rhs: Any, out: Any) -> Any:
    """``lhs @ rhs`` as dtype ``out``."""
    dtype = product_dtype(lhs.dtype, rhs.dtype, out)
    return from_product(np.matmul(lhs.astype(dtype, copy=False), rhs.astype(dtype, copy=False)), out)


def product_flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    """Two per multiply-add: result elements times the length of the contracted dimension."""
    shape = tensor(args[0]).shape
    inner = shape[-2 if attrs.get("transpose_a", False) and len(shape) > 1 else -1]
    return 2.0 * size(ty) * (inner if isinstance(inner, int) else 1)


# ---- dense


def _dense_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    """(..., I) times a weight (O, I) gives (..., O)."""
    data, weight = map(tensor, args)
    if not data.shape or len(weight.shape) != 2:
        raise TypeCheckError("needs data of at least one dimension and a weight of two")
    unify(data.shape[-1], weight.shape[1], "the last dimensions of data and weight,")
    units = weight.shape[0]
    if attrs.units is not None:
        units = unify(units, attrs.units, "units of weight and attributes:")
    return TensorType((*data.shape[:-1], units), attrs.out_dtype or data.dtype)


def _deduce_dense_weight(attrs: Any, args: Sequence[Type | None]) -> Sequence[Type | None]:
    """The weight's type from the data's and ``units``."""
    data, weight = args
    if weight is not None or not isinstance(data, TensorType) or attrs.units is None or not data.shape:
        return args
    return [data, TensorType((attrs.units, data.shape[-1]), data.dtype)]


dense = define(
    "nn.dense",
    "data weight",
    Field("units", "int", None, told=True),
    OUT_DTYPE,
    infer=_dense_type,
    deduce=_deduce_dense_weight,
    kernel=lambda attrs, data, weight: multiply_matrices(data, weight.T, attrs.out_dtype or data.dtype),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=product_flops,
)

# ---- matmul and batch_matmul


def _swapped(shape: Sequence[Dim], swap: bool) -> tuple[Dim, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if swap and len(shape) > 1 else tuple(shape)


def _turned(array: Any, swap: bool) -> Any:
    return np.swapaxes(array, -1, -2) if swap and array.ndim > 1 else array


def _matmul(attrs: Any, a: Any, b: Any) -> Any:
    """The product of the last two axes, each swapped as ``attrs`` ask."""
    turned = _turned(a, attrs.transpose_a), _turned(b, attrs.transpose_b)
    return multiply_matrices(*turned, attrs.out_dtype or a.dtype)


def _matmul_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    a, b = map(tensor, args)
    if not a.shape or not b.shape:
        raise TypeCheckError("needs two tensors of at least one dimension")
    left, right = _swapped(a.shape, attrs.transpose_a), _swapped(b.shape, attrs.transpose_b)
    unify(left[-1], right[-2 if len(right) > 1 else 0], "the contracted dimensions")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    if attrs.units is not None and columns:
        columns = (unify(columns[0], attrs.units, "units of tensor_b and attributes:"),)
    batch = broadcast_shape(left[:-2], right[:-2])
    return TensorType((*batch, *rows, *columns), attrs.out_dtype or a.dtype)


def _deduce_matmul(attrs: Any, args: Sequence[Type | None]) -> Sequence[Type | None]:
    a, b = args
    if b is not None or not isinstance(a, TensorType) or attrs.units is None or not a.shape:
        return args
    inner = _swapped(a.shape, attrs.transpose_a)[-1]
    return [a, TensorType(_swapped((inner, attrs.units), attrs.transpose_b), a.dtype)]


matmul = define(
    "nn.matmul",
    "tensor_a tensor_b",
    Field("units", "int", None, told=True),
    OUT_DTYPE,
    Field("transpose_a", "bool", False),
    Field("transpose_b", "bool", False),
    infer=_matmul_type,
    deduce=_deduce_matmul,
    kernel=_matmul,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=product_flops,
)
"""Beyond Relay, which has a matrix on the right: operands of any rank from 1, multiplied and broadcast as
``numpy.matmul`` does; ``transpose_a`` and ``transpose_b`` swap the last two dimensions."""


def _batch_matmul_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    """(B, M, K) times (B, K, N); a batch of 1 is repeated."""
    if any(len(tensor(arg).shape) != 3 for arg in args):
        raise TypeCheckError("needs two tensors of three dimensions")
    return _matmul_type(attrs.replace(units=None), args)


batch_matmul = define(
    "nn.batch_matmul",
    "tensor_a tensor_b",
    OUT_DTYPE,
    Field("transpose_a", "bool", False),
    Field("transpose_b", "bool", True, told=True),
    infer=_batch_matmul_type,
    kernel=_matmul,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=product_flops,
)

__all__ = ["batch_matmul", "dense", "matmul"]

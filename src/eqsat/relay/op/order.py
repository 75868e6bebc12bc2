"""Sorting and running sums. Sorts are stable; in descending order equal elements keep their order too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, static_or_dynamic
from eqsat.relay.op.types import along_axis, axis_index, ranked, tensor
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type

AXIS = Field("axis", "int", -1)


def order_of(data: Any, axis: int, ascending: bool) -> Any:
    """The indices that sort ``data`` along ``axis``."""
    if ascending:
        return np.argsort(data, axis=axis, kind="stable")
    backward = np.argsort(np.flip(data, axis), axis=axis, kind="stable")
    return data.shape[axis] - 1 - np.flip(backward, axis)


sort = define(
    "sort",
    "data",
    AXIS,
    Field("is_ascend", "bool", True),
    infer=along_axis,
    kernel=lambda attrs, data: np.take_along_axis(data, order_of(data, attrs.axis, attrs.is_ascend), attrs.axis),
    kind=OpPattern.OPAQUE,
)
argsort = define(
    "argsort",
    "data",
    AXIS,
    Field("is_ascend", "bool", True),
    Field("dtype", "dtype", "int32"),
    infer=lambda attrs, args: TensorType(along_axis(attrs, args).shape, attrs.dtype),
    kernel=lambda attrs, data: order_of(data, attrs.axis, attrs.is_ascend).astype(attrs.dtype),
    kind=OpPattern.OPAQUE,
)


def _topk_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    shape = list(data.shape)
    axis = axis_index(attrs.axis, len(shape))
    dim, k = shape[axis], attrs.k
    if isinstance(dim, int) and isinstance(k, int) and k > dim:
        raise TypeCheckError(f"k = {k} of an axis of {dim}")
    if isinstance(k, AnyDim) or k >= 1:
        shape[axis] = k
    return _returned(attrs, TensorType(shape, data.dtype))


def _returned(attrs: Any, values: TensorType) -> Type:
    """The type of what ``ret_type`` asks for."""
    indices = TensorType(values.shape, attrs.dtype)
    return {"both": TupleType([values, indices]), "values": values, "indices": indices}[attrs.ret_type]


_RETURNS: dict[str, Callable[[Any, Any], Any]] = {
    "both": lambda values, indices: (values, indices),
    "values": lambda values, indices: values,
    "indices": lambda values, indices: indices,
}


def _largest(attrs: Any, data: Any) -> Any:
    """The first ``k`` (all for k < 1) along the axis in the order asked for: values, indices or both."""
    axis = axis_index(attrs.axis, data.ndim)
    chosen = (slice(None),) * axis + (slice(attrs.k if attrs.k >= 1 else None),)
    order = order_of(data, axis, attrs.is_ascend)[chosen]
    return _RETURNS[attrs.ret_type](np.take_along_axis(data, order, axis), order.astype(attrs.dtype))


def _topk_outputs(attrs: Any) -> int | None:
    return 2 if attrs.ret_type == "both" else None


_topk = define(
    "topk",
    "data",
    Field("k", "int", 1),
    AXIS,
    Field("ret_type", "str", "both", choices=tuple(_RETURNS)),
    Field("is_ascend", "bool", False),
    Field("dtype", "dtype", "int32"),
    infer=_topk_type,
    kernel=_largest,
    kind=OpPattern.OPAQUE,
    outputs=_topk_outputs,
)


def _dyn_topk_type(attrs: Any, args: Sequence[Type]) -> Type:
    ranked(args[1], min(len(tensor(args[1]).shape), 1), "k")
    return _topk_type(attrs.replace(k=AnyDim()), args)


topk = static_or_dynamic(_topk, dynamic(_topk, "data k", _dyn_topk_type))

# ---- running sums and products


def _scan(name: str, accumulate: Callable[..., Any], start: int) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        data = tensor(args[0])
        if attrs.axis is None:
            return TensorType((multiply_dims(*data.shape),), attrs.dtype or data.dtype)
        axis_index(attrs.axis, len(data.shape))
        return TensorType(data.shape, attrs.dtype or data.dtype)

    def kernel(attrs: Any, data: Any) -> Any:
        dtype = attrs.dtype or data.dtype
        values, axis = (data.reshape(-1), 0) if attrs.axis is None else (data, attrs.axis)
        if attrs.exclusive:
            values = np.roll(values, 1, axis).astype(dtype)
            np.moveaxis(values, axis, 0)[:1] = start
        return accumulate(values, axis=axis, dtype=dtype)

    return define(
        name,
        "data",
        Field("axis", "int", None),
        Field("dtype", "dtype", ""),
        Field("exclusive", "bool", False),
        infer=infer,
        kernel=kernel,
        kind=OpPattern.OPAQUE,
    )


cumsum = _scan("cumsum", np.cumsum, 0)
cumprod = _scan("cumprod", np.cumprod, 1)

__all__ = ["argsort", "cumprod", "cumsum", "sort", "topk"]

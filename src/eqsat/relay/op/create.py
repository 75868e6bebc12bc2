"""Operators that make tensors: constants of a shape, fills, ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Builder, Field, OpPattern, define, tensor_of
from eqsat.relay.op.parameters import dynamic, static_or_dynamic
from eqsat.relay.op.types import check_dtype, ranked, same_type, tensor
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type


def _full_type(attrs: Any, args: Sequence[Type]) -> Type:
    value = ranked(args[0], 0, "fill_value")
    return TensorType(attrs.shape or (), attrs.dtype or value.dtype)


def _full_like_type(attrs: Any, args: Sequence[Type]) -> Type:
    ranked(args[1], 0, "fill_value")
    return tensor(args[0])


def _filled(name: str, fill: Callable[..., Any]) -> Builder:
    return define(
        name,
        "",
        Field("shape", "ints"),
        Field("dtype", "dtype"),
        infer=lambda attrs, args: TensorType(attrs.shape, attrs.dtype),
        kernel=lambda attrs: fill(attrs.shape, attrs.dtype),
        kind=OpPattern.ELEMWISE,
    )


_zeros, _ones = _filled("zeros", np.zeros), _filled("ones", np.ones)
_full = define(
    "full",
    "fill_value",
    Field("shape", "ints", ()),
    Field("dtype", "dtype", ""),
    infer=_full_type,
    kernel=lambda attrs, value: np.broadcast_to(value, attrs.shape).astype(attrs.dtype or value.dtype),
    kind=OpPattern.ELEMWISE,
)
dyn_zeros, dyn_ones, dyn_full = dynamic(_zeros, "shape"), dynamic(_ones, "shape"), dynamic(_full, "fill_value shape")
zeros, ones = static_or_dynamic(_zeros, dyn_zeros), static_or_dynamic(_ones, dyn_ones)
full = static_or_dynamic(_full, dyn_full)

zeros_like = define(
    "zeros_like", "data", infer=same_type, kernel=lambda attrs, data: np.zeros_like(data), kind=OpPattern.ELEMWISE
)
ones_like = define(
    "ones_like", "data", infer=same_type, kernel=lambda attrs, data: np.ones_like(data), kind=OpPattern.ELEMWISE
)
full_like = define(
    "full_like",
    "data fill_value",
    infer=_full_like_type,
    kernel=lambda attrs, data, value: np.broadcast_to(value, data.shape).astype(data.dtype),
    kind=OpPattern.ELEMWISE,
)


def _arange_type(attrs: Any, args: Sequence[Type]) -> Type:
    check_dtype(*(ranked(ty, 0) for ty in args))
    return TensorType((AnyDim(),), attrs.dtype)


def _arange_length(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
    """From 0 on by 1, the stop is the length."""
    start, stop, step = elements
    counts = start is not None and step is not None and (*start, *step) == (0, 1)
    (length,) = stop if counts and stop is not None else (AnyDim(),)
    return TensorType((length,), attrs.dtype) if length != AnyDim() and isinstance(length, AnyDim) else None


_arange = define(
    "arange",
    "start stop step",
    Field("dtype", "dtype", "float32"),
    infer=_arange_type,
    refine=_arange_length,
    kernel=lambda attrs, start, stop, step: _steps(start, stop, step).astype(attrs.dtype),
    kind=OpPattern.OPAQUE,
)


def _steps(start: Any, stop: Any, step: Any) -> Any:
    """start, start + step, ... up to but without stop, in the arguments' dtype."""
    if step == 0:
        raise TypeCheckError("the step must not be 0")
    count = max(0, int(np.ceil((float(stop) - float(start)) / float(step))))
    return start + np.arange(count, dtype=start.dtype) * step


def arange(start: Any, stop: Any = None, step: Any = None, dtype: str = "float32") -> Any:
    """Evenly spaced values in [start, stop): scalars as expressions or numbers, ``start`` alone is the stop.

    The length is known to type inference only after constant folding.
    """
    if stop is None:
        start, stop = 0, start
    first, last, step = (tensor_of(value, dtype) for value in (start, stop, 1 if step is None else step))
    return _arange(first, last, step, dtype=dtype)


__all__ = ["arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

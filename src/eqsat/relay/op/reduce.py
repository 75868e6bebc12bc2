"""Reductions. ``axis`` None is all axes, ``exclude`` takes the axes not given.

Sums of float16 are accumulated in float32; integers keep their dtype, a mean of integers truncates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod as prod_of
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.tensor import exp, log, sqrt, truncated_divide
from eqsat.relay.op.transform import squeeze
from eqsat.relay.op.types import axes_indices, size, tensor
from eqsat.relay.ty import Dim, TensorType, Type

Axes: TypeAlias = int | Sequence[int] | None
AXIS, KEEPDIMS, EXCLUDE = Field("axis", "ints", None), Field("keepdims", "bool", False), Field("exclude", "bool", False)


def accumulator(dtype: Any) -> Any:
    """The dtype in which sums of ``dtype`` are accumulated."""
    return np.float32 if dtype == np.float16 else dtype


def mean_over(data: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """The mean over ``axes`` in the data's dtype; of no elements NaN."""
    total = np.sum(data, axis=axes, keepdims=keepdims, dtype=accumulator(data.dtype))
    number = prod_of([data.shape[axis] for axis in axes])
    dtype = total.dtype
    if dtype.kind in "iu":  # which may not have the number of elements
        dtype = np.promote_types(dtype, np.min_scalar_type(number))
    total = np.asarray(total, dtype, like=data)
    return truncated_divide(total, np.asarray(number, dtype, like=data)).astype(data.dtype)


def lowest(dtype: Any) -> Any:
    """The identity of maximum: -inf or the smallest integer of ``dtype``."""
    return _bound(np.dtype(dtype), "min", -np.inf)


def highest(dtype: Any) -> Any:
    """The identity of minimum."""
    return _bound(np.dtype(dtype), "max", np.inf)


def _bound(dtype: Any, end: str, infinity: float) -> Any:
    if dtype.kind == "b":
        return np.bool_(infinity > 0)
    return dtype.type(getattr(np.iinfo(dtype), end) if dtype.kind in "iu" else infinity)


def reduced_shape(attrs: Any, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """What is left of ``shape`` after the reduction that ``attrs`` describe."""
    axes = axes_indices(attrs.axis, len(shape), attrs.exclude)
    if attrs.keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _reduction(name: str, function: Callable[[Any, tuple[int, ...], bool], Any], dtype: str | None = None) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        data = tensor(args[0])
        return TensorType(reduced_shape(attrs, data.shape), dtype or data.dtype)

    def kernel(attrs: Any, data: Any) -> Any:
        return function(data, axes_indices(attrs.axis, data.ndim, attrs.exclude), attrs.keepdims)

    return define(name, "data", AXIS, KEEPDIMS, EXCLUDE, infer=infer, kernel=kernel, kind=OpPattern.COMM_REDUCE)


def _accumulated(ufunc: Any) -> Callable[[Any, tuple[int, ...], bool], Any]:
    return lambda data, axes, keepdims: ufunc.reduce(
        data, axis=axes, keepdims=keepdims, dtype=accumulator(data.dtype)
    ).astype(data.dtype)


sum = _reduction("sum", _accumulated(np.add))
prod = _reduction("prod", _accumulated(np.multiply))
mean = _reduction("mean", mean_over)
max = _reduction(
    "max", lambda data, axes, keepdims: np.max(data, axis=axes, keepdims=keepdims, initial=lowest(data.dtype))
)
min = _reduction(
    "min", lambda data, axes, keepdims: np.min(data, axis=axes, keepdims=keepdims, initial=highest(data.dtype))
)
all = _reduction("all", lambda data, axes, keepdims: np.all(data, axis=axes, keepdims=keepdims), "bool")
any = _reduction("any", lambda data, axes, keepdims: np.any(data, axis=axes, keepdims=keepdims), "bool")

# ---- functions of sums: beyond Relay, which spells them in two or three calls


def _of_sum(name: str, function: Callable[[Any, Any], Any]) -> Builder:
    """A reduction of floats; ``function`` gets them in the accumulating dtype, and how to sum."""

    def over(data: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        wide = data.astype(accumulator(data.dtype), copy=False)
        return function(wide, partial(np.sum, axis=axes, keepdims=keepdims)).astype(data.dtype)

    return _reduction(name, over)


def _log_sum_exp(data: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Safe from overflow: of what is left when the greatest is taken off."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    greatest = np.max(wide, axis=axes, keepdims=True, initial=lowest(wide.dtype))
    base = np.where(np.isfinite(greatest), greatest, wide.dtype.type(0))
    total = np.log(np.sum(np.exp(wide - base), axis=axes, keepdims=True)) + base
    return (total if keepdims else np.squeeze(total, axes)).astype(data.dtype)


log_sum = _of_sum("log_sum", lambda data, total: np.log(total(data)))
log_sum_exp = _reduction("log_sum_exp", _log_sum_exp)
norm_l1 = _of_sum("norm_l1", lambda data, total: total(np.abs(data)))
norm_l2 = _of_sum("norm_l2", lambda data, total: np.sqrt(total(data * data)))
sum_of_squares = _of_sum("sum_of_squares", lambda data, total: total(data * data))


def _arg_reduction(name: str, find: Callable[..., Any]) -> Builder:
    def kernel(attrs: Any, data: Any) -> Any:
        axes = axes_indices(attrs.axis, data.ndim, attrs.exclude)
        kept = [axis for axis in range(data.ndim) if axis not in axes]
        rows = np.transpose(data, [*kept, *axes]).reshape(*(data.shape[axis] for axis in kept), -1)
        if rows.shape[-1] == 0:
            raise TypeCheckError("the axes reduced have no elements")
        if attrs.select_last_index:
            found = rows.shape[-1] - 1 - find(rows[..., ::-1], axis=-1)
        else:
            found = find(rows, axis=-1)
        shape: Any = reduced_shape(attrs, data.shape)
        return np.reshape(found, shape).astype(np.int32)

    return define(
        name,
        "data",
        AXIS,
        KEEPDIMS,
        EXCLUDE,
        Field("select_last_index", "bool", False),
        infer=lambda attrs, args: TensorType(reduced_shape(attrs, tensor(args[0]).shape), "int32"),
        kernel=kernel,
        kind=OpPattern.COMM_REDUCE,
    )


argmax = _arg_reduction("argmax", np.argmax)
argmin = _arg_reduction("argmin", np.argmin)


def _variance_kernel(attrs: Any, data: Any, mean: Any) -> Any:
    axes = axes_indices(attrs.axis, data.ndim, attrs.exclude)
    deviation = data.astype(accumulator(data.dtype), copy=False) - mean
    count = np.asarray(prod_of([data.shape[axis] for axis in axes]) - int(attrs.unbiased), like=data)
    total = np.sum(deviation * deviation, axis=axes, keepdims=attrs.keepdims)
    return np.divide(total, count).astype(data.dtype)


def _variance_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, _ = map(tensor, args)
    return TensorType(reduced_shape(attrs, data.shape), data.dtype)


_variance = define(
    "variance",
    "data mean",
    AXIS,
    KEEPDIMS,
    EXCLUDE,
    Field("unbiased", "bool", False),
    infer=_variance_type,
    kernel=_variance_kernel,
    kind=OpPattern.COMM_REDUCE,
    flops=lambda attrs, args, ty: 3 * size(args[0]),
)


def variance(
    data: Any,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Any = None,
) -> Any:
    """Variance over ``axis``: the mean of squared distances from ``with_mean``, by default the mean.

    ``unbiased`` divides by one less than the count. ``with_mean`` must broadcast with ``data``.
    """
    centre = mean(data, axis, True, exclude) if with_mean is None else with_mean
    return _variance(data, centre, axis, keepdims, exclude, unbiased)


def std(data: Any, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Any:
    """Standard deviation: the square root of :func:`variance`."""
    return sqrt(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Any, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> tuple[Any, Any]:
    """The mean and the variance, as two expressions."""
    centre = mean(data, axis, True, exclude)
    found = _variance(data, centre, axis, keepdims, exclude, unbiased)
    return (centre if keepdims else mean(data, axis, keepdims, exclude)), found


def mean_std(data: Any, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> tuple[Any, Any]:
    """The mean and the standard deviation, as two expressions."""
    centre, found = mean_variance(data, axis, keepdims, exclude)
    return centre, sqrt(found)


def logsumexp(data: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The logarithm of the sum of exponentials, safe from overflow."""
    greatest = max(data, axis, True)
    total = log(sum(exp(data - greatest), axis, True)) + greatest
    return total if keepdims else squeeze(total, axis)


__all__ = [
    "all", "any", "argmax", "argmin", "log_sum", "log_sum_exp", "logsumexp", "max", "mean", "mean_std",
    "mean_variance", "min", "norm_l1", "norm_l2", "prod", "std", "sum", "sum_of_squares", "variance",
]  # fmt: skip

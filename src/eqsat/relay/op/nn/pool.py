"""Pooling. Windows, padding and layouts follow :mod:`eqsat.relay.op.nn.conv`.

``ceil_mode`` rounds the number of windows up; a window may then reach beyond the padded end, and such places
count neither for the maximum nor, without ``count_include_pad``, for the average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol, overload

import numpy as np

from eqsat.relay.expr import Built, Call, Expr, Foreign
from eqsat.relay.op.nn.window import (
    both_sides,
    channels_first,
    define_image,
    extent,
    pad_spatial,
    per_axis,
    taps,
    windows_of,
)
from eqsat.relay.op.op import Builder, Field, OpPattern
from eqsat.relay.op.reduce import accumulator, lowest
from eqsat.relay.op.tensor import is_float, truncated_divide
from eqsat.relay.op.types import size
from eqsat.relay.ty import Dim


def _attributes(rank: int, *more: Field) -> list[Field]:
    ones, each = (1,) * rank, per_axis(rank)
    return [
        Field("pool_size", "ints", ones, each, told=True),
        Field("strides", "ints", ones, each),
        Field("dilation", "ints", ones, each),
        Field("padding", "ints", (0,) * rank, both_sides(rank)),
        Field("layout", "str", channels_first(rank)),
        Field("out_layout", "str", ""),
        Field("ceil_mode", "bool", False),
        *more,
    ]


def pool_windows(attrs: Any, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The number of windows along each spatial axis of ``shape`` (N, C, spatial...)."""
    rank = len(shape) - 2
    pads = [attrs.padding[axis] + attrs.padding[rank + axis] for axis in range(rank)]
    return tuple(
        extent(*axis, attrs.ceil_mode)
        for axis in zip(shape[2:], attrs.pool_size, attrs.strides, attrs.dilation, pads, strict=True)
    )


def pad_windows(attrs: Any, data: Any, out: Sequence[int], value: Any) -> Any:
    """``data`` padded so that all windows lie within."""
    rank = len(out)
    ends = [
        max(end, stride * (count - 1) + (tap - 1) * step + 1 - dim - begin)
        for begin, end, stride, count, tap, step, dim in zip(
            attrs.padding[:rank],
            attrs.padding[rank:],
            attrs.strides,
            out,
            attrs.pool_size,
            attrs.dilation,
            data.shape[2:],
            strict=True,
        )
    ]
    return pad_spatial(data, attrs.padding[:rank], ends, value)


def fold_windows(attrs: Any, data: Any, out: Sequence[int], start: Any, function: Callable[..., Any]) -> Any:
    """All elements of every window folded by ``function``, a binary ufunc, from ``start``."""
    padded = pad_windows(attrs, data, out, start)
    result = np.full((*data.shape[:2], *out), start, data.dtype)
    for _, window in taps(attrs.pool_size, attrs.strides, attrs.dilation, out):
        function(result, padded[window], out=result)
    return result


def window_sizes(attrs: Any, shape: Sequence[int], out: Sequence[int], dtype: Any) -> Any:
    """How many elements of data of a shape count for the average of each window, at least 1."""
    if attrs.count_include_pad:
        return np.asarray(prod(attrs.pool_size), dtype)
    return np.maximum(fold_windows(attrs, np.ones((1, 1, *shape[2:]), dtype), out, 0, np.add), 1)


def _max_windows(attrs: Any, data: Any) -> Any:
    out: Any = pool_windows(attrs, data.shape)
    return fold_windows(attrs, data, out, lowest(data.dtype), np.maximum)


def _average_windows(attrs: Any, data: Any) -> Any:
    out: Any = pool_windows(attrs, data.shape)
    wide = data.astype(accumulator(data.dtype) if is_float(data) else np.int64, copy=False)
    total = fold_windows(attrs, wide, out, wide.dtype.type(0), np.add)
    count = window_sizes(attrs, data.shape, out, wide.dtype)
    return truncated_divide(total, count)


def _folded(attrs: Any, data: Any, start: Any, fold: Any) -> Any:
    """The same as :func:`fold_windows`, on terms, too; ``fold`` reduces axes."""
    out: Any = pool_windows(attrs, data.shape)
    padded = pad_windows(attrs, data, out, start)
    windows = windows_of(padded, attrs.pool_size, attrs.strides, attrs.dilation, out)
    return fold(windows, axis=tuple(range(-len(out), 0)))


def _greatest(attrs: Any, data: Any) -> Any:
    return _folded(attrs, data, lowest(data.dtype), np.max)


def _mean(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype) if is_float(data) else np.int64)
    count = np.asarray(prod(attrs.pool_size), wide.dtype, like=data)
    if not attrs.count_include_pad and (attrs.ceil_mode or any(attrs.padding)):
        ones = np.ones((1, 1, *data.shape[2:]), wide.dtype, like=data)
        count = np.maximum(_folded(attrs, ones, 0, np.sum), 1)
    return truncated_divide(_folded(attrs, wide, 0, np.sum), count)


def _pool(
    name: str, rank: int, reduce: Callable[[Any, Any], Any], meaning: Callable[[Any, Any], Any], *more: Field
) -> Builder:
    return define_image(
        f"nn.{name}{rank}d",
        rank,
        *_attributes(rank, *more),
        shape=lambda attrs, shape: (*shape[:2], *pool_windows(attrs, shape)),
        kernel=reduce,
        denotation=meaning,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=lambda attrs, args, ty: size(ty) * prod(attrs.pool_size),
    )


_PADDED = Field("count_include_pad", "bool", False)
max_pool1d, max_pool2d, max_pool3d = (_pool("max_pool", rank, _max_windows, _greatest) for rank in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_pool("avg_pool", rank, _average_windows, _mean, _PADDED) for rank in (1, 2, 3))


# ---- adaptive and global pooling


def _regions(dim: int, count: int) -> list[slice]:
    """``count`` windows that cover an axis of size ``dim`` as evenly as integers allow."""
    return [slice(i * dim // count, -(-(i + 1) * dim // count)) for i in range(count)]


def _regional(name: str, rank: int, fold: Callable[[Any, Any], Any], *fields: Field) -> Builder:
    """An operator that folds regions of an image: as many as ``output_size`` says, or one if that is no attribute."""

    def counts(attrs: Any, spatial: Sequence[Dim]) -> Sequence[Dim]:
        wanted = attrs.get("output_size", (1,) * rank)
        return spatial if wanted is None else wanted

    return define_image(
        f"nn.{name}{rank}d",
        rank,
        *fields,
        Field("layout", "str", channels_first(rank)),
        Field("out_layout", "str", ""),
        shape=lambda attrs, shape: (*shape[:2], *counts(attrs, shape[2:])),
        kernel=lambda attrs, values: fold(values, counts(attrs, values.shape[2:])),
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=lambda attrs, args, ty: size(args[0]),
    )


def _adaptive(name: str, rank: int, fold: Callable[[Any, Any], Any]) -> Builder:
    return _regional(f"adaptive_{name}", rank, fold, Field("output_size", "ints", None, per_axis(rank)))


def _fold_regions(values: Any, out: Sequence[int], fold: Callable[..., Any]) -> Any:
    """One axis after the other: windows of different axes are independent."""
    for axis, count in enumerate(out, 2):
        at = (slice(None),) * axis
        parts = [fold(values[(*at, region)], axis) for region in _regions(values.shape[axis], count)]
        values = np.concatenate(parts, axis)
    return values


def _max_regions(values: Any, out: Sequence[int]) -> Any:
    start = lowest(values.dtype)
    return _fold_regions(values, out, lambda region, axis: np.max(region, axis=axis, keepdims=True, initial=start))


def _average_regions(values: Any, out: Sequence[int]) -> Any:
    wide = values.astype(accumulator(values.dtype) if is_float(values) else np.int64, copy=False)
    total = _fold_regions(wide, out, lambda region, axis: np.sum(region, axis=axis, keepdims=True))
    ones = np.ones((1, 1, *values.shape[2:]), wide.dtype)
    count = _fold_regions(ones, out, lambda region, axis: np.sum(region, axis=axis, keepdims=True))
    return truncated_divide(total, count)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive("max_pool", rank, _max_regions) for rank in (1, 2, 3)
)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive("avg_pool", rank, _average_regions) for rank in (1, 2, 3)
)


def _max_of_all(values: Any, out: Sequence[int]) -> Any:
    axes = tuple(range(2, values.ndim))
    return np.max(values, axis=axes, keepdims=True, initial=lowest(values.dtype))


def _average_of_all(values: Any, out: Sequence[int]) -> Any:
    wide = values.astype(accumulator(values.dtype) if is_float(values) else np.int64, copy=False)
    total = np.sum(wide, axis=tuple(range(2, values.ndim)), keepdims=True)
    return truncated_divide(total, np.asarray(prod(values.shape[2:]), total.dtype, like=values))


global_max_pool2d = _regional("global_max_pool", 2, _max_of_all)
global_avg_pool2d = _regional("global_avg_pool", 2, _average_of_all)


class _Pools(Protocol):
    """Builds calls that pool over all spatial axes, or patterns of them."""

    @overload
    def __call__(self, data: Expr, layout: str = ..., out_layout: str = ...) -> Call: ...
    @overload
    def __call__(self, data: Foreign[Built], layout: str = ..., out_layout: str = ...) -> Built: ...


def _global(adaptive: Builder, layout: str) -> _Pools:
    """What pools over all spatial axes of a layout by default, by adaptive pooling to one place."""

    def build(data: Any, layout: str = layout, out_layout: str = "") -> Any:
        return adaptive(data, (1,), layout, out_layout)

    build.__name__ = adaptive.__name__.replace("adaptive", "global")
    build.__doc__ = f"{build.__name__}: one region that covers all spatial axes."
    return build


global_avg_pool1d, global_avg_pool3d = _global(adaptive_avg_pool1d, "NCW"), _global(adaptive_avg_pool3d, "NCDHW")
global_max_pool1d, global_max_pool3d = _global(adaptive_max_pool1d, "NCW"), _global(adaptive_max_pool3d, "NCDHW")

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "global_avg_pool1d", "global_avg_pool2d",
    "global_avg_pool3d", "global_max_pool1d", "global_max_pool2d", "global_max_pool3d", "max_pool1d", "max_pool2d",
    "max_pool3d",
]  # fmt: skip

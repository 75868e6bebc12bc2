"""Image operators: resizing and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.relay.op.nn.window import channels_first, define_image, per_axis
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, static_or_dynamic, unknown
from eqsat.relay.op.resize import COORDINATES, ROUNDINGS, resize_array
from eqsat.relay.op.types import check_dtype, ranked, size, unify
from eqsat.relay.ty import TensorType, Type


def _resized(attrs: Any, data: Any) -> Any:
    return resize_array(
        data,
        attrs.size,
        attrs.method,
        attrs.coordinate_transformation_mode,
        rounding=attrs.rounding_method,
        cubic_alpha=attrs.cubic_alpha,
        exclude_outside=bool(attrs.cubic_exclude),
        roi=attrs.roi,
        outside=attrs.extrapolation_value,
    )


_WORK = {"nearest_neighbor": 0.0, "linear": 2.0, "cubic": 8.0}
"""Method of interpolation -> operations for each element."""


def _resize(rank: int) -> Builder:
    return define_image(
        f"image.resize{rank}d",
        rank,
        Field("size", "ints", convert=per_axis(rank)),
        Field("roi", "any", (), lambda roi: tuple(roi) or (0.0,) * (2 * rank)),
        Field("layout", "str", channels_first(rank)),
        Field("method", "str", "linear", choices=tuple(_WORK)),
        Field("coordinate_transformation_mode", "str", "half_pixel", choices=tuple(COORDINATES)),
        Field("rounding_method", "str", "", told=True, choices=("", *ROUNDINGS)),
        Field("cubic_alpha", "float", -0.5),
        Field("cubic_exclude", "int", 0),
        Field("extrapolation_value", "float", 0.0),
        Field("out_dtype", "dtype", ""),
        shape=lambda attrs, shape: (*shape[:2], *attrs.size),
        kernel=_resized,
        kind=OpPattern.INJECTIVE,
        flops=lambda attrs, args, ty: _WORK[attrs.method] * size(ty),
    )


resize1d, _resize2d, resize3d = map(_resize, (1, 2, 3))


def _dyn_resize_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, *parameters = args
    for ty, what in zip(parameters, ("size", "roi"), strict=True):
        ranked(ty, 1, what)
    relation: Any = _resize2d.op.infer
    found: Type = relation(attrs.replace(size=unknown(2)), [data])
    return found


resize2d = static_or_dynamic(_resize2d, dynamic(_resize2d, "data size roi", _dyn_resize_type))


def _grid_sample_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, grid = ranked(args[0], 4, "data"), ranked(args[1], 4, "grid")
    check_dtype(data, grid)
    unify(grid.shape[1], 2, "dimension 1 of grid:")
    return TensorType((unify(data.shape[0], grid.shape[0]), data.shape[1], *grid.shape[2:]), data.dtype)


def _grid_sample(attrs: Any, data: Any, grid: Any) -> Any:
    sizes = data.shape[:1:-1]  # x runs along the width
    x, y = (
        (grid[:, i] + 1) * ((dim - 1) / 2) if attrs.align_corners else ((grid[:, i] + 1) * dim - 1) / 2
        for i, dim in enumerate(sizes)
    )
    if attrs.padding_mode == "border":
        x, y = np.clip(x, 0, sizes[0] - 1), np.clip(y, 0, sizes[1] - 1)
    if attrs.method == "nearest":
        return _pixels(data, np.rint(x), np.rint(y)).astype(data.dtype)
    left, top = np.floor(x), np.floor(y)
    result = 0.0
    for column in (left, left + 1):
        for row in (top, top + 1):
            weight = np.maximum(1 - np.abs(x - column), 0) * np.maximum(1 - np.abs(y - row), 0)
            result = result + _pixels(data, column, row) * weight[:, None]
    return np.asarray(result).astype(data.dtype)


def _pixels(data: Any, x: Any, y: Any) -> Any:
    """``data[n, :, y, x]``, 0 beyond the image: (N, C, rows, columns)."""
    height, width = data.shape[2:]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    batch = np.arange(len(data)).reshape(-1, 1, 1)
    rows, columns = (np.where(inside, places, 0).astype(np.int64) for places in (y, x))
    return np.moveaxis(data[batch, :, rows, columns], -1, 1) * inside[:, None]


grid_sample = define(
    "image.grid_sample",
    "data grid",
    Field("method", "str", "bilinear", choices=("bilinear", "nearest")),
    Field("layout", "str", "NCHW", choices=("NCHW",)),
    Field("padding_mode", "str", "zeros", choices=("zeros", "border")),
    Field("align_corners", "bool", True),
    infer=_grid_sample_type,
    kernel=_grid_sample,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: 8 * size(ty),
)
"""``grid`` is (N, 2, rows, columns): x then y, -1 to 1 over the image."""

__all__ = ["grid_sample", "resize1d", "resize2d", "resize3d"]

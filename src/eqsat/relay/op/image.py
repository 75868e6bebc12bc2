"""Image operators: resizing and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op import dyn
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.window import channels_first, per_axis
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.resize import COORDINATES, ROUNDINGS, resize_array
from eqsat.relay.op.types import check_dtype, ranked, size, tensor, unify
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, Type

METHODS = ("nearest_neighbor", "linear", "cubic")


def resize_fields(rank: int) -> list[Field]:
    """The attributes of a resize of ``rank`` spatial axes after ``size`` and ``roi``."""
    return [
        Field("layout", "str", channels_first(rank)),
        Field("method", "str", "linear"),
        Field("coordinate_transformation_mode", "str", "half_pixel"),
        Field("rounding_method", "str", "", told=True),
        Field("cubic_alpha", "float", -0.5),
        Field("cubic_exclude", "int", 0),
        Field("extrapolation_value", "float", 0.0),
        Field("out_dtype", "dtype", ""),
    ]


def check_resize(attrs: Any) -> None:
    """Raise TypeCheckError for a method, mode or rounding that is not known."""
    for name, known in (
        ("method", METHODS),
        ("coordinate_transformation_mode", COORDINATES),
        ("rounding_method", ("", *ROUNDINGS)),
    ):
        if attrs[name] not in known:
            raise TypeCheckError(f"{name} must be one of {list(known)}, not {attrs[name]!r}")


def resized(attrs: Any, data: Any, sizes: Sequence[int], roi: Sequence[float] | None) -> Any:
    """``data`` in the layout of ``attrs`` with spatial ``sizes``."""
    canonical = channels_first(len(sizes))
    result = resize_array(
        layout_change(attrs.layout, canonical)(data),
        sizes,
        attrs.method,
        attrs.coordinate_transformation_mode,
        rounding=attrs.rounding_method,
        cubic_alpha=attrs.cubic_alpha,
        exclude_outside=bool(attrs.cubic_exclude),
        roi=roi,
        outside=attrs.extrapolation_value,
    )
    return layout_change(canonical, attrs.layout)(result).astype(attrs.out_dtype or data.dtype)


def _resize(rank: int) -> Builder:
    canonical = channels_first(rank)

    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        check_resize(attrs)
        data = tensor(args[0])
        shape = layout_change(attrs.layout, canonical).shape(data.shape)
        shape = layout_change(canonical, attrs.layout).shape((*shape[:2], *attrs.size))
        return TensorType(shape, attrs.out_dtype or data.dtype)

    return define(
        f"image.resize{rank}d",
        "data",
        Field("size", "ints", convert=per_axis(rank)),
        Field("roi", "any", (), lambda roi: tuple(roi) or (0.0,) * (2 * rank)),
        *resize_fields(rank),
        infer=infer,
        kernel=lambda attrs, data: resized(attrs, data, attrs.size, attrs.roi),
        kind=OpPattern.INJECTIVE,
        flops=lambda attrs, args, ty: {"nearest_neighbor": 0.0, "linear": 2.0, "cubic": 8.0}[attrs.method] * size(ty),
    )


def _dyn_resize_type(attrs: Any, args: Sequence[Type]) -> Type:
    check_resize(attrs)
    data, _, _ = ranked(args[0], 4, "data"), ranked(args[1], 1, "size"), ranked(args[2], 1, "roi")
    shape = layout_change(attrs.layout, "NCHW").shape(data.shape)
    shape = layout_change("NCHW", attrs.layout).shape((*shape[:2], AnyDim(), AnyDim()))
    return TensorType(shape, attrs.out_dtype or data.dtype)


_dyn_resize2d = define(
    "dyn.image.resize2d",
    "data size roi",
    *resize_fields(2),
    infer=_dyn_resize_type,
    kernel=lambda attrs, data, size, roi: resized(attrs, data, tuple(map(int, size)), tuple(map(float, roi))),
    kind=OpPattern.INJECTIVE,
)
resize1d, _resize2d, resize3d = map(_resize, (1, 2, 3))
resize2d = dyn.static_or_dynamic(_resize2d, _dyn_resize2d)


def _grid_sample_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, grid = ranked(args[0], 4, "data"), ranked(args[1], 4, "grid")
    check_dtype(data, grid)
    unify(grid.shape[1], 2, "dimension 1 of grid:")
    if attrs.layout != "NCHW" or attrs.method not in ("bilinear", "nearest"):
        raise TypeCheckError("only layout NCHW and methods bilinear and nearest are supported")
    if attrs.padding_mode not in ("zeros", "border"):
        raise TypeCheckError(f"padding_mode must be 'zeros' or 'border', not {attrs.padding_mode!r}")
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
    Field("method", "str", "bilinear"),
    Field("layout", "str", "NCHW"),
    Field("padding_mode", "str", "zeros"),
    Field("align_corners", "bool", True),
    infer=_grid_sample_type,
    kernel=_grid_sample,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: 8 * size(ty),
)
"""``grid`` is (N, 2, rows, columns): x then y, -1 to 1 over the image."""

__all__ = ["grid_sample", "resize1d", "resize2d", "resize3d"]

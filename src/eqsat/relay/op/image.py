"""Image operators: resizing, sampling, cropping and dilation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from eqsat.relay.op.denotation import BY_VALUE
from eqsat.relay.op.index import bounded
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.window import both_sides, channels_first, define_image, extent, pad_spatial, per_axis, taps
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, static_or_dynamic, unknown
from eqsat.relay.op.resize import COORDINATES, ROUNDINGS, resize_array
from eqsat.relay.op.types import check_dtype, ranked, size, tensor, unify
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
    rank = len(attrs.layout)
    data, grid = ranked(args[0], rank, "data"), ranked(args[1], rank, "grid")
    check_dtype(data, grid)
    unify(grid.shape[1], rank - 2, "dimension 1 of grid:")
    return TensorType((unify(data.shape[0], grid.shape[0]), data.shape[1], *grid.shape[2:]), data.dtype)


_CUBIC = -0.75
"""The coefficient of cubic interpolation, as in PyTorch and ONNX."""


def _grid_sample(attrs: Any, data: Any, grid: Any) -> Any:
    sizes = data.shape[2:]
    axes: list[list[tuple[Any, Any]]] = []  # for each axis the places that are read, with their weights
    for axis, dim in enumerate(sizes):
        place = grid[:, len(sizes) - 1 - axis] + 1  # x, the first, runs along the last axis
        place = place * ((dim - 1) / 2) if attrs.align_corners else (place * dim - 1) / 2
        axes.append(_sampled(place, attrs.method))
    result: Any = 0.0
    for corner in product(*axes):
        weight = math.prod(weight for _, weight in corner)
        pixels = _pixels(data, [place for place, _ in corner], attrs.padding_mode, attrs.align_corners)
        result = result + pixels * np.expand_dims(weight, 1)
    return np.asarray(result).astype(data.dtype)


def _sampled(place: Any, method: str) -> list[tuple[Any, Any]]:
    """The whole places that are read for one, with their weights."""
    if method == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    first = np.floor(place)
    after = place - first
    if method == "bilinear":
        return [(first, 1 - after), (first + 1, after)]
    return [
        (first - 1, _outer(after + 1)),
        (first, _inner(after)),
        (first + 1, _inner(1 - after)),
        (first + 2, _outer(2 - after)),
    ]


def _inner(distance: Any) -> Any:
    """The weight of cubic interpolation for distances up to 1."""
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _outer(distance: Any) -> Any:
    """The weight of cubic interpolation for distances from 1 to 2."""
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC


def _pixels(data: Any, places: Sequence[Any], padding: str, align_corners: bool) -> Any:
    """``data[n, :, places...]``, (N, C, ...) over the places; beyond the image as ``padding`` says."""
    inside: Any = True
    indices = []
    for place, dim in zip(places, data.shape[2:], strict=True):
        if padding == "reflection":
            place = _reflected(place, *((0, dim - 1) if align_corners else (-0.5, dim - 0.5)))
        elif padding == "zeros":
            inside = inside & (place >= 0) & (place <= dim - 1)
        indices.append(np.clip(np.nan_to_num(place), 0, dim - 1).astype(np.int64))
    batch = np.arange(len(data)).reshape(-1, *[1] * len(indices))
    return np.moveaxis(data[batch, :, *indices], -1, 1) * np.expand_dims(inside, 1 if np.ndim(inside) else 0)


def _reflected(place: Any, low: float, high: float) -> Any:
    """``place`` thrown back at the borders until it is within."""
    span = high - low
    if span <= 0:
        return np.zeros_like(place)
    distance = np.mod(np.abs(place - low), 2 * span)
    return low + np.minimum(distance, 2 * span - distance)


grid_sample = define(
    "image.grid_sample",
    "data grid",
    Field("method", "str", "bilinear", choices=("bilinear", "nearest", "bicubic")),
    Field("layout", "str", "NCHW", choices=("NCHW", "NCDHW")),
    Field("padding_mode", "str", "zeros", choices=("zeros", "border", "reflection")),
    Field("align_corners", "bool", True),
    infer=_grid_sample_type,
    kernel=_grid_sample,
    denotation=BY_VALUE,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: 8 * size(ty),
)
"""``grid`` is (N, 2, rows, columns): x then y, -1 to 1 over the image; of volumes (N, 3, ...): x, y, z."""


def _affine_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 3, "data")
    for dim, wanted in zip(data.shape[1:], (2, 3), strict=True):
        unify(dim, wanted, "the sizes of an affine transformation:")
    return TensorType((data.shape[0], 2, *attrs.target_shape), data.dtype)


def _affine(attrs: Any, data: Any) -> Any:
    y, x = np.meshgrid(*(np.linspace(-1, 1, dim) for dim in attrs.target_shape), indexing="ij")
    return np.einsum("nij,jyx->niyx", data, np.stack([x, y, np.ones_like(x)])).astype(data.dtype)


affine_grid = define(
    "image.affine_grid",
    "data",
    Field("target_shape", "ints", convert=per_axis(2)),
    infer=_affine_type,
    kernel=_affine,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: 4 * size(ty),
)
"""The grid for :data:`grid_sample` that affine transformations (N, 2, 3) make of the whole image."""

# ---- crops


def _crop_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, boxes, indices = tensor(args[0]), ranked(args[1], 2, "boxes"), ranked(args[2], 1, "box_indices")
    unify(boxes.shape[1], 4, "the numbers of a box:")
    count = unify(boxes.shape[0], indices.shape[0], "the numbers of boxes and box_indices,")
    channels = layout_change(attrs.layout, "NCHW").shape(data.shape)[1]
    shape = layout_change("NCHW", attrs.layout).shape((count, channels, *attrs.crop_size))
    return TensorType(shape, attrs.out_dtype or data.dtype)


def _cropped(attrs: Any, data: Any, boxes: Any, indices: Any) -> Any:
    images, dtype = layout_change(attrs.layout, "NCHW")(data), attrs.out_dtype or data.dtype
    result = np.zeros((len(boxes), images.shape[1], *attrs.crop_size), dtype)
    for place, (index, box) in enumerate(zip(bounded(indices, len(images), "fast"), boxes.tolist(), strict=True)):
        result[place] = resize_array(
            images[index : index + 1],
            attrs.crop_size,
            {"bilinear": "linear"}.get(attrs.method, attrs.method),
            "tf_crop_and_resize",
            rounding="round",
            roi=(0.0, 0.0, *box[:2], 1.0, 1.0, *box[2:]),
            outside=attrs.extrapolation_value,
        )[0]
    return layout_change("NCHW", attrs.layout)(result)


crop_and_resize = define(
    "image.crop_and_resize",
    "data boxes box_indices",
    Field("crop_size", "ints", convert=per_axis(2)),
    Field("layout", "str"),
    Field("method", "str", "bilinear", choices=("bilinear", "nearest_neighbor")),
    Field("extrapolation_value", "float", 0.0),
    Field("out_dtype", "dtype", ""),
    infer=_crop_type,
    kernel=_cropped,
    denotation=BY_VALUE,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: (4 if attrs.method == "bilinear" else 0) * size(ty),
)
"""A crop of the image ``box_indices`` names for each box: y and x of two corners, 0 to 1 over the image."""

# ---- dilation


def _dilation_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, weight = map(tensor, args)
    shape = layout_change(attrs.data_layout, "NCHW").shape(data.shape)
    kernel = layout_change(attrs.kernel_layout, "IHW").shape(weight.shape)
    channels = unify(shape[1], kernel[0], "the channels of data and weight,")
    pads = [attrs.padding[axis] + attrs.padding[2 + axis] for axis in range(2)]
    spatial = map(extent, shape[2:], kernel[1:], attrs.strides, attrs.dilations, pads)
    result = layout_change("NCHW", attrs.data_layout).shape((shape[0], channels, *spatial))
    return TensorType(result, attrs.out_dtype or check_dtype(data, weight))


def _dilated(attrs: Any, data: Any, weight: Any) -> Any:
    values = layout_change(attrs.data_layout, "NCHW")(data)
    kernel = layout_change(attrs.kernel_layout, "IHW")(weight)
    padded = pad_spatial(values, attrs.padding[:2], attrs.padding[2:], 0)
    out: Any = [
        extent(*axis, 0)
        for axis in zip(padded.shape[2:], kernel.shape[1:], attrs.strides, attrs.dilations, strict=True)
    ]
    sums = [
        padded[window] + kernel[(slice(None), *index)][:, None, None]
        for index, window in taps(kernel.shape[1:], attrs.strides, attrs.dilations, out)
    ]
    result = np.max(sums, axis=0).astype(attrs.out_dtype or data.dtype, copy=False)
    return layout_change("NCHW", attrs.data_layout)(result)


def _first_two(value: Any) -> tuple[Any, ...]:
    """One value for both axes, or two; of four, which Relay takes too, the first two count."""
    return per_axis(2)(value[:2] if isinstance(value, (list, tuple)) and len(value) == 4 else value)


dilation2d = define(
    "image.dilation2d",
    "data weight",
    Field("strides", "ints", (1, 1), _first_two),
    Field("padding", "ints", (0, 0), both_sides(2)),
    Field("dilations", "ints", (1, 1), _first_two),
    Field("data_layout", "str", "NCHW"),
    Field("kernel_layout", "str", "IHW"),
    Field("out_dtype", "dtype", ""),
    infer=_dilation_type,
    kernel=_dilated,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(ty) * size(args[1]),
)
"""The greatest sum of pixel and weight in each window of each channel; around the image there are zeros."""

__all__ = [
    "affine_grid", "crop_and_resize", "dilation2d", "grid_sample", "resize1d", "resize2d", "resize3d",
]  # fmt: skip

"""Pooling of regions of interest (ROI), and the reordering of YOLO's network.

A region is a row of five numbers: the image's number in the batch, then x and y of the first corner and of the
second, in units of which there are ``1 / spatial_scale`` in a pixel of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any

import numpy as np

from eqsat.relay.dims import floor_divide_dims, multiply_dims
from eqsat.relay.op.denotation import BY_VALUE
from eqsat.relay.op.index import bounded
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.window import per_axis
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import check_dtype, divided, ranked, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type


def _pooled_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, rois = ranked(args[0], 4, "data"), ranked(args[1], 2, "rois")
    unify(rois.shape[1], 5, "the numbers of a region:")
    channels = layout_change(attrs.layout, "NCHW").shape(data.shape)[1]
    shape = layout_change("NCHW", attrs.layout).shape((rois.shape[0], channels, *attrs.pooled_size))
    return TensorType(shape, check_dtype(data, rois))


def _define(name: str, pool: Callable[[Any, Any, Any], Any], *more: Field) -> Builder:
    """Add an operator; ``pool(attrs, image, corners)`` pools a region of an image (C, H, W)."""

    def kernel(attrs: Any, data: Any, rois: Any) -> Any:
        images = layout_change(attrs.layout, "NCHW")(data)
        result = np.zeros((len(rois), images.shape[1], *attrs.pooled_size), data.dtype)
        numbers = bounded(rois[:, 0], len(images), "fast")
        for index, (number, corners) in enumerate(zip(numbers, rois[:, 1:] * attrs.spatial_scale, strict=True)):
            result[index] = pool(attrs, images[number], corners)
        return layout_change("NCHW", attrs.layout)(result)

    return define(
        f"vision.{name}",
        "data rois",
        Field("pooled_size", "ints", convert=per_axis(2)),
        Field("spatial_scale", "float"),
        *more,
        infer=_pooled_type,
        kernel=kernel,
        denotation=BY_VALUE,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    )


def _weights(begin: float, end: float, bins: int, samples: int, dim: int) -> Any:
    """The weights of linear interpolation (bins, samples, dim) at samples spread evenly over bins of an axis."""
    step = (end - begin) / bins
    places = begin + step * (np.arange(bins)[:, None] + (np.arange(samples) + 0.5) / samples)
    inside = (places >= -1) & (places <= dim)
    distances = np.abs(np.clip(places, 0, dim - 1)[..., None] - np.arange(dim))
    return np.maximum(1 - distances, 0) * inside[..., None]


def _aligned(attrs: Any, image: Any, corners: Any) -> Any:
    weights = []
    for axis, bins in enumerate(attrs.pooled_size):
        begin = float(corners[1 - axis])  # x comes first
        length = max(float(corners[3 - axis]) - begin, 1.0)
        samples = attrs.sample_ratio if attrs.sample_ratio > 0 else ceil(length / bins)
        weights.append(_weights(begin, begin + length, bins, samples, image.shape[1 + axis]))
    samples = np.einsum("chw,yih,xjw->cyixj", image, *weights, optimize=True)
    return samples.mean(axis=(2, 4)) if attrs.mode == "avg" else samples.max(axis=(2, 4))


def _pooled(attrs: Any, image: Any, corners: Any) -> Any:
    bounds = []
    for axis, bins in enumerate(attrs.pooled_size):
        begin, end = (int(np.rint(corners[place])) for place in (1 - axis, 3 - axis))
        step = max(end - begin + 1, 1) / bins
        limits = [(floor(index * step) + begin, ceil((index + 1) * step) + begin) for index in range(bins)]
        bounds.append([slice(*np.clip(limit, 0, image.shape[1 + axis])) for limit in limits])
    parts = [[image[:, rows, columns] for columns in bounds[1]] for rows in bounds[0]]
    best = [[part.max(axis=(1, 2)) if part.size else np.zeros(len(image)) for part in row] for row in parts]
    return np.array(best).reshape(*attrs.pooled_size, len(image)).transpose(2, 0, 1)


roi_align = _define(
    "roi_align",
    _aligned,
    Field("sample_ratio", "int", -1),  # how many samples a bin has along an axis; as many as pixels if not positive
    Field("layout", "str", "NCHW"),
    Field("mode", "str", "avg", choices=("avg", "max")),
)
"""The average or maximum of samples by bilinear interpolation in each of the bins of each region."""

roi_pool = _define("roi_pool", _pooled, Field("layout", "str", "NCHW"))
"""The maximum of the pixels in each of the bins of each region, 0 in a bin without pixels."""

# ---- YOLO


def _reorg_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = ranked(args[0], 4, "data")
    batch, channels, *sizes = data.shape
    divided(channels, attrs.stride**2, f"{channels} channels are no multiple of the square of stride {attrs.stride}")
    for dim in sizes:
        divided(dim, attrs.stride, f"an axis of {dim} is no multiple of stride {attrs.stride}")
    spatial = [floor_divide_dims(dim, attrs.stride) for dim in sizes]
    return TensorType((batch, multiply_dims(channels, attrs.stride**2), *spatial), data.dtype)


def _reorg(attrs: Any, data: Any) -> Any:
    """Read as fewer and larger images, each pixel of a block of which becomes a channel."""
    stride, (batch, channels, height, width) = attrs.stride, data.shape
    blocks = data.reshape(batch, channels // stride**2, height, stride, width, stride).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(batch, channels * stride**2, height // stride, width // stride)


yolo_reorg = define(
    "vision.yolo_reorg",
    "data",
    Field("stride", "int"),
    infer=_reorg_type,
    kernel=_reorg,
    kind=OpPattern.INJECTIVE,
    traits=Trait.MOVES,
)

__all__ = ["roi_align", "roi_pool", "yolo_reorg"]

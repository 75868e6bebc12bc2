"""Convolutions of one, two and three spatial dimensions.

``padding`` is stored as the begins of all axes followed by the ends: ``(1, 1)`` in two dimensions becomes
``(1, 1, 1, 1)``, that is top, left, bottom, right. Layouts with blocks (``NCHW4c``) are understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.errors import TypeCheckError
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.matrix import from_product, product_dtype
from eqsat.relay.op.nn.window import SPATIAL, both_sides, channels_first, extent, pad_spatial, per_axis, taps
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import divided, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type


def _attributes(rank: int) -> list[Field]:
    each = per_axis(rank)
    return [
        Field("strides", "ints", (1,) * rank, each),
        Field("padding", "ints", (0,) * rank, both_sides(rank)),
        Field("dilation", "ints", (1,) * rank, each),
        Field("groups", "int", 1),
        Field("channels", "int", None),
        Field("kernel_size", "ints", None, each),
        Field("data_layout", "str", channels_first(rank)),
        Field("kernel_layout", "str", f"OI{SPATIAL[rank]}"),
        Field("out_layout", "str", ""),
        Field("out_dtype", "dtype", ""),
    ]


# ---- types


class Geometry:
    """The layouts of a convolution, read from its attributes.

    Args:
        attrs: the attributes.
        rank: number of spatial axes.
        kernel: the canonical kernel layout, ``OI..`` or ``IO..``.
    """

    def __init__(self, attrs: Any, rank: int, kernel: str):
        self.canonical = channels_first(rank)
        self.kernel = kernel + SPATIAL[rank]
        self.data_in = layout_change(attrs.data_layout, self.canonical)
        self.weight_in = layout_change(attrs.kernel_layout, self.kernel)
        self.weight_out = layout_change(self.kernel, attrs.kernel_layout)
        self.out = layout_change(self.canonical, attrs.out_layout or attrs.data_layout)


def conv_type(attrs: Any, args: Sequence[Type], rank: int) -> TensorType:
    """The result type of a convolution; ``args`` starts with data and weight."""
    geometry = Geometry(attrs, rank, "OI")
    data, weight = map(tensor, args[:2])
    shape, kernel = geometry.data_in.shape(data.shape), geometry.weight_in.shape(weight.shape)
    depthwise = attrs.groups > 1 and shape[1] == attrs.groups and attrs.channels is not None
    channels: Dim = kernel[0]
    if depthwise and isinstance(kernel[0], int) and isinstance(kernel[1], int):
        channels = kernel[0] * kernel[1]
    elif attrs.groups < 1 or (isinstance(channels, int) and channels % attrs.groups):
        raise TypeCheckError(f"{channels} output channels cannot be divided into {attrs.groups} groups")
    else:
        unify(per_group(shape[1], attrs.groups), kernel[1], "input channels of data and weight:")
    if attrs.channels is not None:
        channels = unify(channels, attrs.channels, "channels of weight and attributes:")
    for given, found in zip(attrs.kernel_size or (), kernel[2:], strict=False):
        unify(given, found, "kernel_size and weight:")
    pads = total_padding(attrs, rank)
    spatial = map(extent, shape[2:], kernel[2:], attrs.strides, attrs.dilation, pads)
    return TensorType(geometry.out.shape((shape[0], channels, *spatial)), attrs.out_dtype or data.dtype)


def per_group(channels: Dim, groups: int) -> Dim:
    return divided(channels, groups, f"{channels} input channels cannot be divided into {groups} groups")


def total_padding(attrs: Any, rank: int) -> list[int]:
    return [attrs.padding[axis] + attrs.padding[rank + axis] for axis in range(rank)]


def deduce_conv_weight(attrs: Any, args: Sequence[Type | None], rank: int) -> Sequence[Type | None]:
    """The weight's type from data, ``channels`` and ``kernel_size``."""
    data, weight, *rest = args
    if weight is not None or not isinstance(data, TensorType) or None in (attrs.channels, attrs.kernel_size):
        return args
    geometry = Geometry(attrs, rank, "OI")
    inputs = geometry.data_in.shape(data.shape)[1]
    if attrs.groups > 1 and inputs == attrs.groups:
        outer, inner = inputs, attrs.channels // attrs.groups
    else:
        outer, inner = attrs.channels, per_group(inputs, attrs.groups)
    shape = geometry.weight_out.shape((outer, inner, *attrs.kernel_size))
    return [data, TensorType(shape, data.dtype), *rest]


# ---- values


def conv_kernel(attrs: Any, data: Any, weight: Any) -> Any:
    """The convolution of arrays in the layouts of ``attrs``."""
    geometry = Geometry(attrs, len(attrs.strides), "OI")
    out_dtype = attrs.out_dtype or data.dtype
    dtype = product_dtype(data.dtype, weight.dtype, out_dtype)
    values, filters = (
        change(array).astype(dtype, copy=False)
        for change, array in ((geometry.data_in, data), (geometry.weight_in, weight))
    )
    result = convolve(values, filters, attrs)
    return from_product(geometry.out(result), out_dtype)


def convolve(data: Any, weight: Any, attrs: Any) -> Any:
    """Cross-correlation of (N, C, spatial...) with (O, C / groups, spatial...), as one matrix product."""
    groups, rank = attrs.groups, data.ndim - 2
    depthwise = groups > 1 and groups == data.shape[1]
    if depthwise:
        weight = weight.reshape(-1, 1, *weight.shape[2:])
    data = pad_spatial(data, attrs.padding[:rank], attrs.padding[rank:], 0)
    kernel = weight.shape[2:]
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, attrs.dilation, strict=True)]
    windows = sliding_window_view(data, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, step) for step in (*attrs.strides, *attrs.dilation)]
    windows = windows[(slice(None), slice(None), *steps)]  # N, C, out..., kernel...
    out = windows.shape[2 : 2 + rank]
    if depthwise:
        return _depthwise(data, weight, attrs, out)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = windows.transpose(order).reshape(len(data), groups, prod(kernel) * data.shape[1] // groups, prod(out))
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    return np.matmul(rows, columns).reshape(len(data), weight.shape[0], *out)


def _depthwise(data: Any, weight: Any, attrs: Any, out: Sequence[int]) -> Any:
    """Every input channel with filters of its own: one multiply-add per kernel position."""
    repeated = np.repeat(data, weight.shape[0] // data.shape[1], axis=1)
    result = np.zeros((len(data), weight.shape[0], *out), data.dtype)
    for index, window in taps(weight.shape[2:], attrs.strides, attrs.dilation, out):
        result += repeated[window] * weight[(slice(None), 0, *index)].reshape(-1, *(1,) * len(out))
    return result


# ---- operators


def conv_flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    """Two per multiply-add: result elements times the weights one of them reads."""
    weight = tensor(args[1])
    outputs = layout_change(attrs.kernel_layout, "OI" + SPATIAL[len(attrs.strides)]).shape(weight.shape)[0]
    return 2.0 * size(ty) * size(weight) / (outputs if isinstance(outputs, int) and outputs else 1)


def _conv(name: str, rank: int, *fields: Field) -> Builder:
    return define(
        f"nn.{name}",
        "data weight",
        *(fields or _attributes(rank)),
        infer=lambda attrs, args: conv_type(attrs, args, rank),
        deduce=lambda attrs, args: deduce_conv_weight(attrs, args, rank),
        kernel=conv_kernel,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=conv_flops,
    )


def _blocked() -> list[Field]:
    """The attributes of a 2-D convolution whose data have blocks of channels by default."""
    return [replace(field, default="NCHW8c") if field.name == "data_layout" else field for field in _attributes(2)]


conv1d, conv2d, conv3d = (_conv(f"conv{rank}d", rank) for rank in (1, 2, 3))
contrib_conv2d_nchwc = _conv("contrib_conv2d_NCHWc", 2, *_blocked())
contrib_depthwise_conv2d_nchwc = _conv("contrib_depthwise_conv2d_NCHWc", 2, *_blocked())

__all__ = ["contrib_conv2d_nchwc", "contrib_depthwise_conv2d_nchwc", "conv1d", "conv2d", "conv3d"]

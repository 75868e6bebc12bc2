"""Convolutions of one, two and three spatial dimensions, and transposed ones, which are their adjoints.

A kernel layout may name the groups as an axis of their own (``GOIHW``), beside the channels of one group.

``padding`` is stored as the begins of all axes followed by the ends: ``(1, 1)`` in two dimensions becomes
``(1, 1, 1, 1)``, that is top, left, bottom, right. Layouts with blocks (``NCHW4c``) are understood.

Kernel layouts of transposed convolutions start with the input channels. The extent of an axis of their result is
``strides * (dim - 1) + dilation * (kernel - 1) + 1 - padding + output_padding``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, multiply_dims
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.matrix import from_product, product_dtype
from eqsat.relay.op.nn.window import (
    SPATIAL,
    both_sides,
    channels_first,
    extent,
    interleaved,
    pad_spatial,
    per_axis,
    taps,
    windows_of,
)
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import divided, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type


class Geometry:
    """The layouts and the padding of a convolution, read from its attributes.

    Args:
        attrs: the attributes.
        order: that of the channels in the canonical layout of kernels, ``OI``, or ``IO`` of transposed convolutions.
    """

    def __init__(self, attrs: Any, order: str):
        rank = len(attrs.strides)
        image, kernel = channels_first(rank), order + SPATIAL[rank]
        self.data_in = layout_change(attrs.data_layout, image)
        self.weight_in = _WeightIn(attrs, kernel)
        self.out = layout_change(image, attrs.out_layout or attrs.data_layout)
        self.pads = [attrs.padding[axis] + attrs.padding[rank + axis] for axis in range(rank)]


class _WeightIn:
    """The change from a kernel layout to the canonical one, where the channels of all groups are one axis."""

    def __init__(self, attrs: Any, kernel: str):
        self.groups = attrs.groups if "G" in attrs.kernel_layout else None
        canonical = kernel if self.groups is None else f"G{kernel}"
        self.change = layout_change(attrs.kernel_layout, canonical)
        self.back = layout_change(canonical, attrs.kernel_layout)

    def shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """The canonical shape of a weight."""
        dims = self.change.shape(shape)
        if self.groups is None:
            return dims
        unify(dims[0], self.groups, "groups of weight and attributes:")
        return (multiply_dims(dims[0], dims[1]), *dims[2:])

    def shape_before(self, canonical: Sequence[Dim]) -> tuple[Dim, ...]:
        """The shape of the weight whose canonical shape is given."""
        if self.groups is None:
            return self.back.shape(canonical)
        return self.back.shape((self.groups, _per_group(canonical[0], self.groups), *canonical[1:]))

    def __call__(self, weight: Any) -> Any:
        """The weight in the canonical layout."""
        changed = self.change(weight)
        return changed if self.groups is None else changed.reshape(-1, *changed.shape[2:])


def _define(
    name: str,
    fields: Sequence[Field],
    order: str,
    infer: Callable[[Any, Sequence[Type]], TensorType],
    filters: Callable[[Any, Dim], tuple[Dim, Dim]],
    convolve: Callable[[Any, Any, Any], Any],
    meaning: Callable[[Any, Any, Any], Any],
) -> Builder:
    """Add a convolution to the registry.

    Args:
        name: its name after ``nn.``.
        fields: its attributes.
        order: as for :class:`Geometry`.
        infer: its type relation.
        filters: the first two sizes of its weight in the canonical layout, from the attributes and the data's channels.
        convolve: computes it from data and weight in canonical layouts, and the attributes.
        meaning: the same on terms, too.
    """

    def deduce(attrs: Any, args: Sequence[Type | None]) -> Sequence[Type | None]:
        data, weight = args
        if weight is not None or not isinstance(data, TensorType) or None in (attrs.channels, attrs.kernel_size):
            return args
        geometry = Geometry(attrs, order)
        channels = filters(attrs, geometry.data_in.shape(data.shape)[1])
        return [data, TensorType(geometry.weight_in.shape_before((*channels, *attrs.kernel_size)), data.dtype)]

    def kernel(attrs: Any, data: Any, weight: Any) -> Any:
        geometry = Geometry(attrs, order)
        out_dtype = attrs.out_dtype or data.dtype
        dtype = product_dtype(data.dtype, weight.dtype, out_dtype)
        values = geometry.data_in(data).astype(dtype, copy=False)
        result = convolve(values, geometry.weight_in(weight).astype(dtype, copy=False), attrs)
        return from_product(geometry.out(result), out_dtype)

    def denotation(attrs: Any, data: Any, weight: Any) -> Any:
        geometry = Geometry(attrs, order)
        values, filters = (each.astype(attrs.out_dtype or data.dtype) for each in (data, weight))
        return geometry.out(meaning(geometry.data_in(values), geometry.weight_in(filters), attrs))

    def flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
        """Two per multiply-add: elements of the result, or data if transposed, times the weights one of them meets."""
        weight = tensor(args[1])
        channels = Geometry(attrs, order).weight_in.shape(weight.shape)[0]
        elements = size(ty if order == "OI" else args[0])
        return 2.0 * elements * size(weight) / (channels if isinstance(channels, int) and channels else 1)

    return define(
        f"nn.{name}",
        "data weight",
        *fields,
        infer=infer,
        deduce=deduce,
        kernel=kernel,
        denotation=denotation,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=flops,
    )


# ---- convolutions


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


def _conv_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    geometry = Geometry(attrs, "OI")
    data, weight = map(tensor, args)
    shape, kernel = geometry.data_in.shape(data.shape), geometry.weight_in.shape(weight.shape)
    depthwise = attrs.groups > 1 and shape[1] == attrs.groups and attrs.channels is not None
    channels: Dim = kernel[0]
    if depthwise and isinstance(kernel[0], int) and isinstance(kernel[1], int):
        channels = kernel[0] * kernel[1]
    elif attrs.groups < 1 or (isinstance(channels, int) and channels % attrs.groups):
        raise TypeCheckError(f"{channels} output channels cannot be divided into {attrs.groups} groups")
    else:
        unify(_per_group(shape[1], attrs.groups), kernel[1], "input channels of data and weight:")
    channels = _check_given(attrs, channels, kernel[2:])
    spatial = map(extent, shape[2:], kernel[2:], attrs.strides, attrs.dilation, geometry.pads)
    return TensorType(geometry.out.shape((shape[0], channels, *spatial)), attrs.out_dtype or data.dtype)


def _check_given(attrs: Any, channels: Dim, kernel: Sequence[Dim]) -> Dim:
    """The output channels, after checking that the attributes name no others, and the size of this kernel."""
    for given, found in zip(attrs.kernel_size or (), kernel, strict=False):
        unify(given, found, "kernel_size and weight:")
    return channels if attrs.channels is None else unify(channels, attrs.channels, "channels of weight and attributes:")


def _per_group(channels: Dim, groups: int) -> Dim:
    return divided(channels, groups, f"{channels} input channels cannot be divided into {groups} groups")


def _filters(attrs: Any, inputs: Dim) -> tuple[Dim, Dim]:
    if attrs.groups > 1 and inputs == attrs.groups:
        return inputs, attrs.channels // attrs.groups
    return attrs.channels, _per_group(inputs, attrs.groups)


def _convolve(data: Any, weight: Any, attrs: Any) -> Any:
    """Cross-correlation of (N, C, spatial...) with (O, C / groups, spatial...), as one matrix product."""
    groups, rank = attrs.groups, data.ndim - 2
    depthwise = groups > 1 and groups == data.shape[1]
    if depthwise:
        weight = weight.reshape(-1, 1, *weight.shape[2:])
    data = pad_spatial(data, attrs.padding[:rank], attrs.padding[rank:], 0)
    kernel = weight.shape[2:]
    out = _extents(data, kernel, attrs)
    if depthwise:
        return _depthwise(data, weight, attrs, out)
    windows = windows_of(data, kernel, attrs.strides, attrs.dilation, out)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = windows.transpose(order).reshape(len(data), groups, prod(kernel) * data.shape[1] // groups, prod(out))
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    return np.matmul(rows, columns).reshape(len(data), weight.shape[0], *out)


def _extents(padded: Any, kernel: Sequence[int], attrs: Any) -> list[Any]:
    """How many windows fit each axis."""
    steps = zip(padded.shape[2:], kernel, attrs.strides, attrs.dilation, strict=True)
    return [extent(*each, padding=0) for each in steps]


def _sum_of_windows(data: Any, weight: Any, attrs: Any) -> Any:
    """Each element is a sum of products over the channels of a group and the places in a window."""
    rank, kernel = data.ndim - 2, weight.shape[2:]
    if attrs.groups > 1 and attrs.groups == data.shape[1]:
        weight = weight.reshape(-1, 1, *kernel)
    padded = pad_spatial(data, attrs.padding[:rank], attrs.padding[rank:], 0)
    out = _extents(padded, kernel, attrs)
    windows = windows_of(padded, kernel, attrs.strides, attrs.dilation, out)
    outputs, inputs = weight.shape[:2]
    return _grouped(windows, weight.reshape(attrs.groups, outputs // attrs.groups, inputs, *kernel), "goi")


def _grouped(windows: Any, weight: Any, order: str) -> Any:
    """Products of (N, C, out..., kernel...) with (groups, ..., kernel...), summed over channels of a group and windows.

    ``order`` names the first three axes of the weight: groups, and the output and input channels of one.
    """
    rank = weight.ndim - 3
    groups, outputs, inputs = (weight.shape[order.index(name)] for name in "goi")
    count, out = windows.shape[0], windows.shape[2 : 2 + rank]
    places, taps = "xyz"[:rank], "uvw"[:rank]
    windows = windows.reshape(count, groups, inputs, *windows.shape[2:])
    result = np.einsum(f"ngi{places}{taps},{order}{taps}->ngo{places}", windows, weight)
    return result.reshape(count, groups * outputs, *out)


def _depthwise(data: Any, weight: Any, attrs: Any, out: Sequence[int]) -> Any:
    """Every input channel with filters of its own: one multiply-add per kernel position."""
    repeated = np.repeat(data, weight.shape[0] // data.shape[1], axis=1)
    result = np.zeros((len(data), weight.shape[0], *out), data.dtype)
    for index, window in taps(weight.shape[2:], attrs.strides, attrs.dilation, out):
        result += repeated[window] * weight[(slice(None), 0, *index)].reshape(-1, *(1,) * len(out))
    return result


def _blocked() -> list[Field]:
    """The attributes of a 2-D convolution whose data have blocks of channels by default."""
    return [replace(field, default="NCHW8c") if field.name == "data_layout" else field for field in _attributes(2)]


def _conv(name: str, fields: Sequence[Field]) -> Builder:
    return _define(name, fields, "OI", _conv_type, _filters, _convolve, _sum_of_windows)


conv1d, conv2d, conv3d = (_conv(f"conv{rank}d", _attributes(rank)) for rank in (1, 2, 3))
contrib_conv2d_nchwc = _conv("contrib_conv2d_NCHWc", _blocked())
contrib_depthwise_conv2d_nchwc = _conv("contrib_depthwise_conv2d_NCHWc", _blocked())

# ---- transposed convolutions


def _transposed_attributes(rank: int) -> list[Field]:
    each = per_axis(rank)
    return [
        Field("strides", "ints", (1,) * rank, each),
        Field("padding", "ints", (0,) * rank, both_sides(rank)),
        Field("dilation", "ints", (1,) * rank, each),
        Field("channels", "int", None),
        Field("kernel_size", "ints", None, each),
        Field("groups", "int", 1),
        Field("data_layout", "str", channels_first(rank)),
        Field("kernel_layout", "str", f"IO{SPATIAL[rank]}"),
        Field("out_layout", "str", ""),
        Field("output_padding", "ints", (0,) * rank, each),
        Field("out_dtype", "dtype", ""),
    ]


def _transposed_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    geometry = Geometry(attrs, "IO")
    data, weight = map(tensor, args)
    shape, kernel = geometry.data_in.shape(data.shape), geometry.weight_in.shape(weight.shape)
    unify(shape[1], kernel[0], "input channels of data and weight:")
    if attrs.groups < 1:
        raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
    channels = _check_given(attrs, multiply_dims(kernel[1], attrs.groups), kernel[2:])
    spatial = [
        _transposed_extent(shape[2 + axis], kernel[2 + axis], attrs, axis, pad)
        for axis, pad in enumerate(geometry.pads)
    ]
    return TensorType(geometry.out.shape((shape[0], channels, *spatial)), attrs.out_dtype or data.dtype)


def _transposed_extent(dim: Dim, kernel: Dim, attrs: Any, axis: int, pad: int) -> Dim:
    steps = add_dims(multiply_dims(add_dims(kernel, -1), attrs.dilation[axis]), 1 - pad + attrs.output_padding[axis])
    found = add_dims(multiply_dims(add_dims(dim, -1), attrs.strides[axis]), steps)
    if isinstance(found, int) and found < 0:
        raise TypeCheckError(f"padding {attrs.padding} takes more than there is of an axis of {dim}")
    return found


def _scatter_product(data: Any, weight: Any, attrs: Any) -> Any:
    """The adjoint of a convolution: every input element adds its multiple of the kernel to the output."""
    groups, kernel, inner, rank = attrs.groups, weight.shape[2:], data.shape[2:], data.ndim - 2
    count, channels = len(data), weight.shape[1] * groups
    rows = weight.reshape(groups, weight.shape[0] // groups, -1).transpose(0, 2, 1)
    columns = np.matmul(rows, data.reshape(count, groups, data.shape[1] // groups, prod(inner)))
    columns = columns.reshape(count, channels, *kernel, *inner)
    full = [
        stride * max(dim - 1, 0) + (tap - 1) * step + 1 + extra
        for stride, dim, tap, step, extra in zip(
            attrs.strides, inner, kernel, attrs.dilation, attrs.output_padding, strict=True
        )
    ]
    result = np.zeros((count, channels, *full), data.dtype)
    for index, window in taps(kernel, attrs.strides, attrs.dilation, inner):
        result[window] += columns[(slice(None), slice(None), *index)]
    ends = [dim - end for dim, end in zip(full, attrs.padding[rank:], strict=True)]
    crop = [slice(begin, end) for begin, end in zip(attrs.padding[:rank], ends, strict=True)]
    return result[(slice(None), slice(None), *crop)]


def _sum_of_flipped_windows(data: Any, weight: Any, attrs: Any) -> Any:
    """The adjoint as a convolution with flipped kernels of data whose elements are strides apart."""
    groups, rank, kernel = attrs.groups, data.ndim - 2, weight.shape[2:]
    data = interleaved(data, attrs.strides, 0)
    reach = [(size - 1) * step for size, step in zip(kernel, attrs.dilation, strict=True)]
    begins = [size - pad for size, pad in zip(reach, attrs.padding[:rank], strict=True)]
    ends = [
        size - pad + extra for size, pad, extra in zip(reach, attrs.padding[rank:], attrs.output_padding, strict=True)
    ]
    padded = pad_spatial(data, begins, ends, 0)
    out = [dim - size for dim, size in zip(padded.shape[2:], reach, strict=True)]
    windows = windows_of(padded, kernel, (1,) * rank, attrs.dilation, out)
    flipped = np.flip(weight, tuple(range(2, 2 + rank)))
    return _grouped(windows, flipped.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]), "gio")


conv1d_transpose, conv2d_transpose, conv3d_transpose = (
    _define(
        f"conv{rank}d_transpose",
        _transposed_attributes(rank),
        "IO",
        _transposed_type,
        lambda attrs, inputs: (inputs, attrs.channels // attrs.groups),
        _scatter_product,
        _sum_of_flipped_windows,
    )
    for rank in (1, 2, 3)
)

__all__ = [
    "contrib_conv2d_nchwc", "contrib_depthwise_conv2d_nchwc", "conv1d", "conv1d_transpose", "conv2d",
    "conv2d_transpose", "conv3d", "conv3d_transpose",
]  # fmt: skip

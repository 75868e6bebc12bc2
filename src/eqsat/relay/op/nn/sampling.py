"""Convolution at moved places, comparison of two images, buffers of the last inputs, and bits packed into words."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, floor_divide_dims, multiply_dims
from eqsat.relay.op.denotation import BY_VALUE
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.matrix import from_product, product_dtype
from eqsat.relay.op.nn.window import both_sides, extent, pad_spatial, per_axis
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import axis_index, check_dtype, divided, ranked, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type

# ---- deformable convolution


def _deformable_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, offset, weight = map(tensor, args)
    image = layout_change(attrs.data_layout, "NCHW")
    shape, places = image.shape(data.shape), image.shape(offset.shape)
    kernel = layout_change(attrs.kernel_layout, "OIHW").shape(weight.shape)
    inner = divided(shape[1], attrs.groups, f"{shape[1]} input channels cannot be divided into {attrs.groups} groups")
    unify(inner, kernel[1], "input channels of data and weight:")
    divided(kernel[0], attrs.groups, f"{kernel[0]} output channels cannot be divided into {attrs.groups} groups")
    groups = attrs.deformable_groups
    divided(shape[1], groups, f"{shape[1]} input channels cannot be divided into {groups} deformable groups")
    channels = kernel[0] if attrs.channels is None else unify(kernel[0], attrs.channels, "channels of weight:")
    for given, found in zip(attrs.kernel_size or (), kernel[2:], strict=False):
        unify(given, found, "kernel_size and weight:")
    pads = [attrs.padding[axis] + attrs.padding[2 + axis] for axis in range(2)]
    spatial = list(map(extent, shape[2:], kernel[2:], attrs.strides, attrs.dilation, pads))
    wanted = (shape[0], multiply_dims(2 * groups, *kernel[2:]), *spatial)
    for found, dim in zip(places, wanted, strict=True):
        unify(found, dim, "the sizes of offset, two for each place of the kernel and each of the result,")
    check_dtype(data, offset, weight)
    result = layout_change("NCHW", attrs.out_layout or attrs.data_layout).shape((shape[0], channels, *spatial))
    return TensorType(result, attrs.out_dtype or data.dtype)


def _deformable_deduced(attrs: Any, args: Sequence[Type | None]) -> Sequence[Type | None]:
    """The types of the moves and the weight, where the attributes say the size of the kernel."""
    data, offset, weight = args
    if not isinstance(data, TensorType) or attrs.channels is None or attrs.kernel_size is None:
        return args
    image = layout_change(attrs.data_layout, "NCHW")
    batch, channels, *sizes = image.shape(data.shape)
    pads = [attrs.padding[axis] + attrs.padding[2 + axis] for axis in range(2)]
    spatial = map(extent, sizes, attrs.kernel_size, attrs.strides, attrs.dilation, pads)
    moves = (batch, multiply_dims(2 * attrs.deformable_groups, *attrs.kernel_size), *spatial)
    kernel = (attrs.channels, floor_divide_dims(channels, attrs.groups), *attrs.kernel_size)
    return [
        data,
        offset or TensorType(layout_change("NCHW", attrs.data_layout).shape(moves), data.dtype),
        weight or TensorType(layout_change("OIHW", attrs.kernel_layout).shape(kernel), data.dtype),
    ]


def _sampled(images: Any, y: Any, x: Any) -> Any:
    """``images`` (N, G, C, H, W) at places (N, G, ...) by bilinear interpolation with 0 around them: (N, G, C, ...)."""
    batch, groups, channels, height, width = images.shape
    within = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    flat = images.reshape(batch, groups, channels, height * width)
    result: Any = 0.0
    for row in (np.floor(y), np.floor(y) + 1):
        for column in (np.floor(x), np.floor(x) + 1):
            weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
            inside = within & (row < height) & (column < width)
            place = (
                np.where(inside, row * width + column, 0).astype(np.int64).reshape(batch, groups, 1, prod(y.shape[2:]))
            )
            pixels = np.take_along_axis(flat, place, axis=3).reshape(batch, groups, channels, *y.shape[2:])
            result = result + pixels * (weight * inside)[:, :, None]
    return result


def _deformable(attrs: Any, data: Any, offset: Any, weight: Any) -> Any:
    canonical = layout_change(attrs.data_layout, "NCHW")
    images, kernel = canonical(data), layout_change(attrs.kernel_layout, "OIHW")(weight)
    wide = product_dtype(data.dtype, weight.dtype, attrs.out_dtype or data.dtype)
    batch, channels, *_ = images.shape
    outer, inner, *taps = kernel.shape
    groups, parts = attrs.deformable_groups, attrs.groups
    moves = canonical(offset).astype(wide)
    out = moves.shape[2:]
    moves = moves.reshape(batch, groups, *taps, 2, *out)
    places = [
        np.arange(count)[:, None] * step - begin + np.arange(tap) * dilation
        for count, step, begin, tap, dilation in zip(
            out, attrs.strides, attrs.padding, taps, attrs.dilation, strict=False
        )
    ]  # (result, kernel)
    y = places[0].T[:, None, :, None] + moves[:, :, :, :, 0]
    x = places[1].T[None, :, None, :] + moves[:, :, :, :, 1]
    split = images.reshape(batch, groups, channels // max(groups, 1), *images.shape[2:]).astype(wide)
    columns = _sampled(split, y, x).reshape(batch, parts, inner * prod(taps), prod(out))
    rows = kernel.astype(wide).reshape(parts, outer // parts, inner * prod(taps))
    result = from_product(np.matmul(rows, columns).reshape(batch, outer, *out), attrs.out_dtype or data.dtype)
    return layout_change("NCHW", attrs.out_layout or attrs.data_layout)(result)


deformable_conv2d = define(
    "nn.deformable_conv2d",
    "data offset weight",
    Field("strides", "ints", (1, 1), per_axis(2)),
    Field("padding", "ints", (0, 0), both_sides(2)),
    Field("dilation", "ints", (1, 1), per_axis(2)),
    Field("deformable_groups", "int", 1),
    Field("groups", "int", 1),
    Field("channels", "int", None),
    Field("kernel_size", "ints", None, per_axis(2)),
    Field("data_layout", "str", "NCHW"),
    Field("kernel_layout", "str", "OIHW"),
    Field("out_layout", "str", ""),
    Field("out_dtype", "dtype", ""),
    infer=_deformable_type,
    deduce=_deformable_deduced,
    kernel=_deformable,
    denotation=BY_VALUE,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(ty) * size(TensorType(tensor(args[2]).shape[1:])) + 8 * size(args[1]),
)
"""A convolution whose kernel reads each pixel at a place moved by an offset.

The channels of ``offset`` are, for each deformable group and each place in the kernel, a move along y and one along x.
"""

# ---- correlation


def _displacements(attrs: Any) -> list[int]:
    radius = attrs.max_displacement // attrs.stride2
    return [step * attrs.stride2 for step in range(-radius, radius + 1)]


def _correlation_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, other = ranked(args[0], 4, "data1"), ranked(args[1], 4, "data2")
    for a, b in zip(data.shape, other.shape, strict=True):
        unify(a, b, "the sizes of data1 and data2,")
    if attrs.kernel_size % 2 == 0:
        raise TypeCheckError(f"kernel_size must be odd, not {attrs.kernel_size}")
    border = 2 * (attrs.max_displacement + attrs.kernel_size // 2)
    spatial: list[Dim] = []
    for axis, dim in enumerate(data.shape[2:]):
        room = add_dims(dim, attrs.padding[axis] + attrs.padding[2 + axis] - border + attrs.stride1 - 1)
        if isinstance(room, int) and room < 0:
            raise TypeCheckError(f"displacements and kernel do not fit an axis of {dim}")
        spatial.append(floor_divide_dims(room, attrs.stride1))
    return TensorType((data.shape[0], len(_displacements(attrs)) ** 2, *spatial), check_dtype(data, other))


def _correlation(attrs: Any, data: Any, other: Any) -> Any:
    wide = np.promote_types(data.dtype, np.float32)
    first, second = (
        pad_spatial(each.astype(wide, copy=False), attrs.padding[:2], attrs.padding[2:], 0) for each in (data, other)
    )
    border, radius = attrs.max_displacement + attrs.kernel_size // 2, attrs.kernel_size // 2
    sizes = [max(dim - 2 * border, 0) for dim in first.shape[2:]]
    near = [(y, x) for y in range(-radius, radius + 1) for x in range(-radius, radius + 1)]

    def at(images: Any, y: int, x: int) -> Any:
        rows, columns = (slice(border + move, border + move + dim) for move, dim in zip((y, x), sizes, strict=True))
        return images[:, :, rows, columns][:, :, :: attrs.stride1, :: attrs.stride1]

    found = []
    for down in _displacements(attrs):
        for right in _displacements(attrs):
            pairs = [(at(first, y, x), at(second, y + down, x + right)) for y, x in near]
            parts = [(a * b if attrs.is_multiply else np.abs(a - b)).sum(axis=1) for a, b in pairs]
            found.append(np.sum(np.stack(parts), axis=0) / (len(near) * data.shape[1]))
    return np.stack(found, axis=1).astype(data.dtype)


correlation = define(
    "nn.correlation",
    "data1 data2",
    Field("kernel_size", "int", 1),
    Field("max_displacement", "int", 1),
    Field("stride1", "int", 1),
    Field("stride2", "int", 1),
    Field("padding", "ints", (0, 0), both_sides(2)),
    Field("is_multiply", "bool", True),
    Field("layout", "str", "NCHW", choices=("NCHW",)),
    infer=_correlation_type,
    kernel=_correlation,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(ty) * attrs.kernel_size**2 * size(TensorType(tensor(args[0]).shape[1:2])),
)
"""How alike two images are around each pixel, one of them displaced: a mean of products, or of absolute differences.

The displacements, a channel of the result each, are multiples of ``stride2`` up to ``max_displacement`` along y and x.
"""

# ---- buffers


def _buffer_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, buffer = map(tensor, args)
    ranked(data, len(buffer.shape), "data, as buffer,")
    place = axis_index(attrs.axis, len(buffer.shape))
    for axis, (a, b) in enumerate(zip(data.shape, buffer.shape, strict=True)):
        if axis != place:
            unify(a, b, f"axis {axis} of data and buffer,")
        elif isinstance(a, int) and isinstance(b, int) and a > b:
            raise TypeCheckError(f"data has {a} elements along axis {attrs.axis}, the buffer only {b}")
    return TensorType(buffer.shape, check_dtype(data, buffer))


def _shifted(attrs: Any, data: Any, buffer: Any) -> Any:
    """The last elements of the buffer followed by the data."""
    joined = np.concatenate([buffer, data], axis=attrs.axis)
    place = axis_index(attrs.axis, data.ndim)
    return joined[(slice(None),) * place + (slice(data.shape[place], None),)]


fifo_buffer = define(
    "nn.fifo_buffer",
    "data buffer",
    Field("axis", "int"),
    infer=_buffer_type,
    kernel=_shifted,
    kind=OpPattern.OPAQUE,
)
"""``buffer`` without its first elements along an axis, and ``data`` behind it."""

# ---- bits


def _word(attrs: Any) -> int:
    """The bits of a word."""
    dtype = np.dtype(attrs.pack_type)
    if dtype.kind != "u":
        raise TypeCheckError(f"pack_type must be an unsigned integer, not {attrs.pack_type}")
    return int(8 * dtype.itemsize)


def _packed_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, bits = tensor(args[0]), _word(attrs)
    rank = len(data.shape)
    shape, place = list(data.shape), axis_index(attrs.pack_axis, rank)
    shape[place] = divided(shape[place], bits, f"axis {place} of {shape[place]} elements is no multiple of {bits} bits")
    if not 0 <= attrs.bit_axis <= rank:
        raise TypeCheckError(f"bit_axis {attrs.bit_axis} is no place among {rank} dimensions")
    shape.insert(attrs.bit_axis, attrs.bits)
    return TensorType(shape, attrs.pack_type)


def _packed(attrs: Any, data: Any) -> Any:
    bits, place, one = _word(attrs), axis_index(attrs.pack_axis, data.ndim), np.array(1, attrs.pack_type)
    values = np.moveaxis(data, place, -1)
    values = values.reshape(*values.shape[:-1], values.shape[-1] // bits, bits).astype(attrs.pack_type)
    weights = one << np.arange(bits)[::-1].astype(attrs.pack_type)  # the first element is the highest bit
    planes = [values >> np.array(bit, attrs.pack_type) & one for bit in range(attrs.bits)]
    words = [np.moveaxis((plane * weights).sum(axis=-1), -1, place) for plane in planes]
    return np.stack(words, axis=attrs.bit_axis).astype(attrs.pack_type)


bitpack = define(
    "nn.bitpack",
    "data",
    Field("bits", "int", 1),
    Field("pack_axis", "int", 1),
    Field("bit_axis", "int", 2),
    Field("pack_type", "dtype", "uint32"),
    Field("name", "str", "BitPack"),
    infer=_packed_type,
    kernel=_packed,
    kind=OpPattern.INJECTIVE,
)
"""The lowest bits of integers, each bit by itself: as many elements along an axis as fit become one word."""

__all__ = ["bitpack", "correlation", "deformable_conv2d", "fifo_buffer"]

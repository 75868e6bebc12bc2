"""Transposed convolutions: the adjoints of convolutions. Kernel layouts start with the input channels.

The extent of an axis is ``strides * (dim - 1) + dilation * (kernel - 1) + 1 - padding + output_padding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, multiply_dims
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.conv import Geometry, total_padding
from eqsat.relay.op.nn.matrix import from_product, product_dtype
from eqsat.relay.op.nn.window import SPATIAL, both_sides, channels_first, per_axis, taps
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.types import size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type


def _attributes(rank: int) -> list[Field]:
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


def transpose_type(attrs: Any, args: Sequence[Type], rank: int) -> TensorType:
    """The result type of a transposed convolution."""
    geometry = Geometry(attrs, rank, "IO")
    data, weight = map(tensor, args)
    shape, kernel = geometry.data_in.shape(data.shape), geometry.weight_in.shape(weight.shape)
    unify(shape[1], kernel[0], "input channels of data and weight:")
    if attrs.groups < 1:
        raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
    channels = multiply_dims(kernel[1], attrs.groups)
    if attrs.channels is not None:
        channels = unify(channels, attrs.channels, "channels of weight and attributes:")
    for given, found in zip(attrs.kernel_size or (), kernel[2:], strict=False):
        unify(given, found, "kernel_size and weight:")
    spatial = [
        _transposed_extent(shape[2 + axis], kernel[2 + axis], attrs, axis, pad)
        for axis, pad in enumerate(total_padding(attrs, rank))
    ]
    return TensorType(geometry.out.shape((shape[0], channels, *spatial)), attrs.out_dtype or data.dtype)


def _transposed_extent(dim: Dim, kernel: Dim, attrs: Any, axis: int, pad: int) -> Dim:
    steps = add_dims(multiply_dims(add_dims(kernel, -1), attrs.dilation[axis]), 1 - pad + attrs.output_padding[axis])
    found = add_dims(multiply_dims(add_dims(dim, -1), attrs.strides[axis]), steps)
    if isinstance(found, int) and found < 0:
        raise TypeCheckError(f"padding {attrs.padding} takes more than there is of an axis of {dim}")
    return found


def _deduce_transpose_weight(attrs: Any, args: Sequence[Type | None], rank: int) -> Sequence[Type | None]:
    data, weight = args
    if weight is not None or not isinstance(data, TensorType) or None in (attrs.channels, attrs.kernel_size):
        return args
    geometry = Geometry(attrs, rank, "IO")
    inputs = geometry.data_in.shape(data.shape)[1]
    shape = geometry.weight_out.shape((inputs, attrs.channels // attrs.groups, *attrs.kernel_size))
    return [data, TensorType(shape, data.dtype)]


def conv_transpose_kernel(attrs: Any, data: Any, weight: Any) -> Any:
    """The transposed convolution of arrays in the layouts of ``attrs``."""
    rank = len(attrs.strides)
    geometry = Geometry(attrs, rank, "IO")
    out_dtype = attrs.out_dtype or data.dtype
    dtype = product_dtype(data.dtype, weight.dtype, out_dtype)
    values, filters = geometry.data_in(data).astype(dtype), geometry.weight_in(weight).astype(dtype)
    result = _scatter_product(values, filters, attrs, rank)
    return from_product(geometry.out(result), out_dtype)


def _scatter_product(data: Any, weight: Any, attrs: Any, rank: int) -> Any:
    """The adjoint of a convolution: every input element adds its multiple of the kernel to the output."""
    groups, kernel, inner = attrs.groups, weight.shape[2:], data.shape[2:]
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


def transpose_flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    """Two per multiply-add: data elements times the weights one of them meets."""
    data, weight = map(tensor, args)
    inputs = layout_change(attrs.data_layout, channels_first(len(attrs.strides))).shape(data.shape)[1]
    return 2.0 * size(data) * size(weight) / (inputs if isinstance(inputs, int) and inputs else 1)


def _conv_transpose(rank: int) -> Builder:
    return define(
        f"nn.conv{rank}d_transpose",
        "data weight",
        *_attributes(rank),
        infer=lambda attrs, args: transpose_type(attrs, args, rank),
        deduce=lambda attrs, args: _deduce_transpose_weight(attrs, args, rank),
        kernel=conv_transpose_kernel,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=transpose_flops,
    )


conv1d_transpose, conv2d_transpose, conv3d_transpose = map(_conv_transpose, (1, 2, 3))

__all__ = ["conv1d_transpose", "conv2d_transpose", "conv3d_transpose"]

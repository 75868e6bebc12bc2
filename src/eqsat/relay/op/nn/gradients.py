"""Gradients of convolution and pooling: what a change of weight or data changes, for a given gradient of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.denotation import OVERLAPPING
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.matrix import from_product, product_dtype
from eqsat.relay.op.nn.pool import fold_windows, pad_windows, pool_windows, window_sizes
from eqsat.relay.op.nn.window import both_sides, extent, pad_spatial, per_axis, taps, windows_of
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.reduce import lowest
from eqsat.relay.op.types import check_dtype, divided, size, tensor, unify
from eqsat.relay.ty import TensorType, Type

# ---- of a convolution by its weight


def _weight_type(attrs: Any, args: Sequence[Type]) -> Type:
    grad, data = map(tensor, args)
    result = layout_change(attrs.data_layout, "NCHW").shape(grad.shape)
    shape = layout_change(attrs.kernel_layout, "NCHW").shape(data.shape)
    if attrs.kernel_size is None:
        raise TypeCheckError("kernel_size must be given: the gradient of the result does not tell it")
    unify(result[0], shape[0], "the batches of grad and data,")
    channels = result[1] if attrs.channels is None else unify(result[1], attrs.channels, "channels of grad:")
    inner = divided(shape[1], attrs.groups, f"{shape[1]} input channels cannot be divided into {attrs.groups} groups")
    divided(channels, attrs.groups, f"{channels} output channels cannot be divided into {attrs.groups} groups")
    pads = [attrs.padding[axis] + attrs.padding[2 + axis] for axis in range(2)]
    for found, *axis in zip(result[2:], shape[2:], attrs.kernel_size, attrs.strides, attrs.dilation, pads, strict=True):
        unify(found, extent(*axis), "the sizes of grad and of the result of the convolution,")
    kernel = layout_change("OIHW", attrs.out_layout).shape((channels, inner, *attrs.kernel_size))
    return TensorType(kernel, attrs.out_dtype or check_dtype(grad, data))


def _weight_gradient(attrs: Any, grad: Any, data: Any) -> Any:
    out_dtype = attrs.out_dtype or grad.dtype
    wide = product_dtype(grad.dtype, data.dtype, out_dtype)
    change = layout_change(attrs.data_layout, "NCHW")(grad).astype(wide, copy=False)
    values = layout_change(attrs.kernel_layout, "NCHW")(data).astype(wide, copy=False)
    values = pad_spatial(values, attrs.padding[:2], attrs.padding[2:], 0)
    batch, channels, *out = change.shape
    change = change.reshape(batch, attrs.groups, channels // attrs.groups, *out)
    result = np.zeros((channels, values.shape[1] // attrs.groups, *attrs.kernel_size), wide)
    for (row, column), window in taps(attrs.kernel_size, attrs.strides, attrs.dilation, out):
        seen = values[window].reshape(batch, attrs.groups, values.shape[1] // attrs.groups, *out)
        products = np.einsum("ngohw,ngihw->goi", change, seen, optimize=True)
        result[:, :, row, column] = products.reshape(result.shape[:2])
    return layout_change("OIHW", attrs.out_layout)(from_product(result, out_dtype))


def _weight_meaning(attrs: Any, grad: Any, data: Any) -> Any:
    out_dtype = attrs.out_dtype or grad.dtype
    change = layout_change(attrs.data_layout, "NCHW")(grad.astype(out_dtype))
    values = layout_change(attrs.kernel_layout, "NCHW")(data.astype(out_dtype))
    values = pad_spatial(values, attrs.padding[:2], attrs.padding[2:], 0)
    batch, channels, *out = change.shape
    inner = values.shape[1] // attrs.groups
    windows = windows_of(values, attrs.kernel_size, attrs.strides, attrs.dilation, out)
    windows = windows.reshape(batch, attrs.groups, inner, *out, *attrs.kernel_size)
    change = change.reshape(batch, attrs.groups, channels // attrs.groups, *out)
    result = np.einsum("ngoxy,ngixyuv->goiuv", change, windows).reshape(channels, inner, *attrs.kernel_size)
    return layout_change("OIHW", attrs.out_layout)(result)


_backward_weight = define(
    "nn.conv2d_backward_weight",
    "grad data",
    Field("strides", "ints", (1, 1), per_axis(2)),
    Field("padding", "ints", (0, 0), both_sides(2)),
    Field("dilation", "ints", (1, 1), per_axis(2)),
    Field("groups", "int", 1),
    Field("channels", "int", None),
    Field("kernel_size", "ints", None, per_axis(2)),
    Field("data_layout", "str", "NCHW"),  # of grad
    Field("kernel_layout", "str", "NCHW"),  # of data
    Field("out_layout", "str", "OIHW"),  # of the result, which is a weight
    Field("out_dtype", "dtype", ""),
    infer=_weight_type,
    kernel=_weight_gradient,
    denotation=_weight_meaning,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=lambda attrs, args, ty: 2 * size(ty) * size(args[0]),
)


def conv2d_backward_weight(
    grad: Any, data: Any, *args: Any, grad_layout: str = "NCHW", data_layout: str = "NCHW", kernel_layout: str = "OIHW",
    **attrs: Any,
) -> Any:  # fmt: skip
    """How a convolution's weight changes a sum, from how its result does (``grad``).

    The attributes are those of the convolution. In the call, Relay has its layouts under other names:
    ``data_layout`` is that of ``grad``, ``kernel_layout`` that of ``data``, and ``out_layout`` that of the weight.
    """
    layouts = {"data_layout": grad_layout, "kernel_layout": data_layout, "out_layout": kernel_layout}
    return _backward_weight(grad, data, *args, **layouts, **attrs)


# ---- of pools by their data


def _as_pool(attrs: Any) -> Any:
    return attrs.replace(dilation=(1, 1))


def _pooled_type(attrs: Any, args: Sequence[Type]) -> Type:
    grad, data = map(tensor, args)
    shape = layout_change(attrs.layout, "NCHW").shape(data.shape)
    wanted = (*shape[:2], *pool_windows(_as_pool(attrs), shape))
    for found, dim in zip(layout_change(attrs.layout, "NCHW").shape(grad.shape), wanted, strict=True):
        unify(found, dim, "the sizes of out_grad and of the result of the pool,")
    check_dtype(grad, data)
    return data


def _taps(attrs: Any, out: Sequence[int]) -> Iterator[Any]:
    return taps(attrs.pool_size, attrs.strides, attrs.dilation, out)


def _pool(name: str, shares: Callable[[Any, Any, Sequence[int]], Iterator[Any]], *more: Field) -> Builder:
    """Add the gradient of a pool.

    ``shares(attrs, data, out)`` has for each place in a window what part of the gradient of each of the ``out`` windows
    goes there.
    """

    def kernel(attrs: Any, grad: Any, data: Any) -> Any:
        canonical, back = layout_change(attrs.layout, "NCHW"), layout_change("NCHW", attrs.layout)
        values, change, pool = canonical(data), canonical(grad), _as_pool(attrs)
        out = change.shape[2:]
        wide = np.promote_types(data.dtype, np.float32)
        sums = pad_windows(pool, np.zeros(values.shape, wide), out, 0)
        for (_, window), share in zip(_taps(pool, out), shares(pool, values, out), strict=True):
            sums[window] += change * share
        top, left = attrs.padding[:2]
        sums = sums[:, :, top : top + values.shape[2], left : left + values.shape[3]]
        return back(sums).astype(data.dtype)

    return define(
        f"nn.{name}2d_grad",
        "out_grad data",
        Field("pool_size", "ints", (1, 1), per_axis(2), told=True),
        Field("strides", "ints", (1, 1), per_axis(2)),
        Field("padding", "ints", (0, 0), both_sides(2)),
        Field("layout", "str", "NCHW"),
        Field("out_layout", "str", ""),
        Field("ceil_mode", "bool", False),
        *more,
        infer=_pooled_type,
        kernel=kernel,
        denotation=OVERLAPPING,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=lambda attrs, args, ty: size(args[0]) * attrs.pool_size[0] * attrs.pool_size[1],
    )


def _to_greatest(attrs: Any, data: Any, out: Sequence[int]) -> Iterator[Any]:
    """All of it to the first of the greatest elements of the window."""
    start = lowest(data.dtype)
    best, padded = fold_windows(attrs, data, out, start, np.maximum), pad_windows(attrs, data, out, start)
    found = np.zeros(best.shape, bool)
    for _, window in _taps(attrs, out):
        greatest = (padded[window] == best) & ~found
        found |= greatest
        yield greatest


def _to_all(attrs: Any, data: Any, out: Sequence[int]) -> Iterator[Any]:
    """Equal parts to all elements of the window."""
    part = 1 / window_sizes(attrs, data.shape, out, np.promote_types(data.dtype, np.float32))
    for _ in _taps(attrs, out):
        yield part


max_pool2d_grad = _pool("max_pool", _to_greatest)
avg_pool2d_grad = _pool("avg_pool", _to_all, Field("count_include_pad", "bool", False))

__all__ = ["avg_pool2d_grad", "conv2d_backward_weight", "max_pool2d_grad"]

"""What operators compute where their kernels cannot be run on terms: they write into arrays, or approximate."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.activation import GATE_SLOPE
from eqsat.relay.op.nn.conv import Geometry
from eqsat.relay.op.nn.pool import pad_windows, pool_windows, window_sizes
from eqsat.relay.op.nn.window import channels_first, pad_spatial, taps
from eqsat.relay.op.reduce import accumulator, lowest
from eqsat.rules.prove.arrays import TermArray, lifted, mapped, wrapped
from eqsat.rules.prove.terms import REAL, NoTermError, sort_of


def _function(name: str) -> Callable[..., Any]:
    """A function of one real number, told by its name."""

    def of(attrs: Any, data: Any) -> Any:
        if sort_of(data.dtype) != REAL:
            raise NoTermError(f"{name} of integers")
        return mapped(data.terms, lambda a: data.terms.function(name, a), data.dtype, data)

    return of


def _gelu(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype))
    number = wide.dtype.type
    if attrs.approximate == "tanh":
        inside = number(sqrt(2 / np.pi)) * (wide + number(0.044715) * wide * wide * wide)
        share = number(0.5) * (1 + np.tanh(inside))
    else:
        share = number(0.5) * (1 + _function("erf")(None, wide * number(sqrt(0.5))))
    return (wide * share).astype(data.dtype)


def _gelu_gate(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype))
    if attrs.approximate == "tanh":
        inside = wide * (wide * wide + wide.dtype.type(GATE_SLOPE))
        return (wide * _function("sigmoid")(None, inside)).astype(data.dtype)
    return (wide * (1 + _function("erf")(None, wide))).astype(data.dtype)


def _swish(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype))
    return (wide * _function("sigmoid")(None, wide * wide.dtype.type(attrs.alpha))).astype(data.dtype)


def _pool(average: bool) -> Callable[..., Any]:
    def of(attrs: Any, data: Any) -> Any:
        canonical = channels_first(len(attrs.pool_size))
        images = layout_change(attrs.layout, canonical)(data)
        out: Any = pool_windows(attrs, images.shape)
        start = 0 if average else lowest(data.dtype)
        dtype = data.dtype
        if average:
            dtype = np.dtype(np.int64) if sort_of(dtype) != REAL else np.dtype(accumulator(dtype))
        padded = pad_windows(attrs, images.astype(dtype), out, data.terms.const(start, sort_of(dtype)))
        result = lifted(data.terms, np.full((*images.shape[:2], *out), start), dtype)
        fold = np.add if average else np.maximum
        for _, window in taps(attrs.pool_size, attrs.strides, attrs.dilation, out):
            result = fold(result, padded[window])
        if average:
            if sort_of(dtype) != REAL:
                raise NoTermError("an average of integers")
            result = np.divide(result, window_sizes(attrs, images.shape, out, dtype))
        back = layout_change(canonical, attrs.get("out_layout") or attrs.layout)
        return back(result).astype(attrs.get("out_dtype") or data.dtype)

    return of


def _convolution(transposed: bool) -> Callable[..., Any]:
    def of(attrs: Any, data: Any, weight: Any) -> Any:
        geometry = Geometry(attrs, "IO" if transposed else "OI")
        out_dtype = attrs.out_dtype or data.dtype
        terms = next(each.terms for each in (data, weight) if isinstance(each, TermArray))
        parts = [lifted(terms, each, out_dtype) for each in (data, weight)]
        parts = [geometry.data_in(parts[0]), geometry.weight_in(parts[1])]
        result = (_scattered if transposed else _convolved)(terms, parts[0], parts[1], attrs)
        return geometry.out(wrapped(terms, result, out_dtype))

    return of


def _convolved(terms: Any, data: Any, weight: Any, attrs: Any) -> Any:
    """Sums of products over the elements of each window, group by group."""
    groups, rank, sort = attrs.groups, data.ndim - 2, sort_of(data.dtype)
    if groups > 1 and groups == data.shape[1]:
        weight = weight.reshape(-1, 1, *weight.shape[2:])
    data = pad_spatial(data, attrs.padding[:rank], attrs.padding[rank:], terms.const(0, sort)).objects
    weight = weight.objects
    reach = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], attrs.dilation, strict=True)]
    out = [(dim - wide) // step + 1 for dim, wide, step in zip(data.shape[2:], reach, attrs.strides, strict=True)]
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    result = np.full((len(data), weight.shape[0], *out), terms.const(0, sort), object)
    for index, window in taps(weight.shape[2:], attrs.strides, attrs.dilation, out):
        part = data[window]
        for channel in range(weight.shape[0]):
            for place in range(inputs):
                factor = weight[(channel, place, *index)]
                result[:, channel] = result[:, channel] + part[:, channel // outputs * inputs + place] * factor
    return result


def _scattered(terms: Any, data: Any, weight: Any, attrs: Any) -> Any:
    """The adjoint: each element adds its multiple of the kernel to the result."""
    groups, rank, sort = attrs.groups, data.ndim - 2, sort_of(data.dtype)
    data, weight = data.objects, weight.objects
    kernel, inner, per_group = weight.shape[2:], data.shape[2:], weight.shape[1]
    full = [
        stride * max(dim - 1, 0) + (tap - 1) * step + 1 + extra
        for stride, dim, tap, step, extra in zip(
            attrs.strides, inner, kernel, attrs.dilation, attrs.output_padding, strict=True
        )
    ]
    result = np.full((len(data), per_group * groups, *full), terms.const(0, sort), object)
    rows = data.shape[1] // groups
    for index, window in taps(kernel, attrs.strides, attrs.dilation, inner):
        for place in range(data.shape[1]):
            for channel in range(per_group):
                at = (slice(None), place // rows * per_group + channel, *window[2:])
                result[at] = result[at] + data[:, place] * weight[(place, channel, *index)]
    ends = [dim - end for dim, end in zip(full, attrs.padding[rank:], strict=True)]
    crop = [slice(begin, end) for begin, end in zip(attrs.padding[:rank], ends, strict=True)]
    return result[(slice(None), slice(None), *crop)]


def _global(fold: Any, average: bool) -> Callable[..., Any]:
    def of(attrs: Any, data: Any) -> Any:
        canonical = channels_first(data.ndim - 2)
        images = layout_change(attrs.layout, canonical)(data)
        axes = tuple(range(2, images.ndim))
        wide = images.astype(accumulator(data.dtype))
        result = fold.reduce(wide, axis=axes, keepdims=True)
        if average:
            if sort_of(data.dtype) != REAL:
                raise NoTermError("an average of integers")
            result = np.divide(result, result.dtype.type(prod(images.shape[2:])))
        return layout_change(canonical, attrs.get("out_layout") or attrs.layout)(result).astype(data.dtype)

    return of


MEANINGS: dict[str, Callable[..., Any]] = {
    **{name: _function(name) for name in ("sigmoid", "erf", "rsqrt")},
    "fast_erf": _function("fast_erf"),
    "fast_exp": _function("fast_exp"),
    "fast_tanh": _function("fast_tanh"),
    "nn.softplus": _function("softplus"),
    "nn.gelu": _gelu,
    "nn.gelu_gate": _gelu_gate,
    "nn.swish": _swish,
    "nn.global_max_pool2d": _global(np.maximum, False),
    "nn.global_avg_pool2d": _global(np.add, True),
    **{f"nn.max_pool{rank}d": _pool(False) for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _pool(True) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d": _convolution(False) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _convolution(True) for rank in (1, 2, 3)},
}
"""Operator -> its denotation on arrays of terms, which is computed in place of its kernel."""

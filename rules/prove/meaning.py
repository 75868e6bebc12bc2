"""What operators compute where their kernels cannot be run on terms: they write into arrays, or approximate."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.activation import GATE_SLOPE
from eqsat.relay.op.nn.conv import Geometry
from eqsat.relay.op.nn.window import channels_first, taps
from eqsat.relay.op.reduce import accumulator
from eqsat.rules.prove.arrays import TermArray, lifted, wrapped
from eqsat.rules.prove.terms import REAL, NoTermError, UnsuitedError, sort_of


def _function(name: str) -> Callable[..., Any]:
    """A function of one real number, told by its name."""

    def of(attrs: Any, data: Any) -> Any:
        if sort_of(data.dtype) != REAL:
            raise UnsuitedError(f"{name} of integers")
        return data.mapped(lambda a: data.terms.function(name, a))

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


def _transposed(attrs: Any, data: Any, weight: Any) -> Any:
    geometry = Geometry(attrs, "IO")
    out_dtype = attrs.out_dtype or data.dtype
    terms = next(each.terms for each in (data, weight) if isinstance(each, TermArray))
    parts = [lifted(terms, each, out_dtype) for each in (data, weight)]
    parts = [geometry.data_in(parts[0]), geometry.weight_in(parts[1])]
    return geometry.out(wrapped(terms, _scattered(terms, parts[0], parts[1], attrs), out_dtype))


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
            result = np.divide(result, np.asarray(prod(images.shape[2:]), result.dtype, like=data))
        return layout_change(canonical, attrs.get("out_layout") or attrs.layout)(result).astype(data.dtype)

    return of


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{name: _function(name) for name in ("sigmoid", "erf", "rsqrt", "fast_erf", "fast_exp", "fast_tanh")},
    "nn.softplus": _function("softplus"),
    "nn.gelu": _gelu,
    "nn.gelu_gate": _gelu_gate,
    "nn.swish": _swish,
}
"""Operator -> its denotation, of those that take their arguments element by element."""

ELEMENTWISE["full"] = ELEMENTWISE["dyn.full"] = lambda attrs, value, *shape: np.broadcast_to(
    value, attrs.shape if not shape else tuple(map(int, shape[0]))
)
ELEMENTWISE["full_like"] = lambda attrs, data, value: np.broadcast_to(value, data.shape)

GLOBAL: dict[str, Callable[..., Any]] = {
    "nn.global_max_pool2d": _global(np.maximum, False),
    "nn.global_avg_pool2d": _global(np.add, True),
}
"""The same of pools over whole images."""

MEANINGS: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **GLOBAL,
    **{f"nn.conv{rank}d_transpose": _transposed for rank in (1, 2, 3)},
}
"""Operator -> its denotation on arrays of terms, which is computed in place of its kernel."""

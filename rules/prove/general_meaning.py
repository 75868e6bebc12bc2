"""What operators compute where kernels cannot be run on arrays that are a shape and a function of indices.

Pools and convolutions are told here alone: proofs at shapes drawn take them from here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.nn.conv import Geometry
from eqsat.relay.op.nn.pool import pad_windows, pool_windows
from eqsat.relay.op.nn.window import channels_first, extent, pad_spatial
from eqsat.relay.op.reduce import accumulator, lowest
from eqsat.rules.prove.meaning import ELEMENTWISE, GLOBAL
from eqsat.rules.prove.sizes import Poly
from eqsat.rules.prove.symbolic import SymbolicArray, folded
from eqsat.rules.prove.terms import REAL, Term, UnsuitedError, sort_of


@lru_cache(maxsize=1 << 12)
def _place(window: Poly, stride: Any, tap: Poly, step: Any) -> Poly:
    return window * Poly.of(stride) + tap * Poly.of(step)


def _places(attrs: Any, windows: tuple[Poly, ...], taps: tuple[Poly, ...]) -> tuple[Poly, ...]:
    """Where windows read at places in them."""
    return tuple(map(_place, windows, attrs.strides, taps, attrs.dilation))


def _pool(average: bool) -> Callable[..., Any]:
    def of(attrs: Any, data: SymbolicArray) -> Any:
        canonical = channels_first(len(attrs.pool_size))
        images = layout_change(attrs.layout, canonical)(data)
        out: Any = pool_windows(attrs, images.shape)
        dtype = np.dtype(accumulator(data.dtype))
        if average and sort_of(dtype) != REAL:
            raise UnsuitedError("an average of integers")

        def windows(array: SymbolicArray, start: Any) -> SymbolicArray:
            padded = pad_windows(attrs, array, out, start)

            def read(indices: tuple[Poly, ...]) -> Term:
                def body(*taps: Poly) -> Term:
                    return padded.at((*indices[:2], *_places(attrs, indices[2:], taps)))  # type: ignore[no-any-return]

                return folded(padded, np.add if average else np.maximum, attrs.pool_size, body, dtype)

            return array.made((*array.shape[:2], *out), read)

        result = windows(images.astype(dtype), 0 if average else lowest(dtype))
        if average:
            count = np.asarray(prod(attrs.pool_size), dtype, like=data)
            if not attrs.count_include_pad and (attrs.ceil_mode or any(attrs.padding)):
                ones = images.lifted(1, dtype)
                count = np.maximum(windows(ones.made(images.shape, lambda indices: ones.at(())), 0), 1)
            result = np.divide(result, count)
        back = layout_change(canonical, attrs.get("out_layout") or attrs.layout)
        return back(result).astype(attrs.get("out_dtype") or data.dtype)

    return of


def _convolution(attrs: Any, data: Any, weight: Any) -> Any:
    geometry = Geometry(attrs, "OI")
    out_dtype = attrs.out_dtype or data.dtype
    first = next(each for each in (data, weight) if isinstance(each, SymbolicArray))
    images = geometry.data_in(first.lifted(data, out_dtype))
    kernels = geometry.weight_in(first.lifted(weight, out_dtype))
    rank = images.ndim - 2
    padded = pad_spatial(images, attrs.padding[:rank], attrs.padding[rank:], 0)
    steps = zip(images.shape[2:], kernels.shape[2:], attrs.strides, attrs.dilation, geometry.pads, strict=True)
    out = [extent(*each) for each in steps]
    if attrs.groups > 1 and attrs.groups == images.shape[1]:
        kernels = kernels.reshape(-1, 1, *kernels.shape[2:])
    inputs, outputs = kernels.shape[1], kernels.shape[0] // attrs.groups

    def read(indices: tuple[Poly, ...]) -> Term:
        batch, channel = indices[:2]
        group = first.scope.divide(channel, Poly.of(outputs))[0] if attrs.groups > 1 else Poly({})

        def body(place: Poly, *taps: Poly) -> Term:
            at = _places(attrs, indices[2:], taps)
            element = padded.at((batch, _place(group, inputs, place, 1), *at))
            return first.terms.mul(element, kernels.at((channel, place, *taps)))

        return folded(images, np.add, [inputs, *kernels.shape[2:]], body, out_dtype)

    return geometry.out(images.made((images.shape[0], kernels.shape[0], *out), read))


def _shape(attrs: Any, data: Any) -> Any:
    return np.array(data.shape, object)


WINDOWED: dict[str, Callable[..., Any]] = {
    **{f"nn.max_pool{rank}d": _pool(False) for rank in (1, 2, 3)},
    **{f"nn.avg_pool{rank}d": _pool(True) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d": _convolution for rank in (1, 2, 3)},
}
"""Operator -> its denotation, of those that read windows."""

GENERAL: dict[str, Callable[..., Any]] = {"shape_of": _shape, **ELEMENTWISE, **GLOBAL, **WINDOWED}
"""Operator -> its denotation, which is computed in place of its kernel."""

"""What operators on images share: layouts, padding conventions, and the extents of sliding windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.errors import TypeCheckError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dims import add_dims, floor_divide_dims
from eqsat.relay.op.layout import LayoutChange, layout_change
from eqsat.relay.op.op import Builder, Field, define
from eqsat.relay.op.types import tensor
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def channels_first(rank: int) -> str:
    """``NCW``, ``NCHW`` or ``NCDHW``."""
    return f"NC{SPATIAL[rank]}"


def has_channels_first(attrs: Attrs, kernel: str = "OI") -> bool:
    """Whether channels are axis 1 of data and result of a convolution, and its weight begins with axes ``kernel``."""
    rank = len(attrs.strides)
    plain = attrs.data_layout == channels_first(rank) and attrs.kernel_layout == f"{kernel}{SPATIAL[rank]}"
    return bool(plain and attrs.out_layout in ("", None, attrs.data_layout))


def takes_data_only(attrs: Attrs, of: TensorType) -> bool:
    """Whether a pool takes data into account and no padding: a pool of equal numbers is that number.

    Args:
        attrs: of the pool, whose layout has the channels first.
        of: the type of the data. An axis of no elements, as one of unknown length may be, has nothing but padding.
    """
    padding = attrs.get("padding", ())
    if attrs.get("ceil_mode", False):
        return False
    if not any(padding):
        return True
    beyond_padding = all(pad < size for pad, size in zip(padding, tuple(attrs.pool_size) * 2, strict=True))
    is_dense = all(step == 1 for step in attrs.get("dilation", ()))
    has_data = all(isinstance(dim, int) and dim > 0 for dim in of.shape[2:])
    return beyond_padding and is_dense and has_data and not attrs.get("count_include_pad", False)


def define_image(
    name: str,
    rank: int,
    *fields: Field,
    shape: Callable[[Any, Sequence[Dim]], Sequence[Dim]],
    kernel: Callable[[Any, Any], Any],
    denotation: Callable[[Any, Any], Any] | None = None,
    **more: Any,
) -> Builder:
    """Add an operator on images, whose attributes say layouts: ``layout``, and perhaps ``out_layout``, of the result.

    Args:
        name: its name.
        rank: the number of spatial axes.
        fields: its attributes. If ``out_dtype`` is among them and set, it is the result's dtype, else the data's is.
        shape: ``shape(attrs, shape)`` is the shape of the result for data of a shape, both (N, C, spatial...).
        kernel: ``kernel(attrs, data)`` computes the result, both (N, C, spatial...).
        denotation: computes it on terms, too, if the kernel does not.
        more: passed on to :func:`define`.
    """
    canonical = channels_first(rank)

    def back(attrs: Any) -> LayoutChange:
        return layout_change(canonical, attrs.get("out_layout") or attrs.layout)

    def infer(attrs: Any, args: Sequence[Type]) -> TensorType:
        data = tensor(args[0])
        result = shape(attrs, layout_change(attrs.layout, canonical).shape(data.shape))
        return TensorType(back(attrs).shape(result), attrs.get("out_dtype") or data.dtype)

    def in_layout(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def computed(attrs: Any, data: Any) -> Any:
            result = compute(attrs, layout_change(attrs.layout, canonical)(data))
            return back(attrs)(result).astype(attrs.get("out_dtype") or data.dtype, copy=False)

        return computed

    meaning = None if denotation is None else in_layout(denotation)
    return define(name, "data", *fields, infer=infer, kernel=in_layout(kernel), denotation=meaning, **more)


def per_axis(rank: int) -> Callable[[Any], tuple[Any, ...]]:
    """Converter of an attribute with one value per spatial axis; a single one counts for all."""
    return _values({1: rank, rank: 1})


def both_sides(rank: int) -> Callable[[Any], tuple[Any, ...]]:
    """Converter of padding: one value, one per axis, or two per axis: all the begins, then all the ends."""
    return _values({1: 2 * rank, rank: 2, 2 * rank: 1})


def _values(repeats: Mapping[int, int]) -> Callable[[Any], tuple[Any, ...]]:
    """Converter of a value or several to a tuple; ``repeats`` says for each number of them how often they are taken."""

    def convert(value: Any) -> tuple[Any, ...]:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if len(values) not in repeats:
            raise ValueError(f"needs {' or '.join(map(str, repeats))} values")
        return values * repeats[len(values)]

    return convert


def extent(dim: Dim, kernel: Dim, stride: int, dilation: int, padding: int, ceil: bool = False) -> Dim:
    """How many windows fit an axis of size ``dim`` with ``padding`` added in all."""
    if not isinstance(kernel, int):
        return AnyDim()
    reach = (kernel - 1) * dilation + 1
    if stride < 1 or dilation < 1:
        raise TypeCheckError(f"stride {stride} and dilation {dilation} must be positive")
    room = add_dims(dim, padding - reach)
    if isinstance(room, int) and room < 0:
        raise TypeCheckError(f"a window of {reach} does not fit an axis of {dim} padded by {padding}")
    return add_dims(floor_divide_dims(add_dims(room, stride - 1 if ceil else 0), stride), 1)


def pad_spatial(data: Any, begins: Sequence[int], ends: Sequence[int], value: Any) -> Any:
    """``data`` (N, C, spatial...) with its spatial axes padded by ``value``; negative padding crops."""
    if not any(begins) and not any(ends):
        return data
    widths = [(0, 0), (0, 0), *zip(begins, ends, strict=True)]
    grown = np.pad(data, [(max(b, 0), max(e, 0)) for b, e in widths], constant_values=value)
    return grown[tuple(slice(max(-b, 0), d - max(-e, 0)) for (b, e), d in zip(widths, grown.shape, strict=True))]


def taps(
    kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], out: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """For every position in the kernel, its index and where it reads (N, C, spatial...) for all windows."""
    for index in product(*map(range, kernel)):
        starts = [tap * step for tap, step in zip(index, dilation, strict=True)]
        spans = [
            slice(start, start + stride * (count - 1) + 1, stride) if count else slice(0, 0)
            for start, stride, count in zip(starts, strides, out, strict=True)
        ]
        yield index, (slice(None), slice(None), *spans)


def windows_of(
    data: Any, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], out: Sequence[int]
) -> Any:
    """What ``out`` windows along each axis read of (N, C, spatial...), as (N, C, out..., kernel...)."""
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    if 0 in out:  # then a window may be larger than the data
        data = pad_spatial(data, [0] * len(reach), reach, 0)
    windows = sliding_window_view(data, reach, tuple(range(2, 2 + len(reach))))
    spans = [
        slice(0, stride * (count - 1) + 1, stride) if count else slice(0, 0)
        for stride, count in zip(strides, out, strict=True)
    ]
    return windows[(slice(None), slice(None), *spans, *[slice(None, None, step) for step in dilation])]


def interleaved(data: Any, strides: Sequence[int], value: Any) -> Any:
    """``data`` with its elements ``strides`` apart along the last axes, and ``value`` between them."""
    for axis, stride in enumerate(strides, data.ndim - len(strides)):
        if stride != 1:
            shape, widths = data.shape, [(0, 0)] * (data.ndim + 1)
            widths[axis + 1] = (0, stride - 1)
            apart = np.pad(np.expand_dims(data, axis + 1), widths, constant_values=value)
            whole = apart.reshape(*shape[:axis], shape[axis] * stride, *shape[axis + 1 :])
            data = whole[(*[slice(None)] * axis, slice(0, max((shape[axis] - 1) * stride + 1, 0)))]
    return data

"""Operators that trade channels or batch for space, and repetition in space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, map_dim, multiply_dims
from eqsat.relay.op.nn.window import channels_first, define_image, interleaved
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, static_or_dynamic
from eqsat.relay.op.resize import resize_array
from eqsat.relay.op.types import divided, shaped
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim

INJECTIVE = OpPattern.INJECTIVE


# ---- channels and space


def _depth_to_space(attrs: Any, values: Any) -> Any:
    block = attrs.block_size
    n, c, h, w = values.shape
    if attrs.mode == "DCR":
        parts = values.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = values.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


def _depth_to_space_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    block, (n, c, h, w) = attrs.block_size, shape
    return n, divided(c, block * block), multiply_dims(h, block), multiply_dims(w, block)


def _space_to_depth(attrs: Any, values: Any) -> Any:
    block = attrs.block_size
    n, c, h, w = values.shape
    parts = values.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * block**2, h // block, w // block)


def _space_to_depth_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    block, (n, c, h, w) = attrs.block_size, shape
    return n, multiply_dims(c, block * block), divided(h, block), divided(w, block)


_BLOCK, _LAYOUT = Field("block_size", "int"), Field("layout", "str", "NCHW")
depth_to_space = define_image(
    "nn.depth_to_space",
    2,
    _BLOCK,
    _LAYOUT,
    Field("mode", "str", "DCR", choices=("DCR", "CRD")),
    shape=_depth_to_space_shape,
    kernel=_depth_to_space,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)
space_to_depth = define_image(
    "nn.space_to_depth",
    2,
    _BLOCK,
    _LAYOUT,
    shape=_space_to_depth_shape,
    kernel=_space_to_depth,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)

# ---- batch and space


def _check_blocks(rank: int, blocks: Sequence[int], widths: Sequence[Sequence[int]]) -> None:
    if len(blocks) != len(widths) or len(blocks) >= rank or min(blocks, default=1) < 1:
        raise TypeCheckError(f"blocks {blocks} and widths {widths} do not fit data of {rank} dimensions")


def _space_to_batch_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    blocks = attrs.block_shape
    _check_blocks(len(shape), blocks, attrs.paddings)
    spatial = [
        divided(add_dims(dim, *width), block)
        for dim, width, block in zip(shape[1:], attrs.paddings, blocks, strict=False)
    ]
    return (multiply_dims(shape[0], prod(blocks)), *spatial, *shape[1 + len(blocks) :])


def _space_to_batch(attrs: Any, data: Any) -> Any:
    blocks = attrs.block_shape
    count, rest = len(blocks), data.shape[1 + len(blocks) :]
    widths = [(0, 0), *attrs.paddings, *((0, 0) for _ in rest)]
    padded = np.pad(data, widths, constant_values=data.dtype.type(attrs.pad_value))
    sizes = [dim // block for dim, block in zip(padded.shape[1:], blocks, strict=False)]
    split = [part for pair in zip(sizes, blocks, strict=True) for part in pair]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, 2 * count + 1 + len(rest))]
    parts = padded.reshape(len(data), *split, *rest).transpose(order)
    return parts.reshape(len(data) * prod(blocks), *sizes, *rest)


def _batch_to_space_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    blocks = attrs.block_shape
    _check_blocks(len(shape), blocks, attrs.crops)
    spatial = [
        add_dims(multiply_dims(dim, block), *(-width for width in crop))
        for dim, crop, block in zip(shape[1:], attrs.crops, blocks, strict=False)
    ]
    return (divided(shape[0], prod(blocks)), *spatial, *shape[1 + len(blocks) :])


def _batch_to_space(attrs: Any, data: Any) -> Any:
    blocks = attrs.block_shape
    count, batch = len(blocks), len(data) // prod(blocks)
    spatial, rest = data.shape[1 : 1 + count], data.shape[1 + count :]
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i))]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    whole = data.reshape(*blocks, batch, *spatial, *rest).transpose(order)
    whole = whole.reshape(batch, *(dim * block for dim, block in zip(spatial, blocks, strict=True)), *rest)
    keep = [slice(begin, dim - end) for (begin, end), dim in zip(attrs.crops, whole.shape[1:], strict=False)]
    return whole[(slice(None), *keep)]


space_to_batch_nd = define(
    "nn.space_to_batch_nd",
    "data",
    Field("block_shape", "ints"),
    Field("paddings"),
    Field("pad_value", "float", 0.0),
    infer=shaped(_space_to_batch_shape),
    kernel=_space_to_batch,
    kind=INJECTIVE,
)
batch_to_space_nd = define(
    "nn.batch_to_space_nd",
    "data",
    Field("block_shape", "ints"),
    Field("crops"),
    infer=shaped(_batch_to_space_shape),
    kernel=_batch_to_space,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)

# ---- spreading


def _dilate_shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    if len(attrs.strides) != len(shape):
        raise TypeCheckError(f"strides {attrs.strides} do not fit {len(shape)} dimensions")
    return [
        dim if step == 1 else map_dim(lambda count, step=step: max((count - 1) * step + 1, 0), dim)  # type: ignore[misc]
        for dim, step in zip(shape, attrs.strides, strict=True)
    ]


dilate = define(
    "nn.dilate",
    "data",
    Field("strides", "ints"),
    Field("dilation_value", "float", 0.0),
    infer=shaped(_dilate_shape),
    kernel=lambda attrs, data: interleaved(data, attrs.strides, attrs.dilation_value),
    kind=INJECTIVE,
)


def _upsampling(name: str, rank: int, *last: Field) -> Builder:
    scales = [f"scale_{axis}" for axis in "dhw"[3 - rank :]]

    def shape(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
        return (*shape[:2], *(_scaled(dim, attrs[scale]) for dim, scale in zip(shape[2:], scales, strict=True)))

    def kernel(attrs: Any, values: Any) -> Any:
        method = {"nearest_neighbor": "nearest_neighbor", "bicubic": "cubic"}.get(attrs.method, "linear")
        if "align_corners" in attrs:
            mode = "align_corners" if attrs.align_corners else "asymmetric"
        else:
            mode = attrs.coordinate_transformation_mode
        sizes: Any = shape(attrs, values.shape)[2:]
        return resize_array(values, sizes, method, mode)

    return define_image(
        f"nn.{name}",
        rank,
        *(Field(scale, "float", 1.0) for scale in scales),
        Field("layout", "str", channels_first(rank)),
        Field("method", "str", "nearest_neighbor"),
        *last,
        shape=shape,
        kernel=kernel,
        kind=INJECTIVE,
    )


def _scaled(dim: Dim, scale: float | AnyDim) -> Dim:
    if isinstance(scale, AnyDim):
        return AnyDim()
    return dim if scale == 1 else map_dim(lambda count: int(np.rint(count * scale)), dim)


_upsampling2d = _upsampling("upsampling", 2, Field("align_corners", "bool", False))
_upsampling3d = _upsampling("upsampling3d", 3, Field("coordinate_transformation_mode", "str", "half_pixel"))
upsampling = static_or_dynamic(_upsampling2d, dynamic(_upsampling2d, "data scale_h scale_w"))
upsampling3d = static_or_dynamic(_upsampling3d, dynamic(_upsampling3d, "data scale_d scale_h scale_w"))

__all__ = [
    "batch_to_space_nd", "depth_to_space", "dilate", "space_to_batch_nd", "space_to_depth", "upsampling",
    "upsampling3d",
]  # fmt: skip

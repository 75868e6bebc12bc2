"""Convolutions and products by weights of special values, and convolutions of images that are cut into blocks.

Some laws are left out. Enlarging a kernel by zeros can go on for ever, and pays only where siblings are merged
(:mod:`eqsat.rules.siblings`). Merging groups in pairs multiplies by zeros, which no cost model rewards. The
atrous form of ``qnn.conv2d`` pads with a zero point, which the blocks do not tell.
"""

from __future__ import annotations

import operator
from math import prod

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op.nn.window import SPATIAL, has_channels_first
from eqsat.relay.ty import TensorType
from eqsat.rules.types import Shape, floats_of_one_type, same_dtype
from eqsat.rules.values import Filled, attribute

x, weight = variables("x weight")
(w,) = constants("w")


# ---- the kernel that keeps an image


def may_be_identity(attrs: Attrs, data: TensorType, result: TensorType) -> bool:
    """Guard: a convolution keeps the shape of the image and moves nothing, so that its weight decides."""
    rank = len(attrs.strides)
    moves_nothing = set(attrs.strides) == {1} and tuple(attrs.padding[:rank]) == tuple(attrs.padding[rank:])
    return has_channels_first(attrs) and attrs.groups == 1 and moves_nothing and floats_of_one_type(data, result)


def is_identity(value: Array) -> bool:
    """Guard: each output is one channel: the kernel is 1 at the centre of that channel, and 0 elsewhere."""
    outputs, inputs, *kernel = value.shape
    center = tuple(size // 2 for size in kernel)
    if outputs != inputs or not all(size % 2 for size in kernel) or value[(0, 0, *center)] != 1:
        return False
    ones = value[(slice(None), slice(None), *center)]
    return bool(np.array_equal(ones, np.eye(outputs, dtype=value.dtype)) and np.count_nonzero(value) == outputs)


def by_identity(rank: int) -> Rewrite:
    """conv(x, identity) = x"""
    conv = is_op(f"nn.conv{rank}d")(x, w)
    return rewrite(
        f"conv{rank}d-by-identity",
        conv,
        x,
        when(may_be_identity, attrs_of(conv), type_of(x), type_of(conv)),
        when(is_identity, value_of(w)),
        soundness=Soundness.FINITE,
    )


def is_unit(value: Array) -> bool:
    """Guard: the identity matrix."""
    return value.ndim == 2 and value.shape[0] == value.shape[1] and bool(np.array_equal(value, np.eye(len(value))))


def by_unit(name: str, product: DFPattern, transposes: str | None) -> Rewrite:
    """x I = x, unless the attribute ``transposes`` says that x is transposed"""
    return rewrite(
        name,
        product,
        x,
        when(lambda attrs: transposes is None or not attrs[transposes], attrs_of(product)),
        when(floats_of_one_type, type_of(product), type_of(x)),
        when(is_unit, value_of(w)),
        soundness=Soundness.FINITE,
    )


units = [
    by_unit("dense-by-unit", nn.dense(x, w), None),
    by_unit("matmul-by-unit", nn.matmul(x, w), "transpose_a"),
    by_unit("unit-by-matmul", nn.matmul(w, x), "transpose_b"),
]

# ---- the kernel that averages


def may_average(attrs: Attrs, data: TensorType, kernel: TensorType) -> bool:
    """Guard: each channel is convolved on its own, and is padded by less than the kernel."""
    sizes = kernel.concrete_shape[2:]
    alone = attrs.groups == data.shape[1] == kernel.shape[0] and kernel.shape[1] == 1
    narrow = all(map(operator.lt, attrs.padding, sizes * 2))
    return bool(has_channels_first(attrs) and alone and narrow and all(step == 1 for step in attrs.dilation))


def is_average(value: Array) -> bool:
    """Guard: the kernel has more than one element, and each is 1 divided by their number."""
    size = prod(value.shape[2:])
    return value.dtype.kind == "f" and size > 1 and Filled(1 / size)(value)


def by_average(rank: int) -> Rewrite:
    """conv(x, 1/k) = avg_pool(x)"""
    conv = is_op(f"nn.conv{rank}d")(x, w)
    return rewrite(
        f"conv{rank}d-by-average",
        conv,
        is_op(f"nn.avg_pool{rank}d")(x).has_attr(
            {
                "pool_size": compute(lambda ty: ty.concrete_shape[2:], type_of(w)),
                "strides": attribute(conv, "strides"),
                "padding": attribute(conv, "padding"),
                "count_include_pad": True,
            }
        ),
        when(may_average, attrs_of(conv), type_of(x), type_of(w)),
        when(is_average, value_of(w)),
        when(same_dtype, type_of(x), type_of(w), type_of(conv)),
        soundness=Soundness.ROUNDING,
    )


# ---- images cut into blocks


def atrous_padding(cut: Attrs, conv: Attrs, join: Attrs) -> Shape | Refusal:
    """The padding of a dilated convolution of the whole image.

    A step within a block is ``block`` steps of the image, and what pads and crops the blocks adds up.
    """
    rank = len(conv.strides)
    if conv.data_layout != f"N{SPATIAL[rank]}C" or conv.out_layout not in ("", None, conv.data_layout):
        return refuse("the channels are not last")
    blocks = tuple(cut.block_shape)
    if blocks != tuple(join.block_shape) or len(blocks) != rank or cut.pad_value != 0:
        return refuse("the blocks differ, or are padded with something")
    if any(step != 1 for step in conv.strides):
        return refuse("the convolution leaves places out")
    sides = []
    for side in (0, 1):
        for axis, block in enumerate(blocks):
            sides.append(cut.paddings[axis][side] + block * conv.padding[side * rank + axis] - join.crops[axis][side])
    return tuple(sides) if min(sides, default=0) >= 0 else refuse("it crops more than was padded")


def atrous_dilation(cut: Attrs, conv: Attrs) -> tuple[int, ...]:
    return tuple(map(operator.mul, cut.block_shape, conv.dilation))


def atrous(rank: int) -> Rewrite:
    """batch_to_space(conv(space_to_batch(x), w)) = conv(x, w) of a dilated kernel"""
    blocks = is_op("nn.space_to_batch_nd")(x)
    conv = is_op(f"nn.conv{rank}d")(blocks, weight)
    whole = is_op("nn.batch_to_space_nd")(conv)
    parts = (attrs_of(blocks), attrs_of(conv), attrs_of(whole))
    return rewrite(
        f"atrous-conv{rank}d",
        whole,
        like(conv, x, weight, padding=compute(atrous_padding, *parts), dilation=compute(atrous_dilation, *parts[:2])),
        soundness=Soundness.ROUNDING,
    )


kernels = RuleSet(
    "kernels", [*units, *[make(rank) for make in (by_identity, by_average, atrous) for rank in (1, 2, 3)]]
)

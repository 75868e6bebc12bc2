"""Quantized tensors: quantize and dequantize that cancel, operators that need no real numbers, and constant weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import is_op, is_tuple, many
from eqsat.relay.expr import Op
from eqsat.relay.op import concatenate
from eqsat.relay.op.qnn.affine import clamp, on_axis
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType
from eqsat.rules.operators import names_with

x, y, z = variables("x y z")
weight, scale, point = constants("weight scale point")

BYTES = ("int8", "uint8")

real = is_op("qnn.dequantize")(x, scale, point)
again = is_op("qnn.quantize")(real, scale, point)


def is_usual_scale(value: Array) -> bool:
    """Guard: scales are positive, and far from the ends of the range of floats."""
    return bool(value.size and np.all(value > 1e-20) and np.all(value < 1e20))


def is_byte(ty: TensorType) -> bool:
    return ty.dtype in BYTES


def are_alike(first: Attrs, second: Attrs, ty: TensorType, root: TensorType) -> bool:
    """Guard: bytes are quantized as they were before they were dequantized."""
    return is_byte(ty) and bool(first.axis == second.axis and first.out_dtype == "float32" and ty.dtype == root.dtype)


usual_scale = when(is_usual_scale, value_of(scale))


def order_of(name: str) -> Rewrite:
    """argmax(dequantize(x)) = argmax(x)"""
    found = is_op(name)(real)
    return rewrite(
        f"{name}-of-dequantized",
        found,
        like(found, x),
        usual_scale,
        when(lambda scale, point: scale.size == point.size == 1, value_of(scale), value_of(point)),
        when(is_byte, type_of(x)),
    )


MOVES = [name for name in names_with(Trait.MOVES, 1) if Op.get(name).outputs == 1]
"""Operators of one result that put numbers elsewhere: quantized ones as well."""


def is_of_tensor(*parameters: Array) -> bool:
    """Guard: there is one scale and one zero point for the whole tensor."""
    return all(parameter.size == 1 and parameter.ndim == 0 for parameter in parameters)


def bytes_moved(move: str) -> Rewrite:
    """quantize(move(dequantize(x))) = move(x)"""
    moved = is_op(move)(real)
    whole = is_op("qnn.quantize")(moved, scale, point)
    return rewrite(
        f"bytes-moved-by-{move}",
        whole,
        like(moved, x),
        usual_scale,
        when(is_of_tensor, value_of(scale), value_of(point)),
        when(are_alike, attrs_of(real), attrs_of(whole), type_of(x), type_of(whole)),
    )


joined = concatenate(is_tuple([many(real, shared=[scale, point])]))
bytes_joined = is_op("qnn.quantize")(joined, scale, point)


def are_all_alike(parts: Sequence[Attrs], attrs: Attrs, types: Sequence[TensorType], root: TensorType) -> bool:
    """Guard: all fields are bytes, quantized as the whole is."""
    return all(are_alike(part, attrs, ty, root) for part, ty in zip(parts, types, strict=True))


def bytes_of(attrs: Attrs, values: Array, scales: Array, points: Array) -> Array | Refusal:
    """What a constant is quantized to, divided in float32 as runtimes do."""
    if values.dtype != np.float32 or not is_usual_scale(scales):
        return refuse("it is not quantized as usual")
    steps = np.rint(values / on_axis(scales, values.ndim, attrs.axis).astype(np.float32))
    return clamp(steps + on_axis(points, values.ndim, attrs.axis), attrs.out_dtype)  # type: ignore[no-any-return]


of_constant = is_op("qnn.quantize")(weight, scale, point)

quantization = RuleSet(
    "quantization",
    [
        # of a quarter of its size
        rewrite(
            "quantize-constant",
            of_constant,
            compute(bytes_of, attrs_of(of_constant), value_of(weight), value_of(scale), value_of(point)),
        ),
        *map(bytes_moved, (*MOVES, "nn.max_pool2d")),
        # quantize(concat(dequantize(x), dequantize(y), ..)) = concat(x, y, ..)
        rewrite(
            "bytes-joined",
            bytes_joined,
            like(joined, is_tuple([many(x)])),
            usual_scale,
            when(is_of_tensor, value_of(scale), value_of(point)),
            when(are_all_alike, attrs_of(real), attrs_of(bytes_joined), type_of(x), type_of(bytes_joined)),
        ),
        # each byte is a real number of its own
        rewrite(
            "quantize-dequantized",
            again,
            x,
            usual_scale,
            when(are_alike, attrs_of(real), attrs_of(again), type_of(x), type_of(again)),
        ),
        *map(order_of, ("argmax", "argmin", "argsort")),
    ],
)

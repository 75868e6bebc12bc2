"""Operators that take a shape, dtype or sizes from another tensor, fill a tensor, or do nothing at run time.

Operators that take sizes as tensors equal those that take them as attributes, where the tensors are constants. Relay's
DynamicToStatic also knows ``dyn.nn.upsampling``, ``dyn.nn.upsampling3d`` and ``dyn.sparse_to_dense``: there are no such
operators here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from eqsat.egraph.author import compute, constants, like, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Guard, Rewrite, RuleSet
from eqsat.relay.dataflow_pattern import DFPattern, is_if, is_op, is_tuple_get_item
from eqsat.relay.expr import Op
from eqsat.relay.op import cast
from eqsat.rules.operators import binary
from eqsat.rules.shape import expanded, reshaped
from eqsat.rules.types import dtype_of, same_dtype, same_type, static_shape
from eqsat.rules.values import all_false, all_true, attribute, scalar

x, y = variables("x y")
(number,) = constants("number")


def fill(name: str, root: DFPattern, *operands: DFPattern) -> DFPattern:
    """``zeros``, ``ones`` or ``full`` of the shape and dtype of ``root``."""
    return is_op(name)(*operands).has_attr({"shape": compute(static_shape, type_of(root)), "dtype": dtype_of(root)})


zeros_like, ones_like = is_op("zeros_like")(x), is_op("ones_like")(x)
full_like = is_op("full_like")(x, number)
reshape_like = is_op("reshape_like")(x, y)
broadcast_to_like = is_op("broadcast_to_like")(x, y)
cast_like = is_op("cast_like")(x, y)

concrete = RuleSet(
    "concrete",
    [
        rewrite("zeros-like", zeros_like, fill("zeros", zeros_like)),
        rewrite("ones-like", ones_like, fill("ones", ones_like)),
        rewrite(
            "full-like",
            full_like,
            fill("full", full_like, number),
            when(same_dtype, type_of(full_like), type_of(number)),
        ),
        rewrite("reshape-like", reshape_like, reshaped(x, reshape_like)),
        rewrite("broadcast-to-like", broadcast_to_like, expanded(x, broadcast_to_like)),
        rewrite("cast-like", cast_like, cast(x, dtype=dtype_of(cast_like))),
    ],
)


def as_operand(name: str, filling: DFPattern, value: DFPattern, *guards: Guard) -> list[Rewrite]:
    """f(filling, x) = f(value, x) and f(x, filling) = f(x, value), where ``x`` has the result's shape"""
    first, second = binary(filling, x), binary(x, filling)
    suits = [when(same_type, type_of(filling), type_of(x)), *guards]
    return [
        rewrite(f"{name}-as-first-operand", first, like(first, value, x), *suits),
        rewrite(f"{name}-as-second-operand", second, like(second, x, value), *suits),
    ]


by_shape = is_op("dyn.full")(number, y)
its_shape = is_op("shape_of")(by_shape)
keeps_dtype = when(same_dtype, type_of(x), type_of(number))

fills = RuleSet(
    "fills",
    [
        *as_operand("zeros", is_op("zeros")(), scalar(0, x)),
        *as_operand("ones", is_op("ones")(), scalar(1, x)),
        *as_operand("full", is_op("full")(number), number, keeps_dtype),
        *as_operand("shaped-fill", by_shape, number, keeps_dtype),
        rewrite("shape-of-fill", its_shape, y, when(same_type, type_of(its_shape), type_of(y))),
    ],
)

# ---- what is not there at run time

nothing = RuleSet(
    "nothing",
    [
        rewrite("dropout", is_tuple_get_item(is_op("nn.dropout")(x), 0), x),
        rewrite("copy", is_op("copy")(x), x),
        rewrite("if-true", is_if(all_true, x, y), x),
        rewrite("if-false", is_if(all_false, x, y), y),
    ],
)

likes = RuleSet("likes", [concrete, fills, nothing])

# ---- sizes that are constants

Reading: TypeAlias = Callable[[Array], object]
"""How the value of an attribute is read from a constant."""


def ints(value: Array) -> tuple[int, ...]:
    return tuple(map(int, np.atleast_1d(value)))


def floats(value: Array) -> tuple[float, ...]:
    return tuple(map(float, value))


def integer(value: Array) -> int:
    return int(value.item())


def pairs(value: Array) -> tuple[tuple[int, ...], ...]:
    return tuple(map(ints, value))


def of_constants(name: str, **readings: Reading) -> Rewrite:
    """dyn.f(x, 5) = f(x, attribute=5)

    Args:
        name: the operator that has attributes.
        readings: for each attribute, how it is read from a constant.
    """
    static, dynamic = Op.get(name), Op.get(f"dyn.{name}")
    labels = dynamic.arguments or ()
    operands = {label: (constants if label in readings else variables)(label)[0] for label in labels}
    call = is_op(dynamic.name)(*operands.values())
    shared = {field.name for field in dynamic.fields}
    attrs = {field.name: attribute(call, field.name) for field in static.fields if field.name in shared}
    attrs |= {label: compute(reading, value_of(operands[label])) for label, reading in readings.items()}
    plain = is_op(name)(*[operands[label] for label in static.arguments or ()])
    return rewrite(f"{name}-of-constants", call, plain.has_attr(attrs))


dynamic = RuleSet(
    "dynamic",
    [
        of_constants("reshape", newshape=ints),
        of_constants("broadcast_to", shape=ints),
        of_constants("squeeze", axis=ints),
        of_constants("expand_dims", axis=integer),
        of_constants("tile", reps=ints),
        of_constants("strided_slice", begin=ints, end=ints, strides=ints),
        of_constants("zeros", shape=ints),
        of_constants("ones", shape=ints),
        of_constants("full", shape=ints),
        of_constants("nn.pad", pad_width=pairs),
        of_constants("topk", k=integer),
        of_constants("one_hot", depth=integer),
        of_constants("image.resize2d", size=ints, roi=floats),
    ],
)

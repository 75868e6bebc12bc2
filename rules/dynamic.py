"""Operators that take sizes as tensors equal those that take them as attributes, where the tensors are constants.

Relay's DynamicToStatic also knows ``dyn.nn.upsampling``, ``dyn.nn.upsampling3d`` and ``dyn.sparse_to_dense``: there are
no such operators here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, rewrite, value_of, variables
from eqsat.egraph.rule import Array, Compute, Rewrite, RuleSet
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.expr import Op

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
    attrs = {field.name: _attribute(call, field.name) for field in static.fields if field.name in shared}
    attrs |= {label: compute(reading, value_of(operands[label])) for label, reading in readings.items()}
    plain = is_op(name)(*[operands[label] for label in static.arguments or ()])

    return rewrite(f"{name}-of-constants", call, plain.has_attr(attrs))


def _attribute(call: DFPattern, name: str) -> Compute:
    """An attribute of a matched call."""
    return compute(lambda attrs: attrs[name], attrs_of(call))


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

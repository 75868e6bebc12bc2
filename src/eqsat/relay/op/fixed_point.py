"""Products of integers with fractions that are given as integers: ``multiplier * 2**(shift - 31)``.

Results are rounded to the nearest integer, ties up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import axes_indices, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type

_FRACTION = 31  # bits of a multiplier behind the point


def _integers(ty: Type, what: str = "data") -> TensorType:
    found = tensor(ty)
    if found.dtype != "int32":
        raise TypeCheckError(f"{what} must be int32, not {found.dtype}")
    return found


def _product(data: Any, multiplier: Any, left: Any, right: Any) -> Any:
    """``data * multiplier * 2**(left - right - 31)`` as int32."""
    down = np.int64(_FRACTION) + right
    product = (data.astype(np.int64) << left) * multiplier
    return ((product + (np.int64(1) << (down - 1))) >> down).astype(np.int32)


fixed_point_multiply = define(
    "fixed_point_multiply",
    "data",
    Field("multiplier", "int"),
    Field("shift", "int"),
    infer=lambda attrs, args: _integers(args[0]),
    kernel=lambda attrs, data: _product(data, attrs.multiplier, max(attrs.shift, 0), max(-attrs.shift, 0)),
    kind=OpPattern.INJECTIVE,
    traits=Trait.ELEMENTWISE,
)


def _per_axis_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    data, *parameters = (
        _integers(ty, what) for ty, what in zip(args, ("data", "multiplier", "lshift", "rshift"), strict=True)
    )
    for ty in parameters:
        axes = axes_indices(attrs.axes, len(data.shape))
        if len(ty.shape) != len(axes):
            raise TypeCheckError(f"multipliers and shifts must have {len(axes)} dimensions, one for each of axes")
        for axis, dim in zip(axes, ty.shape, strict=True):
            unify(data.shape[axis], dim, f"axis {axis} of data and the multipliers or shifts:")
    return data


def _per_axis(attrs: Any, data: Any, *parameters: Any) -> Any:
    axes = axes_indices(attrs.axes, data.ndim)
    rest = tuple(axis for axis in range(data.ndim) if axis not in axes)
    order = np.argsort(axes)
    spread = [np.expand_dims(parameter.transpose(order).astype(np.int64), rest) for parameter in parameters]
    multiplier, left, right = spread
    return _product(data, multiplier, left if attrs.is_lshift_required else 0, right if attrs.is_rshift_required else 0)


fixed_point_multiply_per_axis = define(
    "fixed_point_multiply_per_axis",
    "x y lshift rshift",
    Field("is_lshift_required", "bool"),
    Field("is_rshift_required", "bool"),
    Field("axes", "ints"),  # those along which the multipliers and shifts differ
    infer=_per_axis_type,
    kernel=_per_axis,
    kind=OpPattern.BROADCAST,
)

__all__ = ["fixed_point_multiply", "fixed_point_multiply_per_axis"]

"""Quantized numbers: real = scale * (integer - zero_point), per tensor or per index of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Builder, define
from eqsat.relay.op.shape import spread
from eqsat.relay.op.tensor import clip_to
from eqsat.relay.op.types import axis_index, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type


def define_quantized(name: str, *args: Any, **kwargs: Any) -> Builder:
    """:func:`define` for ``qnn.`` operators: Relay calls them non-computational, so constants of them stay."""
    return define(f"qnn.{name}", *args, **kwargs, traits=Trait.NON_COMPUTATIONAL)


def check_parameters(data: TensorType, parameters: Sequence[Type], axis: int) -> None:
    """Raise TypeCheckError unless these are scales and zero points in turn.

    They are float32 and int32, scalars or vectors along ``axis``.
    """
    for ty, (what, dtype) in zip(parameters, cycle((("scale", "float32"), ("zero_point", "int32"))), strict=False):
        parameter = tensor(ty)
        if parameter.dtype != dtype:
            raise TypeCheckError(f"{what} must be {dtype}, not {parameter.dtype}")
        if len(parameter.shape) > 1:
            raise TypeCheckError(f"{what} must be a scalar or a vector, not {parameter}")
        if parameter.shape and parameter.shape != (1,):
            place = axis_index(axis, len(data.shape))
            unify(data.shape[place], parameter.shape[0], f"axis {axis} of data and {what}:")


def on_axis(parameter: Any, rank: int, axis: int) -> Any:
    """``parameter`` shaped to broadcast along ``axis`` of a tensor of ``rank``, as int64 or float64."""
    wide = parameter.astype(np.float64 if parameter.dtype.kind == "f" else np.int64)
    if parameter.size == 1:
        return wide.reshape(())
    return spread(wide, axis, rank)


def to_real(data: Any, scale: Any, zero_point: Any, axis: int = -1) -> Any:
    """The real numbers that ``data`` stands for, in float64."""
    shifted = data.astype(np.int64) - on_axis(zero_point, data.ndim, axis)
    return shifted * on_axis(scale, data.ndim, axis)


def to_integer(real: Any, scale: Any, zero_point: Any, dtype: str, axis: int = -1) -> Any:
    """``real`` rounded to the nearest representable number (ties to even) and clamped to ``dtype``."""
    rounded = np.rint(real / on_axis(scale, real.ndim, axis)) + on_axis(zero_point, real.ndim, axis)
    return clamp(rounded, dtype)


def clamp(values: Any, dtype: str) -> Any:
    """Whole ``values`` (float64 or integers) limited to the range of ``dtype``."""
    info = np.iinfo(dtype)
    return clip_to(values.astype(np.float64), info.min, info.max).astype(dtype)

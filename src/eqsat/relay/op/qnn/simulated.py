"""Quantization simulated in floating point: results are whole numbers, or what they stand for, in the data's dtype.

The type to simulate is a tensor: 0 for none, which leaves data as they are, 1 for int8, 2 for uint8, 3 for int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import OperatorError, TypeCheckError
from eqsat.relay.op.op import Builder, Field, OpPattern, define, is_operand, tensor_of
from eqsat.relay.op.qnn.affine import on_axis
from eqsat.relay.op.transform import reshape
from eqsat.relay.op.types import axis_index, ranked, size, tensor, unify
from eqsat.relay.ty import Type

CODES = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
"""Name of a type to simulate -> its code."""


def _simulated_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    ranked(args[1], 0, "the code of a type")
    for ty, what in zip(args[2:], ("scale", "zero_point"), strict=True):
        parameter = tensor(ty)
        if len(parameter.shape) > 1:
            raise TypeCheckError(f"{what} must be a scalar or a vector, not {parameter}")
        if parameter.shape and parameter.shape != (1,):
            place = axis_index(attrs.axis, len(data.shape))
            unify(data.shape[place], parameter.shape[0], f"axis {attrs.axis} of data and {what}:")
    return data


def _simulated(name: str, parameters: str, convert: Callable[[Any, Any, Any, Any], Any]) -> Builder:
    """Add an operator; ``convert(data, scale, zero_point, limits)`` computes in float64."""
    ranges = {code: np.iinfo(dtype) for dtype, code in CODES.items() if code}

    def kernel(attrs: Any, data: Any, code: Any, scale: Any, zero: Any) -> Any:
        if int(code) not in ranges:
            return data
        scale, zero = (on_axis(parameter, data.ndim, attrs.axis) for parameter in (scale, zero))
        return convert(data.astype(np.float64), scale, zero, ranges[int(code)]).astype(data.dtype)

    return define(
        f"qnn.{name}",
        parameters,
        Field("axis", "int", -1),
        infer=_simulated_type,
        kernel=kernel,
        kind=OpPattern.ELEMWISE,
        flops=lambda attrs, args, ty: 3 * size(ty),
    )


_quantize = _simulated(
    "simulated_quantize",
    "data out_dtype output_scale output_zero_point",
    lambda data, scale, zero, limits: np.clip(np.rint(data / scale) + zero, limits.min, limits.max),
)
_dequantize = _simulated(
    "simulated_dequantize",
    "data in_dtype input_scale input_zero_point",
    lambda data, scale, zero, limits: (data - zero) * scale,
)


def _code(dtype: Any) -> Any:
    if is_operand(dtype):
        return dtype
    if dtype not in CODES:
        raise OperatorError(f"simulated quantization simulates int8, uint8, int32 or disable, not {dtype!r}")
    return tensor_of(CODES[dtype], "int32")


def simulated_quantize(
    data: Any, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: Any = "int8"
) -> Any:
    """``data`` as the whole numbers that :func:`quantize` makes of them; ``out_dtype`` is a name or a tensor."""
    return _quantize(data, _code(out_dtype), reshape(output_scale, (-1,)), reshape(output_zero_point, (-1,)), axis)


def simulated_dequantize(
    data: Any, input_scale: Any, input_zero_point: Any, axis: int = -1, in_dtype: Any = "int8"
) -> Any:
    """What whole numbers stand for, as of :func:`dequantize`; ``in_dtype`` is a name or a tensor."""
    return _dequantize(data, _code(in_dtype), reshape(input_scale, (-1,)), reshape(input_zero_point, (-1,)), axis)


__all__ = ["simulated_dequantize", "simulated_quantize"]

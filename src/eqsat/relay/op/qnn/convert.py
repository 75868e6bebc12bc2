"""Between real and quantized numbers, and from one quantization to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Field, OpPattern
from eqsat.relay.op.qnn.affine import check_parameters, clamp, define_quantized, on_axis, to_integer, to_real
from eqsat.relay.op.types import size, tensor
from eqsat.relay.ty import TensorType, Type

_AXIS = Field("axis", "int", -1)


def _quantize_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    if data.dtype != "float32":
        raise TypeCheckError(f"data must be float32, not {data.dtype}")
    check_parameters(data, args[1], args[2], attrs.axis)
    return TensorType(data.shape, attrs.out_dtype)


def _dequantize_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    check_parameters(data, args[1], args[2], attrs.axis)
    return TensorType(data.shape, attrs.out_dtype)


quantize = define_quantized(
    "quantize",
    "data output_scale output_zero_point",
    _AXIS,
    Field("out_dtype", "dtype", "int8"),
    infer=_quantize_type,
    kernel=lambda attrs, data, scale, zero: to_integer(
        data.astype(np.float64), scale, zero, attrs.out_dtype, attrs.axis
    ),
    kind=OpPattern.ELEMWISE,
    flops=lambda attrs, args, ty: 3 * size(ty),
)
dequantize = define_quantized(
    "dequantize",
    "data input_scale input_zero_point",
    _AXIS,
    Field("out_dtype", "dtype", "float32"),
    infer=_dequantize_type,
    kernel=lambda attrs, data, scale, zero: to_real(data, scale, zero, attrs.axis).astype(attrs.out_dtype),
    kind=OpPattern.ELEMWISE,
    flops=lambda attrs, args, ty: 2 * size(ty),
)


def _requantize_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    check_parameters(data, args[1], args[2], attrs.axis)
    check_parameters(data, args[3], args[4], attrs.axis)
    if attrs.rounding not in ("None", "UPWARD", "TONEAREST"):
        raise TypeCheckError(f"rounding must be 'UPWARD' or 'TONEAREST', not {attrs.rounding!r}")
    return TensorType(data.shape, attrs.out_dtype)


def _requantize(attrs: Any, data: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any) -> Any:
    real = to_real(data, scale, zero, attrs.axis) / on_axis(out_scale, data.ndim, attrs.axis)
    if attrs.rounding == "TONEAREST":
        rounded = np.copysign(np.floor(np.abs(real) + 0.5), real)
    else:
        rounded = np.floor(real + 0.5)
    return clamp(rounded + on_axis(out_zero, data.ndim, attrs.axis), attrs.out_dtype)


requantize = define_quantized(
    "requantize",
    "data input_scale input_zero_point output_scale output_zero_point",
    _AXIS,
    Field("rounding", "str", "None"),
    Field("compute_dtype", "str", "None"),
    Field("out_dtype", "dtype", "int8"),
    infer=_requantize_type,
    kernel=_requantize,
    kind=OpPattern.ELEMWISE,
    flops=lambda attrs, args, ty: 4 * size(ty),
)
"""Computed in float64, where Relay uses fixed point: results may differ by one where that rounds otherwise.
``rounding``: ``UPWARD`` (also for ``"None"``) takes ties up, ``TONEAREST`` away from zero."""

__all__ = ["dequantize", "quantize", "requantize"]

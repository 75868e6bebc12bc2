"""Changes of dtype, and quantization. The IR has int32 zero points, ONNX has those of the quantized dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.onnx.converters.axes import arg_node
from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, cast, exports
from eqsat.onnx.types import DTYPES, OnnxType, element_name
from eqsat.relay.expr import Call, Constant, Expr

# ---- dtypes


@imports("Cast")
def _cast(source: Source) -> Result:
    source.ignore("saturate", "round_mode")  # both speak of types the IR does not have
    (data,) = source.arguments(1)
    name = DTYPES.get(source.int("to"))
    if name is None:
        raise Declined("its target type is not understood")
    return _cast_to(name, data, source)


@exports("cast")
def _to_cast(call: Call, target: Target) -> OnnxNode:
    found = target.call(call.args[0], "argmax", "argmin")
    if found is not None and attributes(call).dtype == "int64":
        return arg_node(found, target)  # ONNX finds int64 indices, the IR int32 ones
    return cast(call.args[0], attributes(call).dtype)


@imports("CastLike")
def _cast_like(source: Source) -> Result:
    source.ignore("saturate", "round_mode")
    data, like = source.arguments(2)
    name = element_name(source.types[like])
    return build("cast_like", data, like) if name is None else _cast_to(name, data, source)


def _cast_to(name: str, data: Expr, source: Source) -> Expr:
    """``data`` as elements of ``name``, which it may have already though its rank is not known."""
    ty = source.types[data]
    is_same = isinstance(ty, OnnxType) and element_name(ty) == name
    return data if is_same else build("cast", data, dtype=name)


@exports("cast_like")
def _to_cast_like(call: Call, target: Target) -> OnnxNode:
    if target.has("CastLike"):
        return OnnxNode("CastLike", call.args)
    return cast(call.args[0], target.type(call.args[1]).dtype)


# ---- quantized numbers


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


def _parameters(source: Source, scale: Expr, zero: Expr | None) -> tuple[Constant, dict[str, Any]]:
    """The zero point as int32, and the axis that vectors of scales and zero points run along."""
    source.ignore("saturate")  # of 8-bit floats
    source.require(not source.int("block_size", 0), "it has a scale for each block")
    source.require(not source.int("precision", 0), "it divides in a dtype of its own")
    ty = source.type(scale)
    source.require(ty.dtype == "float32", "its scale is not float32")
    source.require(len(ty.shape) < 2, "its scale is no number and no vector")
    axis = source.int("axis", 1)
    points = np.zeros((), np.int32) if zero is None else source.array(zero)
    source.require(points.dtype.name in _INTEGERS, "its zero point is no integer")
    if zero is None and ty.shape:
        points = np.zeros(source.static_shape(scale), np.int32)
    return Constant(points.astype(np.int32)), {"axis": axis if ty.shape else -1}


@imports("QuantizeLinear")
def quantize_linear(source: Source) -> Expr:
    """Real numbers as quantized ones."""
    data, scale, zero = source.optional(2, 3)
    said = DTYPES.get(source.int("output_dtype", 0))
    given = "uint8" if zero is None else source.type(zero).dtype
    point, axis = _parameters(source, scale, zero)
    return build("qnn.quantize", data, scale, point, out_dtype=said or given, **axis)


@imports("DequantizeLinear")
def dequantize_linear(source: Source) -> Expr:
    """Quantized numbers as real ones."""
    data, scale, zero = source.optional(2, 3)
    source.require(source.type(data).dtype in _INTEGERS, "its data are no integers")
    source.require(not source.int("output_dtype", 0), "it names a dtype")
    point, axis = _parameters(source, scale, zero)
    return build("qnn.dequantize", data, scale, point, out_dtype="float32", **axis)


@exports("qnn.quantize", "qnn.dequantize")
def _to_quantize(call: Call, target: Target) -> OnnxNode:
    attrs, (data, scale, _) = attributes(call), call.args
    quantizes = attrs.out_dtype != "float32"
    dtype = attrs.out_dtype if quantizes else target.type(data).dtype
    vector = target.rank(scale) == 1 and target.type(scale).shape != (1,)
    since = 21 if "16" in dtype else 13 if vector else 10
    target.require(target.opset >= since, call, "there is no such quantization")
    zero = _zero_point(call, dtype, target)
    inputs = [data, scale] if zero is None else [data, scale, zero]
    op_type = "QuantizeLinear" if quantizes else "DequantizeLinear"
    return OnnxNode(op_type, inputs, {"axis": attrs.axis if vector else None})


def _zero_point(call: Call, dtype: str, target: Target) -> Operand:
    zero = call.args[2]
    if not isinstance(zero, Constant):
        raise target.unwritable(call, "its zero point is no constant")
    values = zero.data.numpy()
    if dtype == "int32" and not values.any():
        return None  # not even 0 is allowed by older opsets
    points = values.astype(dtype)
    target.require(np.array_equal(points, values), call, f"its zero point is no {dtype}")
    return points

"""Quantized operators: ``relay.qnn.op.conv2d`` and so on.

Products (conv2d, dense, ...) give int32 sums over (data - zero point) * (weight - zero point). The others take
integers to real numbers, compute in float64, and round back to the output's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.nn import activation, conv, matrix, pool
from eqsat.relay.op.op import Builder, Field, OpPattern
from eqsat.relay.op.qnn.affine import check_parameters, clamp, define_quantized, on_axis, to_integer, to_real
from eqsat.relay.op.qnn.simulated import simulated_dequantize, simulated_quantize
from eqsat.relay.op.tensor import erf_of, sigmoid_of
from eqsat.relay.op.transform import concatenate_type
from eqsat.relay.op.types import broadcast_shape, check_dtype, size, tensor, tensors
from eqsat.relay.ty import TensorType, TupleType, Type

_AXIS = Field("axis", "int", -1)

# ---- between real and quantized numbers, and from one quantization to another


def _converted_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    check_parameters(data, args[1:], attrs.axis)
    return TensorType(data.shape, attrs.out_dtype)


def _quantize_type(attrs: Any, args: Sequence[Type]) -> Type:
    if tensor(args[0]).dtype != "float32":
        raise TypeCheckError(f"data must be float32, not {tensor(args[0]).dtype}")
    return _converted_type(attrs, args)


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
    infer=_converted_type,
    kernel=lambda attrs, data, scale, zero: to_real(data, scale, zero, attrs.axis).astype(attrs.out_dtype),
    kind=OpPattern.ELEMWISE,
    flops=lambda attrs, args, ty: 2 * size(ty),
)


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
    Field("rounding", "str", "None", choices=("None", "UPWARD", "TONEAREST")),
    Field("compute_dtype", "str", "None"),
    Field("out_dtype", "dtype", "int8"),
    infer=_converted_type,
    kernel=_requantize,
    kind=OpPattern.ELEMWISE,
    flops=lambda attrs, args, ty: 4 * size(ty),
)
"""Computed in float64, where Relay uses fixed point: results may differ by one where that rounds otherwise.
``rounding``: ``UPWARD`` (also for ``"None"``) takes ties up, ``TONEAREST`` away from zero."""

# ---- elementwise of two


def _binary(name: str, function: Callable[[Any, Any], Any]) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        lhs, rhs = map(tensor, args[:2])
        check_parameters(lhs, args[2:4], attrs.lhs_axis)
        check_parameters(rhs, args[4:6], attrs.rhs_axis)
        result = TensorType(broadcast_shape(lhs.shape, rhs.shape), check_dtype(lhs, rhs))
        check_parameters(result, args[6:], -1)
        return result

    def kernel(attrs: Any, lhs: Any, rhs: Any, ls: Any, lz: Any, rs: Any, rz: Any, scale: Any, zero: Any) -> Any:
        real = function(to_real(lhs, ls, lz, attrs.lhs_axis), to_real(rhs, rs, rz, attrs.rhs_axis))
        return to_integer(np.asarray(real), scale, zero, lhs.dtype)

    return define_quantized(
        name,
        "lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point output_scale output_zero_point",
        Field("lhs_axis", "int", -1),
        Field("rhs_axis", "int", -1),
        infer=infer,
        kernel=kernel,
        kind=OpPattern.BROADCAST,
        flops=lambda attrs, args, ty: 8 * size(ty),
    )


add = _binary("add", np.add)
subtract = _binary("subtract", np.subtract)
mul = _binary("mul", np.multiply)

# ---- functions of one


def _by_reals(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The kernel that computes ``function(attrs, data)`` of the real numbers."""

    def kernel(attrs: Any, data: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any) -> Any:
        return to_integer(np.asarray(function(attrs, to_real(data, scale, zero))), out_scale, out_zero, data.dtype)

    return kernel


def _unary(
    name: str,
    function: Callable[[Any, Any], Any],
    *fields: Field,
    arguments: str = "x scale zero_point output_scale output_zero_point",
    kind: OpPattern | None = None,
) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        data = tensor(args[0])
        check_parameters(data, args[1:], -1)
        return data

    return define_quantized(
        name,
        arguments,
        *fields,
        infer=infer,
        kernel=_by_reals(function),
        kind=kind,
        flops=lambda attrs, args, ty: 5 * size(ty),
    )


abs = _unary("abs", lambda attrs, x: np.abs(x))
erf = _unary("erf", lambda attrs, x: erf_of(x))
exp = _unary("exp", lambda attrs, x: np.exp(x))
hardswish = _unary("hardswish", lambda attrs, x: x * np.clip(x + 3, 0, 6) / 6)
log = _unary("log", lambda attrs, x: np.log(x))
rsqrt = _unary("rsqrt", lambda attrs, x: 1 / np.sqrt(x))
sigmoid = _unary("sigmoid", lambda attrs, x: sigmoid_of(x))
sqrt = _unary("sqrt", lambda attrs, x: np.sqrt(x))
tanh = _unary("tanh", lambda attrs, x: np.tanh(x), kind=OpPattern.ELEMWISE)
softmax = _unary(
    "softmax",
    lambda attrs, x: activation.softmax_of(x, attrs.axis),
    Field("axis", "int", -1),
    arguments="data scale zero_point output_scale output_zero_point",
)
_leaky_relu = _unary(
    "leaky_relu",
    lambda attrs, x: np.where(x >= 0, x, x * attrs.alpha),
    Field("alpha", "float", 0.25),
    arguments="x input_scale input_zero_point output_scale output_zero_point",
)


def leaky_relu(
    x: Any, alpha: float, input_scale: Any, input_zero_point: Any, output_scale: Any, output_zero_point: Any
) -> Any:
    """Leaky relu on quantized numbers, arguments in Relay's order."""
    return _leaky_relu(x, input_scale, input_zero_point, output_scale, output_zero_point, alpha)


# ---- sums of products


def _product(
    real: Builder, arguments: str, axis: Callable[[Any, Any], int], kind: OpPattern | None, first: str = ""
) -> Builder:
    """The operator on integers of a product of real numbers.

    Args:
        real: builds the product of real numbers.
        arguments: data, weight and their parameters, zero points first.
        axis: finds the axis of the weight's output channels from the attributes and the weight.
        kind: as for :func:`define_quantized`.
        first: names of attributes that come before the others.
    """
    op: Any = real.op
    fields = [replace(field, default="int32") if field.name == "out_dtype" else field for field in op.fields]
    order = first.split()
    fields.sort(key=lambda field: order.index(field.name) if field.name in order else len(order))

    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        for arg in args[2:]:
            if len(tensor(arg).shape) > 1:
                raise TypeCheckError(f"scales and zero points must be scalars or vectors, not {arg}")
        ty: Type = op.infer(attrs, args[:2])
        return ty

    def of_product(product: Callable[..., Any]) -> Callable[..., Any]:
        def compute(attrs: Any, data: Any, weight: Any, data_zero: Any, weight_zero: Any, *scales: Any) -> Any:
            left = data.astype(np.float64) - on_axis(data_zero, data.ndim, -1)
            right = weight.astype(np.float64) - on_axis(weight_zero, weight.ndim, axis(attrs, weight))
            exact = product(attrs.replace(out_dtype="float64"), left, right)
            return matrix.from_product(exact, attrs.out_dtype)

        return compute

    return define_quantized(
        real.__name__,
        arguments,
        *fields,
        infer=infer,
        deduce=op.deduce and (lambda attrs, args: [*op.deduce(attrs, args[:2]), *args[2:]]),
        kernel=of_product(op.kernel),
        denotation=of_product(op.denotation),
        kind=kind,
        flops=op.flops,
    )


def _output_channels(attrs: Any, weight: Any) -> int:
    return int(attrs.kernel_layout.index("O"))


_PARAMETERS = "input_zero_point kernel_zero_point input_scale kernel_scale"
_FUSABLE = OpPattern.OUT_ELEMWISE_FUSABLE
conv2d = _product(conv.conv2d, f"data kernel {_PARAMETERS}", _output_channels, _FUSABLE, "kernel_size channels")
conv2d_transpose = _product(conv.conv2d_transpose, f"data weight {_PARAMETERS}", _output_channels, None)
dense = _product(matrix.dense, f"data weight {_PARAMETERS}", lambda attrs, weight: 0, _FUSABLE)
batch_matmul = _product(
    matrix.batch_matmul, "x y x_zero_point y_zero_point x_scale y_scale", lambda attrs, weight: -1, _FUSABLE
)

# ---- on whole tensors


def _concatenate_type(attrs: Any, args: Sequence[Type]) -> Type:
    fields = tensors(args[0])
    for parameters in args[1:3]:
        if not isinstance(parameters, TupleType) or len(parameters.fields) != len(fields):
            raise TypeCheckError(f"needs a scale and a zero point for each of {len(fields)} tensors")
    return concatenate_type(attrs, args)


def _concatenate(attrs: Any, data: Any, scales: Any, zeros: Any, scale: Any, zero: Any) -> Any:
    reals = [to_real(*part) for part in zip(data, scales, zeros, strict=True)]
    return to_integer(np.concatenate(reals, attrs.axis), scale, zero, data[0].dtype)


concatenate = define_quantized(
    "concatenate",
    "*data *input_scales *input_zero_points output_scale output_zero_point",
    Field("axis", "int", 0),
    infer=_concatenate_type,
    kernel=_concatenate,
    kind=OpPattern.INJECTIVE,
)


_AVERAGE: Any = pool.avg_pool2d.op
_POOL = {field.name: field for field in _AVERAGE.fields}


def _avg_pool2d_type(attrs: Any, args: Sequence[Type]) -> Type:
    check_parameters(tensor(args[0]), args[1:], -1)
    ty: Type = _AVERAGE.infer(attrs, args)
    return ty


avg_pool2d = define_quantized(
    "avg_pool2d",
    "data input_scale input_zero_point output_scale output_zero_point",
    *(_POOL[name] for name in ("pool_size", "strides", "padding", "dilation", "ceil_mode")),
    Field("count_include_pad", "bool", True, told=True),
    Field("layout", "str", "NHWC", told=True),
    _POOL["out_layout"],
    infer=_avg_pool2d_type,
    kernel=_by_reals(_AVERAGE.kernel),
    denotation=_by_reals(_AVERAGE.denotation),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
)

__all__ = [
    "abs", "add", "avg_pool2d", "batch_matmul", "concatenate", "conv2d", "conv2d_transpose", "dense", "dequantize",
    "erf", "exp", "hardswish", "leaky_relu", "log", "mul", "quantize", "requantize", "rsqrt", "sigmoid",
    "simulated_dequantize", "simulated_quantize", "softmax", "sqrt", "subtract", "tanh",
]  # fmt: skip

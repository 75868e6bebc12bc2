"""Computing with quantized tensors.

Products (conv2d, dense, ...) give int32 sums over (data - zero point) * (weight - zero point). The others take
integers to real numbers, compute in float64, and round back to the output's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.op.error_function import erf as _erf
from eqsat.relay.op.nn import activation, conv, conv_transpose, matrix, pool
from eqsat.relay.op.op import Builder, Field, OpPattern
from eqsat.relay.op.qnn.affine import check_parameters, define_quantized, on_axis, to_integer, to_real
from eqsat.relay.op.tensor import sigmoid_of
from eqsat.relay.op.transform import concatenate_type
from eqsat.relay.op.types import broadcast_shape, check_dtype, size, tensor, tensors
from eqsat.relay.ty import TensorType, TupleType, Type

_INT32 = Field("out_dtype", "dtype", "int32")


# ---- elementwise of two


def _binary(name: str, function: Callable[[Any, Any], Any]) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        lhs, rhs = map(tensor, args[:2])
        check_parameters(lhs, args[2], args[3], attrs.lhs_axis)
        check_parameters(rhs, args[4], args[5], attrs.rhs_axis)
        dtype = check_dtype(lhs, rhs)
        result = TensorType(broadcast_shape(lhs.shape, rhs.shape), dtype)
        check_parameters(result, args[6], args[7], -1)
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


def _unary(
    name: str,
    function: Callable[[Any, Any], Any],
    *fields: Field,
    arguments: str = "x scale zero_point output_scale output_zero_point",
    kind: OpPattern | None = None,
) -> Builder:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        data = tensor(args[0])
        check_parameters(data, args[1], args[2], -1)
        check_parameters(data, args[3], args[4], -1)
        return data

    def kernel(attrs: Any, data: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any) -> Any:
        return to_integer(np.asarray(function(attrs, to_real(data, scale, zero))), out_scale, out_zero, data.dtype)

    return define_quantized(
        name,
        arguments,
        *fields,
        infer=infer,
        kernel=kernel,
        kind=kind,
        flops=lambda attrs, args, ty: 5 * size(ty),
    )


abs = _unary("abs", lambda attrs, x: np.abs(x))
erf = _unary("erf", lambda attrs, x: _erf(x))
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

_PRODUCT = "input_zero_point kernel_zero_point input_scale kernel_scale"


def _parts(fields: Sequence[Any], first: str) -> list[Field]:
    """The attributes of a float operator in Relay's order for the quantized one, int32 out."""
    by_name = {field.name: field for field in fields}
    order = [*first.split(), *(name for name in by_name if name not in first.split() and name != "out_dtype")]
    return [*(by_name[name] for name in order), _INT32]


def _centred_product(kernel: Callable[..., Any], axis: Callable[[Any, Any], int]) -> Callable[..., Any]:
    """The float operator's kernel on operands less their zero points; ``axis`` finds the weight's channels."""

    def compute(attrs: Any, data: Any, weight: Any, data_zero: Any, weight_zero: Any, *scales: Any) -> Any:
        left = data.astype(np.float64) - on_axis(data_zero, data.ndim, -1)
        right = weight.astype(np.float64) - on_axis(weight_zero, weight.ndim, axis(attrs, weight))
        exact = kernel(attrs.replace(out_dtype="float64"), left, right)
        return matrix.from_product(exact, attrs.out_dtype)

    return compute


def _product_type(relation: Callable[[Any, Sequence[Type]], Type]) -> Callable[[Any, Sequence[Type]], Type]:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        for arg in args[2:]:
            if len(tensor(arg).shape) > 1:
                raise TypeCheckError(f"scales and zero points must be scalars or vectors, not {arg}")
        return relation(attrs, args[:2])

    return infer


def _deduce_weight(deduce: Callable[[Any, Sequence[Type | None]], Sequence[Type | None]]) -> Any:
    return lambda attrs, args: [*deduce(attrs, args[:2]), *args[2:]]


conv2d = define_quantized(
    "conv2d",
    f"data kernel {_PRODUCT}",
    *_parts(conv.conv2d.op.fields, "kernel_size channels"),
    infer=_product_type(lambda attrs, args: conv.conv_type(attrs, args, 2)),
    deduce=_deduce_weight(lambda attrs, args: conv.deduce_conv_weight(attrs, args, 2)),
    kernel=_centred_product(conv.conv_kernel, lambda attrs, weight: attrs.kernel_layout.index("O")),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=conv.conv_flops,
)
conv2d_transpose = define_quantized(
    "conv2d_transpose",
    f"data weight {_PRODUCT}",
    *_parts(conv_transpose.conv2d_transpose.op.fields, ""),
    infer=_product_type(lambda attrs, args: conv_transpose.transpose_type(attrs, args, 2)),
    kernel=_centred_product(conv_transpose.conv_transpose_kernel, lambda attrs, weight: attrs.kernel_layout.index("O")),
    flops=conv_transpose.transpose_flops,
)
dense = define_quantized(
    "dense",
    f"data weight {_PRODUCT}",
    Field("units", "int", None, told=True),
    _INT32,
    infer=_product_type(matrix.dense_type),
    deduce=_deduce_weight(matrix.deduce_dense_weight),
    kernel=_centred_product(lambda attrs, data, weight: np.matmul(data, weight.T), lambda attrs, weight: 0),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=matrix.product_flops,
)
batch_matmul = define_quantized(
    "batch_matmul",
    "x y x_zero_point y_zero_point x_scale y_scale",
    _INT32,
    Field("transpose_a", "bool", False),
    Field("transpose_b", "bool", True, told=True),
    infer=_product_type(matrix.batch_matmul_type),
    kernel=_centred_product(matrix.matmul_kernel, lambda attrs, weight: -1),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=matrix.product_flops,
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


def _avg_pool2d_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    check_parameters(data, args[1], args[2], -1)
    check_parameters(data, args[3], args[4], -1)
    return pool.pool_type(attrs, args, 2)


def _avg_pool2d(attrs: Any, data: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any) -> Any:
    average = pool.avg_pool2d.op.kernel
    if average is None:
        raise TypeCheckError("nn.avg_pool2d has no kernel")
    return to_integer(average(attrs, to_real(data, scale, zero)), out_scale, out_zero, data.dtype)


_POOL = {field.name: field for field in pool.avg_pool2d.op.fields}
avg_pool2d = define_quantized(
    "avg_pool2d",
    "data input_scale input_zero_point output_scale output_zero_point",
    *(_POOL[name] for name in ("pool_size", "strides", "padding", "dilation", "ceil_mode")),
    Field("count_include_pad", "bool", True, told=True),
    Field("layout", "str", "NHWC", told=True),
    _POOL["out_layout"],
    infer=_avg_pool2d_type,
    kernel=_avg_pool2d,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
)

__all__ = [
    "abs", "add", "avg_pool2d", "batch_matmul", "concatenate", "conv2d", "conv2d_transpose", "dense", "erf", "exp",
    "hardswish", "leaky_relu", "log", "mul", "rsqrt", "sigmoid", "softmax", "sqrt", "subtract", "tanh",
]  # fmt: skip

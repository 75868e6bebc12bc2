"""Operators on quantized numbers: what they compute, exactly, by integers and then one rounding.

These definitions tell types and values. They are not rules: written in other operators, each is several.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.onnx.contrib import DOMAIN
from eqsat.onnx.converters.fused_attention import attention_of_product
from eqsat.onnx.converters.source import Declined, Source, build, defines
from eqsat.onnx.converters.windows import convolve
from eqsat.relay.expr import Constant, Expr, Tuple
from eqsat.relay.infer import extend_types

define = partial(defines, rewrites=False)


def _constant(value: float, dtype: str) -> Constant:
    return Constant(np.asarray(value, dtype))


def _typed(expr: Expr, source: Source) -> Expr:
    """``expr``, whose type the source knows from now on."""
    extend_types(source.types, expr)  # type: ignore[arg-type]
    return expr


def _along(vector: Expr, axis: int, rank: int, source: Source) -> Expr:
    """A number as it is; a vector of more than one in the shape that broadcasts along ``axis``, from the end."""
    shape = source.type(vector).shape
    source.require(len(shape) < 2, "its scales or zero points are no numbers and no vectors")
    if not shape:
        return vector
    if shape == (1,):
        return build("reshape", vector, newshape=())
    after = rank - 1 - axis
    return build("expand_dims", vector, axis=1, num_newaxis=after) if after else vector


def _shifted(data: Expr, zero: Expr | None, axis: int, source: Source) -> Expr:
    """The numbers less their zero point, as int32."""
    wide = build("cast", data, dtype="int32")
    if zero is None:
        return _typed(wide, source)
    point = build("cast", _along(zero, axis, source.rank(data), source), dtype="int32")
    return _typed(build("subtract", wide, point), source)


def _requantized(data: Expr, factor: Expr, zero: Expr | None, dtype: str, source: Source) -> Expr:
    """round(data * factor) + zero as numbers of ``dtype``, the nearest that there are."""
    steps = build("round", build("multiply", build("cast", data, dtype="float32"), factor))
    return _as_bytes(steps, zero, dtype, source)


def _as_bytes(steps: Expr, zero: Expr | None, dtype: str, source: Source) -> Expr:
    if zero is not None:
        steps = build("add", steps, build("cast", _along(zero, 0, 1, source), dtype="float32"))
    source.require(dtype in ("int8", "uint8"), "its numbers are no bytes")
    limits = np.iinfo(dtype)
    return build("cast", build("clip", steps, a_min=float(limits.min), a_max=float(limits.max)), dtype=dtype)


# ---- sums of products


def _product(a: Expr, a_zero: Expr | None, b: Expr, b_zero: Expr | None, source: Source) -> Expr:
    """Zero points of rows and of columns are vectors."""
    rank, other = source.rank(a), source.rank(b)
    source.require(rank > 1 < other, "an operand is no matrix")
    left, right = _shifted(a, a_zero, rank - 2, source), _shifted(b, b_zero, other - 1, source)
    return build("nn.matmul", left, right, out_dtype="int32")


@define("MatMulInteger", domain="")
def _matmul_integer(source: Source) -> Expr:
    a, b, a_zero, b_zero = source.optional(2, 4)
    return _product(a, a_zero, b, b_zero, source)


@define("ConvInteger", domain="")
def _conv_integer(source: Source) -> Expr:
    data, weight, data_zero, weight_zero = source.optional(2, 4)
    _check_number(data_zero, source)
    parts = _shifted(data, data_zero, 0, source), _shifted(weight, weight_zero, 0, source)
    return convolve(source.over([*parts, None]))


def _check_number(zero: Expr | None, source: Source) -> None:
    plain = zero is None or source.type(zero).shape in ((), (1,))
    source.require(plain, "the data have a zero point for each channel")


@define("QLinearMatMul", domain="")
def _quantized_matmul(source: Source) -> Expr:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = source.arguments(8)
    _check_number(scale, source)
    _check_number(zero, source)
    _check_float32(source, a_scale, b_scale, scale)
    left = _along(a_scale, source.rank(a) - 2, source.rank(a), source)
    right = _along(b_scale, source.rank(b) - 1, source.rank(b), source)
    factor = build("divide", build("multiply", left, right), _along(scale, 0, 1, source))
    return _requantized(_product(a, a_zero, b, b_zero, source), factor, zero, source.type(zero).dtype, source)


def _check_float32(source: Source, *scales: Expr) -> None:
    source.require(all(source.type(scale).dtype == "float32" for scale in scales), "its scales are not float32")


@define("QLinearConv", domain="")
def _quantized_conv(source: Source) -> Expr:
    data, data_scale, data_zero, weight, weight_scale, weight_zero, scale, zero, bias = source.optional(8, 9)
    for each in (data_scale, data_zero, scale, zero):
        _check_number(each, source)
    _check_float32(source, data_scale, weight_scale, scale)
    rank = source.rank(data)
    parts = _shifted(data, data_zero, 0, source), _shifted(weight, weight_zero, 0, source)
    found: Any = convolve(source.over([*parts, bias]))
    product = build("multiply", _along(data_scale, 0, 1, source), _along(weight_scale, 1, rank, source))
    factor = build("divide", product, _along(scale, 0, 1, source))
    return _requantized(found, factor, zero, source.type(zero).dtype, source)


# ---- by the range of the data


def _by_range(data: Expr, source: Source) -> list[Expr]:
    """Bytes, their scale and their zero point, so that 0 is a byte."""
    source.require(source.type(data).dtype == "float32", "its numbers are not float32")
    none = _constant(0, "float32")
    low = build("minimum", build("min", data, axis=None, keepdims=False), none)
    high = build("maximum", build("max", data, axis=None, keepdims=False), none)
    step = build("divide", build("subtract", high, low), _constant(255, "float32"))
    scale = build("where", build("equal", step, none), _constant(1, "float32"), step)
    start = build("clip", build("divide", build("negative", low), scale), a_min=0.0, a_max=255.0)
    point = build("cast", build("round", start), dtype="uint8")
    steps = build("round", build("divide", data, scale))
    return [_typed(each, source) for each in (_as_bytes(steps, _typed(point, source), "uint8", source), scale, point)]


@define("DynamicQuantizeLinear", domain="")
def _quantized_by_range(source: Source) -> list[Expr]:
    return _by_range(source.arguments(1)[0], source)


# ---- of ONNX Runtime: through real numbers


def _real(data: Expr, scale: Expr, zero: Expr | None, source: Source) -> Expr:
    for each in (scale, zero):
        _check_number(each, source)
    _check_float32(source, scale)
    wide = build("cast", _shifted(data, zero, 0, source), dtype="float32")
    return build("multiply", wide, _along(scale, 0, 1, source))


@define("QLinearAdd", "QLinearMul", domain=DOMAIN)
def _quantized_arithmetic(source: Source) -> Expr:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = source.optional(7, 8)
    if None in (a_scale, b, b_scale, scale):
        raise Declined("it lacks inputs")
    left, right = _real(a, a_scale, a_zero, source), _real(b, b_scale, b_zero, source)
    result = build("add" if source.op_type == "QLinearAdd" else "multiply", left, right)
    return _bytes_of(result, scale, zero, source.type(a).dtype, source)


def _bytes_of(real: Expr, scale: Expr, zero: Expr | None, dtype: str, source: Source) -> Expr:
    """Real numbers as the nearest steps of ``scale``."""
    _check_number(scale, source)
    _check_number(zero, source)
    _check_float32(source, scale)
    steps = build("round", build("divide", real, _along(scale, 0, 1, source)))
    return _as_bytes(steps, zero, dtype, source)


@define("QLinearLeakyRelu", "QLinearSigmoid", domain=DOMAIN)
def _quantized_function(source: Source) -> Expr:
    data, data_scale, data_zero, scale, zero = source.optional(4, 5)
    real = _real(data, data_scale, data_zero, source)
    if source.op_type == "QLinearSigmoid":
        found = build("sigmoid", real)
    else:
        found = build("nn.leaky_relu", real, alpha=source.float("alpha", 0.01))
    return _bytes_of(found, scale, zero, source.type(data).dtype, source)


@define("QLinearConcat", domain=DOMAIN)
def _quantized_concat(source: Source) -> Expr:
    scale, zero, *parts = source.arguments(len(source.inputs))
    source.require(parts and len(parts) % 3 == 0, "it has parts without scales or zero points")
    reals = [_real(*part, source) for part in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    joined = build("concatenate", Tuple(reals), axis=source.int("axis"))
    return _bytes_of(joined, scale, zero, source.type(zero).dtype, source)


# ---- products that give real numbers


def _real_product(a: Expr, a_scale: Expr, a_zero: Expr | None, rest: Sequence[Expr | None], source: Source) -> Expr:
    """The product of quantized matrices in real numbers; ``rest`` is the second one, scale, zero point, and a bias."""
    b, b_scale, b_zero, bias = rest
    if b is None or b_scale is None:
        raise Declined("it lacks inputs")
    _check_number(a_scale, source)
    _check_float32(source, a_scale, b_scale)
    right = _along(b_scale, source.rank(b) - 1, source.rank(b), source)
    factor = build("multiply", _along(a_scale, 0, 1, source), right)
    product = build("cast", _product(a, a_zero, b, b_zero, source), dtype="float32")
    scaled = build("multiply", product, factor)
    return scaled if bias is None else build("add", scaled, bias)


@define("MatMulIntegerToFloat", domain=DOMAIN)
def _matmul_to_float(source: Source) -> Expr:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = source.optional(4, 7)
    return _real_product(a, a_scale, a_zero, [b, b_scale, b_zero, bias], source)


@define("DynamicQuantizeMatMul", domain=DOMAIN)
def _matmul_by_range(source: Source) -> Expr:
    data, *rest = source.optional(3, 5)
    quantized, scale, zero = _by_range(data, source)
    return _real_product(quantized, scale, zero, rest, source)


@define("QGemm", domain=DOMAIN)
def _quantized_gemm(source: Source) -> Expr:
    a, a_scale, a_zero, b, b_scale, b_zero, bias, scale, zero = source.optional(6, 9)
    _check_number(a_scale, source)
    _check_number(scale, source)
    _check_number(zero, source)
    _check_float32(source, a_scale, b_scale)
    left, right = (_shifted(part, point, 0, source) for part, point in ((a, a_zero), (b, None)))
    left, right = (
        build("transpose", part, axes=(1, 0)) if source.int(flag, 0) else part
        for part, flag in ((left, "transA"), (right, "transB"))
    )
    right = _typed(build("subtract", right, build("cast", _along(b_zero, 1, 2, source), dtype="int32")), source)
    product = build("nn.matmul", _typed(left, source), right, out_dtype="int32")
    total = product if bias is None else build("add", product, bias)
    factor = build("multiply", _along(a_scale, 0, 1, source), _along(b_scale, 1, 2, source))
    factor = build("multiply", factor, _constant(source.float("alpha", 1.0), "float32"))
    if scale is None:
        return build("multiply", build("cast", total, dtype="float32"), factor)
    factor = build("divide", factor, _along(scale, 0, 1, source))
    return _requantized(total, factor, zero, source.type(a if zero is None else zero).dtype, source)


@define("QAttention", domain=DOMAIN)
def _quantized_attention(source: Source) -> Sequence[Expr | None]:
    data, weights, biases, data_scale, scale, padding, data_zero, zero, past = source.optional(5, 9)
    source.require(not source.int("do_rotary", 0), "it turns queries and keys")
    source.require(not source.int("past_present_share_buffer", 0), "it shares a buffer")
    heads, width = source.int("num_heads", 0), source.static_shape(weights)[1]
    product = _real_product(data, data_scale, data_zero, [weights, scale, zero, biases], source)
    return attention_of_product(product, width, heads, padding, past, None, source)


# ---- weights of a few bits, in blocks along the columns that have a scale each


def _unpacked(packed: Expr, bits: int, source: Source) -> Expr:
    """The numbers of ``bits`` bits in the bytes of the last axis, low ones first, as int32."""
    wide = build("cast", packed, dtype="int32")
    if bits == 8:
        return wide
    shape = source.static_shape(packed)
    shifts, mask = np.arange(0, 8, bits, dtype="int32"), _constant(2**bits - 1, "int32")
    apart = build("right_shift", build("expand_dims", wide, axis=len(shape)), Constant(shifts))
    return build("reshape", build("bitwise_and", apart, mask), newshape=(*shape[:-1], -1))


@define("MatMulNBits", domain=DOMAIN)
def _matmul_of_bits(source: Source) -> Expr:
    data, packed, scales, zeros, order, bias = source.optional(3, 6)
    source.ignore("accuracy_level")
    columns, rows, bits, block = (source.int(name, 0) for name in ("N", "K", "bits", "block_size"))
    source.require(order is None, "its rows are in another order")
    source.require(bits in (2, 4, 8) and block > 0, "it has numbers of unusual size")
    count, dtype = -(-rows // block), source.type(data).dtype
    source.require(dtype == "float32", "its numbers are not float32")
    numbers = build("reshape", _unpacked(packed, bits, source), newshape=(columns, count, block))
    if zeros is None:
        point: Expr = _constant(2 ** (bits - 1), dtype)
    elif source.type(zeros).dtype == "uint8":
        whole = build("reshape", zeros, newshape=(columns, -1))
        unpacked = _unpacked(_typed(whole, source), bits, source)
        sliced = build("strided_slice", unpacked, begin=(0,), end=(count,), axes=(1,))
        point = build("cast", build("reshape", sliced, newshape=(columns, count, 1)), dtype=dtype)
    else:
        point = build("reshape", zeros, newshape=(columns, count, 1))
    moved = build("subtract", build("cast", numbers, dtype=dtype), point)
    scaled = build("multiply", moved, build("reshape", scales, newshape=(columns, count, 1)))
    flat = build("reshape", scaled, newshape=(columns, count * block))
    weights = build("strided_slice", flat, begin=(0,), end=(rows,), axes=(1,))
    product = build("nn.matmul", data, weights, transpose_b=True)
    return product if bias is None else build("add", product, bias)

"""What onnxruntime computes as one kernel on a CPU, with its optimizer on (``onnxruntime``).

Its optimizer knows kernels by how they are written; the entries are what version 1.18 and later fuse, and nothing else:
GELU is known by a division by the root of 2, for example, and not by a product with its inverse. What one ONNX node
computes is no entry: that is known of every runtime. The attribute ``lacks.onnxruntime`` of an operator names the
element types of results that no version has a kernel for, though ONNX has the operator for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from eqsat.relay.expr import Expr, Op
from eqsat.relay.op.contrib.parts import Condition, Entry, any_of, attribute, entry, scalar_near
from eqsat.relay.op.contrib.register import register_pattern_table
from eqsat.relay.op.op import register_op_attr
from eqsat.relay.ty import TensorType

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")

CONV_ACTIVATIONS = ("nn.relu", "sigmoid", "tanh", "nn.leaky_relu", "nn.hard_sigmoid", "clip")
"""Activations that become part of a convolution."""

GEMM_ACTIVATIONS = ("nn.relu", "sigmoid", "tanh", "nn.leaky_relu")
"""Activations that become part of a product of matrices with a bias."""

PRODUCTS = ("nn.matmul", "nn.batch_matmul")


def _has_rank(part: DFPattern, *ranks: int) -> Condition:
    return partial(_is_of_ranks, part, ranks)


def _is_of_ranks(part: DFPattern, ranks: Sequence[int], root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    ty = bound[part]._checked_type
    return isinstance(ty, TensorType) and len(ty.shape) in ranks


def _activated() -> Iterator[Entry]:
    """Convolutions and products of matrices with the activation after them."""
    convolution: DFPattern = any_of(*CONVOLUTIONS)(wildcard(), wildcard())
    convolution = is_op("nn.bias_add")(convolution, wildcard()) | convolution
    for activation in CONV_ACTIVATIONS:
        yield entry(f"FusedConv.{activation}", is_op(activation)(convolution))
    for activation in GEMM_ACTIVATIONS:
        dense = is_op("nn.dense")(wildcard(), wildcard())
        biased = (is_op("nn.bias_add") | is_op("add"))(
            any_of("nn.dense", "nn.matmul")(wildcard(), wildcard()), wildcard()
        )
        data = dense | biased
        yield entry(f"FusedGemm.{activation}", is_op(activation)(data), _has_rank(data, 2))


def _gelu(x: DFPattern) -> DFPattern:
    """x (1 + erf(x / sqrt 2)) / 2, with the half first or last."""
    shifted = is_op("add")(is_op("erf")(is_op("divide")(x, scalar_near(np.sqrt(2.0)))), scalar_near(1.0))
    multiply = is_op("multiply")
    written = multiply(multiply(x, shifted), scalar_near(0.5)) | multiply(multiply(x, scalar_near(0.5)), shifted)
    return is_op("nn.gelu")(x).has_attr({"approximate": "none"}) | written


def _gelus() -> Iterator[Entry]:
    """GELU, after the sum with a vector too, and x sigmoid(c x)."""
    x, bias = wildcard(), wildcard()
    yield entry("BiasGelu", _gelu(is_op("add")(x, bias) | is_op("nn.bias_add")(x, bias)), _has_rank(bias, 1))
    yield entry("Gelu", _gelu(wildcard()))
    x = wildcard()
    gate = is_op("sigmoid")(x) | is_op("sigmoid")(is_op("multiply")(x, is_constant()))
    yield entry("QuickGelu", is_op("nn.swish")(x) | is_op("multiply")(x, gate))


def _squares(x: DFPattern) -> DFPattern:
    return is_op("mean")(is_op("power")(x, scalar_near(2.0)))


def _layer_norm(x: DFPattern) -> DFPattern:
    """scale (x - mean x) / sqrt(mean (x - mean x)^2 + epsilon) + shift."""
    centred = is_op("subtract")(x, is_op("mean")(x))
    deviation = is_op("sqrt")(is_op("add")(_squares(centred), is_constant()))
    scaled = is_op("multiply")(is_op("divide")(centred, deviation), is_constant())
    return is_op("nn.layer_norm")(x, wildcard(), wildcard()) | is_op("add")(scaled, is_constant())


def _normalizations() -> Iterator[Entry]:
    """Layer normalization, of a sum too, and normalization by the root of the mean square."""
    total = is_op("add")(wildcard(), wildcard())
    yield entry("SkipLayerNormalization", _layer_norm(total), _is_residual(total))
    yield entry("LayerNormalization", _layer_norm(wildcard()))
    x = wildcard()
    deviation = is_op("sqrt")(is_op("add")(_squares(x), is_constant()))
    written = is_op("multiply")(is_op("divide")(x, deviation), is_constant())
    yield entry("SimplifiedLayerNormalization", is_op("nn.rms_norm")(x, is_constant()) | written)


def _is_residual(total: DFPattern) -> Condition:
    """The condition that two tensors of three dimensions and one shape are added."""
    return partial(_adds_alike, total)


def _adds_alike(total: DFPattern, root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    ty = bound[total]._checked_type
    added = [node._checked_type for node in bound[total].children() if not isinstance(node, Op)]
    return isinstance(ty, TensorType) and len(ty.shape) == 3 and all(each == ty for each in added)


def _is_scalar(array: Any) -> bool:
    return bool(array.size == 1)


def _products() -> Iterator[Entry]:
    """Products of stacks of matrices, with an operand that is transposed, or an operand or the result scaled."""
    product, x, y = any_of(*PRODUCTS), wildcard(), wildcard()
    transposed = is_op("transpose")(wildcard())
    factor = is_constant(predicate=_is_scalar)
    plain: DFPattern = product(x, y)
    turned: DFPattern = product(x, transposed) | product(transposed, y)
    scaled = is_op("multiply")(wildcard(), factor) | is_op("divide")(wildcard(), factor)
    turned_scaled = is_op("transpose")(scaled)
    whole = product(x, turned_scaled) | product(turned_scaled, y)
    yield entry("FusedMatMul", whole, _is_stack, _swaps_last(turned_scaled))
    for base, conditions in ((turned, (_swaps_last(transposed),)), (plain, ())):
        result = is_op("multiply")(base, factor) | is_op("divide")(base, factor)
        yield entry("FusedMatMul", result | base, _is_stack, *conditions)
    yield entry("FusedMatMul", product(scaled, y) | product(x, scaled), _is_stack)


def _swaps_last(transposed: DFPattern) -> Condition:
    """The condition that the last two axes, and no others, are swapped."""
    return partial(_has_swapped_last, transposed)


def _has_swapped_last(transposed: DFPattern, root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    ty, axes = bound[transposed]._checked_type, attribute(bound[transposed], "axes")
    if not isinstance(ty, TensorType) or axes is None or len(ty.shape) < 2:
        return False
    rank = len(ty.shape)
    return tuple(axes) == (*range(rank - 2), rank - 1, rank - 2)


def _is_stack(root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    ty = root._checked_type
    return isinstance(ty, TensorType) and len(ty.shape) > 2 and ty.dtype in ("float32", "float64")


def pattern_table() -> list[Entry]:
    """Return the kernels."""
    return [*_activated(), *_gelus(), *_normalizations(), *_products()]


register_pattern_table("onnxruntime", pattern_table)
register_op_attr("where", "lacks.onnxruntime", ("bfloat16", "bool", "int16", "uint16", "uint64"))

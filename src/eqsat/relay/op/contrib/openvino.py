"""What OpenVINO computes as one kernel on a CPU (``openvino``).

A product, which is a convolution, a dense layer or a product of matrices, takes what follows it element by element
along: a bias and an activation, but not the sum with another tensor. Chains of such operators are one kernel by
themselves, and so are GELU, layer normalization and attention, however they are written. What is an entry here and is
not fused after all costs what its parts do, since kernels are measured as OpenVINO runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from eqsat.relay.expr import Expr
from eqsat.relay.op.contrib.parts import (
    Condition,
    Entry,
    any_of,
    entry,
    gelu_by_erf,
    layer_norm_written_out,
    tensor_of,
)
from eqsat.relay.op.contrib.register import register_pattern_table

PRODUCTS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense", "nn.matmul", "nn.batch_matmul")

UNARY = (
    *("abs", "clip", "erf", "exp", "hardswish", "negative", "sigmoid", "sqrt", "tanh"),
    *("nn.gelu", "nn.hard_sigmoid", "nn.leaky_relu", "nn.relu", "nn.swish"),
)
"""Operators of one tensor, element by element."""

BINARY = ("add", "divide", "maximum", "minimum", "multiply", "nn.bias_add", "power", "subtract")
"""The same of two tensors."""

LONGEST = 3
"""Most operators in a chain."""


def _products() -> Iterator[Entry]:
    """Products with a constant bias, an activation, or both."""
    plain = any_of(*PRODUCTS)(wildcard(), wildcard())
    biased = any_of("add", "nn.bias_add")(plain, is_constant())
    for value in (biased, any_of(*UNARY)(plain), any_of(*UNARY)(biased)):
        yield entry("FusedProduct", value, _of_shape_of(plain))


def _chains() -> Iterator[Entry]:
    """Operators that follow one another."""
    first = _followed(wildcard())
    value = first
    for _ in range(1, LONGEST):
        value = _followed(value)
        yield entry("Subgraph", value, _of_shape_of(first))


def _followed(x: DFPattern) -> DFPattern:
    """An operator of a chain, applied to ``x``."""
    binary = any_of(*BINARY)
    return any_of(*UNARY)(x) | binary(x, wildcard()) | binary(wildcard(), x)


def _of_shape_of(part: DFPattern) -> Condition:
    return partial(_is_of_shape_of, part)


def _is_of_shape_of(part: DFPattern, root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    first, last = tensor_of(bound[part]), tensor_of(root)
    return first is not None and last is not None and first.shape == last.shape


def _attention() -> DFPattern:
    """softmax(q k [scaled] [+ mask]) v."""
    matmul = any_of("nn.matmul", "nn.batch_matmul")
    scores: DFPattern = matmul(wildcard(), wildcard())
    scores = scores | any_of("multiply", "divide")(scores, is_constant())
    scores = scores | is_op("add")(scores, wildcard())
    return matmul(is_op("nn.softmax")(scores), wildcard())


def pattern_table() -> list[Entry]:
    """Return the kernels."""
    return [
        *_products(),
        *_chains(),
        entry("Gelu", gelu_by_erf(wildcard())),
        entry("MVN", layer_norm_written_out()),
        entry("MHA", _attention()),
    ]


register_pattern_table("openvino", pattern_table)

"""What ONNX Runtime's own operators compute, for those that are several standard ones or another name of one.

As in https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. A node of theirs stays as it is
unless its definition, in operators of the IR, leads to something that costs less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from eqsat.egraph.rule import Soundness
from eqsat.onnx.contrib import DOMAIN
from eqsat.onnx.converters.dtypes import dequantize_linear, quantize_linear
from eqsat.onnx.converters.matrix import general_product
from eqsat.onnx.converters.source import Source, build, defines
from eqsat.onnx.converters.windows import convolve
from eqsat.relay.expr import Constant, Expr

define = partial(defines, domain=DOMAIN)


def _number(value: float, like: Expr, source: Source) -> Constant:
    return Constant(np.asarray(value, source.type(like).dtype))


def sum_of(*terms: Expr | None) -> Expr:
    """The sum of the terms that are there, in their order."""
    given = [term for term in terms if term is not None]
    total = given[0]
    for term in given[1:]:
        total = build("add", total, term)
    return total


# ---- activations


@define("Gelu", soundness=Soundness.EXACT)
def _gelu(source: Source) -> Expr:
    return build("nn.gelu", *source.arguments(1))


@define("BiasGelu")
def _bias_gelu(source: Source) -> Expr:
    return build("nn.gelu", sum_of(*source.arguments(2)))


@define("FastGelu")
def _fast_gelu(source: Source) -> Expr:
    return build("nn.gelu", sum_of(*source.optional(1, 2)), approximate="tanh")


@define("QuickGelu")
def _quick_gelu(source: Source) -> Expr:
    """x sigmoid(alpha x)"""
    (data,) = source.arguments(1)
    alpha = source.float("alpha", 1.702)
    inside = data if alpha == 1 else build("multiply", data, _number(alpha, data, source))
    return build("multiply", data, build("sigmoid", inside))


ACTIVATIONS: dict[str, tuple[str, Sequence[str]]] = {
    "Clip": ("clip", ("a_min", "a_max")),
    "HardSigmoid": ("nn.hard_sigmoid", ("alpha", "beta")),
    "LeakyRelu": ("nn.leaky_relu", ("alpha",)),
    "Relu": ("nn.relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
}
"""What nodes call an activation -> its operator, and the attributes that they give as numbers, in this order."""


def _activated(data: Expr, source: Source, numbers: Sequence[float]) -> Expr:
    """``data`` through the activation that the node names."""
    called = source.string("activation", "")
    if not called:
        return data
    source.require(called in ACTIVATIONS, f"activation {called} is not understood")
    operator, names = ACTIVATIONS[called]
    return build(operator, data, **{name: numbers[place] for place, name in enumerate(names)})


# ---- products


@define("FusedMatMul", "TransposeMatMul", soundness=Soundness.EXACT)
def _fused_matmul(source: Source) -> Expr:
    a, b = source.arguments(2)
    source.require(source.rank(a) > 1 < source.rank(b), "an operand is no matrix")
    source.require(not source.int("transBatchA", 0) and not source.int("transBatchB", 0), "batches are transposed")
    flags = {f"transpose_{name}": bool(source.int(f"trans{name.upper()}", 0)) for name in "ab"}
    product, alpha = build("nn.matmul", a, b, **flags), source.float("alpha", 1.0)
    if alpha == 1:
        return product
    source.rounds()
    return build("multiply", product, _number(alpha, a, source))


@define("FusedConv")
def _fused_conv(source: Source) -> Expr:
    data, weight, bias, more = source.optional(2, 4)
    result = convolve(source.over([data, weight, bias]))
    return _activated(sum_of(result, more), source, source.floats("activation_params") or ())


@define("FusedGemm")
def _fused_gemm(source: Source) -> Expr:
    numbers = [source.float(f"activation_{name}", 0.0) for name in ("alpha", "beta", "gamma")]
    return _activated(general_product(source), source, numbers)


# ---- normalization: of a sum, which is another output

_EPSILON = 1e-12
"""The default of operators that add before they normalize."""


def _statistics(data: Expr, epsilon: float) -> list[Expr]:
    """The mean of each row, and one over the deviation."""
    mean = build("mean", data, axis=-1, keepdims=True)
    moved = build("subtract", data, mean)
    return [mean, _over_root(moved, epsilon)]


def _over_root(data: Expr, epsilon: float) -> Expr:
    """One over the root of the mean of squares."""
    squares = build("mean", build("multiply", data, data), axis=-1, keepdims=True)
    return build("rsqrt", build("add", squares, Constant(np.asarray(epsilon, np.float32))))


def _check_rows(data: Expr, scale: Expr, source: Source) -> None:
    source.require(source.rank(scale) == 1 and source.rank(data) > 1, "its scale is no vector")
    source.require(source.type(data).dtype == "float32", "its numbers are not float32")


@define("SkipLayerNormalization")
def _skip_layer_norm(source: Source) -> Sequence[Expr | None]:
    data, skip, gamma, beta, bias = source.optional(3, 5)
    _check_rows(data, gamma, source)
    total, epsilon = sum_of(data, skip, bias), source.float("epsilon", _EPSILON)
    shift = gamma if beta is None else beta
    result = build("nn.layer_norm", total, gamma, shift, epsilon=epsilon, center=beta is not None)
    return [result, *_statistics(total, epsilon), total]


@define("SkipSimplifiedLayerNormalization")
def _skip_rms_norm(source: Source) -> Sequence[Expr | None]:
    data, skip, gamma, bias = source.optional(3, 4)
    _check_rows(data, gamma, source)
    total, epsilon = sum_of(data, skip, bias), source.float("epsilon", _EPSILON)
    mean, _ = _statistics(total, epsilon)
    return [build("nn.rms_norm", total, gamma, epsilon=epsilon), mean, _over_root(total, epsilon), total]


@defines("SimplifiedLayerNormalization", domain="")
@define("SimplifiedLayerNormalization")
def _simplified_layer_norm(source: Source) -> Sequence[Expr | None]:
    data, scale = source.arguments(2)
    _check_rows(data, scale, source)
    source.require(source.int("stash_type", 1) == 1, "its statistics are not float32")
    source.require(source.int("axis", -1) in (-1, source.rank(data) - 1), "it normalizes over several axes")
    epsilon = source.float("epsilon", 1e-5)
    return [build("nn.rms_norm", data, scale, epsilon=epsilon), _over_root(data, epsilon)]


@define("EmbedLayerNormalization")
def _embed_layer_norm(source: Source) -> Sequence[Expr | None]:
    words, segments, table, places, parts, gamma, beta, mask, positions = source.optional(1, 9)
    source.ignore("mask_index_type")
    given = None not in (table, places, gamma, beta) and (segments is None) == (parts is None)
    source.require(given and mask is None, "it has a mask, or lacks a table")
    source.require(source.rank(words) == 2 and source.rank(gamma) == 1, "its words are no rows")
    batch, length = source.type(words).shape
    if positions is None:
        source.require(isinstance(length, int), "the number of words is not known")
        at = build("strided_slice", places, begin=(0,), end=(length,), axes=(0,))
    else:
        at = build("take", places, positions, axis=0, mode="fast")
    of_part = None if segments is None else build("take", parts, segments, axis=0, mode="fast")
    total = sum_of(build("take", table, words, axis=0, mode="fast"), at, of_part)
    result = build("nn.layer_norm", total, gamma, beta, epsilon=source.float("epsilon", _EPSILON))
    unmasked = build("zeros", shape=(batch,), dtype="int32") if isinstance(batch, int) else None
    return [result, unmasked, total]


# ---- rotary embeddings


@define("RotaryEmbedding")
def _rotary_embedding(source: Source) -> Expr:
    data, positions, cos, sin = source.arguments(4)
    plain = not any(source.int(name, 0) for name in ("interleaved", "rotary_embedding_dim", "is_packed_batching"))
    source.require(plain and source.float("scale", 1.0) == 1, "it turns neighbours or some elements only, or scales")
    source.require(source.rank(positions) == 2, "its positions are one offset")
    joined, heads = source.rank(data) == 3, source.int("num_heads", 0)
    if joined and not heads:
        width, half = source.type(data).shape[2], source.type(cos).shape[1]
        source.require(isinstance(width, int) and isinstance(half, int) and half > 0, "its heads are not told")
        heads = width // (2 * half)  # type: ignore[operator]
    angles = [build("take", table, positions, axis=0, mode="fast") for table in (cos, sin)]
    return build("nn.rotary_embedding", data, *angles, heads=heads if joined else 0)


# ---- quantization of dtypes that the standard operators have since later


@define("QuantizeLinear", soundness=Soundness.EXACT)
def _quantize(source: Source) -> Expr:
    return quantize_linear(source)


@define("DequantizeLinear", soundness=Soundness.EXACT)
def _dequantize(source: Source) -> Expr:
    return dequantize_linear(source)

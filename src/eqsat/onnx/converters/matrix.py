"""Matrix products: MatMul, Gemm with its bias, and sums of products by index notation."""

from __future__ import annotations

import math

import numpy as np

from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Expr, Tuple
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, is_static

PRODUCTS = ("nn.dense", "nn.matmul")


@imports("Gemm")
def general_product(source: Source) -> Expr:
    """The product of two matrices, plus the third input if there is one."""
    a, b, c = source.optional(2, 3)
    source.require(source.float("alpha", 1.0) == 1.0, "alpha is not 1")
    source.require(source.float("beta", 1.0) == 1.0 or c is None, "beta is not 1")
    source.require(source.rank(a) == source.rank(b) == 2, "its operands are no matrices")
    transpose_a, transpose_b = bool(source.int("transA", 0)), bool(source.int("transB", 0))
    if transpose_b and not transpose_a:
        units = source.type(b).shape[0]
        product = build("nn.dense", a, b, units=units if isinstance(units, int) else None)
    else:
        product = build("nn.matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    if c is None:
        return product
    columns = source.type(b).shape[0 if transpose_b else 1]
    if source.type(c).shape == (columns,):
        return build("nn.bias_add", product, c, axis=-1)
    return build("add", product, c)


@exports("nn.dense", "nn.matmul", "nn.batch_matmul")
def _to_product(call: Call, target: Target) -> OnnxNode:
    a, b, transpose_a, transpose_b = _operands(call, target)
    if not transpose_a and not transpose_b:
        return OnnxNode("MatMul", [a, b])
    if target.rank(a) == target.rank(b) == 2:
        return gemm(call, None, target)
    return OnnxNode("MatMul", [_turned(a, transpose_a, target), _turned(b, transpose_b, target)])


def _operands(call: Call, target: Target) -> tuple[Expr, Expr, bool, bool]:
    attrs = attributes(call)
    a, b = call.args
    same = not attrs.out_dtype or attrs.out_dtype == target.type(a).dtype
    target.require(same, call, "the result has another dtype than the operands")
    return (a, b, False, True) if op_name(call) == "nn.dense" else (a, b, attrs.transpose_a, attrs.transpose_b)


def _turned(operand: Expr, transpose: bool, target: Target) -> Operand:
    """The operand with its last two dimensions swapped."""
    rank = target.rank(operand)
    if not transpose or rank < 2:
        return operand
    return target.transposed(operand, [*range(rank - 2), rank - 1, rank - 2])


def gemm(product: Call, bias: Operand, target: Target) -> OnnxNode:
    """``product``, of two matrices, plus ``bias`` as one node."""
    a, b, transpose_a, transpose_b = _operands(product, target)
    if bias is None and target.opset < 11:  # the bias was not optional then
        bias = np.zeros((1,), target.type(a).dtype)
    flags = {"transA": int(transpose_a) or None, "transB": int(transpose_b) or None}
    return OnnxNode("Gemm", [a, b] if bias is None else [a, b, bias], flags)


def matrix_product(expr: Expr, target: Target) -> Call | None:
    """``expr`` as a product of two matrices that a Gemm can take in, else None."""
    call = target.call(expr, *PRODUCTS)
    if call is None or any(target.known_rank(arg) != 2 for arg in call.args):
        return None
    return call if target.type(call).dtype in ("float16", "float32", "float64") else None


@exports("add")
def _to_add(call: Call, target: Target) -> OnnxNode:
    for product, bias in (call.args, call.args[::-1]):
        found = matrix_product(product, target)
        if found is not None and _spreads(target.types.get(bias), target.type(product)):
            return gemm(found, bias, target)
    return OnnxNode("Add", call.args)


def _spreads(bias: object, over: TensorType) -> bool:
    """Whether ``bias`` broadcasts to the shape of ``over`` without growing it."""
    if not isinstance(bias, TensorType) or len(bias.shape) > len(over.shape):
        return False
    dims = zip(reversed(bias.shape), reversed(over.shape), strict=False)
    return all(dim == 1 or dim == full for dim, full in dims)


@imports("Einsum")
def _einsum(source: Source) -> Result:
    equation = source.string("equation")
    source.require(equation, "it has no equation")
    return build("einsum", Tuple(source.arguments(len(source.inputs))), equation=equation)


@exports("einsum")
def _to_einsum(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Einsum", target.fields(call.args[0]), {"equation": attributes(call).equation})


@imports("Attention")
def _attention(source: Source) -> Result:
    query, key, value, mask, *rest = source.optional(3, 7)
    source.require(not any(part is not None for part in rest), "it has a past, or lengths")
    source.require(source.used_outputs() == 1, "more than its result is used")
    source.ignore("qk_matmul_output_mode", "softmax_precision")
    query_heads, key_heads = source.int("q_num_heads", 0), source.int("kv_num_heads", 0)
    joined = source.rank(query) == 3
    source.require(not joined or query_heads > 0 < key_heads, "its heads are not told")
    width = source.type(query).shape[-1]
    scale = source.float("scale")
    if not scale:
        if not isinstance(width, int):
            raise Declined("the size of queries is not known")
        scale = 1 / math.sqrt(width // query_heads if joined else width)
    softcap = source.float("softcap", 0.0)
    source.require(softcap >= 0, "its cap is negative")
    attrs = {"scale": scale, "causal": bool(source.int("is_causal", 0)), "softcap": softcap}
    if joined:
        attrs |= {"query_heads": query_heads, "key_heads": key_heads}
    if mask is None:
        return build("nn.attention", query, key, value, **attrs)
    keys = source.type(key).shape[-2]
    source.require(source.type(mask).shape[-1:] == (keys,), "its mask may be of some keys only")
    return build("nn.masked_attention", query, key, value, mask, **attrs)


@imports("RotaryEmbedding")
def _rotary_embedding(source: Source) -> Result:
    data, cos, sin, positions = source.optional(3, 4)
    source.require(positions is None, "it looks angles up")
    heads, interleaved = source.int("num_heads", 0), bool(source.int("interleaved", 0))
    source.require(source.rank(data) == 4 or heads > 0, "its heads are not told")
    attrs = {"width": source.int("rotary_embedding_dim", 0), "interleaved": interleaved}
    return build("nn.rotary_embedding", data, cos, sin, heads=heads if source.rank(data) == 3 else 0, **attrs)


@exports("nn.rotary_embedding")
def _to_rotary_embedding(call: Call, target: Target) -> OnnxNode:
    target.require(target.has("RotaryEmbedding"), call, "there is no such operator")
    attrs = attributes(call)
    said = {"rotary_embedding_dim": attrs.width or None, "interleaved": int(attrs.interleaved) or None}
    return OnnxNode("RotaryEmbedding", call.args, {"num_heads": attrs.heads or None, **said})


def _of_each_query(mask: Expr, query: Expr, target: Target) -> Operand:
    """A mask with a row for each query: ONNX Runtime knows no others."""
    ty, queries = target.type(mask), target.type(query).shape[-2]
    if ty.shape[-2] != 1 or queries == 1:
        return mask
    if is_static(ty) and isinstance(queries, int):
        shape: Operand = np.asarray((*ty.concrete_shape[:-2], queries, ty.concrete_shape[-1]), np.int64)
        return OnnxNode("Expand", [mask, shape])
    if isinstance(queries, int):
        rows: Operand = np.asarray([queries], np.int64)
    else:  # of a mask that is the same for many queries, the number of keys is asked once
        measured = mask if queries == ty.shape[-1] and queries != AnyDim() else query
        axis = target.rank(measured) - (1 if measured is mask else 2)
        rows = OnnxNode("Shape", [measured], {"start": axis, "end": axis + 1})
    return OnnxNode("Expand", [mask, OnnxNode("Concat", [rows, np.asarray([1], np.int64)], {"axis": 0})])


@exports("nn.attention", "nn.masked_attention")
def _to_attention(call: Call, target: Target) -> OnnxNode:
    attrs, (query, key, value, *mask) = attributes(call), call.args
    scale = attrs.scale
    if target.has("Attention") and all(target.rank(part) > 1 for part in mask):
        heads = {"q_num_heads": attrs.query_heads or None, "kv_num_heads": attrs.key_heads or None}
        operands = [query, key, value, *(_of_each_query(part, query, target) for part in mask)]
        how = {"scale": scale, "is_causal": int(attrs.causal) or None, "softcap": attrs.softcap or None}
        return OnnxNode("Attention", operands, how | heads)
    broadcast = target.type(key).shape[1] in (1, target.type(query).shape[1])
    plain = broadcast and not attrs.query_heads and not attrs.causal and not attrs.softcap
    plain = plain and all(target.type(part).dtype != "bool" for part in mask)
    target.require(plain, call, "its heads are joined or in groups, its scores are capped, or some keys are left out")
    scores = OnnxNode("MatMul", [query, OnnxNode("Transpose", [key], {"perm": [0, 1, 3, 2]})])
    scaled = OnnxNode("Mul", [scores, np.asarray(scale, target.type(query).dtype)])
    masked = OnnxNode("Add", [scaled, *mask]) if mask else scaled
    probabilities = OnnxNode("Softmax", [masked], {"axis": 3})
    return OnnxNode("MatMul", [probabilities, value])

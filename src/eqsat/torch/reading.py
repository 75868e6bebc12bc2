"""ATen operators that one row of the table cannot say: what reads each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.ty import Dim, TensorType, is_static
from eqsat.torch.rows import Declined, Result, Source, build, is_named, reads, shape_codes
from eqsat.torch.types import DTYPES

FARTHEST = 2**31 - 1
"""Where a slice ends that goes to the end: PyTorch writes 2**63 - 1."""

_MOST_FILLED = 4096
"""Elements up to which a tensor of one number is a constant."""


@reads(
    "aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default",
    "aten.lift_fresh_copy.default",
)  # fmt: skip
def _same(source: Source) -> Expr:
    """The values are those of the operand: only the memory is another."""
    return _operand(source)


def _operand(source: Source) -> Expr:
    source.type(source.values[0])
    operand: Expr = source.values[0]
    return operand


@reads("aten.dropout.default")
def _dropout(source: Source) -> Expr:
    source.require(source.values[2] is False, "it drops at random")
    return _operand(source)


@reads(
    "aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.type_as.default",
    "prims.convert_element_type.default",
)  # fmt: skip
def _cast(source: Source) -> Expr:
    given, result = source.given(_first_name(source)), source.result()
    source.require(given.device == result.device, "it moves to another device")
    operand, dtype = _operand(source), DTYPES.get(result.dtype)
    source.require(dtype is not None, f"the IR has no element type {result.dtype}")
    return operand if source.type(operand).dtype == dtype else build("cast", operand, dtype=dtype)


def _first_name(source: Source) -> str:
    return str(source.node.target._schema.arguments[0].name)


# ---- shapes


@reads(
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.squeeze.default", "aten.view_as.default",
)  # fmt: skip
def _reshape(source: Source) -> Expr:
    return reshaped(_operand(source), source, source.result_type())


def reshaped(operand: Expr, source: Source, ty: TensorType) -> Expr:
    """``operand`` in the shape of a type."""
    have = source.type(operand)
    if have.shape == ty.shape:
        return operand
    codes = shape_codes(have.shape, ty.shape)
    if codes is None or 0 in ty.shape:
        raise Declined("it has no elements, or its sizes have no names")
    return build("reshape", operand, newshape=codes)


@reads("aten.transpose.int", "aten.t.default")
def _transpose(source: Source) -> Expr:
    operand = _operand(source)
    order = list(range(source.rank(operand)))
    if len(order) < 2:
        return operand
    first, second = (0, 1) if len(source.values) == 1 else [source.axis(each, operand) for each in source.values[1:]]
    order[first], order[second] = order[second], order[first]
    return build("transpose", operand, axes=order)


@reads("aten.squeeze.dim", "aten.squeeze.dims")
def _squeeze(source: Source) -> Expr:
    """Only axes of size one are taken away."""
    operand, axes = _operand(source), source.values[1]
    named = {source.axis(axis, operand) for axis in ([axes] if isinstance(axes, int) else axes)}
    sizes = source.type(operand).shape
    source.require(all(isinstance(sizes[axis], int) for axis in named if sizes), "its sizes are open")
    taken = tuple(sorted(axis for axis in named if sizes and sizes[axis] == 1))
    return build("squeeze", operand, axis=taken) if taken else operand


@reads("aten.expand.default")
def _expand(source: Source) -> Expr:
    operand, ty = _operand(source), source.result_type()
    if source.type(operand).shape == ty.shape:
        return operand
    source.require(is_named(ty.shape), "its sizes have no names")
    return build("broadcast_to", operand, shape=ty.shape)


@reads("aten.slice.Tensor")
def _slice(source: Source) -> Expr:
    operand, axis, start, end, step = source.values
    axis, start = source.axis(axis, operand), 0 if start is None else start
    end = FARTHEST if end is None else end
    source.require(all(isinstance(each, int) for each in (start, end, step)), "its bounds are open")
    dim = source.type(operand).shape[axis]
    if start == 0 and step == 1 and (end >= FARTHEST or end == dim):
        return _operand(source)
    source.require(isinstance(dim, int) or (start >= 0 and end > 0), "it counts from an end that is open")
    ends = (min(end, FARTHEST),)
    return build("strided_slice", operand, begin=(start,), end=ends, strides=(step,), axes=(axis,))


@reads("aten.select.int")
def _select(source: Source) -> Expr:
    operand, axis, index = source.values
    axis = source.axis(axis, operand)
    dim = source.type(operand).shape[axis]
    source.require(isinstance(index, int) and (index >= 0 or isinstance(dim, int)), "its index is open")
    if index < 0 and isinstance(dim, int):
        index += dim
    return build("take", operand, Constant(np.array(index, np.int64)), axis=axis, mode="fast")


@reads("aten.cat.default", "aten.stack.default")
def _cat(source: Source) -> Expr:
    operands, axis = source.values
    ranks = {source.rank(operand) for operand in operands}
    dtypes = {source.type(operand).dtype for operand in operands}
    source.require(len(ranks) == len(dtypes) == 1 and ranks != {0}, "its operands are of several kinds")
    name = "stack" if "stack" in str(source.node.target) else "concatenate"
    (rank,) = ranks
    return build(name, Tuple(operands), axis=axis % (rank + (name == "stack")))


@reads("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default")
def _split(source: Source) -> Sequence[Expr]:
    operand, _, axis = source.values
    axis = source.axis(axis, operand)
    sizes = [int(each.shape[axis]) if isinstance(each.shape[axis], int) else None for each in source.value]
    source.require(None not in sizes, "its sizes are open")
    places = np.cumsum([size for size in sizes if size is not None])[:-1]
    if not len(places):
        return [operand]
    whole = build("split", operand, indices_or_sections=tuple(places.tolist()), axis=axis)
    return [TupleGetItem(whole, index) for index in range(len(sizes))]


@reads("aten.unbind.int")
def _unbind(source: Source) -> Sequence[Expr]:
    operand, axis = source.values
    axis = source.axis(axis, operand)
    return [
        build("take", operand, Constant(np.array(index, np.int64)), axis=axis, mode="fast")
        for index in range(len(source.value))
    ]


_FILLED = {"full": 1, "scalar_tensor": 0, "full_like": 1, "new_full": 2}
"""Which argument is the number that fills the result."""

_FILLED_WITH = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
"""The number that fills the result."""


@reads(*[f"aten.{name}.default" for name in (*_FILLED, *_FILLED_WITH)])
def _full(source: Source) -> Expr:
    name = str(source.node.target).split(".")[1]
    value = source.values[_FILLED[name]] if name in _FILLED else _FILLED_WITH[name]
    ty = _small(source)
    number = source.number(value, source.result().dtype)
    return Constant(np.full(ty.concrete_shape, number.data.numpy()))


def _small(source: Source) -> TensorType:
    """The type of a result that may be a constant."""
    ty = source.result_type()
    source.require(is_static(ty) and source.result().numel() <= _MOST_FILLED, "it is large, or its sizes are open")
    return ty


@reads("aten.arange.default", "aten.arange.start", "aten.arange.start_step", "prims.iota.default")
def _arange(source: Source) -> Expr:
    if str(source.node.target).startswith("prims"):
        length, start, step = source.values[:3]
        bounds = [start, length, step]
    else:
        count = {"default": 1, "start": 2, "start_step": 3}[str(source.node.target).split(".")[2]]
        bounds = [*([0] if count == 1 else []), *source.values[:count]]
    ty = _small(source)
    source.require(all(type(each) is int for each in bounds), "its bounds are open, or no integers")
    start, step = bounds[0], bounds[2] if len(bounds) == 3 else 1
    return Constant((start + step * np.arange(*ty.concrete_shape)).astype(ty.dtype))


@reads("aten.index.Tensor")
def _index(source: Source) -> Expr:
    data, indices = source.values
    source.require(all(isinstance(each, Expr) for each in indices), "some axes before others are not indexed")
    types = [source.type(each) for each in indices]
    source.require(all(ty.dtype in ("int32", "int64") for ty in types), "it takes what a mask says")
    return build("adv_index", Tuple([data, *indices]))


@reads("aten.diff.default")
def _diff(source: Source) -> Expr:
    operand, count, axis, before, after = source.values
    source.require(count == 1 and is_static(source.result_type()), "its sizes are open, or it is repeated")
    source.require(source.type(operand).dtype != "bool", "it is of truth values")
    axis = source.axis(axis, operand)
    parts = [each for each in (before, operand, after) if each is not None]
    source.require(len({source.type(each).dtype for each in parts}) == 1, "its operands are of several element types")
    joined = build("concatenate", Tuple(parts), axis=axis) if len(parts) > 1 else operand
    length = sum([int(size) for each in parts if isinstance(size := source.type(each).shape[axis], int)])
    ends = [
        build("strided_slice", joined, begin=(start,), end=(start + length - 1,), strides=(1,), axes=(axis,))
        for start in (1, 0)
    ]
    return build("subtract", *ends)


@reads("aten.cumsum.default")
def _cumsum(source: Source) -> Expr:
    operand, axis = source.values[:2]
    ty = source.result_type()
    source.require(len(ty.shape) > 0, "it has no axis")
    dtype = "" if source.type(operand).dtype == ty.dtype else ty.dtype
    return build("cumsum", operand, axis=source.axis(axis, operand), dtype=dtype)


@reads("aten.triu.default", "aten.tril.default")
def _triangle(source: Source) -> Expr:
    operand, diagonal = source.values
    source.require(isinstance(diagonal, int), "its diagonal is open")
    upper = "triu" in str(source.node.target)
    source.type(operand)
    return build("trilu", operand, Constant(np.array(diagonal, np.int64)), upper=upper)


# ---- arithmetic


@reads("aten.where.ScalarOther", "aten.where.ScalarSelf")
def _where(source: Source) -> Expr:
    condition, *choices = source.values
    dtype = source.result().dtype
    return build(
        "where", condition, *[each if isinstance(each, Expr) else source.number(each, dtype) for each in choices]
    )


@reads("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(source: Source) -> Expr:
    data, mask, value = source.values
    dtype = source.type(data).dtype
    source.require(not isinstance(value, Expr) or source.type(value).dtype == dtype, "it mixes element types")
    return build("where", mask, value if isinstance(value, Expr) else source.number(value, source.result().dtype), data)


@reads(
    "aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default", "aten.hardtanh.default",
    "aten.relu6.default",
)  # fmt: skip
def _clamp(source: Source) -> Expr:
    operand, low, high = [*source.values, *[None] * 2][:3]
    name = str(source.node.target)
    if "relu6" in name:
        low, high = 0, 6
    elif "clamp_max" in name:
        low, high = None, low
    bounds = [-math.inf if low is None else low, math.inf if high is None else high]
    is_float = source.type(operand).dtype.startswith("float")
    source.require(is_float and all(isinstance(each, (int, float)) for each in bounds), "its bounds are no floats")
    return build("clip", operand, a_min=float(bounds[0]), a_max=float(bounds[1]))


@reads("aten.var.correction", "aten.std.correction", "aten.var.dim", "aten.std.dim", "aten.var_mean.correction")
def _variance(source: Source) -> Result:
    name = str(source.node.target)
    operand, axes, correction, keepdims = source.values
    correction = 1 if correction is None else int(correction)
    rank, sizes = source.rank(operand), source.type(operand).shape
    over = tuple(range(rank)) if not axes else tuple(source.axis(axis, operand) for axis in axes)
    source.require(correction in (0, 1), f"its correction is {correction}")
    counts = [size for axis in over if isinstance(size := sizes[axis], int)]
    known = len(counts) == len(over) and math.prod(counts) > 1
    source.require(not correction or known, "its sizes are open, or it is of one element")
    mean = build("mean", operand, axis=over, keepdims=True)
    found = build("variance", operand, mean, axis=over, keepdims=bool(keepdims), unbiased=bool(correction))
    if "std" in name:
        return build("sqrt", found)
    return [found, build("mean", operand, axis=over, keepdims=bool(keepdims))] if "mean" in name else found


@reads("aten.softmax.int", "aten.log_softmax.int")
def _softmax(source: Source) -> Expr:
    operand, axis = _operand(source), source.values[1]
    dtype = source.result_type().dtype
    axis = source.axis(axis, operand)
    name = "nn.log_softmax" if "log" in str(source.node.target) else "nn.softmax"
    if source.type(operand).dtype != dtype:
        operand = build("cast", operand, dtype=dtype)
    return build(name, operand, axis=axis)


@reads("aten.reciprocal.default")
def _reciprocal(source: Source) -> Expr:
    operand = _operand(source)
    return build("divide", source.number(1, source.result().dtype), operand)


@reads("aten.square.default")
def _square(source: Source) -> Expr:
    operand = _operand(source)
    return build("power", operand, source.number(2, source.result().dtype))


@reads("aten.addmm.default")
def _addmm(source: Source) -> Expr:
    bias, first, second, beta, alpha = source.values
    source.require(beta != 0, "it ignores what is not finite")
    return build("add", _times(_product(first, second), alpha, source), _times(bias, beta, source))


@reads("aten.baddbmm.default")
def _baddbmm(source: Source) -> Expr:
    bias, first, second, beta, alpha = source.values
    source.require(beta != 0, "it ignores what is not finite")
    product = build("nn.batch_matmul", first, second, transpose_b=False)
    return build("add", _times(product, alpha, source), _times(bias, beta, source))


def _times(expr: Expr, factor: Any, source: Source) -> Expr:
    """``expr`` times a number of the type of the result; itself where that is 1."""
    return expr if factor == 1 else build("multiply", expr, source.number(factor, source.result().dtype))


@reads("aten.bmm.default")
def _bmm(source: Source) -> Expr:
    """The product of many matrices; PyTorch makes one batch of several axes for it, which is undone."""
    first, second = (_before_flattening(each, source) for each in source.values)
    if first is None or second is None or first[1] != second[1]:
        return build("nn.batch_matmul", *source.values, transpose_b=False)
    result = source.result_type()
    product = build("nn.matmul", first[0], second[0])
    codes = shape_codes((*first[1], *result.shape[-2:]), result.shape)
    source.require(codes is not None, "its sizes have no names")
    return build("reshape", product, newshape=codes)


def _before_flattening(expr: Expr, source: Source) -> tuple[Expr, tuple[Dim, ...]] | None:
    """The operand of a reshape that makes all axes but the last two one, and their sizes; None if ``expr`` is none.

    Axes of size 1, which ``einsum`` puts between, are left out if that makes it one.
    """
    if not isinstance(expr, Call) or expr.op != Op.get("reshape"):
        return None
    (operand,) = expr.args
    shape, flat = source.type(operand).shape, source.type(expr).shape
    if len(flat) == 3 and len(shape) > 3 and shape[-2:] == flat[-2:]:
        return operand, tuple(shape[:-2])
    plain = [dim for dim in shape if dim != 1]
    if len(flat) == 3 and len(plain) > 3 and plain[-2:] == [*flat[-2:]] and all(isinstance(dim, int) for dim in plain):
        return build("reshape", operand, newshape=plain), tuple(plain[:-2])
    return None


@reads("aten.addcmul.default")
def _addcmul(source: Source) -> Expr:
    base, first, second, value = source.values
    source.require(len({source.type(each).dtype for each in (base, first, second)}) == 1, "it mixes element types")
    return build("add", base, _times(build("multiply", first, second), value, source))


@reads("aten.mm.default")
def _mm(source: Source) -> Expr:
    return _product(*source.values)


def _product(first: Expr, second: Expr) -> Expr:
    """The product of two matrices; by a transposed one that of a linear layer."""
    if isinstance(second, Call) and second.op == Op.get("transpose"):
        return build("nn.dense", first, second.args[0])
    return build("nn.matmul", first, second)


@reads("aten.linear.default")
def _linear(source: Source) -> Expr:
    data, weight, bias = source.values
    product = build("nn.dense", data, weight)
    return product if bias is None else build("add", product, bias)


@reads("aten.convolution.default", "aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def _convolution(source: Source) -> Expr:
    data, weight, bias, strides, padding, dilation, *rest = source.values
    count = source.rank(weight) - 2
    source.require(source.rank(data) == count + 2, "its data has no batch")
    if len(rest) == 3:
        transposed, _, groups = rest
        source.require(not transposed, "it is transposed")
    else:
        (groups,) = rest
    said = [_repeated(each, count) for each in (strides, padding, dilation)]
    source.require(None not in said and count in (1, 2, 3), "its sizes are open")
    result = build(f"nn.conv{count}d", data, weight, strides=said[0], padding=said[1], dilation=said[2], groups=groups)
    return result if bias is None else build("nn.bias_add", result, bias, axis=1)


def _repeated(value: Any, count: int) -> tuple[int, ...] | None:
    listed = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    listed = listed * count if len(listed) == 1 else listed
    return listed if len(listed) == count and all(isinstance(each, int) for each in listed) else None


# ---- normalizations and attention


@reads(
    "aten.layer_norm.default", "aten.native_layer_norm.default", "aten.rms_norm.default", "aten._fused_rms_norm.default"
)  # fmt: skip
def _over_last(source: Source) -> Result:
    name = str(source.node.target)
    data, shape, weight, *bias, epsilon = source.values[:5] if "layer" in name else source.values
    last = source.type(data).shape[-1]
    source.require(list(shape) == [last], "it normalizes more than the last axis")
    parts = [weight, *bias]
    source.require(all(isinstance(part, Expr) for part in parts), "it has no weight or bias")
    dtypes = {source.type(part).dtype for part in (data, *parts)}
    source.require(len(dtypes) == 1, "its operands are of several element types")
    if not bias:
        if epsilon is None:
            epsilon = torch.finfo(source.result().dtype).eps
        result = build("nn.rms_norm", data, weight, axis=-1, epsilon=epsilon)
    else:
        result = build("nn.layer_norm", data, *parts, axis=-1, epsilon=epsilon)
    return [result] if "native" in name or "fused" in name else result


@reads("aten.group_norm.default")
def _group_norm(source: Source) -> Expr:
    data, groups, weight, bias, epsilon, _ = source.values
    source.require(isinstance(weight, Expr) and isinstance(bias, Expr), "it has no weight or bias")
    return build("nn.group_norm", data, weight, bias, num_groups=groups, axis=1, epsilon=epsilon)


@reads("aten.native_group_norm.default")
def _native_group_norm(source: Source) -> Result:
    data, weight, bias, _, _, _, groups, epsilon = source.values
    source.require(isinstance(weight, Expr) and isinstance(bias, Expr), "it has no weight or bias")
    return [build("nn.group_norm", data, weight, bias, num_groups=groups, axis=1, epsilon=epsilon)]


@reads("aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default")
def _batch_norm(source: Source) -> Result:
    data, weight, bias, mean, variance, *rest = source.values
    is_composite = len(rest) == 4
    source.require(not is_composite or rest[0] is False, "it learns its mean and variance")
    epsilon = rest[2 if is_composite else 1]
    parts = [weight, bias, mean, variance]
    source.require(all(isinstance(part, Expr) for part in parts), "it has no weight or bias")
    source.require(len({source.type(part).dtype for part in (data, *parts)}) == 1, "it mixes element types")
    result = TupleGetItem(build("nn.batch_norm", data, *parts, axis=1, epsilon=epsilon), 0)
    return result if is_composite else [result]


@reads("aten.scaled_dot_product_attention.default")
def _attention(source: Source) -> Expr:
    query, key, value, mask, dropout, causal, scale, grouped = source.values
    same = len({source.type(each).shape[1] for each in (query, key, value) if source.rank(each) == 4}) == 1
    source.require(grouped or same, "its heads are not grouped")
    return _attended(source, [query, key, value, mask], dropout, causal, scale)


@reads("aten._scaled_dot_product_flash_attention_for_cpu.default")
def _flash_attention(source: Source) -> Result:
    query, key, value, dropout, causal, mask, scale = source.values
    return [_attended(source, [query, key, value, mask], dropout, causal, scale)]


def _attended(source: Source, operands: Sequence[Expr | None], dropout: Any, causal: Any, scale: Any) -> Expr:
    query, key = operands[:2]
    assert query is not None
    assert key is not None
    width: Dim = source.type(query).shape[-1]
    source.require(source.rank(query) == source.rank(key) == 4 and isinstance(width, int), "it has other axes")
    source.require(dropout == 0, "it drops at random")
    attrs = {"scale": 1 / math.sqrt(int(width)) if scale is None else scale, "causal": causal}  # type: ignore[arg-type]
    name = "nn.attention" if operands[3] is None else "nn.masked_attention"
    return build(name, *[each for each in operands if each is not None], **attrs)

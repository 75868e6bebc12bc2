"""Operators of the IR that one row of the table cannot say: how each is written.

Those that ATen does not have become others over the same operands, which are written in turn.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple
from eqsat.relay.ty import Dim, TensorType
from eqsat.torch.reading import FARTHEST
from eqsat.torch.rows import Aten, Written, aten, build, is_named, number_of, overload, shape_codes, writes
from eqsat.torch.types import TORCH_DTYPES


@writes("cast")
def _cast(call: Call, written: Written) -> Aten | None:
    dtype = TORCH_DTYPES.get(call.attrs.dtype)  # type: ignore[union-attr]
    return None if dtype is None else Aten(_TO_COPY, [call.args[0]], {"dtype": dtype})


@writes("cast")
def _convert(call: Call, written: Written) -> Aten | None:
    """As Inductor spells it, which has no code for the operator above."""
    dtype = TORCH_DTYPES.get(call.attrs.dtype)  # type: ignore[union-attr]
    return None if dtype is None else Aten(_CONVERT, [call.args[0], dtype])


_TO_COPY, _CONVERT = overload("aten._to_copy.default"), overload("prims.convert_element_type.default")


# ---- shapes


@writes("reshape")
def _view(call: Call, written: Written) -> Aten | None:
    shape = written.shape(call)
    return None if shape is None else aten("aten.view.default", call.args[0], list(shape))


@writes("broadcast_to")
def _expand(call: Call, written: Written) -> Aten | None:
    shape = written.shape(call)
    return None if shape is None else aten("aten.expand.default", call.args[0], list(shape))


@writes("expand_dims", "squeeze", "nn.batch_flatten")
def _reshape(call: Call, written: Written) -> Expr | None:
    """Several axes at once, or all of size one, as another shape."""
    return _reshaped(call.args[0], call, written)


def _reshaped(operand: Expr, like: Expr, written: Written) -> Expr | None:
    """``operand`` in the shape of another expression."""
    have, want = written.type(operand), written.type(like)
    codes = None if have is None or want is None else shape_codes(have.shape, want.shape)
    return None if codes is None else build("reshape", operand, newshape=codes)


@writes("strided_slice")
def _slice(call: Call, written: Written) -> Aten | Expr | None:
    attrs, operand = call.attrs, call.args[0]
    ty = written.type(operand)
    if ty is None or attrs is None or attrs.slice_mode != "end":
        return None
    axes = [axis % len(ty.shape) for axis in attrs.axes] if attrs.axes is not None else range(len(attrs.begin))
    strides = [*attrs.strides, *[attrs.strides[-1]] * len(attrs.begin)]
    parts = list(zip(axes, attrs.begin, attrs.end, strides, strict=False))
    if not parts or any(None in part or part[3] < 1 for part in parts):
        return None
    if len(parts) == 1:
        axis, begin, end, stride = parts[0]
        return aten("aten.slice.Tensor", operand, axis, begin, end if end < FARTHEST else 2**63 - 1, stride)
    result = operand
    for axis, begin, end, stride in parts:
        result = build("strided_slice", result, begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))
    return result


@writes("take")
def _select(call: Call, written: Written) -> Aten | None:
    attrs, (data, index) = call.attrs, call.args
    if attrs is None or attrs.axis is None or attrs.batch_dims or not isinstance(index, Constant):
        return None
    dim = _dim(data, attrs.axis, written)
    if index.data.shape or dim is None:
        return None
    place = int(index.data.numpy())
    if place < 0 or (isinstance(dim, int) and place >= dim):
        return None
    return aten("aten.select.int", data, attrs.axis % written.rank(data), place)


def _dim(expr: Expr, axis: int, written: Written) -> Dim | None:
    ty = written.type(expr)
    return None if ty is None else ty.shape[axis]


@writes("adv_index")
def _index(call: Call, written: Written) -> Aten | None:
    (parts,) = call.args
    if not isinstance(parts, Tuple):
        return None
    return aten("aten.index.Tensor", parts.fields[0], list(parts.fields[1:]))


@writes("cumsum")
def _cumsum(call: Call, written: Written) -> Aten | None:
    attrs, rank = call.attrs, written.rank(call.args[0])
    if attrs is None or attrs.exclusive or attrs.axis is None or rank < 1:
        return None
    given, ty = written.type(call.args[0]), written.type(call)
    if given is None or ty is None:
        return None
    made = aten("aten.cumsum.default", call.args[0], attrs.axis % rank)
    return replace(made, kwargs={"dtype": TORCH_DTYPES[ty.dtype]}) if given.dtype != ty.dtype else made


@writes("trilu")
def _triangle(call: Call, written: Written) -> Aten | None:
    operand, diagonal = call.args
    if not isinstance(diagonal, Constant) or call.attrs is None:
        return None
    return aten(f"aten.tri{'u' if call.attrs.upper else 'l'}.default", operand, int(diagonal.data.numpy().item()))


@writes("concatenate")
def _cat(call: Call, written: Written) -> Aten | None:
    return _joined("aten.cat.default", call, written)


@writes("stack")
def _stack(call: Call, written: Written) -> Aten | None:
    return _joined("aten.stack.default", call, written)


def _joined(name: str, call: Call, written: Written) -> Aten | None:
    (parts,) = call.args
    ty = written.types.get(call)
    rank = len(ty.shape) if isinstance(ty, TensorType) else 0
    return aten(name, parts, call.attrs.axis % rank) if rank else None  # type: ignore[union-attr]


@writes("split")
def _split(call: Call, written: Written) -> Aten | None:
    attrs, (operand,) = call.attrs, call.args
    if attrs is None:
        return None
    dim = _dim(operand, attrs.axis, written)
    if not isinstance(dim, int):
        return None
    places = attrs.indices_or_sections
    if isinstance(places, int):
        places = tuple(range(dim // places, dim, dim // places))
    sizes = [end - start for start, end in zip((0, *places), (*places, dim), strict=True)]
    if min(sizes) < 0:
        return None
    return aten("aten.split_with_sizes.default", operand, sizes, attrs.axis % written.rank(operand))


# ---- arithmetic


@writes("clip")
def _clamp(call: Call, written: Written) -> Aten | None:
    low, high = call.attrs.a_min, call.attrs.a_max  # type: ignore[union-attr]
    bounds = [None if math.isinf(bound) else bound for bound in (low, high)]
    return None if bounds == [None, None] else aten("aten.clamp.default", call.args[0], *bounds)


@writes("clip")
def _clamp_apart(call: Call, written: Written) -> Aten | Expr | None:
    """As Inductor spells it, one bound at a time."""
    low, high = call.attrs.a_min, call.attrs.a_max  # type: ignore[union-attr]
    if math.isinf(low):
        return None if math.isinf(high) else aten("aten.clamp_max.default", call.args[0], high)
    if math.isinf(high):
        return aten("aten.clamp_min.default", call.args[0], low)
    return build("clip", build("clip", call.args[0], a_min=low, a_max=math.inf), a_min=-math.inf, a_max=high)


@writes("nn.bias_add")
def _bias_add(call: Call, written: Written) -> Expr | None:
    data, bias = call.args
    rank, ty = written.rank(data), written.type(bias)
    if rank < 0 or ty is None:
        return None
    behind = rank - 1 - call.attrs.axis % rank  # type: ignore[union-attr]
    spread = build("reshape", bias, newshape=(-1, *[1] * behind)) if behind else bias
    return build("add", data, spread)


@writes("nn.dense")
def _linear(call: Call, written: Written) -> Aten | Expr | None:
    data, weight = call.args
    if not _keeps_dtype(call, written):
        return None
    if written.composite:
        return aten("aten.linear.default", data, weight)
    turned = build("transpose", weight, axes=(1, 0))
    if written.rank(data) == 2:
        return build("nn.matmul", data, turned)
    ty = written.type(data)
    if ty is None or len(ty.shape) < 2 or not isinstance(ty.shape[-1], int):
        return None
    rows = build("reshape", data, newshape=(-1, int(ty.shape[-1])))
    return _reshaped_like(build("nn.matmul", rows, turned), call, written)


def _keeps_dtype(call: Call, written: Written) -> bool:
    ty, result = written.type(call.args[0]), written.type(call)
    return ty is not None and result is not None and ty.dtype == result.dtype


def _reshaped_like(rows: Expr, like: Expr, written: Written) -> Expr | None:
    """Rows of a product in the shape of another expression: all axes but the last are one before."""
    want = written.type(like)
    if want is None or not is_named(want.shape):
        return None
    return build("reshape", rows, newshape=want.shape)


@writes("nn.matmul", "nn.batch_matmul")
def _turned(call: Call, written: Written) -> Expr | None:
    """A product of transposed operands; one of many matrices by those of three axes."""
    attrs, (first, second) = call.attrs, call.args
    if attrs is None or not _keeps_dtype(call, written):
        return None
    if attrs.transpose_a or attrs.transpose_b:
        left = _with_last_two_swapped(first, written) if attrs.transpose_a else first
        right = _with_last_two_swapped(second, written) if attrs.transpose_b else second
        if left is None or right is None:
            return None
        name = call.op.name if isinstance(call.op, Op) else ""
        more = {"transpose_b": False} if name == "nn.batch_matmul" else {}
        return build(name, left, right, **more)
    found = [written.shape(each) for each in (first, second, call)]
    shapes = [shape for shape in found if shape is not None]
    if len(shapes) < len(found):
        return None
    batches = [shape[:-2] for shape in shapes]
    if min(map(len, shapes)) < 3 or len(shapes[0]) == 3 or batches[0] != batches[1]:
        return None
    flat = [
        build("reshape", each, newshape=(-1, *shape[-2:])) for each, shape in zip((first, second), shapes, strict=False)
    ]
    return build("reshape", build("nn.batch_matmul", *flat, transpose_b=False), newshape=shapes[2])


def _with_last_two_swapped(expr: Expr, written: Written) -> Expr | None:
    rank = written.rank(expr)
    return None if rank < 2 else build("transpose", expr, axes=(*range(rank - 2), rank - 1, rank - 2))


SUMS = ("add", "nn.bias_add")
"""Operators that are written together with a product that they alone use."""

PRODUCTS = ("nn.dense", "nn.matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d")
"""Those products."""


def with_bias(call: Call, product: Expr, written: Written) -> Aten | None:
    """A sum and the product that is one of its operands as one node; None if there is no such node."""
    name = call.op.name if isinstance(call.op, Op) else ""
    inner = product.op.name if isinstance(product, Call) and isinstance(product.op, Op) else ""
    if name not in SUMS or not isinstance(product, Call) or inner not in PRODUCTS:
        return None
    bias = call.args[1 - call.args.index(product)]
    over, ty = written.type(product), written.type(bias)
    if over is None or ty is None or over.dtype != ty.dtype or number_of(bias, product, written) is not None:
        return None
    if inner.startswith("nn.conv"):
        return _convolution(product, bias, written) if name == "nn.bias_add" and call.attrs.axis == 1 else None  # type: ignore[union-attr]
    is_vector = len(ty.shape) == 1 and ty.shape[0] == over.shape[-1]
    if name == "nn.bias_add":
        is_vector = is_vector and call.attrs.axis in (-1, len(over.shape) - 1)  # type: ignore[union-attr]
    if not is_vector or not _keeps_dtype(product, written):
        return None
    if inner == "nn.dense":
        if written.composite:
            return aten("aten.linear.default", *product.args, bias)
        data, weight = product.args
        if written.rank(data) == 2:
            return aten("aten.addmm.default", bias, data, build("transpose", weight, axes=(1, 0)))
        return None
    attrs = product.attrs
    if attrs is None or attrs.transpose_a or attrs.transpose_b or [written.rank(arg) for arg in product.args] != [2, 2]:
        return None
    return aten("aten.addmm.default", bias, *product.args)


@writes("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _convolve(call: Call, written: Written) -> Aten | None:
    return _convolution(call, None, written)


def _convolution(call: Call, bias: Expr | None, written: Written) -> Aten | None:
    attrs = call.attrs
    count = written.rank(call.args[1]) - 2
    if attrs is None or count < 1 or attrs.out_layout or not _keeps_dtype(call, written):
        return None
    axes = "DHW"[-count:] if count > 1 else "W"
    if (attrs.data_layout, attrs.kernel_layout) != (f"NC{axes}", f"OI{axes}"):
        return None
    padding = list(attrs.padding)
    if len(padding) == 2 * count and padding[:count] == padding[count:]:
        padding = padding[:count]
    if len(padding) == 1:
        padding *= count
    if len(padding) != count:
        return None
    strides, dilation = ([*each] * (count if len(each) == 1 else 1) for each in (attrs.strides, attrs.dilation))
    values = [*call.args, bias, strides, padding, dilation]
    if written.composite:
        return aten(f"aten.conv{count}d.default", *values, attrs.groups)
    return aten("aten.convolution.default", *values, False, [0] * count, attrs.groups)


# ---- normalizations and attention


@writes("variance")
def _var(call: Call, written: Written) -> Aten | None:
    """One node where the mean beside it is that of the same axes."""
    attrs, (data, mean) = call.attrs, call.args
    over = _axes_of(call, written)
    if attrs is None or over is None or not isinstance(mean, Call) or mean.op != Op.get("mean"):
        return None
    if mean.args[0] is not data or _axes_of(mean, written) != over:
        return None
    return Aten(_VAR, [data, list(over)], {"correction": int(attrs.unbiased), "keepdim": bool(attrs.keepdims)})


@writes("variance")
def _squares(call: Call, written: Written) -> Expr | None:
    """As the mean of squares."""
    attrs, (data, mean), over = call.attrs, call.args, _axes_of(call, written)
    ty = written.type(data)
    if attrs is None or over is None or ty is None:
        return None
    difference = build("subtract", data, mean)
    squares = build("multiply", difference, difference)
    if not attrs.unbiased:
        return build("mean", squares, axis=over, keepdims=attrs.keepdims)
    counts = [size for axis in over if isinstance(size := ty.shape[axis], int)]
    if len(counts) < len(over):
        return None
    count = Constant(np.asarray(math.prod(counts) - 1).astype(ty.dtype))
    return build("divide", build("sum", squares, axis=over, keepdims=attrs.keepdims), count)


_VAR = overload("aten.var.correction")


def _axes_of(call: Call, written: Written) -> tuple[int, ...] | None:
    """The axes that a reduction goes over."""
    attrs, rank = call.attrs, written.rank(call.args[0])
    if attrs is None or attrs.exclude or rank < 0:
        return None
    return tuple(range(rank)) if attrs.axis is None else tuple(sorted(axis % max(rank, 1) for axis in attrs.axis))


@writes("nn.layer_norm", "nn.rms_norm")
def _over_last(call: Call, written: Written) -> Aten | None:
    attrs, ty = call.attrs, written.type(call.args[0])
    if attrs is None or ty is None or attrs.axis % len(ty.shape) != len(ty.shape) - 1 or not attrs.scale:
        return None
    last = ty.shape[-1]
    if any(part is None or part.shape != (last,) for part in map(written.type, call.args[1:])):
        return None
    data, *parts = call.args
    if call.op == Op.get("nn.rms_norm"):
        return aten("aten.rms_norm.default", data, [last], *parts, attrs.epsilon) if written.composite else None
    if not attrs.center:
        return None
    if written.composite:
        return aten("aten.layer_norm.default", data, [last], *parts, attrs.epsilon)
    return aten("aten.native_layer_norm.default", data, [last], *parts, attrs.epsilon, output=0)


@writes("nn.group_norm")
def _group_norm(call: Call, written: Written) -> Aten | None:
    attrs = call.attrs
    if attrs is None or attrs.axis != 1 or not (attrs.scale and attrs.center):
        return None
    data, weight, bias = call.args
    if written.composite:
        return aten("aten.group_norm.default", data, attrs.num_groups, weight, bias, attrs.epsilon)
    shape = written.shape(data)
    if shape is None or not all(isinstance(dim, int) for dim in shape):
        return None
    batch, channels, *rest = (int(dim) for dim in shape if isinstance(dim, int))
    sizes = [batch, channels, math.prod(rest)]
    return aten("aten.native_group_norm.default", *call.args, *sizes, attrs.num_groups, attrs.epsilon, output=0)


@writes("nn.batch_norm")
def _batch_norm(call: Call, written: Written) -> Aten | None:
    attrs = call.attrs
    if attrs is None or attrs.axis != 1 or not (attrs.scale and attrs.center):
        return None
    if written.composite:
        made = aten("aten.batch_norm.default", *call.args, False, 0.1, attrs.epsilon, False)
        return replace(made, is_first=True)
    return aten("aten._native_batch_norm_legit_no_training.default", *call.args, 0.1, attrs.epsilon)


FLASH_ATTENTION = aten("aten._scaled_dot_product_flash_attention_for_cpu.default").target
"""What attention is where PyTorch composes nothing of others, on processors."""


@writes("nn.attention", "nn.masked_attention")
def _attention(call: Call, written: Written) -> Aten | None:
    attrs = call.attrs
    if attrs is None or attrs.query_heads or attrs.softcap:
        return None
    query, key, value, *mask = call.args
    heads = [_heads(each, written) for each in (query, key, value)]
    if None in heads or (mask and attrs.causal):
        return None
    if not written.composite:
        types = [written.type(each) for each in call.args]
        same = len({ty.dtype for ty in types if ty is not None}) == 1 and len(set(heads)) == 1
        widths = {ty.shape[-1] for ty in types[:3] if ty is not None}
        if not same or len(widths) > 1 or any(ty is None or len(ty.shape) != 4 for ty in types):
            return None
        more = {"scale": attrs.scale} | ({"attn_mask": mask[0]} if mask else {})
        return Aten(FLASH_ATTENTION, [query, key, value, 0.0, attrs.causal], more, output=0)
    values = [query, key, value, mask[0] if mask else None, 0.0, attrs.causal]
    made = aten("aten.scaled_dot_product_attention.default", *values)
    more = {"scale": attrs.scale} | ({"enable_gqa": True} if heads[0] != heads[1] else {})
    return Aten(made.target, made.args, more)


def _heads(expr: Expr, written: Written) -> Dim | None:
    ty = written.type(expr)
    return ty.shape[1] if ty is not None and len(ty.shape) == 4 else None

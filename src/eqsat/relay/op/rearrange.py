"""Further operators on whole tensors: layouts, sums down to a shape, products by index notation, masks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.expr import Call, Constant, Tuple, TupleWrapper
from eqsat.relay.op.layout import layout_change
from eqsat.relay.op.op import Field, OpPattern, define, tensor_of
from eqsat.relay.op.shape import clamp_slice
from eqsat.relay.op.types import (
    axes_indices,
    axis_index,
    broadcast_shape,
    check_broadcasts,
    check_dtype,
    ranked,
    shaped,
    size,
    tensor,
    tensors,
)
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type

INJECTIVE = OpPattern.INJECTIVE


# ---- shapes as data

shape_of = define(
    "shape_of",
    "data",
    Field("dtype", "dtype", "int32"),
    infer=lambda attrs, args: TensorType((len(tensor(args[0]).shape),), attrs.dtype),
    kernel=lambda attrs, data: np.array(data.shape, attrs.dtype),
    denotation=lambda attrs, data: np.array(data.shape, object),  # sizes that are not known are no numbers
    kind=OpPattern.OPAQUE,
)
ndarray_size = define(
    "ndarray_size",
    "data",
    Field("dtype", "dtype", "int32"),
    infer=lambda attrs, args: TensorType((), attrs.dtype),
    kernel=lambda attrs, data: np.array(data.size, attrs.dtype),
    kind=INJECTIVE,
)

# ---- layouts


layout_transform = define(
    "layout_transform",
    "data",
    Field("src_layout", "str"),
    Field("dst_layout", "str"),
    infer=shaped(lambda attrs, shape: layout_change(attrs.src_layout, attrs.dst_layout).shape(shape)),
    kernel=lambda attrs, data: layout_change(attrs.src_layout, attrs.dst_layout)(data),
    kind=INJECTIVE,
    traits=Trait.MOVES,
)

# ---- sums down to a shape: the adjoint of broadcasting


def _collapsed(data: TensorType, shape: Sequence[Dim]) -> TensorType:
    check_broadcasts(shape, data.shape)
    return TensorType(shape, data.dtype)


def _collapse(data: Any, shape: Sequence[int]) -> Any:
    lead = data.ndim - len(shape)
    axes = [*range(lead), *(lead + i for i, dim in enumerate(shape) if dim == 1 and data.shape[lead + i] != 1)]
    return np.sum(data, axis=tuple(axes), dtype=data.dtype).reshape(shape)


def _collapse_sum_to_type(attrs: Any, args: Sequence[Type]) -> Type:
    if attrs.shape is None:
        rank = ranked(args[1], 1, "shape").shape[0]
        if not isinstance(rank, int):
            raise TypeCheckError("the length of shape must be known")
        return TensorType([AnyDim()] * rank, tensor(args[0]).dtype)
    return _collapsed(tensor(args[0]), attrs.shape)


collapse_sum_like = define(
    "collapse_sum_like",
    "data collapse_type",
    infer=lambda attrs, args: _collapsed(tensor(args[0]), tensor(args[1]).shape),
    kernel=lambda attrs, data, like: _collapse(data, like.shape),
    kind=OpPattern.COMM_REDUCE,
)
_collapse_sum_to = define(
    "collapse_sum_to",
    "data target",
    Field("shape", "ints", None),
    infer=_collapse_sum_to_type,
    kernel=lambda attrs, data, target: _collapse(data, tuple(map(int, target))),
    kind=OpPattern.COMM_REDUCE,
)


def collapse_sum_to(data: Any, shape: Any) -> Any:
    """``data`` summed down to ``shape`` (ints, or a 1-D tensor), which broadcasts to the data's shape."""
    target = tensor_of(shape, "int32")
    known = tuple(map(int, target.data.numpy())) if isinstance(target, Constant) else None
    return _collapse_sum_to(data, target, known)


# ---- grids and index notation


def _meshgrid_type(attrs: Any, args: Sequence[Type]) -> Type:
    fields = tensors(args[0])
    dtype = check_dtype(*fields)
    dims = [field.shape[0] if ranked(field, min(len(field.shape), 1)).shape else 1 for field in fields]
    if attrs.indexing == "xy" and len(dims) > 1:
        dims[0], dims[1] = dims[1], dims[0]
    return TupleType([TensorType(dims, dtype)] * len(fields))


_meshgrid = define(
    "meshgrid",
    "+data",
    Field("indexing", "str", "ij", choices=("ij", "xy")),
    infer=_meshgrid_type,
    kernel=lambda attrs, fields: tuple(np.meshgrid(*fields, indexing=attrs.indexing)),
    kind=INJECTIVE,
)


def meshgrid(data: Any, indexing: str = "ij") -> Any:
    """Coordinates of a grid: one output for each of the given vectors."""
    call = _meshgrid(data, indexing)
    fields = call.args[0] if isinstance(call, Call) else None
    return TupleWrapper(call, len(fields)) if isinstance(fields, Tuple) else call


def einsum_terms(equation: str, count: int) -> tuple[list[str], str]:
    """The subscripts of every operand and of the result."""
    text = equation.replace(" ", "")
    if not re.fullmatch(r"([A-Za-z.]*,)*[A-Za-z.]*(->[A-Za-z.]*)?", text):
        raise TypeCheckError(f"equation {equation!r} is malformed")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise TypeCheckError(f"equation {equation!r} has {len(terms)} operands, not {count}")
    if not arrow:
        letters = sorted(set(left) - {",", "."})
        right = ("..." if "..." in left else "") + "".join(c for c in letters if left.count(c) == 1)
    return terms, right


def _einsum_type(attrs: Any, args: Sequence[Type]) -> Type:
    fields = tensors(args[0])
    terms, result = einsum_terms(attrs.equation, len(fields))
    dims: dict[str, Dim] = {}
    ellipsis: tuple[Dim, ...] = ()
    for term, field in zip(terms, fields, strict=True):
        before, dots, after = term.partition("...")
        hidden = len(field.shape) - len(before) - len(after)
        if hidden < 0 or (hidden and not dots):
            raise TypeCheckError(f"subscripts {term!r} do not fit {field}")
        ellipsis = broadcast_shape(ellipsis, field.shape[len(before) : len(before) + hidden])
        named = zip(before + after, field.shape[: len(before)] + field.shape[len(before) + hidden :], strict=True)
        for letter, dim in named:
            (dims[letter],) = broadcast_shape((dims.get(letter, 1),), (dim,))
    before, dots, after = result.partition("...")
    unknown = [letter for letter in before + after if letter not in dims]
    if unknown:
        raise TypeCheckError(f"subscript {unknown[0]!r} of the result occurs in no operand")
    hidden_dims = ellipsis if dots else ()
    shape = (*(dims[letter] for letter in before), *hidden_dims, *(dims[letter] for letter in after))
    return TensorType(shape, check_dtype(*fields))


def _einsum_flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
    fields = tensors(args[0])
    terms, _ = einsum_terms(attrs.equation, len(fields))
    loops: dict[str, int] = {}
    for term, field in zip(terms, fields, strict=True):
        if "." in term:
            return 2.0 * sum(map(size, fields))
        loops.update({letter: dim for letter, dim in zip(term, field.shape, strict=True) if isinstance(dim, int)})
    return float(len(fields) * prod(loops.values()))


einsum = define(
    "einsum",
    "+data",
    Field("equation", "str"),
    infer=_einsum_type,
    kernel=lambda attrs, fields: np.einsum(attrs.equation, *fields, optimize=True).astype(fields[0].dtype, copy=False),
    kind=INJECTIVE,
    flops=_einsum_flops,
)

# ---- masks and parts


def _trilu_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    ranked(args[1], 0, "k")
    if len(data.shape) < 2:
        raise TypeCheckError("needs at least two dimensions")
    return data


_trilu = define(
    "trilu",
    "data k",
    Field("upper", "bool", True),
    infer=_trilu_type,
    kernel=lambda attrs, data, k: (np.triu if attrs.upper else np.tril)(data, int(k)),
    kind=OpPattern.ELEMWISE,
)


def trilu(data: Any, k: Any, upper: bool = True) -> Any:
    """The upper (or lower) triangle of the last two axes, from diagonal ``k`` on, zero elsewhere."""
    return _trilu(data, tensor_of(k, "int32"), upper)


def _sequence_mask(attrs: Any, data: Any, valid_length: Any) -> Any:
    steps, batch = (data.shape[0], data.shape[1]) if attrs.axis == 0 else (data.shape[1], data.shape[0])
    keep = np.arange(steps)[:, None] < valid_length[None, :batch]
    keep = (keep if attrs.axis == 0 else keep.T).reshape(*data.shape[:2], *(1,) * (data.ndim - 2))
    return np.where(keep, data, data.dtype.type(attrs.mask_value))


def _sequence_mask_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, _ = tensor(args[0]), ranked(args[1], 1, "valid_length")
    if len(data.shape) < 2 or attrs.axis not in (0, 1):
        raise TypeCheckError("needs data of at least two dimensions and axis 0 or 1")
    return data


sequence_mask = define(
    "sequence_mask",
    "data valid_length",
    Field("mask_value", "float", 0.0),
    Field("axis", "int", 0),
    infer=_sequence_mask_type,
    kernel=_sequence_mask,
    kind=INJECTIVE,
)


def _reverse_sequence_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, _ = tensor(args[0]), ranked(args[1], 1, "seq_lengths")
    axis_index(attrs.seq_axis, len(data.shape))
    axis_index(attrs.batch_axis, len(data.shape))
    return data


def _reverse_sequence(attrs: Any, data: Any, lengths: Any) -> Any:
    seq, batch = axis_index(attrs.seq_axis, data.ndim), axis_index(attrs.batch_axis, data.ndim)
    steps, ends = np.arange(data.shape[seq])[None, :], lengths[:, None]
    source = np.where(steps < ends, ends - 1 - steps, steps)  # (batch, seq)
    shape = [1] * data.ndim
    shape[batch], shape[seq] = data.shape[batch], data.shape[seq]
    return np.take_along_axis(data, (source if batch < seq else source.T).reshape(shape), seq)


reverse_sequence = define(
    "reverse_sequence",
    "data seq_lengths",
    Field("seq_axis", "int", 1),
    Field("batch_axis", "int", 0),
    infer=_reverse_sequence_type,
    kernel=_reverse_sequence,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _slice_like_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, like = map(tensor, args)
    shape = list(data.shape)
    rank = min(len(shape), len(like.shape))
    axes = range(rank) if not attrs.axes else axes_indices(attrs.axes, len(shape))
    for axis in axes:
        dim, wanted = shape[axis], like.shape[axis]
        if isinstance(dim, int) and isinstance(wanted, int) and wanted > dim:
            raise TypeCheckError(f"axis {axis} has {dim} elements, {wanted} are wanted")
        shape[axis] = wanted
    return TensorType(shape, data.dtype)


def _slice_like(attrs: Any, data: Any, like: Any) -> Any:
    types = [TensorType(array.shape, array.dtype.name) for array in (data, like)]
    return data[tuple(slice(dim) for dim in tensor(_slice_like_type(attrs, types)).shape)]


slice_like = define(
    "slice_like",
    "data shape_like",
    Field("axes", "ints", None),
    infer=_slice_like_type,
    kernel=_slice_like,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _strided_set_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, values = map(tensor, args[:2])
    check_dtype(data, values)
    for arg in args[2:]:
        ranked(arg, 1, "begin, end and strides")
    return data


def _strided_set(attrs: Any, data: Any, values: Any, begin: Any, end: Any, strides: Any) -> Any:
    result = data.copy()
    steps = strides if strides.size else np.ones_like(begin)
    index = tuple(
        clamp_slice(int(first), int(last), int(step), dim)
        for first, last, step, dim in zip(begin, end, steps, data.shape, strict=False)
    )
    result[index] = values
    return result


_strided_set_call = define(
    "strided_set", "data v begin end strides", infer=_strided_set_type, kernel=_strided_set, kind=INJECTIVE
)


def strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    """``data`` with ``v`` written to the slice that ``strided_slice`` with these bounds would read."""
    steps = (1,) * (len(begin) if isinstance(begin, (list, tuple)) else 1) if strides is None else strides
    return _strided_set_call(data, v, *(tensor_of(bounds, "int32") for bounds in (begin, end, steps)))


__all__ = [
    "collapse_sum_like", "collapse_sum_to", "einsum", "layout_transform", "meshgrid", "ndarray_size",
    "reverse_sequence", "sequence_mask", "shape_of", "slice_like", "strided_set", "trilu",
]  # fmt: skip

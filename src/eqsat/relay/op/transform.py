"""Operators that change dtype, shape or order of elements without computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, floor_divide_dims, multiply_dims, subtract_dims
from eqsat.relay.op.denotation import BITS
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.parameters import dynamic, length, static_or_dynamic, unknown
from eqsat.relay.op.shape import resolve_reshape
from eqsat.relay.op.types import (
    ShapeFunction,
    along_axis,
    axes_indices,
    axis_index,
    check_broadcasts,
    check_dtype,
    ranked,
    shaped,
    tensor,
    tensors,
    unify,
)
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type

INJECTIVE, BROADCAST = OpPattern.INJECTIVE, OpPattern.BROADCAST


def define_view(name: str, *fields: Field, shape: ShapeFunction, kind: OpPattern) -> Builder:
    """Add an operator that gives its argument the shape ``shape(attrs, its shape)``."""

    def kernel(attrs: Any, data: Any) -> Any:
        return data.reshape(shape(attrs, data.shape))

    return define(
        name,
        "data",
        *fields,
        infer=shaped(shape),
        kernel=kernel,
        kind=kind,
        traits=Trait.VIEW,
    )


# ---- dtype

cast = define(
    "cast",
    "data",
    Field("dtype", "dtype"),
    infer=lambda attrs, args: TensorType(tensor(args[0]).shape, attrs.dtype),
    kernel=lambda attrs, data: data.astype(attrs.dtype, copy=False),
    kind=OpPattern.ELEMWISE,
    traits=Trait.ELEMENTWISE,
)
cast_like = define(
    "cast_like",
    "data dtype_like",
    infer=lambda attrs, args: TensorType(tensor(args[0]).shape, tensor(args[1]).dtype),
    kernel=lambda attrs, data, like: data.astype(like.dtype, copy=False),
    kind=OpPattern.ELEMWISE,
)


def _reinterpret_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    if np.dtype(data.dtype).itemsize != np.dtype(attrs.dtype).itemsize:
        raise TypeCheckError(f"{data.dtype} and {attrs.dtype} differ in width")
    return TensorType(data.shape, attrs.dtype)


reinterpret = define(
    "reinterpret",
    "data",
    Field("dtype", "dtype"),
    infer=_reinterpret_type,
    kernel=lambda attrs, data: np.ascontiguousarray(data).view(attrs.dtype).reshape(data.shape),
    denotation=BITS,
    kind=OpPattern.ELEMWISE,
)

# ---- shape


def _reshape_like_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    data, like = map(tensor, args)
    lhs_end = len(data.shape) if attrs.lhs_end is None else axis_end(attrs.lhs_end, len(data.shape))
    rhs_end = len(like.shape) if attrs.rhs_end is None else axis_end(attrs.rhs_end, len(like.shape))
    lhs_begin, rhs_begin = axis_end(attrs.lhs_begin, len(data.shape)), axis_end(attrs.rhs_begin, len(like.shape))
    shape = (*data.shape[:lhs_begin], *like.shape[rhs_begin:rhs_end], *data.shape[lhs_end:])
    if all(isinstance(dim, int) for dim in (*shape, *data.shape)) and math.prod(shape) != math.prod(data.shape):  # type: ignore[arg-type]
        raise TypeCheckError(f"{data} cannot be reshaped to {TensorType(shape, data.dtype)}: the sizes differ")
    return TensorType(shape, data.dtype)


def _reshape_like(attrs: Any, data: Any, like: Any) -> Any:
    types = [TensorType(array.shape, array.dtype.name) for array in (data, like)]
    return data.reshape(_reshape_like_type(attrs, types).concrete_shape)


def axis_end(axis: int, rank: int) -> int:
    """A position between axes, 0 to ``rank``; negative ones count from the back."""
    if not -rank <= axis <= rank:
        raise TypeCheckError(f"axis {axis} is out of range for {rank} dimensions")
    return axis + rank if axis < 0 else axis


_reshape = define_view(
    "reshape",
    Field("newshape", "ints"),
    Field("allowzero", "bool", False),
    shape=lambda attrs, shape: resolve_reshape(shape, attrs.newshape, attrs.allowzero),
    kind=INJECTIVE,
)
reverse_reshape = define_view(
    "contrib_reverse_reshape",
    Field("newshape", "ints"),
    shape=lambda attrs, shape: resolve_reshape(shape[::-1], attrs.newshape[::-1])[::-1],
    kind=INJECTIVE,
)
reshape_like = define(
    "reshape_like",
    "data shape_like",
    Field("lhs_begin", "int", 0),
    Field("lhs_end", "int", None),
    Field("rhs_begin", "int", 0),
    Field("rhs_end", "int", None),
    infer=_reshape_like_type,
    kernel=_reshape_like,
    kind=INJECTIVE,
    traits=Trait.VIEW,
)


def _expanded(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    rank = len(shape)
    if not -rank - 1 <= attrs.axis <= rank:
        raise TypeCheckError(f"axis {attrs.axis} is out of range for {rank} dimensions and a new one")
    axis = attrs.axis if attrs.axis >= 0 else attrs.axis + rank + 1
    return (*shape[:axis], *(1,) * attrs.num_newaxis, *shape[axis:])


def _squeezed(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    if attrs.axis is None:
        if any(isinstance(dim, AnyDim) for dim in shape):
            raise TypeCheckError("all dimensions must be known when axis is not given")
        return [dim for dim in shape if dim != 1]
    axes = axes_indices(attrs.axis, len(shape))
    for axis in axes:
        unify(shape[axis], 1, f"axis {axis} to squeeze:")
    return [dim for axis, dim in enumerate(shape) if axis not in axes]


expand_dims = define_view(
    "expand_dims", Field("axis", "int"), Field("num_newaxis", "int", 1), shape=_expanded, kind=BROADCAST
)
_squeeze = define_view("squeeze", Field("axis", "ints", None), shape=_squeezed, kind=INJECTIVE)

# ---- order


def _transposed(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    if attrs.axes is None:
        return shape[::-1]
    axes = axes_indices(attrs.axes, len(shape))
    if len(axes) != len(shape):
        raise TypeCheckError(f"axes {attrs.axes} do not permute {len(shape)} dimensions")
    return [shape[axis] for axis in axes]


transpose = define(
    "transpose",
    "data",
    Field("axes", "ints", None, told=True),
    infer=shaped(_transposed),
    kernel=lambda attrs, data: np.transpose(data, attrs.axes),
    kind=INJECTIVE,
    traits=Trait.MOVES | Trait.INJECTIVE,
)
reverse = define(
    "reverse",
    "data",
    Field("axis", "int"),
    infer=along_axis,
    kernel=lambda attrs, data: np.flip(data, attrs.axis),
    kind=INJECTIVE,
    traits=Trait.MOVES | Trait.INJECTIVE,
)

# ---- joining and splitting


def _of_one_rank(ty: Type) -> tuple[TensorType, ...]:
    fields = tensors(ty)
    if len({len(field.shape) for field in fields}) > 1:
        raise TypeCheckError("the fields differ in their number of dimensions")
    return fields


def concatenate_type(attrs: Any, args: Sequence[Type]) -> Type:
    """The type of the fields of the first argument, a tuple, joined along ``attrs.axis``."""
    fields = _of_one_rank(args[0])
    shape = list(fields[0].shape)
    axis = axis_index(attrs.axis, len(shape))
    for field in fields[1:]:
        for index, dim in enumerate(field.shape):
            if index != axis:
                shape[index] = unify(shape[index], dim, f"dimension {index}:")
    shape[axis] = add_dims(*(field.shape[axis] for field in fields))
    return TensorType(shape, check_dtype(*fields))


def _stack_type(attrs: Any, args: Sequence[Type]) -> Type:
    fields = _of_one_rank(args[0])
    shape = list(fields[0].shape)
    for field in fields[1:]:
        shape = [unify(a, b) for a, b in zip(shape, field.shape, strict=True)]
    shape.insert(axis_index(attrs.axis, len(shape) + 1), len(fields))
    return TensorType(shape, check_dtype(*fields))


concatenate = define(
    "concatenate",
    "+data",
    Field("axis", "int", 0),
    infer=concatenate_type,
    kernel=lambda attrs, fields: np.concatenate(fields, attrs.axis),
    kind=INJECTIVE,
    traits=Trait.MOVES,
)
stack = define(
    "stack",
    "+data",
    Field("axis", "int", 0),
    infer=_stack_type,
    kernel=lambda attrs, fields: np.stack(fields, attrs.axis),
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _sections(attrs: Any) -> int:
    where = attrs.indices_or_sections
    return where if isinstance(where, int) else len(where) + 1


def _split_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    axis = axis_index(attrs.axis, len(data.shape))
    parts = _parts(attrs.indices_or_sections, data.shape[axis])
    shapes = [(*data.shape[:axis], part, *data.shape[axis + 1 :]) for part in parts]
    return TupleType([TensorType(shape, data.dtype) for shape in shapes])


def _parts(where: Any, dim: Dim) -> list[Dim]:
    """Sizes of the parts of an axis of size ``dim``."""
    if isinstance(where, int):
        if where < 1 or (isinstance(dim, int) and dim % where):
            raise TypeCheckError(f"dimension {dim} cannot be split into {where} equal parts")
        return [floor_divide_dims(dim, where)] * where
    ends = [*where, dim]
    if any(b < a for a, b in zip((0, *where), where, strict=False)) or (
        isinstance(dim, int) and where and where[-1] > dim
    ):
        raise TypeCheckError(f"indices {where} do not ascend within dimension {dim}")
    return [subtract_dims(end, begin) for begin, end in zip((0, *where), ends, strict=True)]


split = define(
    "split",
    "data",
    Field("indices_or_sections"),
    Field("axis", "int", 0),
    infer=_split_type,
    kernel=lambda attrs, data: tuple(np.split(data, attrs.indices_or_sections, attrs.axis)),
    kind=INJECTIVE,
    traits=Trait.MOVES,
    outputs=_sections,
)

# ---- repeating


def _broadcast(data: TensorType, shape: Sequence[Dim]) -> TensorType:
    check_broadcasts(data.shape, shape)
    return TensorType(shape, data.dtype)


_broadcast_to = define(
    "broadcast_to",
    "data",
    Field("shape", "ints"),
    infer=lambda attrs, args: _broadcast(tensor(args[0]), attrs.shape),
    kernel=lambda attrs, data: np.broadcast_to(data, attrs.shape),
    kind=BROADCAST,
    traits=Trait.MOVES,
)
broadcast_to_like = define(
    "broadcast_to_like",
    "data broadcast_type",
    infer=lambda attrs, args: _broadcast(tensor(args[0]), tensor(args[1]).shape),
    kernel=lambda attrs, data, like: np.broadcast_to(data, like.shape),
    kind=BROADCAST,
    traits=Trait.MOVES,
)


def _repeated(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    axis = axis_index(attrs.axis, len(shape))
    return [multiply_dims(dim, attrs.repeats) if place == axis else dim for place, dim in enumerate(shape)]


def _tiled(attrs: Any, shape: tuple[Dim, ...]) -> Sequence[Dim]:
    rank = max(len(shape), len(attrs.reps))
    reps = (1,) * (rank - len(attrs.reps)) + attrs.reps
    return list(map(multiply_dims, (1,) * (rank - len(shape)) + shape, reps))


repeat = define(
    "repeat",
    "data",
    Field("repeats", "int"),
    Field("axis", "int"),
    infer=shaped(_repeated),
    kernel=lambda attrs, data: np.repeat(data, attrs.repeats, attrs.axis),
    kind=BROADCAST,
    traits=Trait.MOVES,
)
_tile = define(
    "tile",
    "data",
    Field("reps", "ints"),
    infer=shaped(_tiled),
    kernel=lambda attrs, data: np.tile(data, attrs.reps),
    kind=BROADCAST,
    traits=Trait.MOVES,
)

# ---- with parameters that are tensors


def _dyn_expand_dims_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, _ = tensor(args[0]), ranked(args[1], 0, "axis")
    return TensorType(unknown(len(data.shape) + attrs.num_newaxis), data.dtype)


def _dyn_squeeze_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    left = len(data.shape) - length(args[1], "axis")
    if left < 0:
        raise TypeCheckError("axis names more dimensions than there are")
    return TensorType(unknown(left), data.dtype)


dyn_reshape = dynamic(_reshape, "data newshape", least=-1)
dyn_squeeze = dynamic(_squeeze, "data axis", _dyn_squeeze_type)
dyn_expand_dims = dynamic(expand_dims, "data axis", _dyn_expand_dims_type, INJECTIVE)
dyn_broadcast_to = dynamic(_broadcast_to, "data shape")
dyn_tile = dynamic(_tile, "data reps", kind=INJECTIVE)

reshape = static_or_dynamic(_reshape, dyn_reshape)
squeeze = static_or_dynamic(_squeeze, dyn_squeeze)
broadcast_to = static_or_dynamic(_broadcast_to, dyn_broadcast_to)
tile = static_or_dynamic(_tile, dyn_tile)

__all__ = [
    "broadcast_to", "broadcast_to_like", "cast", "cast_like", "concatenate", "expand_dims", "reinterpret",
    "repeat", "reshape", "reshape_like", "reverse", "reverse_reshape", "split", "squeeze", "stack", "tile", "transpose",
]  # fmt: skip

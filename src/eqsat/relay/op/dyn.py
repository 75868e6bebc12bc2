"""Operators whose shape parameters are tensors: ``dyn.reshape`` and so on.

The number of dimensions of the result must follow from types; its sizes are known as far as the elements of the
parameters are. Where they are constants, the operator of the same name with attributes can take the place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import least_dim
from eqsat.relay.expr import const
from eqsat.relay.op.op import Builder, Field, OpPattern, define, is_operand
from eqsat.relay.op.shape import FARTHEST, clamp_slice, resolve_reshape
from eqsat.relay.op.types import axis_index, ranked, tensor
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

ELEMWISE, BROADCAST, INJECTIVE = OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE
_DTYPE = Field("dtype", "dtype", "")


def static_or_dynamic(static: Builder, dynamic: Builder) -> Callable[..., Any]:
    """A builder of ``static`` calls that builds ``dynamic`` ones when a parameter is given as a tensor.

    Parameters of the dynamic operator that are given as numbers, or not at all, become constants.
    """
    parameters = [name for name in dynamic.op.arguments or () if name not in (static.op.arguments or ())]
    names = list(static.__signature__.parameters)
    defaults = {field.name: field.default for field in static.op.fields}

    def build(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if not any(_is_tensor(given.get(name)) for name in parameters):
            return static(*args, **kwargs)
        for name in parameters:
            value = given.get(name, defaults[name])
            given[name] = value if is_operand(value) else const(np.array(value))
        return dynamic(**given)

    build.__name__ = static.__name__
    build.__doc__ = f"Builds {static.op.name}, or {dynamic.op.name} when one of {parameters} is a tensor."
    build.__signature__ = static.__signature__  # type: ignore[attr-defined]
    return build


def _is_tensor(value: Any) -> bool:
    """Whether a parameter is given as a tensor; what a rule computes in its place stands for an attribute."""
    return is_operand(value) and not getattr(value, "is_computed", False)


def _length(ty: Type, what: str) -> int:
    """The length of a 1-D tensor of sizes, which decides the number of dimensions of the result."""
    dim = ranked(ty, 1, what).shape[0]
    if not isinstance(dim, int):
        raise TypeCheckError(f"the length of {what} must be known")
    return dim


def _unknown(rank: int) -> tuple[Dim, ...]:
    return tuple(AnyDim() for _ in range(rank))


def _sized(place: int, dtype: Callable[[Any, Sequence[Type]], str]) -> Callable[..., Type | None]:
    """The type whose shape is the elements of the argument at ``place``."""

    def refine(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
        shape = elements[place]
        if shape is None or any(isinstance(dim, int) and dim < 0 for dim in shape):
            return None
        return TensorType(shape, dtype(attrs, args))

    return refine


def _dtype_of_data(attrs: Any, args: Sequence[Type]) -> str:
    return tensor(args[0]).dtype


def _reshaped(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
    data, codes = tensor(args[0]), elements[1]
    if codes is None or any(isinstance(code, int) and code < -1 for code in codes):
        return None
    return TensorType(resolve_reshape(data.shape, codes, attrs.allowzero), data.dtype)


def _sizes(array: Any) -> tuple[int, ...]:
    return tuple(map(int, np.atleast_1d(array)))


def _shaped(what: str) -> Callable[[Any, Sequence[Type]], Type]:
    """The data's dtype in as many unknown dimensions as the second argument has elements."""
    return lambda attrs, args: TensorType(_unknown(_length(args[1], what)), tensor(args[0]).dtype)


reshape = define(
    "dyn.reshape",
    "data newshape",
    Field("allowzero", "bool", False),
    infer=_shaped("newshape"),
    refine=_reshaped,
    kernel=lambda attrs, data, newshape: data.reshape(resolve_reshape(data.shape, _sizes(newshape), attrs.allowzero)),
    kind=INJECTIVE,
    traits=Trait.VIEW,
)
broadcast_to = define(
    "dyn.broadcast_to",
    "data shape",
    infer=_shaped("shape"),
    refine=_sized(1, _dtype_of_data),
    kernel=lambda attrs, data, shape: np.broadcast_to(data, _sizes(shape)),
    kind=BROADCAST,
    traits=Trait.MOVES,
)


def _filled(name: str, fill: Callable[..., Any]) -> Builder:
    return define(
        f"dyn.{name}",
        "shape",
        Field("dtype", "dtype"),
        infer=lambda attrs, args: TensorType(_unknown(_length(args[0], "shape")), attrs.dtype),
        refine=_sized(0, lambda attrs, args: str(attrs.dtype)),
        kernel=lambda attrs, shape: fill(_sizes(shape), attrs.dtype),
        kind=ELEMWISE,
    )


zeros = _filled("zeros", np.zeros)
ones = _filled("ones", np.ones)


def _full_dtype(attrs: Any, args: Sequence[Type]) -> str:
    return attrs.dtype or ranked(args[0], 0, "fill_value").dtype


full = define(
    "dyn.full",
    "fill_value shape",
    _DTYPE,
    infer=lambda attrs, args: TensorType(_unknown(_length(args[1], "shape")), _full_dtype(attrs, args)),
    refine=_sized(1, _full_dtype),
    kernel=lambda attrs, value, shape: np.full(_sizes(shape), value, attrs.dtype or value.dtype),
    kind=ELEMWISE,
)


def _expand_dims_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, _ = tensor(args[0]), ranked(args[1], 0, "axis")
    return TensorType(_unknown(len(data.shape) + attrs.num_newaxis), data.dtype)


def _expand_dims(attrs: Any, data: Any, axis: Any) -> Any:
    place = axis_index(int(axis), data.ndim + 1)
    return data.reshape(*data.shape[:place], *(1,) * attrs.num_newaxis, *data.shape[place:])


expand_dims = define(
    "dyn.expand_dims",
    "data axis",
    Field("num_newaxis", "int", 1),
    infer=_expand_dims_type,
    kernel=_expand_dims,
    kind=INJECTIVE,
    traits=Trait.VIEW,
)


def _squeeze_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    left = len(data.shape) - _length(args[1], "axis")
    if left < 0:
        raise TypeCheckError("axis names more dimensions than there are")
    return TensorType(_unknown(left), data.dtype)


squeeze = define(
    "dyn.squeeze",
    "data axis",
    infer=_squeeze_type,
    kernel=lambda attrs, data, axis: np.squeeze(data, _sizes(axis)),
    kind=INJECTIVE,
    traits=Trait.VIEW,
)


def _tile_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    return TensorType(_unknown(max(len(data.shape), _length(args[1], "reps"))), data.dtype)


tile = define(
    "dyn.tile",
    "data reps",
    infer=_tile_type,
    kernel=lambda attrs, data, reps: np.tile(data, _sizes(reps)),
    kind=INJECTIVE,
    traits=Trait.MOVES,
)


def _slice_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    count = _length(args[1], "begin")
    if count > len(data.shape):
        raise TypeCheckError(f"begin names {count} of {len(data.shape)} dimensions")
    return TensorType((*_unknown(count), *data.shape[count:]), data.dtype)


def _sliced(attrs: Any, args: Sequence[Type], elements: Sequence[Sequence[Dim] | None]) -> Type | None:
    data, (_, first, last, steps) = tensor(args[0]), elements
    if attrs.slice_mode != "end" or first is None or last is None or steps is None:
        return None
    shape = list(data.shape)
    steps = tuple(steps) * len(first) if len(steps) == 1 else steps
    for axis, bounds in enumerate(zip(first, last, steps, strict=False)):
        shape[axis] = _taken(*bounds, shape[axis])
    return TensorType(shape, data.dtype)


def _taken(begin: Dim, end: Dim, step: Dim, dim: Dim) -> Dim:
    """How much a slice takes of an axis of size ``dim``."""
    if all(isinstance(number, int) for number in (begin, end, step, dim)):
        return len(range(dim)[clamp_slice(begin, end, step, dim)])  # type: ignore[arg-type]
    if (begin, step) != (0, 1) or (isinstance(end, int) and end < 0):
        return AnyDim()
    return dim if isinstance(end, int) and end >= FARTHEST else least_dim(dim, end)


def _slice(attrs: Any, data: Any, begin: Any, end: Any, strides: Any) -> Any:
    first, last, steps = map(_sizes, (begin, end, strides))
    steps = steps * len(first) if len(steps) == 1 else steps
    bounds = []
    for start, stop, step, dim in zip(first, last, steps, data.shape, strict=False):
        bounds.append(
            clamp_slice(start, None if stop < 0 else start + stop, 1, dim)
            if attrs.slice_mode == "size"
            else clamp_slice(start, stop, step, dim)
        )
    return data[tuple(bounds)]


strided_slice = define(
    "dyn.strided_slice",
    "data begin end strides",
    Field("slice_mode", "str", "end"),
    infer=_slice_type,
    refine=_sliced,
    kernel=_slice,
    kind=INJECTIVE,
    traits=Trait.MOVES,
)

__all__ = ["broadcast_to", "expand_dims", "full", "ones", "reshape", "squeeze", "strided_slice", "tile", "zeros"]

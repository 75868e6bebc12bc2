"""Type relations and checks that many operators share. A dimension is an int or ``Any``.

The functions raise TypeCheckError if what they are given does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import floor_divide_dims, is_least_of
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type

ShapeFunction: TypeAlias = Callable[[Any, tuple[Dim, ...]], Sequence[Dim]]


def tensor(ty: Type) -> TensorType:
    """Return ``ty``, which must be a tensor type."""
    if not isinstance(ty, TensorType):
        raise TypeCheckError(f"needs a tensor, not {ty}")
    return ty


def tensors(ty: Type) -> tuple[TensorType, ...]:
    """Return the fields of ``ty``, which must be the type of a tuple of one tensor or more."""
    if not isinstance(ty, TupleType) or not ty.fields:
        raise TypeCheckError(f"needs a tuple of tensors, not {ty}")
    return tuple(map(tensor, ty.fields))


def ranked(ty: Type, rank: int, what: str = "the argument") -> TensorType:
    """Return ``ty``, which must be the type of a tensor with ``rank`` dimensions; ``what`` names it in the error."""
    result = tensor(ty)
    if len(result.shape) != rank:
        raise TypeCheckError(f"{what} must have {rank} dimensions, not {len(result.shape)}")
    return result


def divided(dim: Dim, by: int, problem: str = "") -> Dim:
    """Return the size of one of ``by`` equal parts of a dimension.

    ``problem`` is the message of the error if a known size is not divisible.
    """
    if isinstance(dim, int) and dim % by:
        raise TypeCheckError(problem or f"dimension {dim} is not divisible by {by}")
    return floor_divide_dims(dim, by)


def axis_index(axis: int, rank: int) -> int:
    """Return an axis counted from the front; negative axes count from the back."""
    if not -rank <= axis < rank:
        raise TypeCheckError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def axes_indices(axes: int | Iterable[int] | None, rank: int, exclude: bool = False) -> tuple[int, ...]:
    """Return axes counted from the front, in the given order; they must be distinct. None stands for all axes.

    With ``exclude``, return the axes that are not given, in ascending order.
    """
    if axes is None:
        return () if exclude else tuple(range(rank))
    indices = tuple(axis_index(axis, rank) for axis in ((axes,) if isinstance(axes, int) else axes))
    if len(set(indices)) < len(indices):
        raise TypeCheckError(f"axes {axes} name one axis twice")
    return tuple(axis for axis in range(rank) if axis not in indices) if exclude else indices


def unify(a: Dim, b: Dim, what: str = "dimensions") -> Dim:
    """Return the dimension that two dimensions, which must be equal, have in common: a known one, else a named one."""
    if a == b:
        return a
    if isinstance(a, AnyDim):
        return a if isinstance(b, AnyDim) and a.name is not None else b
    if isinstance(b, AnyDim):
        return a
    raise TypeCheckError(f"{what} {a} and {b} must be equal")


def size(ty: Type) -> float:
    """Return the number of elements of a tensor or of all tensors of a tuple; unknown dimensions count as 1."""
    if isinstance(ty, TupleType):
        return sum(map(size, ty.fields))
    total = 1.0
    for dim in tensor(ty).shape:
        total *= dim if isinstance(dim, int) else 1
    return total


def same_type(attrs: Any, args: Sequence[Type]) -> Type:
    """Relation of elementwise operators of one argument: the result has the type of the first argument."""
    return tensor(args[0])


def shaped(shape: ShapeFunction) -> Callable[[Any, Sequence[Type]], TensorType]:
    """Relation of operators whose result has the first argument's dtype, and the shape ``shape(attrs, its shape)``."""

    def infer(attrs: Any, args: Sequence[Type]) -> TensorType:
        data = tensor(args[0])
        return TensorType(shape(attrs, data.shape), data.dtype)

    return infer


def along_axis(attrs: Any, args: Sequence[Type]) -> TensorType:
    """Relation of operators that work along the attribute ``axis``: the result has the type of the first argument."""
    data = tensor(args[0])
    axes_indices(attrs.axis, len(data.shape))
    return data


def predicate(attrs: Any, args: Sequence[Type]) -> Type:
    """Relation of predicates: the result is a bool tensor of the first argument's shape."""
    return TensorType(tensor(args[0]).shape, "bool")


def broadcast_shape(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the shape to which two shapes broadcast, as in NumPy.

    An unknown dimension that meets a known one other than 1 is taken to be equal to it. Two different unknown
    dimensions give an unknown one without a name, unless one is the minimum of the other and something else.
    """
    short, long = sorted((tuple(left), tuple(right)), key=len)
    short = (1,) * (len(long) - len(short)) + short
    return tuple(map(_broadcast_dim, short, long))


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, AnyDim) and isinstance(b, AnyDim):  # a size meets its part: then it is no larger
        return a if is_least_of(b, a) else b if is_least_of(a, b) else AnyDim()
    if isinstance(a, AnyDim):
        return b
    if isinstance(b, AnyDim):
        return a
    raise TypeCheckError(f"dimensions {a} and {b} do not broadcast")


def check_broadcasts(shape: Sequence[Dim], to: Sequence[Dim]) -> None:
    """Raise an error unless ``shape`` broadcasts to ``to``, as far as both are known."""
    result = broadcast_shape(shape, to)
    if len(result) != len(to) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(result, to, strict=True)
    ):
        raise TypeCheckError(f"shape {tuple(shape)} does not broadcast to {tuple(to)}")


def check_dtype(*types: TensorType) -> str:
    """Return the dtype of all ``types``, which must be the same."""
    for ty in types[1:]:
        if ty.dtype != types[0].dtype:
            raise TypeCheckError(f"the arguments differ in dtype: {types[0].dtype} and {ty.dtype}")
    return types[0].dtype


def broadcast(attrs: Any, args: Sequence[Type]) -> Type:
    """Relation of arithmetic: two tensors of one dtype broadcast, and the result has their dtype."""
    left, right = map(tensor, args)
    dtype = check_dtype(left, right)
    if left.shape == right.shape:
        return left
    return TensorType(broadcast_shape(left.shape, right.shape), dtype)


def compare(attrs: Any, args: Sequence[Type]) -> Type:
    """Relation of comparisons: as :func:`broadcast`, with a bool result."""
    result = tensor(broadcast(attrs, args))
    return TensorType(result.shape, "bool")

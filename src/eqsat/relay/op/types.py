"""Type relations that many operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type


def tensor(ty: Type) -> TensorType:
    """``ty``, which must be a tensor type."""
    if not isinstance(ty, TensorType):
        raise TypeCheckError(f"needs a tensor, not {ty}")
    return ty


def same_type(attrs: Any, args: Sequence[Type]) -> Type:
    """The first argument's type: elementwise operators of one argument."""
    return tensor(args[0])


def broadcast_shape(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that NumPy broadcasting gives.

    A dimension 1 gives way to the other; an unknown dimension against a known one other than 1 is taken to be
    that one; two different unknown ones give an unnamed unknown.
    """
    short, long = sorted((tuple(left), tuple(right)), key=len)
    short = (1,) * (len(long) - len(short)) + short
    return tuple(map(_broadcast_dim, short, long))


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, AnyDim):
        return AnyDim() if isinstance(b, AnyDim) else b
    if isinstance(b, AnyDim):
        return a
    raise TypeCheckError(f"dimensions {a} and {b} do not broadcast")


def broadcast(attrs: Any, args: Sequence[Type]) -> Type:
    """Arithmetic on two tensors of one dtype, broadcast as NumPy does."""
    left, right = map(tensor, args)
    if left.dtype != right.dtype:
        raise TypeCheckError(f"the arguments differ in dtype: {left.dtype} and {right.dtype}")
    if left.shape == right.shape:
        return left
    return TensorType(broadcast_shape(left.shape, right.shape), left.dtype)


def compare(attrs: Any, args: Sequence[Type]) -> Type:
    """Like :func:`broadcast` with a bool result."""
    result = tensor(broadcast(attrs, args))
    return TensorType(result.shape, "bool")

"""Types with holes in them: type variables, and ``_`` where nothing is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

UNKNOWN = IncompleteType()


def type_parts(ty: Type) -> tuple[Type, ...]:
    """The types that ``ty`` is made of."""
    if isinstance(ty, TupleType):
        return ty.fields
    if isinstance(ty, FuncType):
        return (*ty.arg_types, ty.ret_type)
    if isinstance(ty, RefType):
        return (ty.value,)
    return ty.args if isinstance(ty, TypeCall) else ()


def with_type_parts(ty: Type, parts: Sequence[Type]) -> Type:
    """``ty`` made of other types."""
    if isinstance(ty, TupleType):
        return TupleType(parts)
    if isinstance(ty, FuncType):
        return FuncType(parts[:-1], parts[-1], ty.type_params)
    if isinstance(ty, RefType):
        return RefType(parts[0])
    return TypeCall(ty.func, parts) if isinstance(ty, TypeCall) else ty


def substitute_types(ty: Type, new: Mapping[TypeVar, Type]) -> Type:
    """``ty`` with type variables replaced."""
    if isinstance(ty, TypeVar):
        return new.get(ty, ty)
    parts = type_parts(ty)
    return with_type_parts(ty, [substitute_types(part, new) for part in parts]) if new and parts else ty


def type_vars(ty: Type) -> list[TypeVar]:
    """The type variables in ``ty``."""
    return [ty] if isinstance(ty, TypeVar) else [variable for part in type_parts(ty) for variable in type_vars(part)]


def join(left: Type, right: Type) -> Type:
    """Of two compatible types the one that tells more, part by part."""
    if isinstance(left, IncompleteType):
        return right
    if isinstance(left, FuncType) and isinstance(right, FuncType) and len(left.type_params) > len(right.type_params):
        return join(right, left)  # an instance tells more than the generic function
    parts, others = type_parts(left), type_parts(right)
    if type(left) is not type(right) or not parts or len(parts) != len(others):
        return left
    return with_type_parts(left, [join(part, other) for part, other in zip(parts, others, strict=True)])


def solve(wanted: Type, given: Type, found: dict[TypeVar, Type]) -> None:
    """Enter into ``found`` what its type variables stand for when ``given`` is a ``wanted``."""
    if isinstance(wanted, TypeVar):
        if wanted in found:
            found[wanted] = join(found[wanted], given)
    elif isinstance(wanted, FuncType) and isinstance(given, FuncType) and given.type_params:
        solve(wanted, _any_instance(given), found)
    elif type(wanted) is type(given):
        for part, other in zip(type_parts(wanted), type_parts(given), strict=False):
            solve(part, other, found)


def compatible(left: Type, right: Type) -> bool:
    """Whether a value of one type may be used as the other: they differ only where a type is not known."""
    if left == right or isinstance(left, IncompleteType) or isinstance(right, IncompleteType):
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        dims = zip(left.shape, right.shape, strict=False)
        return (
            left.dtype == right.dtype
            and len(left.shape) == len(right.shape)
            and all(isinstance(a, AnyDim) or isinstance(b, AnyDim) or a == b for a, b in dims)
        )
    if isinstance(left, TypeCall) and isinstance(right, TypeCall) and left.func != right.func:
        return False
    if isinstance(left, FuncType) and isinstance(right, FuncType):
        if len(left.type_params) != len(right.type_params):
            return compatible(_any_instance(left), _any_instance(right))
        right = substitute_types(right, dict(zip(right.type_params, left.type_params, strict=True)))
    parts, others = type_parts(left), type_parts(right)
    return bool(parts) and len(parts) == len(others) and all(map(compatible, parts, others))


def _any_instance(ty: FuncType) -> FuncType:
    """What all instances of a generic function have in common."""
    instance = substitute_types(ty, dict.fromkeys(ty.type_params, UNKNOWN))
    assert isinstance(instance, FuncType)
    return FuncType(instance.arg_types, instance.ret_type)

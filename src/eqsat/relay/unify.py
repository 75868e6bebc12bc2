"""Types with holes, and how holes are filled: unification (R. Milner, A theory of type polymorphism, 1978)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from eqsat.errors import TypeCheckError
from eqsat.relay.generics import compatible, substitute_types, type_parts, with_type_parts
from eqsat.relay.ty import FuncType, IncompleteType, Type, TypeCall


class Hole(IncompleteType):
    """A type to be found. Equal to itself only."""

    __slots__ = ()

    def __init__(self) -> None:
        self._seal(object())


class Unifier:
    """Fills holes so that types become equal; ``filled`` says how many are."""

    def __init__(self) -> None:
        self._filled: dict[Type, Type] = {}

    @property
    def filled(self) -> int:
        return len(self._filled)

    def resolve(self, ty: Type) -> Type:
        """Return ``ty`` with what is in its holes, as far as they are filled."""
        ty = self._top(ty)
        parts = type_parts(ty)
        new = [self.resolve(part) for part in parts]
        return ty if all(map(is_, new, parts)) else with_type_parts(ty, new)

    def is_known(self, ty: Type) -> bool:
        """Whether no hole is left in ``ty``."""
        ty = self._top(ty)
        return not isinstance(ty, Hole) and all(map(self.is_known, type_parts(ty)))

    def unify(self, left: Type, right: Type) -> None:
        """Make two types equal; a generic function also equals each of its instances.

        Raises:
            TypeCheckError: Nothing in the holes makes them equal.
        """
        left, right = self._top(left), self._top(right)
        if left == right:
            return
        if isinstance(left, Hole):
            self._fill(left, right)
        elif isinstance(right, Hole):
            self._fill(right, left)
        elif not isinstance(left, IncompleteType) and not isinstance(right, IncompleteType):
            self._unify_parts(left, right)

    def instance(self, ty: FuncType) -> FuncType:
        """Return a generic function type with holes in the place of its type parameters."""
        return self.instance_of(ty, [Hole() for _ in ty.type_params])

    def instance_of(self, ty: FuncType, args: Sequence[Type]) -> FuncType:
        """Return a generic function type with types in the place of its type parameters."""
        new = dict(zip(ty.type_params, args, strict=True))
        return FuncType([substitute_types(arg, new) for arg in ty.arg_types], substitute_types(ty.ret_type, new))

    def _unify_parts(self, left: Type, right: Type) -> None:
        if isinstance(left, FuncType) and isinstance(right, FuncType):
            if len(left.type_params) == len(right.type_params):
                right = self.instance_of(right, left.type_params)
            else:
                left, right = self.instance(left), self.instance(right)
        parts, others = type_parts(left), type_parts(right)
        if parts and type(left) is type(right) and len(parts) == len(others) and _head(left) == _head(right):
            for part, other in zip(parts, others, strict=True):
                self.unify(part, other)
        elif not compatible(left, right):
            raise TypeCheckError(f"{self.resolve(left)} is not {self.resolve(right)}")

    def _top(self, ty: Type) -> Type:
        while ty in self._filled:
            ty = self._filled[ty]
        return ty

    def _fill(self, hole: Type, ty: Type) -> None:
        stack = [ty]
        while stack:
            part = self._top(stack.pop())
            if part == hole:
                raise TypeCheckError("a value would have to be a part of itself")
            stack += type_parts(part)
        self._filled[hole] = ty


def _head(ty: Type) -> Type | None:
    """The name of an algebraic type."""
    return ty.func if isinstance(ty, TypeCall) else None

"""Types of expressions: tensors with static or symbolic dimensions, tuples, functions, references."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, Never, TypeAlias, TypeGuard

from eqsat.immutable import Immutable

Terms: TypeAlias = dict[tuple[str, ...], int]
"""A sum of products of names: how often each product is in it."""


class Any:
    """A dimension whose size is not known before run time.

    Args:
        name: Two dimensions with the same name have the same size. Nothing is known about the sizes of unnamed
            dimensions, although they compare equal as in Relay.
        terms: The expression that the name stands for, see :mod:`eqsat.relay.dims`; None for a plain name.
    """

    __slots__ = ("name", "terms")

    def __init__(self, name: str | None = None, terms: Mapping[tuple[str, ...], int] | None = None):
        self.name = name
        self.terms = terms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Any) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("Any", self.name))

    def __repr__(self) -> str:
        return "?" if self.name is None else f"?{self.name}"


class IntImm(int):
    """An integer immediate of a given dtype; plain ints stand for int32 ones."""

    dtype: str

    def __new__(cls, dtype: str, value: int) -> IntImm:
        imm = super().__new__(cls, value)
        imm.dtype = dtype
        return imm

    @property
    def value(self) -> int:
        return int(self)

    def __reduce__(self) -> tuple[object, ...]:
        return IntImm, (self.dtype, int(self))


class PlainInt(IntImm):
    """An integer of no declared dtype, which can be read as TVM's immediates are: ``shape[0].value``."""

    def __new__(cls, value: int) -> PlainInt:
        plain = int.__new__(cls, value)
        plain.dtype = "int32" if -(2**31) <= value < 2**31 else "int64"
        return plain

    def __reduce__(self) -> tuple[object, ...]:
        return PlainInt, (int(self),)


plain_int = lru_cache(maxsize=1 << 14)(PlainInt)
"""Sizes recur: each is made once."""

Dim: TypeAlias = int | Any


class Type(Immutable):
    """Base class of types; compared by value."""

    __slots__ = ("_hash", "_key")
    _given: ClassVar[tuple[str, ...]] = ()
    """The attributes that are the arguments of the class, in their order."""
    _key: tuple[object, ...]
    _hash: int

    def _seal(self, *key: object) -> None:
        self._key = key
        self._hash = hash((type(self), key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and type(self) is type(other) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple([getattr(self, name) for name in self._given])

    def __repr__(self) -> str:
        return str(self)

    def same_as(self, other: object) -> bool:
        """Whether ``other`` is this very object."""
        return self is other


class TensorType(Type):
    """The type of a tensor.

    Args:
        shape: The dimensions, ints or :class:`Any`; ``()`` is a scalar.
        dtype: NumPy's name of the element type, or ``"bool"`` (``"uint1"`` in TVM) or ``"bfloat16"``.
    """

    __slots__ = ("dtype", "shape")
    _given = ("shape", "dtype")

    def __init__(self, shape: Sequence[Dim], dtype: str = "float32"):
        self.shape: tuple[Dim, ...] = tuple([plain_int(dim) if type(dim) is int else dim for dim in shape])
        self.dtype = "bool" if dtype == "uint1" else str(dtype)
        self._seal(self.shape, self.dtype)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints; raises TypeError if a dimension is not known."""
        if not is_static(self):
            raise TypeError(f"{self} has a dimension that is not known")
        return tuple(map(int, self.shape))  # type: ignore[arg-type]

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        return f"Tensor[({', '.join(map(_dim_text, self.shape))}), {self.dtype}]"


class TupleType(Type):
    """A tuple of values of the given types."""

    __slots__ = ("fields",)
    _given = ("fields",)

    def __init__(self, fields: Sequence[Type] = ()):
        self.fields = tuple(fields)
        self._seal(self.fields)

    def __str__(self) -> str:
        return tuple_text([str(field) for field in self.fields])


class TypeVar(Type):
    """A type that is not known: a parameter of a generic function or algebraic type. It is equal only to itself."""

    __slots__ = ("name_hint",)
    _given = ("name_hint",)

    def __init__(self, name_hint: str):
        self.name_hint = name_hint
        self._seal(object())

    def __str__(self) -> str:
        return self.name_hint


class GlobalTypeVar(Type):
    """The name of an algebraic type that the module defines."""

    __slots__ = ("name_hint",)
    _given = ("name_hint",)

    def __init__(self, name_hint: str):
        self.name_hint = name_hint
        self._seal(name_hint)

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)

    def __str__(self) -> str:
        return self.name_hint


class TypeCall(Type):
    """The algebraic type ``func`` with types for its parameters."""

    __slots__ = ("args", "func")
    _given = ("func", "args")

    def __init__(self, func: GlobalTypeVar, args: Sequence[Type] = ()):
        self.func = func
        self.args = tuple(args)
        self._seal(func, self.args)

    def __str__(self) -> str:
        return f"{self.func}[{', '.join(map(str, self.args))}]" if self.args else str(self.func)


class FuncType(Type):
    """The type of functions from ``arg_types`` to ``ret_type``, for any types in place of ``type_params``.

    Two function types are equal if they differ only in the variables that they use as ``type_params``.

    TVM's argument for type constraints is accepted if it is empty, because there are no constraints.
    """

    __slots__ = ("arg_types", "ret_type", "type_params")
    _given = ("arg_types", "ret_type", "type_params")

    def __init__(
        self,
        arg_types: Sequence[Type],
        ret_type: Type,
        type_params: Sequence[TypeVar] = (),
        type_constraints: Sequence[Never] = (),
    ):
        self.arg_types = tuple(arg_types)
        self.ret_type = ret_type
        self.type_params = tuple(type_params)
        content: object = (self.arg_types, ret_type)
        if self.type_params:
            level = 1 + max((place.level for place in _places(content)), default=-1)
            content = _with_places(content, {param: _Place(level, at) for at, param in enumerate(self.type_params)})
        self._seal(len(self.type_params), content)

    def __str__(self) -> str:
        generic = f"{type_params_text(self.type_params)} " if self.type_params else ""
        return f"fn {generic}({', '.join(map(str, self.arg_types))}) -> {self.ret_type}"


class _Place(NamedTuple):
    """What stands for a type parameter in what is compared: its place among those of a function type.

    ``level`` tells function types within function types apart.
    """

    level: int
    at: int


def _with_places(key: object, places: Mapping[TypeVar, _Place]) -> object:
    """Return a type's key with places for type variables."""
    if isinstance(key, TypeVar):
        return places.get(key, key)
    if isinstance(key, Type):
        return type(key), _with_places(key._key, places)
    return tuple([_with_places(part, places) for part in key]) if type(key) is tuple else key


def _places(key: object) -> Iterator[_Place]:
    """List the places in a type's key."""
    if isinstance(key, _Place):
        yield key
    elif isinstance(key, (Type, tuple)):
        for part in key._key if isinstance(key, Type) else key:
            yield from _places(part)


class RefType(Type):
    """A mutable cell holding a value of type ``value``."""

    __slots__ = ("value",)
    _given = ("value",)

    def __init__(self, value: Type):
        self.value = value
        self._seal(value)

    def __str__(self) -> str:
        return f"ref({self.value})"


class IncompleteType(Type):
    """The type of a value about which nothing is known, such as the result of an opaque operator."""

    __slots__ = ()

    def __init__(self) -> None:
        self._seal()

    def __str__(self) -> str:
        return "_"


class UnknownType(IncompleteType):
    """The type of a value for which another format gives no type; it is not inferred from uses of the value."""

    __slots__ = ()


UNKNOWN = UnknownType()


def tuple_text(fields: Sequence[str]) -> str:
    """``(a, b)``, and ``(a,)`` of a single field."""
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def type_params_text(params: Sequence[TypeVar]) -> str:
    """``[A, B]``, nothing without parameters."""
    return f"[{', '.join(map(str, params))}]" if params else ""


def _dim_text(dim: Dim) -> str:
    if not isinstance(dim, Any):
        return str(int(dim))
    name = dim.name or ""
    return f"?{name}" if not name or (name.isascii() and name.isidentifier()) else f"?{json.dumps(name)}"


def is_static(ty: Type | None) -> TypeGuard[TensorType]:
    """Whether ``ty`` is a tensor type all of whose dimensions are known."""
    return isinstance(ty, TensorType) and Any not in map(type, ty.shape)


def is_exact(ty: Type | None) -> bool:
    """Whether two values of this type surely have one shape: no dimension is unknown without a name."""
    if isinstance(ty, TensorType):
        return all(not isinstance(dim, Any) or dim.name is not None for dim in ty.shape)
    if isinstance(ty, TupleType):
        return all(map(is_exact, ty.fields))
    return ty is not None and not isinstance(ty, IncompleteType)


def is_made_up(ty: Type) -> bool:
    """Whether a size has a name that inference gave it, for want of another: one with ``#``."""
    if isinstance(ty, TupleType):
        return any(map(is_made_up, ty.fields))
    dims = ty.shape if isinstance(ty, TensorType) else ()
    return any(isinstance(dim, Any) and "#" in (dim.name or "") for dim in dims)


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a single number."""
    return TensorType((), dtype)


def agree(one: Type | None, other: Type | None) -> bool:
    """Whether one value may have both types: sizes may be unknown in either."""
    if one is None or other is None:
        return True
    if isinstance(one, TupleType) and isinstance(other, TupleType):
        return len(one.fields) == len(other.fields) and all(map(agree, one.fields, other.fields))
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return one == other
    return (
        one.dtype == other.dtype
        and len(one.shape) == len(other.shape)
        and all(isinstance(a, Any) or isinstance(b, Any) or a == b for a, b in zip(one.shape, other.shape, strict=True))
    )

"""Attribute values of calls and functions: immutable, comparable, readable by field or key."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from eqsat.errors import OperatorError
from eqsat.immutable import Immutable
from eqsat.relay.attrs_names import attrs_class_name
from eqsat.relay.ty import PlainInt, plain_int

_NO_OPERATOR = "DictAttrs"
_CLASS_BODY = {"__slots__": (), "__module__": "eqsat.relay.op.op_attrs"}


class Attrs(Immutable, Mapping[str, Any]):
    """Named attribute values, which are read as ``attrs.strides`` or ``attrs["strides"]``.

    Those of an operator are of a class of their own, such as ``Conv2DAttrs``, see :mod:`eqsat.relay.op.op_attrs`.

    Args:
        values: The values. Lists and tuples become tuples.
        type_key: The name of the operator whose attributes they are; ``"DictAttrs"`` for those of no operator.
    """

    __slots__ = ("_key", "_values", "type_key")
    _classes: ClassVar[dict[str, type[Attrs]]] = {}

    def __new__(cls, values: Mapping[str, Any] | None = None, type_key: str = _NO_OPERATOR) -> Attrs:
        return object.__new__(Attrs._classes.get(type_key) or attrs_class(type_key))

    def __init__(self, values: Mapping[str, Any] | None = None, type_key: str = _NO_OPERATOR):
        self._values = {name: normalize(value) for name, value in (values or {}).items()}
        self.type_key = type_key
        self._key: tuple[object, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"{self.type_key} has no attribute {name!r}; it has {list(self._values)}") from None

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"{self.type_key} has no attribute {name!r}; it has {list(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable value, which is equal for attributes of the same operator with equal names, kinds and values."""
        if self._key is None:
            self._key = (self.type_key, *[(name, freeze(self._values[name])) for name in sorted(self._values)])
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and (self is other or self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def get_int(self, key: str) -> int:
        """Return an integer attribute; raise OperatorError if it is none."""
        value: int = self._of_kind(key, int, "an integer")
        return value

    def get_str(self, key: str) -> str:
        """Return a string attribute; raise OperatorError if it is none."""
        value: str = self._of_kind(key, str, "a string")
        return value

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """Return an attribute that is a sequence of integers; raise OperatorError if it is none."""
        values: tuple[int, ...] = self._of_kind(key, tuple, "a sequence of integers")
        for value in values:
            if not isinstance(value, int):
                raise OperatorError(f"{self.type_key}: attribute {key!r} is no sequence of integers: {values!r}")
        return values

    def _of_kind(self, key: str, kind: type, what: str) -> Any:
        value = self[key]
        if not isinstance(value, kind):
            raise OperatorError(f"{self.type_key}: attribute {key!r} is not {what}: {value!r}")
        return value

    def __reduce__(self) -> Any:
        return Attrs, (self._values, self.type_key)

    def replace(self, **changes: Any) -> Attrs:
        """Return a copy with some values changed or added."""
        return Attrs({**self._values, **changes}, self.type_key)

    def __repr__(self) -> str:
        return f"{self.type_key}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


def attrs_class(type_key: str) -> type[Attrs]:
    """Return the class of the attributes of an operator; operators whose attributes are alike may share one."""
    if type_key == _NO_OPERATOR:
        return Attrs
    if type_key not in Attrs._classes:
        name = attrs_class_name(type_key)
        known = {each.__name__: each for each in Attrs._classes.values()}
        Attrs._classes[type_key] = known.get(name) or type(name, (Attrs,), _CLASS_BODY)
    return Attrs._classes[type_key]


_PLAIN = frozenset((bool, float, PlainInt, str, type(None)))
"""The classes of values that are stored as they are."""


def normalize(value: Any) -> Any:
    """Return ``value`` with tuples for lists, also inside dictionaries, and Python numbers for NumPy scalars.

    Integers become such as have a ``value``.
    """
    if type(value) is int:
        return plain_int(value)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(normalize, value))
    if isinstance(value, dict):
        return {name: normalize(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        return normalize(value.item())
    if isinstance(value, np.dtype):
        return value.name
    return value


def freeze(value: Any) -> object:
    """Return a hashable stand-in for an attribute value, which differs for True, 1 and 1.0.

    Raises:
        OperatorError: An attribute cannot hold such a value.
    """
    if value is None or isinstance(value, str):
        return value
    if type(value) is PlainInt or type(value) is int:
        return (int, int(value))
    if isinstance(value, float):
        return (float, struct.pack("<d", value))
    if isinstance(value, int):
        return (getattr(value, "dtype", type(value).__name__), int(value))
    if isinstance(value, tuple):
        return tuple(map(freeze, value))
    if isinstance(value, Attrs):
        return (Attrs, value.key)
    if isinstance(value, Mapping):
        return (Mapping, *[(name, freeze(value[name])) for name in sorted(value)])
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    try:
        hash(value)
    except TypeError:
        raise OperatorError(f"an attribute cannot hold {value!r} of type {type(value).__name__}") from None
    return value

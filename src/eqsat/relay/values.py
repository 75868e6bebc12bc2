"""Values of expressions: arrays, tuples, functions, cells and what constructors made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import EvaluationError
from eqsat.nd import NDArray
from eqsat.relay.adt import Constructor, Pattern, PatternConstructor, PatternTuple, PatternVar
from eqsat.relay.expr import Expr, Function, Op, Var
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type

Value: TypeAlias = Any
"""An array, a Python tuple of values, a :class:`Closure`, :class:`Cell` or :class:`ConstructorValue`, an Op or
Constructor."""

Bindings: TypeAlias = Mapping[Var, Any] | Mapping[str, Any] | Mapping[Var | str, Any]
"""Values by variable or by a variable's name."""


@dataclass(eq=False, repr=False, slots=True)
class Closure:
    """A function value. Its free variables are looked up in ``scope`` when it is called."""

    function: Function
    scope: dict[Expr, Value]


@dataclass(eq=False, repr=False, slots=True)
class Cell:
    """A mutable cell, the value of a ``RefCreate``; ``value`` is what is in it now."""

    value: Value


class ConstructorValue:
    """What a constructor made of its fields; raises EvaluationError if it has another number of them."""

    __slots__ = ("constructor", "fields")

    def __init__(self, constructor: Constructor, fields: Sequence[Value]):
        if len(fields) != len(constructor.inputs):
            wanted, given = len(constructor.inputs), len(fields)
            raise EvaluationError(f"{constructor.name_hint} has {wanted} fields and is given {given}")
        self.constructor = constructor
        self.fields = tuple(fields)

    @property
    def tag(self) -> int:
        """The constructor's place in the type's definition."""
        return self.constructor.tag

    def __repr__(self) -> str:
        return f"{self.constructor.name_hint}({', '.join(map(repr, self.fields))})"


def bind_values(variables: Sequence[Var], env: Bindings) -> dict[Expr, Value]:
    """The value of each of ``variables``. Copies that passes made of a variable share its identity.

    Args:
        variables: The parameters and free variables of what is to be evaluated.
        env: Their values, as :func:`eqsat.relay.interpreter.evaluate` takes them.

    Raises:
        EvaluationError: A variable has no value or one of another type than its own, or a name stands for no
            variable or for several.
    """
    by_id = {key.vid: value for key, value in env.items() if isinstance(key, Var)}
    by_name = {key: value for key, value in env.items() if isinstance(key, str)}
    names = Counter(variable.name_hint for variable in variables)
    for name in by_name:
        if names[name] != 1:
            what = "several variables are" if names[name] else "no variable is"
            raise EvaluationError(f"{what} named {name!r}; the variables are {list(names)}")
    missing = [each.name_hint for each in variables if each.vid not in by_id and each.name_hint not in by_name]
    if missing:
        raise EvaluationError(f"no value is given for {', '.join(f'%{name}' for name in missing)}")
    scope: dict[Expr, Value] = {}
    for variable in variables:
        name = variable.name_hint
        given = by_id[variable.vid] if variable.vid in by_id else by_name[name]
        scope[variable] = _as_value(given, variable.type_annotation or variable._checked_type, name)
    return scope


def _as_value(given: Any, ty: Type | None, name: str) -> Value:
    if isinstance(given, (Closure, Cell, ConstructorValue, Op, Constructor)):
        return given
    if isinstance(given, tuple):
        fields = getattr(ty, "fields", (None,) * len(given))
        return tuple(_as_value(value, field, name) for value, field in zip(given, fields, strict=True))
    if isinstance(given, NDArray):
        given = given.numpy()
    typed = hasattr(given, "dtype")
    array = np.asarray(given, None if typed or not isinstance(ty, TensorType) else ty.dtype)
    if isinstance(ty, TensorType) and not _fits(array, ty):
        found = TensorType(array.shape, array.dtype.name)
        raise EvaluationError(f"%{name} must be {ty} and is given {found}")
    return array


def _fits(array: Any, ty: TensorType) -> bool:
    if array.dtype.name != ty.dtype or array.ndim != len(ty.shape):
        return False
    return all(isinstance(dim, AnyDim) or dim == size for dim, size in zip(ty.shape, array.shape, strict=True))


def value_type(value: Value) -> Type:
    """The type of an array, which may be one that is not loaded, or of a tuple of values that have one."""
    if isinstance(value, tuple):
        return TupleType(list(map(value_type, value)))
    return TensorType(value.shape, value.dtype if isinstance(value, NDArray) else value.dtype.name)


def describe_value(value: Value) -> str:
    """The type of a value, for messages."""
    if isinstance(value, tuple):
        return f"({', '.join(map(describe_value, value))})"
    return str(TensorType(value.shape, value.dtype.name)) if hasattr(value, "dtype") else type(value).__name__


def truth(value: Value) -> bool:
    """The condition of an if as a bool; raises EvaluationError when it is no array of one element."""
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise EvaluationError(f"the condition of an if must be a bool scalar, not {describe_value(value)}")
    return bool(value.item())


def looks_like(value: Value, pattern: Pattern, bound: dict[Var, Value]) -> bool:
    """Whether ``value`` has the form that ``pattern`` asks for; ``bound`` gets the values of the pattern's variables.

    Raises:
        EvaluationError: The value is of another type than the pattern's.
    """
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
    elif isinstance(pattern, PatternConstructor):
        wanted = pattern.constructor
        if not isinstance(value, ConstructorValue):
            raise EvaluationError(f"{describe_value(value)} is matched with {wanted.name_hint} of {wanted.belong_to}")
        if (value.tag, value.constructor.belong_to) != (wanted.tag, wanted.belong_to):
            return False
        return all(looks_like(field, part, bound) for field, part in zip(value.fields, pattern.parts, strict=True))
    elif isinstance(pattern, PatternTuple):
        if not isinstance(value, tuple) or len(value) != len(pattern.parts):
            raise EvaluationError(f"{describe_value(value)} is matched with a tuple of {len(pattern.parts)}")
        return all(looks_like(field, part, bound) for field, part in zip(value, pattern.parts, strict=True))
    return True


def cell_of(value: Value) -> Cell:
    """``value`` itself; raises EvaluationError when it is not a cell."""
    if not isinstance(value, Cell):
        raise EvaluationError(f"a reference is needed, not {describe_value(value)}")
    return value

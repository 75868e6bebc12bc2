"""What is known of small integer tensors, element by element: the sizes that a graph computes with.

An element is a dimension: a number, a name (of a size, or of what is computed from sizes), or an unnamed dimension
where nothing is known. Truth values are 0 and 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.relay.dims import (
    add_dims,
    difference,
    floor_divide_dims,
    is_natural,
    multiply_dims,
    subtract_dims,
    truncated,
)
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type, is_static

Known = np.ndarray[Any, np.dtype[np.object_]]
"""Elements as dimensions."""

MOST_ELEMENTS = 1024
"""Elements up to which tensors are looked into: they are mostly shapes."""


class Elements:
    """Knows the elements of small integer tensors of a graph. The types of its expressions may become more."""

    def __init__(self, types: Mapping[Expr, Type]):
        self._types = types
        self._known: dict[Expr, Any] = {}
        self._sizes: set[str | None] = set()

    def of(self, expr: Expr) -> Known | None:
        """The elements of a tensor, None when nothing is known of them."""
        if isinstance(expr, Constant):
            return _as_known(expr.data.numpy()) if _is_small(self._types.get(expr)) else None
        if isinstance(expr, TupleGetItem):
            parts = self._found(expr.tuple_value)
            return parts[expr.index] if isinstance(parts, list) else None
        found = self._found(expr)
        return found if isinstance(found, np.ndarray) else None

    def _found(self, expr: Expr) -> Any:
        if expr not in self._known and isinstance(expr, Call) and all(map(is_small_constant, expr.args)):
            self._note(expr, self._types.get(expr))
        return self._known.get(expr)

    def look_at(self, call: Call, ty: Type) -> None:
        """Note what is known of a call of this type; its arguments were looked at before.

        Those over constants are looked at when they are asked for: most are folded instead.
        """
        if not all(map(is_small_constant, call.args)):
            self._note(call, ty)

    def _note(self, call: Call, ty: Type | None) -> None:
        if isinstance(call.op, Op) and _is_small(ty.fields[0] if isinstance(ty, TupleType) and ty.fields else ty):
            self._known[call] = self._computed(call, call.op, ty)

    def is_size(self, dim: Dim) -> bool:
        """Whether an element is surely not negative."""
        return dim >= 0 if isinstance(dim, int) else dim.name in self._sizes or is_natural(dim)

    def sizes(self, expr: Expr) -> tuple[Dim, ...] | None:
        """The elements of a list or scalar; where one may be a negative number that is not known, it is unnamed."""
        found = self.of(expr)
        if found is None or found.ndim > 1:
            return None
        dims: list[Dim] = found.reshape(-1).tolist()
        return tuple(dim if isinstance(dim, int) or self.is_size(dim) else AnyDim() for dim in dims)

    def _computed(self, call: Call, called: Op, ty: Type | None) -> Any:
        op = called.name
        if op in ("shape_of", "ndarray_size"):
            return self._measured(self._types.get(call.args[0]), op)
        if called.has(Trait.MOVES):
            return self._moved(call, called)
        if op == "where":
            return self._elementwise(call.args, _choose)
        if op == "cast":
            return self._elementwise(call.args, lambda dim: _cast(dim, ty))
        if op in ("full", "dyn.full") and is_static(ty):
            value = self.of(call.args[0])
            return None if value is None else np.broadcast_to(value.reshape(()), ty.concrete_shape)
        if op == "prod" and isinstance(ty, TensorType) and prod(ty.concrete_shape) == 1:
            data = self.of(call.args[0])
            return None if data is None else _as_known([multiply_dims(*data.flat)]).reshape(ty.concrete_shape)
        function = _ARITHMETIC.get(op) or self._of_sizes(op)
        return None if function is None else self._elementwise(call.args, function)

    def _of_sizes(self, op: str) -> Callable[..., Dim] | None:
        """Functions that are known of numbers that are not negative."""
        if op == "divide":
            return lambda a, b: self._divided(a, b) if isinstance(b, int) and b > 0 else AnyDim()
        if op in _COMPARISONS:
            return lambda a, b: self._compared(_COMPARISONS[op], a, b)
        return None

    def _divided(self, a: Dim, by: int) -> Dim:
        if self.is_size(a):
            return floor_divide_dims(a, by)
        return truncated(a, by) if self.is_size(add_dims(a, by - 1)) else AnyDim()

    def _compared(self, holds: Callable[[int, int], bool], a: Dim, b: Dim) -> Dim:
        more = difference(a, b)
        if more is None and isinstance(b, int) and b < 0 and self.is_size(a):  # whatever the size, it is larger
            more = 1
        if more is None and isinstance(a, int) and a < 0 and self.is_size(b):
            more = -1
        return AnyDim() if more is None else int(holds(more, 0))

    def _measured(self, ty: Type | None, op: str) -> Known | None:
        if not isinstance(ty, TensorType):
            return None
        sizes = list(ty.shape) if op == "shape_of" else [multiply_dims(*ty.shape)]
        self._sizes.update(dim.name for dim in sizes if isinstance(dim, AnyDim) and dim.name is not None)
        return _as_known(sizes) if op == "shape_of" else _as_known(sizes).reshape(())

    def _elementwise(self, args: Sequence[Expr], function: Callable[..., Dim]) -> Known | None:
        values = [self.of(arg) for arg in args]
        if any(value is None for value in values):
            return None
        try:
            return _as_known(np.frompyfunc(function, len(values), 1)(*values))
        except ValueError:  # they do not broadcast
            return None

    def _moved(self, call: Call, op: Op) -> Any:
        """The elements in their new places: the kernel moves the numbers of their old ones."""
        data, *others = call.args
        found = [self.of(field) for field in (data.fields if isinstance(data, Tuple) else [data])]
        parts = [part for part in found if part is not None]
        indices = [whole_numbers(self.of(other)) for other in others]
        if len(parts) < len(found) or any(index is None for index in indices):
            return None
        pool = np.concatenate([part.reshape(-1) for part in parts])
        ends = np.cumsum([part.size for part in parts])
        places = [np.arange(end - part.size, end).reshape(part.shape) for part, end in zip(parts, ends, strict=True)]
        try:
            moved = evaluate_op(op, call.attrs, [tuple(places) if isinstance(data, Tuple) else places[0], *indices])
        except EqsatError:
            return None
        return [pool[part] for part in moved] if isinstance(moved, tuple) else _as_known(pool[moved])


def is_small_constant(expr: Expr) -> bool:
    """Whether an expression is a constant, or a tuple of constants, small enough to be looked into."""
    if isinstance(expr, Tuple):
        return all(map(is_small_constant, expr.fields))
    return isinstance(expr, Constant) and expr.data.size <= MOST_ELEMENTS


def whole_numbers(elements: Known | None, dtype: str = "int64") -> np.ndarray[Any, Any] | None:
    """Elements as an array, if all are numbers."""
    if elements is None or not all(isinstance(dim, int) for dim in elements.flat):
        return None
    return elements.astype(dtype)


def _as_known(values: Any) -> Known:
    if isinstance(values, np.ndarray) and values.dtype != object:
        values = values.astype(np.int64).tolist()
    return np.asarray(values, dtype=object)


def _is_small(ty: Type | None) -> bool:
    if not isinstance(ty, TensorType) or ty.dtype not in ("int64", "int32", "bool"):
        return False
    return is_static(ty) and prod(ty.concrete_shape) <= MOST_ELEMENTS


def _cast(dim: Dim, ty: Type | None) -> Dim:
    if isinstance(ty, TensorType) and ty.dtype == "bool":
        return int(dim != 0) if isinstance(dim, int) else AnyDim()
    return dim


def _choose(condition: Dim, yes: Dim, no: Dim) -> Dim:
    if isinstance(condition, int):
        return yes if condition else no
    return yes if yes == no else AnyDim()


def _pick(larger: bool) -> Callable[[Dim, Dim], Dim]:
    """The larger or the smaller of two dimensions."""

    def pick(a: Dim, b: Dim) -> Dim:
        more = difference(a, b)
        return AnyDim() if more is None else a if (more > 0) is larger else b

    return pick


_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_ARITHMETIC: dict[str, Callable[..., Dim]] = {
    "add": add_dims,
    "subtract": subtract_dims,
    "multiply": multiply_dims,
    "negative": lambda dim: subtract_dims(0, dim),
    "maximum": _pick(True),
    "minimum": _pick(False),
    "floor_mod": lambda a, b: a % b if isinstance(a, int) and isinstance(b, int) and b else AnyDim(),
    "logical_and": lambda a, b: 0 if 0 in (a, b) else 1 if (a, b) == (1, 1) else AnyDim(),
    "logical_or": lambda a, b: 1 if 1 in (a, b) else 0 if (a, b) == (0, 0) else AnyDim(),
    "logical_not": lambda dim: int(not dim) if isinstance(dim, int) else AnyDim(),
}

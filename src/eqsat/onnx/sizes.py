"""Integers computed from shapes, as far as they are known while a model is imported.

The sizes that a graph computes with, and the branches that it takes by them, are often decided by the shapes of its
inputs, unknown dimensions or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from eqsat.nd import array
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.fold import fold_constants
from eqsat.relay.ty import TensorType, Type, is_static

Integers = np.ndarray[Any, np.dtype[np.int64]]

_MOST = 1024
"""Elements up to which integers are computed: they are mostly shapes."""

_UNKNOWN = np.iinfo(np.int64).min
"""Stands for an element that is not known."""

_MOVES = frozenset(("take", "strided_slice", "squeeze", "expand_dims", "reshape", "concatenate"))
"""Operators whose elements are elements of their arguments, by place alone."""


class Sizes:
    """Knows integers of a graph, element by element.

    Args:
        types: of the expressions; it may grow.
    """

    def __init__(self, types: Mapping[Expr, Type]):
        self._types = types
        self._known: dict[Expr, Integers | None] = {}

    def folded(self, expr: Expr) -> Expr:
        """``expr``, or the constant that it is: computed from small integers, or known element by element."""
        if isinstance(expr, TupleGetItem):
            made = expr.tuple_value
            known = isinstance(made, Call) and all(map(_is_small_constant, made.args))
            return fold_constants(expr) if known and _is_small_integer(self._types[expr]) else expr
        if not isinstance(expr, Call) or not _is_small_integer(self._types[expr]):
            return expr
        if all(map(_is_small_constant, expr.args)):
            return fold_constants(expr)
        known = self._elements(expr)
        return expr if known is None or (known == _UNKNOWN).any() else Constant(array(known))

    def _elements(self, expr: Expr) -> Integers | None:
        """The elements of an int64 tensor; None when nothing is known of them."""
        if isinstance(expr, Constant):
            return expr.data.numpy() if _is_small_constant(expr) and expr.data.dtype == "int64" else None
        if expr not in self._known:  # arguments are known already, but for those of the same ONNX node
            self._known[expr] = self._computed(expr) if isinstance(expr, Call) else None
        return self._known[expr]

    def _computed(self, call: Call) -> Integers | None:
        ty = self._types.get(call)
        if not isinstance(call.op, Op) or not isinstance(ty, TensorType) or ty.dtype != "int64":
            return None
        if call.op.name in ("shape_of", "ndarray_size"):
            of = self._types.get(call.args[0])
            return _measured(of, call.op.name) if isinstance(of, TensorType) else None
        return self._moved(call) if call.op.name in _MOVES and _is_small_integer(ty) else None

    def _moved(self, call: Call) -> Integers | None:
        (data, *indices) = call.args
        fields = data.fields if isinstance(data, Tuple) else [data]
        parts = [self._elements(field) for field in fields]
        if any(part is None for part in parts) or not all(map(_is_small_constant, indices)):
            return None
        constants = [Constant(array(part)) for part in parts if part is not None]
        first = Tuple(constants) if isinstance(data, Tuple) else constants[0]
        moved = fold_constants(Call(call.op, [first, *indices], call.attrs))
        return moved.data.numpy() if isinstance(moved, Constant) else None


def _measured(ty: TensorType, op: str) -> Integers | None:
    """The shape or the size of a tensor, as its type tells."""
    sizes = [dim if isinstance(dim, int) else _UNKNOWN for dim in ty.shape]
    if op == "shape_of":
        return np.asarray(sizes, np.int64)
    return np.asarray(prod(sizes), np.int64) if is_static(ty) else None


def _is_small_constant(expr: Expr) -> bool:
    if isinstance(expr, Tuple):
        return all(map(_is_small_constant, expr.fields))
    return isinstance(expr, Constant) and expr.data.size <= _MOST


def _is_small_integer(ty: Type) -> bool:
    if not isinstance(ty, TensorType) or ty.dtype not in ("int64", "int32", "bool"):
        return False
    return is_static(ty) and prod(ty.concrete_shape) <= _MOST

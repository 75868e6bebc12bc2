"""Constant folding of a graph: what depends on constants alone is computed by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.elements import MOST_ELEMENTS
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type, refined_type
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild

GROWTH_LIMIT = 1 << 20
"""Bytes by which one folded constant may be larger than the constants it is computed from."""


def fold_constants(root: Expr, limit: int = GROWTH_LIMIT) -> Expr:
    """``root`` with every sub-expression over constants replaced by its value; see :class:`Folder`.

    The inside of functions is kept as it is.
    """
    folder = Folder(limit)
    new: dict[Expr, Expr] = {}
    for node in post_order(root, children=lambda node: () if isinstance(node, Function) else node.children()):
        new[node] = folder.fold(rebuild(node, new))
    return new[root]


def folded(call: Call) -> Expr:
    """A call over constants and tuples of them as the constant it is, whatever its size; itself if it is kept."""
    if not isinstance(call.op, Op) or not is_folded(call.op):
        return call
    try:
        value = evaluate_op(call.op, call.attrs, list(map(value_of, call.args)))
    except EqsatError:
        return call
    folded: Expr = call if isinstance(value, tuple) else Constant(value)._carry(call)
    return folded


def value_of(expr: Expr) -> Any:
    """The value of a constant, or of a tuple of constants."""
    return expr.data.numpy() if isinstance(expr, Constant) else tuple(map(value_of, expr.children()))


class Folder:
    """Folds nodes one at a time, arguments before what uses them.

    Kept as they are: operators that are stateful, quantized or have no kernel, and what would be larger by more than
    ``limit`` bytes than all it is computed from (such as ``zeros`` of a large shape).
    """

    def __init__(self, limit: int = GROWTH_LIMIT):
        self.limit = limit
        self._values: dict[Expr, Any] = {}
        self._sources: dict[Expr, int] = {}

    def fold(self, node: Expr) -> Expr:
        """``node``, whose arguments were folded before, or the constant it equals."""
        value = self._value(node)
        if value is None:
            return node
        sources = node.data.nbytes if isinstance(node, Constant) else self._bytes_of(node.children())
        if not isinstance(node, Constant) and not isinstance(value, tuple):
            node = Constant(np.asarray(value))._carry(node)
        self._values[node], self._sources[node] = value, sources
        return node

    def _bytes_of(self, args: Sequence[Expr]) -> int:
        return sum(self._sources.get(arg, 0) for arg in dict.fromkeys(args))

    def _value(self, node: Expr) -> Any:
        """The value of a node over constants: an array or tuple; None when it is not to be folded."""
        values = self._values
        if isinstance(node, Constant):
            return node.data.numpy()
        if isinstance(node, TupleGetItem):
            fields = values.get(node.tuple_value)
            return None if fields is None else fields[node.index]
        if isinstance(node, Tuple):
            return tuple(values[item] for item in node.fields) if all(item in values for item in node.fields) else None
        if not isinstance(node, Call) or not isinstance(node.op, Op) or not is_folded(node.op):
            return None
        if not all(arg in values for arg in node.args):
            return None
        arguments = [values[arg] for arg in node.args]
        try:
            if nbytes(_result_type(node.op, node.attrs, arguments)) > self.limit + self._bytes_of(node.args):
                return None
            return evaluate_op(node.op, node.attrs, arguments)
        except EqsatError:
            return None


def is_pure(op: Op) -> bool:
    """Whether an operator can be computed here and now: it has a kernel, and equal arguments give equal results."""
    return op.kernel is not None and not op.get_attr("TOpIsStateful")


def is_folded(op: Op) -> bool:
    """Whether calls of an operator over constants become constants: what stands for small integers does not."""
    return is_pure(op) and not op.get_attr("TNonComputational")


def nbytes(ty: Type) -> float:
    """Bytes of a value of type ``ty``, infinite when it cannot be told."""
    if isinstance(ty, TupleType):
        return sum(map(nbytes, ty.fields))
    if not is_static(ty):
        return float("inf")
    return prod(ty.concrete_shape) * np.dtype(ty.dtype).itemsize


def _result_type(op: Op, attrs: Attrs | None, arguments: Sequence[Any]) -> Type:
    types = [_type_of(value) for value in arguments]
    result = call_type(op, attrs, types)
    return result if is_static(result) else refined_type(op, attrs, types, list(map(_sizes, arguments))) or result


def _sizes(value: Any) -> list[int] | None:
    """The elements of a list of integers."""
    is_list = isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "iu"
    return value.reshape(-1).tolist() if is_list and value.size <= MOST_ELEMENTS else None


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType([_type_of(item) for item in value])
    return TensorType(value.shape, value.dtype.name)

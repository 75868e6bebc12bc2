"""Constant folding of a graph: what depends on constants alone is computed by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.elements import MOST_ELEMENTS
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type, refined_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TupleType, Type, is_static
from eqsat.relay.values import value_type
from eqsat.relay.visitor import post_order, rebuild

GROWTH_LIMIT = 1 << 20
"""Bytes by which one folded constant may be larger than the constants it is computed from."""


Foreign: TypeAlias = Callable[[Call, Sequence[Any], int], Any]
"""Computes a call of an operator that is not Relay's from its arguments and the bytes of what these are computed from.

It gives None for what is to be kept; in a tuple, for outputs that nothing uses.
"""


def fold_constants(root: Expr, limit: float = GROWTH_LIMIT, foreign: Foreign | None = None) -> Expr:
    """Return a graph with every sub-expression over constants replaced by its value.

    Kept as they are: the inside of functions, operators that are stateful, quantized or have no kernel, and what would
    be larger by more than ``limit`` bytes than all it is computed from (such as ``zeros`` of a large shape).

    Args:
        root: The graph.
        limit: Bytes by which a result may be larger than what it is computed from.
        foreign: Computes operators that are not Relay's, in the place of their kernels.
    """
    folding = Folding(limit, foreign)
    new: dict[Expr, Expr] = {}
    for node in post_order(root, children=_children):
        made = rebuild(node, new)
        new[node] = folding.take(made)
    return new[root]


class Folding:
    """Values of expressions over constants, each computed once.

    Args:
        limit, foreign: As for :func:`fold_constants`.
    """

    def __init__(self, limit: float = GROWTH_LIMIT, foreign: Foreign | None = None):
        self._limit = limit
        self._foreign = foreign
        self._known: dict[Expr, tuple[Any, int] | None] = {}
        self._is_constant: dict[Expr, bool] = {}

    def take(self, node: Expr) -> Expr:
        """The value of a node whose operands were taken before as a constant; the node if it has none."""
        found = self._known[node] = self._folded(node)
        if found is None or isinstance(node, Constant) or isinstance(found[0], tuple):
            return node
        constant = Constant(np.asarray(found[0]))._carry(node)
        self._known[constant] = found
        return constant

    def find(self, expr: Expr) -> tuple[Any, int] | None:
        """The value of an expression and the bytes of the constants that it is computed from; None if it is kept."""
        for node in post_order(expr, children=lambda node: () if node in self._known else _children(node)):
            if node not in self._known:
                self._known[node] = self._folded(node)
        return self._known[expr]

    def is_constant(self, expr: Expr) -> bool:
        """Whether an expression depends on constants alone and is one to be folded, whatever its size."""
        known = self._is_constant
        for node in post_order(expr, children=lambda node: () if node in known else _children(node)):
            if node not in known:
                is_call = isinstance(node, Call) and isinstance(node.op, Op) and is_folded(node.op)
                is_kept = not is_call and not isinstance(node, (Constant, Tuple, TupleGetItem))
                known[node] = not is_kept and all(known[operand] for operand in _operands(node))
        return known[expr]

    def _folded(self, node: Expr) -> tuple[Any, int] | None:
        """Return the value of a node and the bytes of the constants that it is computed from, None if it is kept."""
        if isinstance(node, Constant):
            return node.data.numpy(), node.data.nbytes
        if not isinstance(node, (Call, Tuple, TupleGetItem)):
            return None
        operands = [self._known.get(operand) for operand in _operands(node)]
        found = [operand for operand in operands if operand is not None]
        if len(found) < len(operands):
            return None
        values = [value for value, _ in found]
        sources = sum({operand: each for operand, (_, each) in zip(_operands(node), found, strict=True)}.values())
        if isinstance(node, Tuple):
            return tuple(values), sources
        if isinstance(node, TupleGetItem):
            return None if values[0][node.index] is None else (values[0][node.index], sources)
        if not isinstance(node.op, Op) or not is_folded(node.op):
            return None
        if self._foreign is not None and node.op.has(Trait.FOREIGN):
            result = self._foreign(node, values, sources)
            return None if result is None else (result, sources)
        try:
            if nbytes(_result_type(node.op, node.attrs, values)) > self._limit + sources:
                return None
            return evaluate_op(node.op, node.attrs, values), sources
        except EqsatError:
            return None


def _children(node: Expr) -> Sequence[Expr]:
    """The sub-expressions to look into: functions are kept as they are."""
    return () if isinstance(node, Function) else node.children()


def _operands(node: Expr) -> Sequence[Expr]:
    return node.args if isinstance(node, Call) else node.children()


def value_of(expr: Expr) -> Any:
    """The value of a constant, or of a tuple of constants."""
    return expr.data.numpy() if isinstance(expr, Constant) else tuple(map(value_of, expr.children()))


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
    types = list(map(value_type, arguments))
    result = call_type(op, attrs, types)
    return result if is_static(result) else refined_type(op, attrs, types, list(map(_sizes, arguments))) or result


def _sizes(value: Any) -> list[int] | None:
    """The elements of a list of integers."""
    is_list = isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "iu"
    return value.reshape(-1).tolist() if is_list and value.size <= MOST_ELEMENTS else None

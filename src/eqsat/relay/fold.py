"""Constant folding of a graph: what depends on constants alone is computed by the interpreter.

What is large is computed when it is used, and not kept: a graph may have new forms of all weights of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import EqsatError
from eqsat.nd import NDArray
from eqsat.relay.attrs import Attrs
from eqsat.relay.elements import MOST_ELEMENTS
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type, refined_type
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.values import value_type
from eqsat.relay.visitor import post_order, rebuild

GROWTH_LIMIT = 1 << 20
"""Bytes by which one folded constant may be larger than the constants it is computed from."""

LARGE = 1 << 16
"""Bytes from which on a value is loaded or computed when it is used, and not kept."""

MOST_PASSING = 1 << 27
"""Bytes of a value that is larger than what is kept, but may be computed on the way to a smaller one."""

_DEEPEST = 4
"""How many operators deep a value that is computed when it is used may be above those that are not."""

Foreign: TypeAlias = Callable[[Call, Sequence[Any], int], Any]
"""Computes a call of an operator that is not Relay's from its arguments and the bytes of what these are computed from.

It gives None for what is to be kept; in a tuple, for outputs that nothing uses.
"""


def fold_constants(root: Expr, limit: float = GROWTH_LIMIT, foreign: Foreign | None = None) -> Expr:
    """Return a graph with every sub-expression over constants replaced by its value.

    Kept as they are: the inside of functions, operators that are stateful, quantized or have no kernel, and what would
    be larger by more than ``limit`` bytes than all it is computed from (such as ``zeros`` of a large shape), unless it
    comes to something smaller a few operators later.

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
        self._passing: dict[Expr, tuple[Any, int]] = {}  # too large, and computed when they are used
        self._is_constant: dict[Expr, bool] = {}
        self._depth: dict[NDArray, int] = {}

    def take(self, node: Expr) -> Expr:
        """The value of a node whose operands were taken before as a constant; the node if it has none."""
        found = self._known[node] = self._folded(node)
        if found is None or isinstance(node, Constant) or isinstance(found[0], tuple):
            return node
        constant = Constant(found[0])._carry(node)
        self._known[constant] = found
        return constant

    def find(self, expr: Expr) -> tuple[Any, int] | None:
        """The value of an expression and the bytes of the constants that it is computed from; None if it is kept."""
        for node in post_order(expr, children=lambda node: () if node in self._known else _children(node)):
            if node not in self._known:
                self._known[node] = self._folded(node)
        found = self._known[expr]
        return None if found is None else (_arrays(found[0]), found[1])

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
        """Return the value of a node and the bytes of the constants that it is computed from, None if it is kept.

        The value is an array, an NDArray of one that is large, or a tuple of values.
        """
        if isinstance(node, Constant):
            return (node.data if node.data.nbytes >= LARGE else node.data.numpy()), node.data.nbytes
        if not isinstance(node, (Call, Tuple, TupleGetItem)):
            return None
        operands = [self._known.get(operand) or self._passing.get(operand) for operand in _operands(node)]
        found = [operand for operand in operands if operand is not None]
        if len(found) < len(operands):
            return None
        values = tuple([value for value, _ in found])
        sources = sum({operand: each for operand, (_, each) in zip(_operands(node), found, strict=True)}.values())
        if isinstance(node, Tuple):
            return values, sources
        if isinstance(node, TupleGetItem):
            return None if values[0][node.index] is None else (values[0][node.index], sources)
        if not isinstance(node.op, Op) or not is_folded(node.op):
            return None
        if self._foreign is not None and node.op.has(Trait.FOREIGN):
            result = self._foreign(node, _arrays(values), sources)
            return None if result is None else (result, sources)
        try:
            ty = _result_type(node.op, node.attrs, values)
            if nbytes(ty) > self._limit + sources:
                later = self._later(node.op, node.attrs, ty, values) if nbytes(ty) <= MOST_PASSING else None
                if later is not None:
                    self._passing[node] = later, sources
                return None
            later = self._computed_later(node.op, node.attrs, ty, values)
            return (evaluate_op(node.op, node.attrs, _arrays(values)) if later is None else later), sources
        except EqsatError:
            return None

    def _computed_later(self, op: Op, attrs: Attrs | None, ty: Type, values: tuple[Any, ...]) -> NDArray | None:
        """The value of a call that is large and certain to succeed: elements of floats that are moved or changed."""
        is_certain = op.has(Trait.ELEMENTWISE) or op.has(Trait.MOVES)
        if not is_certain or not isinstance(ty, TensorType) or not LARGE <= nbytes(ty) < inf:
            return None
        if any(np.dtype(each.dtype).kind in "biu" for each in (ty, *leaves(values))):
            return None
        return self._later(op, attrs, ty, values)

    def _later(self, op: Op, attrs: Attrs | None, ty: Type, values: tuple[Any, ...]) -> NDArray | None:
        """The value of a call, computed each time when it is used; None for a tuple, or if that would take long."""
        depth = 1 + max([self._depth.get(each, 0) for each in leaves(values) if isinstance(each, NDArray)], default=0)
        if depth > _DEEPEST or not isinstance(ty, TensorType):
            return None
        data = NDArray(
            ty.concrete_shape, ty.dtype, lambda: np.asarray(evaluate_op(op, attrs, _arrays(values))), is_kept=False
        )
        self._depth[data] = depth
        return data


def _arrays(value: Any) -> Any:
    """A value with all arrays loaded."""
    if isinstance(value, tuple):
        return tuple(map(_arrays, value))
    return value.numpy() if isinstance(value, NDArray) else value


def leaves(value: Any) -> list[Any]:
    """The arrays in a value, which is one or a tuple of values."""
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, tuple) else [value]


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

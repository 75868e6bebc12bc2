"""Constant folding of a graph: what depends on constants alone is computed by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.elements import MOST_ELEMENTS
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.relations import call_type, refined_type
from eqsat.relay.ty import TupleType, Type, is_static
from eqsat.relay.values import value_type
from eqsat.relay.visitor import post_order, rebuild

GROWTH_LIMIT = 1 << 20
"""Bytes by which one folded constant may be larger than the constants it is computed from."""


def fold_constants(root: Expr, limit: float = GROWTH_LIMIT) -> Expr:
    """Return a graph with every sub-expression over constants replaced by its value.

    Kept as they are: the inside of functions, operators that are stateful, quantized or have no kernel, and what would
    be larger by more than ``limit`` bytes than all it is computed from (such as ``zeros`` of a large shape).
    """
    new: dict[Expr, Expr] = {}
    known: dict[Expr, tuple[Any, int]] = {}
    for node in post_order(root, children=lambda node: () if isinstance(node, Function) else node.children()):
        made = rebuild(node, new)
        found = _folded(made, known, limit)
        if found is not None:
            if not isinstance(made, Constant) and not isinstance(found[0], tuple):
                made = Constant(np.asarray(found[0]))._carry(made)
            known[made] = found
        new[node] = made
    return new[root]


def _folded(node: Expr, known: Mapping[Expr, tuple[Any, int]], limit: float) -> tuple[Any, int] | None:
    """Return the value of a node and the bytes of the constants that it is computed from, None if it is to be kept.

    ``known`` holds the same of other nodes.
    """
    if isinstance(node, Constant):
        return node.data.numpy(), node.data.nbytes
    if not isinstance(node, (Call, Tuple, TupleGetItem)):
        return None
    operands = node.args if isinstance(node, Call) else node.children()
    if not all(operand in known for operand in operands):
        return None
    values = [known[operand][0] for operand in operands]
    sources = sum(known[operand][1] for operand in dict.fromkeys(operands))
    if isinstance(node, Tuple):
        return tuple(values), sources
    if isinstance(node, TupleGetItem):
        return values[0][node.index], sources
    if not isinstance(node.op, Op) or not is_folded(node.op):
        return None
    try:
        if nbytes(_result_type(node.op, node.attrs, values)) > limit + sources:
            return None
        return evaluate_op(node.op, node.attrs, values), sources
    except EqsatError:
        return None


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

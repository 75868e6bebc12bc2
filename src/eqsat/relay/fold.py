"""Constant folding of a graph: what depends on constants alone is computed by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem
from eqsat.relay.infer import call_type
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild

GROWTH_LIMIT = 1 << 20
"""Bytes by which one folded constant may be larger than the constants it is computed from."""


def fold_constants(root: Expr, limit: int = GROWTH_LIMIT) -> Expr:
    """``root`` with every sub-expression over constants replaced by its value.

    Kept as they are: operators that are stateful or have no kernel, the inside of functions, and what would
    be larger by more than ``limit`` bytes than all it is computed from (such as ``zeros`` of a large shape).
    """
    new: dict[Expr, Expr] = {}
    values: dict[Expr, Any] = {}
    sizes: dict[Expr, int] = {}
    for node in post_order(root, children=lambda node: () if isinstance(node, Function) else node.children()):
        new[node] = rebuild(node, new)
        value = _value(node, values, sizes, limit)
        if value is None:
            continue
        values[node] = value
        if isinstance(node, Constant):
            sizes[node] = node.data.nbytes
        else:
            sizes[node] = sum(sizes[child] for child in dict.fromkeys(node.children()) if child in sizes)
            if not isinstance(value, tuple):
                new[node] = Constant(np.asarray(value))._carry(node)
    return new[root]


def _value(node: Expr, values: dict[Expr, Any], sizes: dict[Expr, int], limit: int) -> Any:
    """The value of a node over constants: an array or tuple; None when it is not to be folded."""
    if isinstance(node, Constant):
        return node.data.numpy()
    if isinstance(node, TupleGetItem):
        fields = values.get(node.tuple_value)
        return None if fields is None else fields[node.index]
    if isinstance(node, Tuple):
        return tuple(values[item] for item in node.fields) if all(item in values for item in node.fields) else None
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not is_pure(node.op):
        return None
    if not all(arg in values for arg in node.args):
        return None
    allowed = limit + sum(sizes[arg] for arg in dict.fromkeys(node.args))
    arguments = [values[arg] for arg in node.args]
    try:
        if nbytes(call_type(node.op, node.attrs, [_type_of(value) for value in arguments])) > allowed:
            return None
        return evaluate_op(node.op, node.attrs, arguments)
    except EqsatError:
        return None


def is_pure(op: Op) -> bool:
    """Whether an operator can be computed here and now: it has a kernel, and equal arguments give equal results."""
    return op.kernel is not None and not op.get_attr("TOpIsStateful")


def nbytes(ty: Type) -> float:
    """Bytes of a value of type ``ty``, infinite when it cannot be told."""
    if isinstance(ty, TupleType):
        return sum(map(nbytes, ty.fields))
    if not is_static(ty):
        return float("inf")
    return float(np.prod(ty.concrete_shape, initial=np.dtype(ty.dtype).itemsize))


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType([_type_of(item) for item in value])
    return TensorType(value.shape, value.dtype.name)

"""FoldConstant: expressions that depend only on constants are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.errors import EvaluationError
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var, const
from eqsat.relay.fold import is_pure, value_of
from eqsat.relay.infer import infer_type
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.module import IRModule
from eqsat.relay.op.devices import without_device
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.ty import is_static
from eqsat.relay.visitor import post_order, rebuild


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """Evaluate operators over constants, known shapes, branches on constants and projections of constants.

    Device annotations on operands are ignored, and those on evaluated expressions are kept. Operators without arguments
    are kept, because they may stand for large constants. Bodies of primitive functions are not changed.

    Args:
        fold_qnn: Whether to also evaluate quantized operators.
    """
    info = PassInfo(2, "FoldConstant")
    return FunctionPass(lambda function, mod, context: _Folder(fold_qnn).run(function), info, typed=True)


def FoldConstantExpr(expr: Expr, mod: IRModule, fold_qnn: bool = False) -> Expr:
    """Apply :func:`FoldConstant` to an expression.

    Args:
        expr: The expression; its types are inferred again.
        mod: The module whose functions it calls.
        fold_qnn: As in :func:`FoldConstant`.
    """
    return _Folder(fold_qnn).run(infer_type(expr, mod))


class _Folder:
    def __init__(self, fold_qnn: bool):
        self.fold_qnn = fold_qnn

    def run(self, function: Expr) -> Expr:
        order = post_order(function, children=lambda node: () if _is_primitive(node) else node.children())
        bound = {node.var: node.value for node in order if isinstance(node, Let)}
        new: dict[Expr, Expr] = {}
        for node in order:
            value = new.get(bound[node]) if isinstance(node, Var) and node in bound else None
            new[node] = value if value is not None and _is_tensor(value) else self._folded(node, _rebuild(node, new))
        return new[function]

    def _folded(self, old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call):
            return self._call(old, new)
        if isinstance(new, TupleGetItem):
            fields = without_device(new.tuple_value)
            return _marked_like(new.tuple_value, fields.fields[new.index]) if isinstance(fields, Tuple) else new
        if isinstance(new, If):
            cond = without_device(new.cond)
            if isinstance(cond, Constant):
                return new.true_branch if bool(cond.data.numpy()) else new.false_branch
        return new

    def _call(self, old: Expr, new: Call) -> Expr:
        op = new.op
        if not isinstance(op, Op):
            return new
        if op.name in ("shape_of", "ndarray_size"):
            return _known_shape(old, new, op.name)
        if not new.args or not self._may_fold(op):
            return new
        args = list(map(_unmarked, new.args))
        if not all(map(is_constant, args)):
            return new
        try:
            return _expression(evaluate_op(op, new.attrs, list(map(value_of, args))))
        except EvaluationError:
            return new

    def _may_fold(self, op: Op) -> bool:
        if not is_pure(op) or op.name in ("device_copy", "nn.dropout"):
            return False
        return not op.get_attr("TNonComputational") or (self.fold_qnn and op.name.startswith("qnn."))


def _rebuild(node: Expr, new: dict[Expr, Expr]) -> Expr:
    """``node`` over ``new`` operands; a let whose variable became a constant is its body."""
    if isinstance(node, Let) and _is_tensor(new[node.var]):
        return new[node.body]
    return rebuild(node, new)


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))


def is_constant(expr: Expr) -> bool:
    """Whether ``expr`` is a constant or a tuple of constants."""
    if isinstance(expr, Tuple):
        return all(isinstance(field, Constant) for field in expr.fields)
    return isinstance(expr, Constant)


def _is_tensor(expr: Expr) -> bool:
    return isinstance(without_device(expr), Constant)


def _unmarked(expr: Expr) -> Expr:
    """``expr`` without marks of devices on it, or on its fields if it is a tuple."""
    inner = without_device(expr)
    return Tuple([without_device(field) for field in inner.fields]) if isinstance(inner, Tuple) else inner


def _marked_like(marked: Expr, expr: Expr) -> Expr:
    """``expr``, marked to be on the device that ``marked`` is on, if it is marked."""
    return Call(marked.op, [expr], marked.attrs) if isinstance(marked, Call) else expr


def _expression(value: Any) -> Expr:
    return Tuple([_expression(item) for item in value]) if isinstance(value, tuple) else Constant(np.asarray(value))


def _known_shape(old: Expr, new: Call, name: str) -> Expr:
    """The shape or number of elements of the argument, where type inference found them."""
    ty = old.children()[1]._checked_type
    if not is_static(ty):
        return new
    shape = np.array(ty.concrete_shape, dtype=np.int64)
    dtype = "int32" if new.attrs is None else new.attrs.get("dtype") or "int32"
    return const(shape.prod() if name == "ndarray_size" else shape, str(dtype))

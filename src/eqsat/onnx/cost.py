"""Costs as they apply to ONNX: an operator costs what the nodes cost that it is written as."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.errors import EqsatError
from eqsat.extraction import CostNode
from eqsat.nd import NDArray
from eqsat.onnx.spelling import OnnxNode, Target, exporter_of
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

UNSPELLED = 1e9
"""Added cost of an operator that the opset has no form of."""


@dataclass(frozen=True)
class OnnxCost:
    """A cost model times the number of ONNX nodes that an operator is written as.

    Args:
        model: the cost model.
        opset: version of the standard operators.
    """

    model: Callable[[CostNode], float]
    opset: int

    def __call__(self, node: CostNode) -> float:
        cost = self.model(node)
        op = Op._registry.get(node.op)
        if op is None or node.constant or not cost:
            return cost
        count = nodes_written(op, node.attrs, node.arg_types, node.type, self.opset)
        return cost + UNSPELLED if count is None else cost * count


def nodes_written(op: Op, attrs: Any, arg_types: tuple[Type | None, ...], ty: Type | None, opset: int) -> int | None:
    """How many ONNX nodes a call is written as, taken by itself; None when the opset has no form of it.

    Args:
        op: the operator.
        attrs: its attributes.
        arg_types, ty: types of arguments and result, None where unknown. Vectors pass for constants: they are
            biases, slopes and the like nearly always.
        opset: version of the standard operators.
    """
    exporter = exporter_of(op)
    if exporter is None:
        return None
    types: dict[Expr, Type] = {}
    call = Call(op, [_stand_in(arg, types) for arg in arg_types], attrs)
    if ty is not None:
        types[call] = ty
    try:
        return _count(exporter(call, Target(opset, types, defaultdict(int))))
    except EqsatError:
        return None


def _stand_in(ty: Type | None, types: dict[Expr, Type]) -> Expr:
    """An argument of type ``ty``."""
    if isinstance(ty, TupleType):
        expr: Expr = Tuple([_stand_in(field, types) for field in ty.fields])
    elif isinstance(ty, TensorType) and len(ty.shape) == 1 and is_static(ty):
        expr = Constant(NDArray(ty.concrete_shape, ty.dtype, lambda: np.ones(ty.concrete_shape, ty.dtype)))
    else:
        expr = Var("", ty)
    if ty is not None:
        types[expr] = ty
    return expr


def _count(written: Any) -> int:
    """The nodes that a spelling consists of."""
    count, operands = 0, [written]
    while operands:
        operand = operands.pop()
        if isinstance(operand, OnnxNode):
            count += 1
            operands += operand.inputs
    return count

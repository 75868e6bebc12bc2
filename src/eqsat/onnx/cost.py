"""Costs as they apply to ONNX: an operator costs what the nodes cost that it is written as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from eqsat.cost import CostFunction, CostModel, CostNode, ties_of
from eqsat.errors import EqsatError
from eqsat.nd import NDArray
from eqsat.onnx.converters import OnnxNode, Target, exporter_of
from eqsat.onnx.converters.target import Operand, expressions
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TupleType, Type, is_static

UNSPELLED = 1e6
"""Added cost of an operator that the opset has no form of."""

FUSED = 1.5
"""Nodes that a form which runtimes fuse is worth more than another: it is taken where it has one node more."""


@dataclass(frozen=True)
class OnnxCost(CostModel):
    """A cost model times the number of ONNX nodes that an operator is written as.

    One node may be written for two operators, as a Gemm for a product and a sum, and several nodes may be what runtimes
    know as one kernel: that is for the exporters to say.

    Args:
        model: the cost model.
        opset: version of the standard operators.
    """

    model: CostFunction
    opset: int

    @property
    def ties(self) -> OnnxCost | None:
        model = ties_of(self.model)
        return None if model is None else OnnxCost(model, self.opset)

    def __call__(self, node: CostNode) -> float:
        cost = self.model(node)
        if not _is_operator(node) or not cost:
            return cost
        count = _written(node, self.opset).nodes
        return cost + UNSPELLED if count is None else cost * count

    def takes_in(self, node: CostNode) -> Mapping[int, set[str]]:
        """Operators of which one may be written together with ``node``: their names, by argument of ``node``."""
        return _written(node, self.opset).looked_for if _is_operator(node) else {}

    def fused(self, node: CostNode, index: int, inner: CostNode) -> float | None:
        """Cost of ``node`` written together with what computes its argument ``index`` and is used by it alone.

        None where they are written as nodes of their own.
        """
        written = _written(node, self.opset, index, inner)
        if written.nodes is None or not written.takes_inner:
            return None
        types = [*node.arg_types[:index], *inner.arg_types, *node.arg_types[index + 1 :]]
        kernel = CostNode(node.op, node.attrs, tuple(types), node.type, body=(inner, node))
        return self.model(kernel) * written.nodes


def _is_operator(node: CostNode) -> bool:
    """Whether a node is the call of an operator that runs."""
    return not node.constant and node.op in Op._registry


class _Written(NamedTuple):
    """What is known of a node as it is written.

    ``nodes`` is how many nodes it is worth, None when the opset has no form of it; ``looked_for`` which operators the
    exporter would have liked to find as arguments; ``takes_inner`` whether what computes an argument is written too.
    """

    nodes: float | None
    looked_for: Mapping[int, set[str]]
    takes_inner: bool


def _written(node: CostNode, opset: int, index: int = -1, inner: CostNode | None = None) -> _Written:
    """What becomes of ``node``, perhaps together with ``inner``, which computes its argument ``index``."""
    if Op.get(node.op).has(Trait.FOREIGN):  # its attributes hold whole graphs: they are not kept
        return _Written(1, {}, takes_inner=False)
    return _written_once(node, opset, index, inner)


@lru_cache(maxsize=1 << 12)
def _written_once(node: CostNode, opset: int, index: int, inner: CostNode | None) -> _Written:
    writing = _Writing(node, opset, index, inner)
    count = None if writing.node is None else _count(writing.node)
    return _Written(count, writing.looked_for, writing.takes_inner)


class _Writing(Target):
    """What an exporter makes of a node: asked with stand-ins for the arguments, of which it knows the types.

    Args:
        node: the call to write.
        opset: version of the standard operators.
        index, inner: the argument that is a call that nothing else uses, and that call.

    ``node`` is what is written, None when the opset has no form of it; ``looked_for`` which operators the exporter
    would have liked to find as arguments.
    """

    def __init__(self, node: CostNode, opset: int, index: int = -1, inner: CostNode | None = None):
        self.looked_for: dict[int, set[str]] = {}
        types: dict[Expr, Type] = {}
        arguments = _stand_ins(node, types)
        self.inner = None if inner is None else _stand_in_call(inner, _stand_ins(inner, types), types)
        if self.inner is not None:
            arguments[index] = self.inner
        super().__init__(opset, types, Counter() if self.inner is None else Counter([self.inner]))
        self.places = {argument: place for place, argument in enumerate(arguments)}
        self.node = self._write(_stand_in_call(node, arguments, types))

    def made_by(self, expr: Expr, *names: str) -> Call | None:
        if expr in self.places:
            self.looked_for.setdefault(self.places[expr], set()).update(names)
        return super().made_by(expr, *names)

    def transposed(self, data: Expr, order: Sequence[int]) -> Operand:
        return data.data.numpy().transpose(order) if isinstance(data, Constant) else super().transposed(data, order)

    def _write(self, call: Call) -> OnnxNode | Expr | None:
        exporter = exporter_of(call.op) if isinstance(call.op, Op) else None
        try:
            return None if exporter is None else exporter(call, self)
        except EqsatError:
            return None

    @property
    def takes_inner(self) -> bool:
        """Whether the node computes what the inner call computes."""
        return isinstance(self.node, OnnxNode) and self.inner not in set(expressions(self.node))


def _stand_in_call(node: CostNode, arguments: list[Expr], types: dict[Expr, Type]) -> Call:
    call = Call(Op.get(node.op), arguments, node.attrs)
    if node.type is not None:
        types[call] = node.type
    return call


def _stand_ins(node: CostNode, types: dict[Expr, Type]) -> list[Expr]:
    """Arguments of the types, and as constant, as those of ``node``."""
    constant = node.arg_constant or (False,) * len(node.arg_types)
    return [_stand_in(ty, known, types) for ty, known in zip(node.arg_types, constant, strict=True)]


def _stand_in(ty: Type | None, constant: bool, types: dict[Expr, Type]) -> Expr:
    if isinstance(ty, TupleType):
        expr: Expr = Tuple([_stand_in(field, False, types) for field in ty.fields])
    elif constant and is_static(ty):
        shape, one = ty.concrete_shape, np.ones((), ty.dtype)
        expr = Constant(NDArray(shape, ty.dtype, lambda: np.broadcast_to(one, shape)))  # one element, however large
    else:
        expr = Var("", ty)
    if ty is not None:
        types[expr] = ty
    return expr


def _count(written: Any) -> float:
    """The nodes that a spelling consists of, less what it is worth that they fuse."""
    count, operands = 0.0, [written]
    while operands:
        operand = operands.pop()
        if isinstance(operand, OnnxNode):
            count += 1
            operands += operand.inputs
    return count - FUSED if isinstance(written, OnnxNode) and written.fuses else count

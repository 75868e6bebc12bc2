"""PyTorch as a target of extraction: which nodes an operator is written as, and what cost models see of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.cost import CostFunction, CostNode
from eqsat.cost.runtimes import kernels_of
from eqsat.cost.target import TargetCost, Written, WrittenNode
from eqsat.errors import EqsatError
from eqsat.nd import NDArray
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TupleType, Type, is_static
from eqsat.relay.visitor import post_order
from eqsat.torch.rows import Aten, Dialect, form_of
from eqsat.torch.rows import Written as Graph
from eqsat.torch.types import UNKNOWN
from eqsat.torch.writing import PRODUCTS, SUMS, with_bias

_MOST_STEPS = 8
"""Forms that are looked through until there is one that is a node."""


@dataclass(frozen=True)
class AtenTarget:
    """The operators of ATen; implements :class:`eqsat.cost.target.Target`.

    Args:
        dialect: Which of them may be written.
    """

    dialect: Dialect

    def write(self, node: CostNode) -> Written | None:
        op = Op.find(node.op)
        if node.constant or op is None or op.has(Trait.FOREIGN):
            return (WrittenNode(None, node, tuple(range(len(node.arg_types)))),)
        return _written(node, self.dialect)

    def partners(self, node: CostNode) -> Mapping[int, Collection[str]]:
        return dict.fromkeys(range(len(node.arg_types)), PRODUCTS) if node.op in SUMS else {}

    def write_together(self, node: CostNode, index: int, inner: CostNode) -> Written | None:
        return _written_together(node, index, inner, self.dialect)


def aten_cost(model: CostFunction, dialect: Dialect, runtime: str) -> TargetCost:
    """Return the costs of graphs that are written with ATen's operators.

    Args:
        model: The cost of one node.
        dialect: Which operators may be written.
        runtime: The name of the runtime whose kernels count, see :mod:`eqsat.cost.runtimes`.
    """
    return TargetCost(model, AtenTarget(dialect), kernels_of(runtime))


@lru_cache(maxsize=1 << 13)
def _written(node: CostNode, dialect: Dialect) -> Written | None:
    """The nodes that an operator is written as."""
    types: dict[Expr, Type] = {}
    arguments = _stand_ins(node, types)
    call = _call(node, arguments, types)
    if call is None:
        return None
    forms = _Forms(types, dialect)
    root = forms.resolve(call)
    if root is call:
        return (WrittenNode(None, node, tuple(range(len(arguments)))),)
    places = {argument: index for index, argument in enumerate(arguments)}
    return None if root is None else forms.nodes(root, places)


class _Forms:
    """The forms of expressions over stand-ins.

    Args:
        types: The type of each; grows.
        dialect: Which operators may be written.
    """

    def __init__(self, types: dict[Expr, Type], dialect: Dialect):
        self.types, self.graph, self.typing = types, Graph(types, dialect), Inferencer(types)

    def resolve(self, expr: Expr) -> Expr | None:
        """What an expression is written as: itself if it is a node; None if it cannot be written."""
        for _ in range(_MOST_STEPS):
            if not isinstance(expr, Call):
                return expr
            try:
                form = form_of(expr, self.graph)
                if form is None or isinstance(form, Aten):
                    return None if form is None else expr
                self.typing.run(form)
            except EqsatError:
                return None
            expr = form
        return None

    def nodes(self, root: Expr, places: Mapping[Expr, int]) -> Written | None:
        """The nodes below an expression that is one; ``places`` says which arguments stand-ins are."""
        resolved: dict[Expr, Expr | None] = {}

        def below(expr: Expr) -> Sequence[Expr]:
            if expr in places or not isinstance(expr, Call):
                return ()
            resolved.update({arg: arg if arg in places else self.resolve(arg) for arg in expr.args})
            return [found for arg in expr.args if (found := resolved[arg]) is not None]

        written: list[WrittenNode] = []
        numbers = dict(places)
        for expr in post_order(root, children=below):
            if isinstance(expr, Call) and expr not in places:
                found = [resolved[arg] for arg in expr.args]
                if None in found:
                    return None
                op = expr.op.name if isinstance(expr.op, Op) else ""
                types = tuple([self.types.get(arg) for arg in expr.args])
                seen = CostNode(op, expr.attrs, types, self.types.get(expr))
                inputs = tuple([numbers[arg] for arg in found if arg in numbers])
                numbers[expr] = ~len(written)
                written.append(WrittenNode((op, str(expr.attrs)), seen, inputs))
        return tuple(written)


@lru_cache(maxsize=1 << 13)
def _written_together(node: CostNode, index: int, inner: CostNode, dialect: Dialect) -> Written | None:
    types: dict[Expr, Type] = {}
    below, arguments = _stand_ins(inner, types), _stand_ins(node, types)
    product = _call(inner, below, types)
    if product is None:
        return None
    arguments[index] = product
    call = _call(node, arguments, types)
    graph = Graph(types, dialect)
    if call is None or not graph.allows(with_bias(call, product, graph)):
        return None
    taken = [*node.arg_types]
    taken[index : index + 1] = inner.arg_types
    seen = CostNode("torch.sum_with_product", None, tuple(taken), node.type, body=(inner, node))
    return (WrittenNode(None, seen, tuple(range(len(taken)))),)


def _stand_ins(node: CostNode, types: dict[Expr, Type]) -> list[Expr]:
    """Arguments of the types, and as constant, as those of a node."""
    constant = node.arg_constant or (False,) * len(node.arg_types)
    return [_stand_in(ty, known, types) for ty, known in zip(node.arg_types, constant, strict=True)]


def _stand_in(ty: Type | None, constant: bool, types: dict[Expr, Type]) -> Expr:
    made: Expr
    if isinstance(ty, TupleType):
        made = Tuple([_stand_in(field, False, types) for field in ty.fields])
    elif constant and is_static(ty):
        shape, zero = ty.concrete_shape, np.zeros((), ty.dtype)
        made = Constant(NDArray(shape, ty.dtype, lambda: np.broadcast_to(zero, shape)))
    else:
        made = Var("", ty)
    types[made] = UNKNOWN if ty is None else ty
    return made


def _call(node: CostNode, arguments: Sequence[Expr], types: dict[Expr, Type]) -> Call | None:
    op = Op.find(node.op)
    if op is None:
        return None
    attrs: Any = node.attrs
    call = Call(op, arguments, attrs if isinstance(attrs, Attrs) or attrs is None else Attrs(attrs))
    if node.type is not None:
        types[call] = node.type
    return call

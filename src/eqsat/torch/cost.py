"""PyTorch as a target of extraction: which nodes an operator is written as, and what cost models see of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from eqsat.cost import CostFunction, CostNode
from eqsat.cost.runtimes import kernels_of
from eqsat.cost.stand_ins import stand_in_call, stand_ins
from eqsat.cost.target import TargetCost, Written, WrittenNode, as_it_is, is_written_as_it_is
from eqsat.errors import EqsatError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order
from eqsat.torch.rows import Aten, Dialect, form_of
from eqsat.torch.rows import Written as Graph
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
        if is_written_as_it_is(node):
            return as_it_is(node)
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
    arguments = stand_ins(node, types, 0)
    call = stand_in_call(node, arguments, types)
    forms = Forms(types, dialect)
    root = forms.resolve(call)
    if root is call:
        return as_it_is(node)
    places = {argument: index for index, argument in enumerate(arguments)}
    return None if root is None else forms.nodes(root, places)


class Forms:
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
    below, arguments = stand_ins(inner, types, 0), stand_ins(node, types, 0)
    product = stand_in_call(inner, below, types)
    arguments[index] = product
    call = stand_in_call(node, arguments, types)
    graph = Graph(types, dialect)
    if not graph.allows(with_bias(call, product, graph)):
        return None
    taken = [*node.arg_types]
    taken[index : index + 1] = inner.arg_types
    seen = CostNode("torch.sum_with_product", None, tuple(taken), node.type, body=(inner, node))
    return as_it_is(seen)

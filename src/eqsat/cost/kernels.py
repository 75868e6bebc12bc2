"""What cost models see of graphs: operators one by one, composites as one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from eqsat.cost.models import NOTHING, CostModel, CostNode
from eqsat.cost.target import Objectives, TargetCost
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.errors import ExtractionError
from eqsat.relay.expr import Call, Expr, Function, Op, Var
from eqsat.relay.infer import infer_types
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

CompositeCost: TypeAlias = float | Callable[[str, Function], float] | CostModel | None
"""A number, a callable of name and typed function, or the model of the device the composites run on; None: the
cost model of the extraction."""

COMPOSITE = "Composite"


class KernelPrices:
    """Costs of calls of composite functions, each found once.

    Args:
        model: the cost model.
        costs: by name of composite, what stands for the model.
    """

    def __init__(self, model: TargetCost, costs: Mapping[str, CompositeCost]):
        self.model = model
        self.costs = costs
        self._known: dict[tuple[Function, tuple[Type | None, ...]], Objectives] = {}

    def __call__(self, function: Function, arg_types: Sequence[Type | None]) -> Objectives:
        """Return the costs of a call of ``function`` on arguments of these types."""
        asked = function, tuple(arg_types)
        if asked not in self._known:
            self._known[asked] = self._price(*asked)
        return self._known[asked]

    def _price(self, function: Function, arg_types: tuple[Type | None, ...]) -> Objectives:
        name = str(function.attrs[COMPOSITE])
        given = self.costs.get(name)
        if given is None:
            return self.model.costs(kernel(function, arg_types))
        if isinstance(given, CostModel):
            return self._padded(TargetCost(given).costs(kernel(function, arg_types)))
        try:
            cost = float(given(name, function) if callable(given) else given)
        except Exception as error:
            raise ExtractionError(f"the cost given for {name} failed: {error!r}") from error
        if not math.isfinite(cost):
            raise ExtractionError(f"the cost given for {name} gives {cost}: costs must be finite")
        return self._padded((cost,))

    def _padded(self, cost: Objectives) -> Objectives:
        """As many costs as those of the model: of what it does not know, nothing is counted."""
        count = len(self.model.costs(NOTHING))
        return (*cost, *(0.0,) * count)[:count]


def is_composite(node: Expr) -> bool:
    """Whether ``node`` is a function literal that stands for one kernel."""
    return isinstance(node, Function) and COMPOSITE in node.attrs


def kernel(function: Function, arg_types: Sequence[Type | None]) -> CostNode:
    """What a cost model sees of a call of a composite ``function`` on arguments of these types."""
    env = {param: ty for param, ty in zip(function.params, arg_types, strict=True) if ty is not None}
    nodes = cost_nodes(function.body, infer_types(function.body, env=env))
    result = nodes[function.body].type
    return CostNode(
        str(function.attrs[COMPOSITE]), function.attrs, tuple(arg_types), result, body=tuple(nodes.values())
    )


def kernel_node(name: str, body: Expr) -> CostNode:
    """Return what a cost model sees of a kernel that computes ``body``, a typed graph over variables and constants."""
    types = {node: node._checked_type for node in post_order(body, children=operands) if node._checked_type is not None}
    nodes = cost_nodes(body, types)
    inputs = tuple([seen.type for node, seen in nodes.items() if isinstance(node, Var)])
    return CostNode(name, None, inputs, types[body], body=tuple(nodes.values()), graph=body)


def cost_nodes(root: Expr, types: Mapping[Expr, Type]) -> dict[Expr, CostNode]:
    """What a cost model sees of each node of a graph, operators and the inside of functions left out.

    ``types`` has the type of each node, as far as known.
    """
    nodes: dict[Expr, CostNode] = {}
    for node in post_order(root, children=operands):
        below = operands(node)
        symbol = _symbol(node)
        constant = symbol.kind == "constant" or (
            bool(below) and is_foldable(symbol) and all(nodes[child].constant for child in below)
        )
        attrs = node.attrs if symbol.kind == "call" and isinstance(node, Call) else None
        arg_types = tuple([types.get(child) for child in below])
        known = tuple([nodes[child].constant for child in below])
        nodes[node] = CostNode(symbol.name, attrs, arg_types, types.get(node), constant, arg_constant=known)
    return nodes


def operands(node: Expr) -> tuple[Expr, ...]:
    """The values that ``node`` is computed from in its own region."""
    if isinstance(node, Function):
        return ()
    return node.args if isinstance(node, Call) and isinstance(node.op, Op) else node.children()


def _symbol(node: Expr) -> Symbol:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return Symbol("call", node.op, len(node.args))
    return Symbol(node.kind, None, len(operands(node)))

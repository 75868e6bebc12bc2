"""What e-nodes cost under a cost model, as they are written for a target."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from eqsat.cost import CostFunction, CostNode
from eqsat.cost.kernels import CompositeCost, KernelPrices, is_composite
from eqsat.cost.models import NOTHING
from eqsat.cost.target import Objectives, TargetCost, Written
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.symbols import Symbol
from eqsat.relay.expr import Function
from eqsat.relay.ty import Type


class Row(NamedTuple):
    """An e-node by numbers: of its class, the classes of its children, its view, its symbol and its atom."""

    of: int
    children: Sequence[int]
    view: int
    symbol: int
    atom: int


class Views:
    """What cost models see of a snapshot's e-nodes: one view of all that have one operator, attributes and types.

    Attributes:
        nodes: the views.
        calls: the composite, and the types of its arguments, of each view that is a call of one.
    """

    def __init__(self, snapshot: Snapshot):
        self.snapshot = snapshot
        self.nodes: list[CostNode] = []
        self.calls: dict[int, tuple[Function, list[Type | None]]] = {}
        self.constant = snapshot.constant.tolist()
        ids: dict[object, int] = {}
        self.kind_ids = [
            ids.setdefault(kind, len(ids)) for kind in zip(snapshot.class_type, self.constant, strict=True)
        ]
        self._composites = _composites(snapshot)
        self._known: dict[tuple[int, ...], int] = {}

    def row(self, symbol: int, atom: int, of: int, children: Sequence[int]) -> Row:
        """An e-node by the numbers of its symbol, its atom, its class and those of its children."""
        ids = self.kind_ids
        head = self.snapshot.symbols[symbol]
        function = self._composites.get(children[0]) if head.kind == "apply" else None
        told = atom if head.kind == "call" else 0 if function is None else ~children[0]
        key = (symbol, told, ids[of], *[ids[child] for child in children])
        view = self._known.get(key)
        if view is None:
            view = self._known[key] = len(self.nodes)
            self.nodes.append(self._view(head, atom, of, children))
            if function is not None:
                self.calls[view] = function, [self.snapshot.class_type[arg] for arg in children[1:]]
        return Row(of, children, view, symbol, atom)

    def _view(self, head: Symbol, atom: int, of: int, children: Sequence[int]) -> CostNode:
        snapshot, types, constant = self.snapshot, self.snapshot.class_type, self.constant
        return CostNode(
            head.name,
            snapshot.atoms[atom].value if head.kind == "call" else None,
            tuple([types[child] for child in children]),
            types[of],
            constant[of],
            arg_constant=tuple([constant[child] for child in children]),
        )


class Price(NamedTuple):
    """What an e-node costs as it is written.

    Args:
        cost: costs of the node that gives its result.
        helpers: the other nodes that it is written as, inputs first. Each has a key and inputs, as a
            :class:`~eqsat.cost.target.WrittenNode` has, and costs.
        inputs: those of the helpers that the result's node takes.
    """

    cost: Objectives
    helpers: tuple[tuple[Hashable, tuple[int, ...], Objectives], ...] = ()
    inputs: tuple[int, ...] = ()


class Prices:
    """Costs of e-nodes and of pairs of them; the model is asked once for each operator, attributes and types.

    Args:
        snapshot: the e-graph.
        model: the cost model.
        composite_costs: by name of composite, what stands for the model.
    """

    def __init__(self, snapshot: Snapshot, model: CostFunction, composite_costs: Mapping[str, CompositeCost]):
        self.model = TargetCost.of(model)
        self.views = Views(snapshot)
        self.composed = KernelPrices(self.model, composite_costs)
        self._alone: dict[int, Price | None] = {}
        self.partners = cache(self._partners)
        self.pair = cache(self._pair)

    def __call__(self, view: int) -> Price | None:
        """Return the price of an e-node by itself, None where it cannot be written."""
        if view not in self._alone:
            call = self.views.calls.get(view)
            self._alone[view] = (
                self._price(self.model.written(self.views.nodes[view])) if call is None else Price(self.composed(*call))
            )
        return self._alone[view]

    def _partners(self, view: int) -> Mapping[int, Collection[str]]:
        """Return the operators that may be written together with an e-node, by the argument they compute."""
        target, seen = self.model.target, self.views.nodes[view]
        return {} if target is None or seen.constant else target.partners(seen)

    def _pair(self, view: int, index: int, inner: int) -> Price | None:
        """Return the price of an e-node written together with what computes an argument, None where it is not."""
        target, nodes = self.model.target, self.views.nodes
        return self._price(None if target is None else target.write_together(nodes[view], index, nodes[inner]))

    def kernel(self, node: CostNode) -> Price:
        """Return the price of a kernel of the runtime."""
        return Price(self.model.costs(node))

    def _price(self, written: Written | None) -> Price | None:
        if not written:
            return None if written is None else Price(self.model.costs(NOTHING))
        *helpers, last = [(part.key, part.inputs, self.model.costs(part.node)) for part in written]
        below = tuple([place for place in last[1] if place < 0])
        return Price(last[2], tuple(helpers), below)


def _composites(snapshot: Snapshot) -> dict[int, Function]:
    """The composite function of each class that is one."""
    kinds = np.asarray([symbol.kind == "function" for symbol in snapshot.symbols], dtype=bool)
    nodes = np.flatnonzero(kinds[snapshot.node_symbol])
    found = {int(snapshot.node_class[node]): snapshot.atoms[snapshot.node_atom[node]].value for node in nodes}
    return {of: function for of, function in found.items() if is_composite(function)}

"""What e-nodes cost under a cost model, and pairs of them that are one kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from eqsat.cost import CostFunction, CostNode
from eqsat.cost.kernels import CompositeCost, KernelPrices, ask, is_composite
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.symbols import Symbol
from eqsat.relay.expr import Function
from eqsat.relay.ty import Type


class Row(NamedTuple):
    """An e-node: numbers of its class, of the classes of its children, and of what a cost model sees of it."""

    of: int
    children: Sequence[int]
    view: int


class Views:
    """What cost models see of e-nodes: one view of all that have one operator, attributes and types.

    Args:
        snapshot: where they are.

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
        return Row(of, children, view)

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


@runtime_checkable
class FusingModel(Protocol):
    """A cost model that knows operators which take in what computes one of their arguments, as a Gemm its bias."""

    def takes_in(self, node: CostNode) -> Mapping[int, Collection[str]]:
        """Names of the operators that may become part of ``node``, by argument."""

    def fused(self, node: CostNode, index: int, inner: CostNode) -> float | None:
        """Cost of one kernel of ``node`` and of ``inner``, its argument ``index``; None where they are two."""


class Prices:
    """Costs of e-nodes; the model is asked once per distinct (operator, attributes, types).

    Args:
        snapshot: where they are.
        model: the cost model.
        composite_costs: by name of composite, what stands for the model.
        views: what models see of them, if another one was asked before.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        model: CostFunction,
        composite_costs: Mapping[str, CompositeCost],
        views: Views | None = None,
    ):
        self.model = model
        self.fusing = model if isinstance(model, FusingModel) else None
        self.views = views or Views(snapshot)
        self.composed = KernelPrices(model, composite_costs)
        self._alone: dict[int, float] = {}
        self._takes_in: dict[int, Mapping[int, Collection[str]]] = {}
        self._kernels: dict[tuple[int, int, int], float | None] = {}

    def __call__(self, view: int) -> float:
        """The cost of an e-node by itself."""
        cost = self._alone.get(view)
        if cost is None:
            call = self.views.calls.get(view)
            cost = self._alone[view] = ask(self.model, self.views.nodes[view]) if call is None else self.composed(*call)
        return cost

    def kernels(
        self, row: Row, below: Sequence[int], computing: Callable[[int], Iterable[tuple[int, Row]]]
    ) -> Iterator[tuple[int, int, float]]:
        """Kernels that an e-node is one of together with what computes an argument.

        Args:
            row: the e-node.
            below: its arguments.
            computing: what computes an argument, each with a name.

        Yields: index of the argument, name of what computes it, and the cost of the kernel.
        """
        for index, operators in self._wanted(row.view).items():
            for name, inner in computing(below[index]):
                seen = self.views.nodes[inner.view]
                if seen.op in operators and not seen.constant:
                    cost = self._kernel(row.view, index, inner.view)
                    if cost is not None:
                        yield index, name, cost

    def together(self, view: int, index: int, inner: int) -> float:
        """The cost of an e-node and of what computes an argument, one kernel or not."""
        cost = self._kernel(view, index, inner)
        return self(view) + self(inner) if cost is None else cost

    def _wanted(self, view: int) -> Mapping[int, Collection[str]]:
        found = self._takes_in.get(view)
        if found is None:
            seen = self.views.nodes[view]
            found = {} if self.fusing is None or seen.constant else self.fusing.takes_in(seen)
            self._takes_in[view] = found
        return found

    def _kernel(self, view: int, index: int, inner: int) -> float | None:
        if self.fusing is None:
            return None
        key = (view, index, inner)
        if key not in self._kernels:
            self._kernels[key] = self.fusing.fused(self.views.nodes[view], index, self.views.nodes[inner])
        return self._kernels[key]


def _composites(snapshot: Snapshot) -> dict[int, Function]:
    """The composite function of each class that is one."""
    kinds = np.asarray([symbol.kind == "function" for symbol in snapshot.symbols], dtype=bool)
    nodes = np.flatnonzero(kinds[snapshot.node_symbol])
    found = {int(snapshot.node_class[node]): snapshot.atoms[snapshot.node_atom[node]].value for node in nodes}
    return {of: function for of, function in found.items() if is_composite(function)}

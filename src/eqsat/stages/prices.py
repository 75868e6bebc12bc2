"""What e-nodes cost under a cost model, and pairs of them that are one kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import CostFunction, CostNode
from eqsat.relay.expr import Function
from eqsat.stages.composites import composites_among
from eqsat.stages.kernels import KernelPrices, ask, is_composite
from eqsat.stages.saturation import Region


class Row(NamedTuple):
    """An e-node: numbers of its symbol, its atom, its class, and the classes of its children."""

    symbol: int
    atom: int
    of: int
    children: Sequence[int]


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
        region: where they are.
        model: the cost model.
    """

    def __init__(self, region: Region, model: CostFunction):
        self.snapshot = snapshot = region.snapshot
        self.model = model
        self.fusing = model if isinstance(model, FusingModel) else None
        rules = composites_among(region.runner.schedule.rules)
        self.composed = KernelPrices(model, {rule.composer.name: rule.cost for rule in rules})
        self.composites = _composites(snapshot)
        self.constant = snapshot.constant.tolist()
        ids: dict[object, int] = {}
        kinds = zip(snapshot.class_type, self.constant, strict=True)
        self.kind_ids = [ids.setdefault(kind, len(ids)) for kind in kinds]
        self._alone: dict[tuple[int, ...], float] = {}
        self._takes_in: dict[tuple[int, ...], Mapping[int, Collection[str]]] = {}
        self._kernels: dict[tuple[object, ...], float | None] = {}

    def __call__(self, row: Row) -> float:
        """The cost of an e-node by itself."""
        children = row.children
        if children and children[0] in self.composites and self.snapshot.symbols[row.symbol].kind == "apply":
            return self.composed(self.composites[children[0]], [self.snapshot.class_type[arg] for arg in children[1:]])
        key = self._key(row)
        cost = self._alone.get(key)
        if cost is None:
            cost = self._alone[key] = ask(self.model, self._view(row))
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
        for index, operators in self._wanted(row).items():
            for name, inner in computing(below[index]):
                if self.snapshot.symbols[inner.symbol].name in operators and not self.constant[inner.of]:
                    cost = self._kernel(row, index, inner)
                    if cost is not None:
                        yield index, name, cost

    def together(self, row: Row, index: int, inner: Row) -> float:
        """The cost of an e-node and of what computes an argument, one kernel or not."""
        cost = self._kernel(row, index, inner)
        return self(row) + self(inner) if cost is None else cost

    def _wanted(self, row: Row) -> Mapping[int, Collection[str]]:
        if self.fusing is None or self.constant[row.of]:
            return {}
        key = self._key(row)
        found = self._takes_in.get(key)
        if found is None:
            found = self._takes_in[key] = self.fusing.takes_in(self._view(row))
        return found

    def _kernel(self, row: Row, index: int, inner: Row) -> float | None:
        if self.fusing is None:
            return None
        key = (self._key(row), index, self._key(inner))
        if key not in self._kernels:
            self._kernels[key] = self.fusing.fused(self._view(row), index, self._view(inner))
        return self._kernels[key]

    def _key(self, row: Row) -> tuple[int, ...]:
        symbol, atom, of, children = row
        ids = self.kind_ids
        return (symbol, atom, ids[of], *[ids[child] for child in children])

    def _view(self, row: Row) -> CostNode:
        """What the model sees of an e-node."""
        symbol, atom, of, children = row
        snapshot = self.snapshot
        head = snapshot.symbols[symbol]
        attrs = snapshot.atoms[atom].value if head.kind == "call" else None
        types, constant = snapshot.class_type, self.constant
        return CostNode(
            head.name,
            attrs,
            tuple([types[child] for child in children]),
            types[of],
            constant[of],
            arg_constant=tuple([constant[child] for child in children]),
        )


def _composites(snapshot: Snapshot) -> dict[int, Function]:
    """The composite function of each class that is one."""
    heads = [index for index, symbol in enumerate(snapshot.symbols) if symbol.kind == "function"]
    nodes = np.flatnonzero(np.isin(snapshot.node_symbol, heads))
    found = {int(snapshot.node_class[node]): snapshot.atoms[snapshot.node_atom[node]].value for node in nodes}
    return {of: function for of, function in found.items() if is_composite(function)}

"""The given graph: its cost, and the corresponding choice of e-nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.cost.prices import Prices, Row
from eqsat.cost.target import Objectives
from eqsat.egraph.build import input_nodes
from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import Problem
from eqsat.extraction.costs import as_tuple, total
from eqsat.pipeline.problem_builder import PlacedKernel, ProblemBuilder
from eqsat.pipeline.saturate import Region


class GivenGraph:
    """The graph of a region as it was lowered, equal nodes once.

    Its cost is computed by a separate extraction problem, in which each value has only one e-node, and kernels compete.

    Args:
        region: The region, its snapshot without kernels.
        prices: Prices of e-nodes.

    Attributes:
        costs: Handle -> costs of each node. Equal nodes have them once; of a kernel its outermost node has them, and
            of helpers the first node that needs them.
    """

    def __init__(self, region: Region, prices: Prices):
        self.lowered = region.lowered
        self.class_of: list[int] = region.snapshot.handle_class.tolist()
        self.handles: list[int] = []
        self.rows: list[Row] = []
        same: dict[tuple[int, ...], int] = {}
        number_of: dict[int, int] = {}
        for handle, symbol, atom, children in self.lowered.nodes:
            below = [number_of[child] for child in children]
            number_of[handle] = number = same.setdefault((symbol, atom, *below), len(self.rows))
            if number == len(self.rows):
                row = prices.views.row(symbol, atom, self.class_of[handle], [self.class_of[each] for each in children])
                self.handles.append(handle)
                self.rows.append(row._replace(of=number, children=below))
        self.root = number_of[self.lowered.root]
        posed = ProblemBuilder(self.rows, len(self.rows), prices, self._uses())
        self.placed, self.class_count, self.problem = posed.kernels, posed.class_count, posed.problem(self.root)
        self.chosen: list[int] = list(range(len(self.rows)))
        if self.placed:
            self.chosen = extraction.extract(self._as_it_runs(prices), "auto").choice.tolist()
        self.costs = dict(zip(self.handles, self._costs(), strict=True))

    def _as_it_runs(self, prices: Prices) -> Problem:
        """Return the problem; if the runtime always forms its kernels, the first objective is the number of kernels."""
        if not prices.model.fuses_all:
            return self.problem
        cost = self.problem.cost.reshape(self.problem.num_nodes, -1)
        return replace(self.problem, cost=np.column_stack([np.any(cost > 0, axis=1), cost]))

    def _uses(self) -> list[int]:
        """Return how often each node is used; the result counts as used once."""
        uses = Counter(child for row in self.rows for child in row.children)
        uses[self.root] += 1
        return [uses[number] for number in range(len(self.rows))]

    def _costs(self) -> Iterable[Objectives]:
        """Yield the costs of each node."""
        children, costs = self.problem.children, self.problem.costs
        helper_node = self.problem.num_nodes - self.problem.num_classes  # number of a helper, less that of its class
        counted: set[int] = set()
        for node in self.chosen[: len(self.rows)]:
            agenda, parts = [node] if node >= 0 else [], [as_tuple(self.problem.zero)]
            while agenda:
                one = agenda.pop()
                parts.append(as_tuple(costs[one]))
                new = [of for of in children[one] if of >= self.class_count and of not in counted]
                counted.update(new)
                agenda += [helper_node + of for of in new]
            yield as_tuple(total(parts))

    def choice(self, snapshot: Snapshot, placed: Sequence[PlacedKernel]) -> NDArray[np.int64]:
        """Return the choice that describes the graph: class -> e-node, -1 where it has none.

        Where rules made classes of the graph one, the node that was lowered first stands for them. Its children were
        lowered before it, so the choice is acyclic.

        Args:
            snapshot: The e-graph with kernels.
            placed: Its kernels.
        """
        found = input_nodes(snapshot, self.lowered)
        class_of = [self.class_of[handle] for handle in self.handles]
        places = [found[handle] for handle in self.handles]
        known = {one.kernel.key(one.kernel.nodes): one for one in placed}
        mine = {one.outer: one.kernel for one in self.placed}
        choice = np.full(snapshot.class_count, -1, dtype=np.int64)
        for number, place in enumerate(places):
            if choice[class_of[number]] < 0:
                choice[class_of[number]] = place
                kernel = mine.get(self.chosen[number])
                same = kernel and known.get(kernel.key([places[node] for node in kernel.nodes], class_of))
                if same:
                    choice[class_of[number]] = same.outer
                    for of, node in same.inner:
                        choice[of] = node
        return choice

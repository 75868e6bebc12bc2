"""Building an extraction problem: nodes, kernels of several nodes, and helpers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from eqsat.cost.fusion import Kernel, find_kernels
from eqsat.cost.prices import Price, Prices, Row
from eqsat.cost.target import Objectives
from eqsat.egraph.snapshot import Snapshot
from eqsat.errors import ExtractionError
from eqsat.extraction import Problem


class PlacedKernel(NamedTuple):
    """A kernel among the nodes of a problem.

    Attributes:
        kernel: The kernel.
        first_node: The number of the first of its nodes; the last of them, ``outer``, gives its result.
        first_class: The first of the classes of its other nodes.
    """

    kernel: Kernel
    first_node: int
    first_class: int

    @property
    def outer(self) -> int:
        return self.first_node + len(self.kernel.nodes) - 1

    @property
    def inner(self) -> Iterator[tuple[int, int]]:
        """Class and node of each value that the kernel computes for itself alone."""
        for index in range(len(self.kernel.nodes) - 1):
            yield self.first_class + index, self.first_node + index


class ProblemBuilder:
    """Builds an extraction problem.

    Nodes are numbered as the rows are; those of kernels follow, then helpers.

    Args:
        rows: The nodes.
        class_count: Number of their classes.
        prices: Prices of them.
        uses: How often each class is used, where the problem is that of one graph; None for an e-graph. A node of a
            graph that cannot be written has the price that the model gives.

    Attributes:
        kernels: The kernels that compete with the nodes.
        class_count: Number of the classes, those of helpers aside.
    """

    def __init__(self, rows: Sequence[Row], class_count: int, prices: Prices, uses: Sequence[int] | None = None):
        self.kernels: list[PlacedKernel] = []
        self.class_count = class_count
        self._node_class: list[int] = []
        self._children: list[Sequence[int]] = []
        self._costs: list[Objectives | None] = []
        self._helpers: dict[tuple[Hashable, ...], int] = {}
        self._helper_nodes: list[tuple[Sequence[int], Objectives]] = []
        node_count = len(rows)
        for kernel in find_kernels(rows, class_count, prices, uses):
            self.kernels.append(PlacedKernel(kernel, node_count, self.class_count))
            node_count += len(kernel.nodes)
            self.class_count += len(kernel.nodes) - 1
        for row in rows:
            price = prices(row.view)
            if price is None and uses is not None:
                price = Price(prices.model.costs(prices.views.nodes[row.view]))
            self._add(row.of, row.children, price, row.children)
        for placed in self.kernels:
            first, kernel = placed.first_class, placed.kernel
            *inner, outer = ([first + ~of if of < 0 else of for of in below] for below in kernel.children)
            for (private, _), children in zip(placed.inner, inner, strict=True):
                self._add(private, children, Price((0.0,) * len(kernel.price.cost)), ())
            self._add(rows[kernel.nodes[-1]].of, outer, kernel.price, kernel.arguments)

    def _add(self, of: int, children: Sequence[int], price: Price | None, arguments: Sequence[int]) -> None:
        """Add a node, which needs ``children`` beside helpers, and whose helpers take ``arguments``.

        Without a price it cannot be chosen.
        """
        if price is not None and price.helpers:
            made: list[int] = []
            for key, inputs, cost in price.helpers:
                below = tuple([made[~place] if place < 0 else arguments[place] for place in inputs])
                helper = self._helpers.setdefault((key, *below), self.class_count + len(self._helpers))
                if helper == self.class_count + len(self._helper_nodes):
                    self._helper_nodes.append((below, cost))
                made.append(helper)
            children = [*children, *dict.fromkeys(made[~place] for place in price.inputs)]
        self._node_class.append(of)
        self._children.append(children)
        self._costs.append(None if price is None else price.cost)

    def problem(self, root: int, snapshot: Snapshot | None = None) -> Problem:
        """Return the problem.

        Nodes that cannot be written are not choices, unless nothing could be written without them.

        Args:
            root: The class to extract.
            snapshot: The e-graph with kernels, if it is that of one. Nodes that compute what is at hand as a constant
                are not choices either.
        """
        helpers = len(self._helper_nodes)
        count = max((len(cost) for cost in self._costs if cost is not None), default=1)
        costs = [*self._costs, *(cost for _, cost in self._helper_nodes)]
        children = [*self._children, *(below for below, _ in self._helper_nodes)]
        left_out = np.zeros(len(costs), dtype=bool)
        ops = None
        if snapshot is not None:
            is_leaf = snapshot.is_leaf
            at_hand = np.bincount(snapshot.node_class[is_leaf], minlength=snapshot.class_count) > 0
            left_out[: snapshot.node_count] = at_hand[snapshot.node_class] & ~is_leaf
            names = [symbol.name for symbol in snapshot.symbols]
            ops = [*[names[symbol] for symbol in snapshot.node_symbol.tolist()], *["helper"] * helpers]
        build = partial(
            Problem,
            np.asarray([*self._node_class, *range(self.class_count, self.class_count + helpers)], np.int64),
            np.cumsum([0, *map(len, children)], dtype=np.int64),
            np.asarray([of for below in children for of in below], np.int64),
            np.asarray([(0.0,) * count if cost is None else cost for cost in costs], dtype=np.float64),
            np.asarray([root]),
            num_classes=self.class_count + helpers,
            ops=ops,
        )
        unwritable = np.asarray([cost is None for cost in costs], dtype=bool)
        try:
            return build(subsumed=left_out | unwritable)
        except ExtractionError:
            return build(subsumed=left_out)

    def with_kernels(self, snapshot: Snapshot) -> Snapshot:
        """Return the e-graph with the nodes of the kernels, all but the outermost in classes of their own."""
        if not self.kernels:
            return snapshot
        first, types = snapshot.node_count, snapshot.class_type_index
        nodes = [node for one in self.kernels for node in one.kernel.nodes]
        inner = [node for one in self.kernels for node in one.kernel.nodes[:-1]]
        children = [[of for of in below if of < self.class_count] for below in self._children[first:]]
        ends = snapshot.child_offsets[-1] + np.cumsum([len(below) for below in children])
        return replace(
            snapshot,
            node_class=np.concatenate([snapshot.node_class, self._node_class[first:]]),
            child_offsets=np.concatenate([snapshot.child_offsets, ends]),
            child=np.concatenate([snapshot.child, np.asarray([of for below in children for of in below], np.int64)]),
            node_symbol=np.concatenate([snapshot.node_symbol, snapshot.node_symbol[nodes]]),
            node_atom=np.concatenate([snapshot.node_atom, snapshot.node_atom[nodes]]),
            class_type_index=np.concatenate([types, types[snapshot.node_class[inner]]]),
            constant=np.concatenate([snapshot.constant, np.zeros(len(inner), bool)]),
        )

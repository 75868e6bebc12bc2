"""An extraction problem as it is written down: nodes, kernels of several of them, and helpers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eqsat.cost.fusion import Kernel
from eqsat.cost.prices import Price, Row
from eqsat.cost.target import Objectives
from eqsat.egraph.snapshot import Snapshot
from eqsat.errors import ExtractionError
from eqsat.extraction import Problem


@dataclass(frozen=True)
class PlacedKernel:
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
    def children(self) -> list[list[int]]:
        """The child classes of each node."""
        first = self.first_class
        return [[first + ~child if child < 0 else child for child in below] for below in self.kernel.children]

    @property
    def inner(self) -> Iterator[tuple[int, int]]:
        """Class and node of each value that the kernel computes for itself alone."""
        for index in range(len(self.kernel.nodes) - 1):
            yield self.first_class + index, self.first_node + index


def place_kernels(kernels: Sequence[Kernel], node_count: int, class_count: int) -> list[PlacedKernel]:
    """Return the kernels with numbers for their nodes and classes, after those that there are."""
    placed = []
    for kernel in kernels:
        placed.append(PlacedKernel(kernel, node_count, class_count))
        node_count += len(kernel.nodes)
        class_count += len(kernel.nodes) - 1
    return placed


def with_kernels(snapshot: Snapshot, rows: Sequence[Row], placed: Sequence[PlacedKernel]) -> Snapshot:
    """Return ``snapshot`` with the e-nodes of each kernel once more, all but the outermost in classes of their own.

    Args:
        snapshot: The e-graph.
        rows: Its e-nodes.
        placed: The kernels.
    """
    if not placed:
        return snapshot
    nodes = np.asarray([node for one in placed for node in one.kernel.nodes], dtype=np.int64)
    inner = [node for one in placed for node in one.kernel.nodes[:-1]]
    classes = [of for one in placed for of in (*[of for of, _ in one.inner], rows[one.kernel.nodes[-1]].of)]
    children = [below for one in placed for below in one.children]
    ends = snapshot.child_offsets[-1] + np.cumsum([len(each) for each in children])
    types = snapshot.class_type_index
    return replace(
        snapshot,
        node_class=np.concatenate([snapshot.node_class, np.asarray(classes, np.int64)]),
        child_offsets=np.concatenate([snapshot.child_offsets, ends]),
        child=np.concatenate([snapshot.child, np.asarray([of for each in children for of in each], np.int64)]),
        node_symbol=np.concatenate([snapshot.node_symbol, snapshot.node_symbol[nodes]]),
        node_atom=np.concatenate([snapshot.node_atom, snapshot.node_atom[nodes]]),
        class_type_index=np.concatenate([types, types[snapshot.node_class[inner]]]),
        constant=np.concatenate([snapshot.constant, np.zeros(len(inner), bool)]),
    )


class ProblemBuilder:
    """An extraction problem that is being written down.

    Args:
        class_count: Number of the classes that nodes are in, those of helpers aside.
    """

    def __init__(self, class_count: int):
        self.class_count = class_count
        self.node_class: list[int] = []
        self.children: list[Sequence[int]] = []
        self.costs: list[Objectives | None] = []
        self.helpers: dict[tuple[Hashable, ...], int] = {}
        self.helper_nodes: list[tuple[Sequence[int], Objectives]] = []

    def add(self, of: int, children: Sequence[int], price: Price | None, arguments: Sequence[int]) -> None:
        """Add a node; without a price it cannot be chosen.

        Args:
            of: Its class.
            children: What it needs beside helpers.
            price: Its price.
            arguments: What inputs of helpers are numbers of.
        """
        if price is not None and price.helpers:
            made: list[int] = []
            for key, inputs, cost in price.helpers:
                below = tuple([made[~place] if place < 0 else arguments[place] for place in inputs])
                helper = self.helpers.setdefault((key, *below), self.class_count + len(self.helpers))
                if helper == self.class_count + len(self.helper_nodes):
                    self.helper_nodes.append((below, cost))
                made.append(helper)
            children = [*children, *dict.fromkeys(made[~place] for place in price.inputs)]
        self.node_class.append(of)
        self.children.append(children)
        self.costs.append(None if price is None else price.cost)

    def add_kernel(self, placed: PlacedKernel, of: int) -> None:
        """Add the nodes of a kernel, of which the outermost has its cost.

        Args:
            placed: The kernel.
            of: The class of its result.
        """
        *inner, outer = placed.children
        price = placed.kernel.price
        for (private, _), children in zip(placed.inner, inner, strict=True):
            self.add(private, children, Price((0.0,) * len(price.cost)), ())
        self.add(of, outer, price, placed.kernel.arguments)

    def problem(
        self, roots: Sequence[int], needless: NDArray[np.bool_] | None = None, ops: list[str] | None = None
    ) -> Problem:
        """Return the problem.

        Nodes that cannot be written are no choices, unless nothing could be written without them.

        Args:
            roots: The classes to extract.
            needless: Which of the first nodes are no choices either.
            ops: Names of the nodes that are no helpers.
        """
        count = max((len(cost) for cost in self.costs if cost is not None), default=1)
        costs = [*self.costs, *(cost for _, cost in self.helper_nodes)]
        children = [*self.children, *(below for below, _ in self.helper_nodes)]
        classes = [*self.node_class, *range(self.class_count, self.class_count + len(self.helper_nodes))]
        unwritable = np.asarray([cost is None for cost in costs], dtype=bool)
        table = np.asarray([(0.0,) * count if cost is None else cost for cost in costs], dtype=np.float64)
        node_class, child = (
            np.asarray(classes, np.int64),
            np.asarray([of for each in children for of in each], np.int64),
        )
        starts = np.concatenate([[0], np.cumsum([len(each) for each in children], dtype=np.int64)])

        def build(subsumed: NDArray[np.bool_]) -> Problem:
            return Problem(
                node_class,
                starts,
                child,
                table[:, 0] if count == 1 else table,
                np.asarray(roots),
                subsumed=subsumed,
                num_classes=self.class_count + len(self.helper_nodes),
                ops=None if ops is None else [*ops, *["helper"] * len(self.helper_nodes)],
            )

        left_out = np.zeros(len(costs), dtype=bool)
        if needless is not None:
            left_out[: len(needless)] = needless
        try:
            return build(left_out | unwritable)
        except ExtractionError:
            return build(left_out)

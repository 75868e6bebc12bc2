"""The extraction problem of a saturated region under a cost model.

Beside the e-nodes it has kernels of two of them, where the model has such: a convolution with its bias costs less
than the two apart, but only where nothing else needs the convolution by itself. Such a kernel is a choice of its
own: a second e-node for the outer operator, over a class of its own that holds the inner one and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.composites.rules import composites_among
from eqsat.cost import CostFunction, ties_of
from eqsat.cost.kernels import CompositeCost
from eqsat.cost.prices import Prices, Row, Views
from eqsat.egraph.build import input_choice
from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import Problem
from eqsat.extraction.costs import as_tuple
from eqsat.extraction.problem import group
from eqsat.extraction.solution import use_counts, walk
from eqsat.pipeline.saturate import Region


@dataclass(frozen=True)
class RegionProblem:
    """What to extract, from what.

    Args:
        region: the region, its snapshot with kernels of two e-nodes.
        problem: the choices and their costs; where the model has one, what decides between graphs of equal cost is
            the second objective.
        incumbent: the choice that describes the input graph, with constants instead of what computes them.
        given: cost of each node of the input graph, as of :func:`input_node_costs`.
    """

    region: Region
    problem: Problem
    incumbent: NDArray[np.int64]
    given: Mapping[int, float]

    @property
    def input_cost(self) -> float:
        """Cost of the graph as it was lowered: equal nodes once, what rules found equal apart."""
        return math.fsum(self.given.values())

    def extract(self, method: str, seconds: float) -> extraction.Result:
        """The cheapest choice; of equally cheap ones the best otherwise, and of these one near the input.

        The costs in the result are those under the first objective.

        Args and errors: as :func:`eqsat.extraction.extract`.
        """
        found = extraction.extract(self.problem, method, incumbent=self.incumbent, seconds=seconds)
        choice = extraction.nearer(self.problem, found.choice, self.incumbent)
        cost, bound, tree = (as_tuple(each)[0] for each in (found.cost, found.lower_bound, found.tree_cost))
        return replace(found, choice=choice, cost=cost, lower_bound=bound, tree_cost=tree, optimal=bound == cost)


class _Kernel(NamedTuple):
    """E-node ``outer`` and what computes its argument number ``place``, as one."""

    outer: int
    place: int
    inner: int


def region_problem(region: Region, model: CostFunction) -> RegionProblem:
    """The extraction problem of a region under a cost model.

    Raises:
        ExtractionError: the model fails or gives no number.
    """
    snapshot = region.snapshot
    prices = Prices(snapshot, model, composite_costs(region))
    rows = _rows(snapshot, prices.views)
    kernels = _kernels(snapshot, rows, prices)
    incumbent, costs = _incumbent(region), [_costs(rows, kernels, prices)]
    ties = ties_of(model)
    if ties is not None:
        costs.append(_costs(rows, kernels, Prices(snapshot, ties, composite_costs(region), prices.views)))
    given = _input_node_costs(region, prices)
    if kernels:
        region = replace(region, snapshot=_with_kernels(snapshot, rows, kernels))
    problem = _problem(region, np.column_stack(costs))
    return RegionProblem(region, problem, _fused(incumbent, kernels, snapshot, problem), given)


def _costs(rows: Sequence[Row], kernels: Sequence[_Kernel], prices: Prices) -> NDArray[np.float64]:
    """Of each e-node, and of the two of each kernel, of which the inner one has the cost."""
    costs = [prices(row.view) for row in rows]
    for outer, place, inner in kernels:
        costs += [prices.together(rows[outer].view, place, rows[inner].view), 0.0]
    return np.asarray(costs, dtype=np.float64)


def _rows(snapshot: Snapshot, views: Views) -> list[Row]:
    starts, child = snapshot.child_start.tolist(), snapshot.child.tolist()
    children = [child[start:end] for start, end in pairwise(starts)]
    heads = (snapshot.node_symbol.tolist(), snapshot.node_atom.tolist(), snapshot.node_class.tolist())
    return [*map(views.row, *heads, children)]


def _problem(region: Region, costs: NDArray[np.float64]) -> Problem:
    snapshot = region.snapshot
    ops = [snapshot.symbols[symbol].name for symbol in snapshot.node_symbol.tolist()]
    return Problem(
        snapshot.node_class,
        snapshot.child_start,
        snapshot.child,
        costs,
        np.asarray([region.root]),
        subsumed=_needless(snapshot),
        num_classes=snapshot.class_count,
        ops=ops,
    )


def composite_costs(region: Region) -> dict[str, CompositeCost]:
    """What a call of each composite costs, as the rules of the region say."""
    return {rule.composer.name: rule.cost for rule in composites_among(region.rules)}


# ---- kernels


def _kernels(snapshot: Snapshot, rows: Sequence[Row], prices: Prices) -> list[_Kernel]:
    """The kernels of two e-nodes that cost less than the two."""
    if prices.fusing is None:
        return []
    members = group(snapshot.node_class, np.arange(snapshot.node_count), snapshot.class_count)
    found = []
    for outer, row in enumerate(rows):
        for place, inner, cost in prices.kernels(row, row.children, lambda of: [(m, rows[m]) for m in members[of]]):
            if cost < prices(row.view) + prices(rows[inner].view):
                found.append(_Kernel(outer, place, inner))
    return found


def _with_kernels(snapshot: Snapshot, rows: Sequence[Row], kernels: Sequence[_Kernel]) -> Snapshot:
    """``snapshot`` with two e-nodes more for each kernel, the inner one in a class of its own, and then the outer."""
    nodes = np.asarray([(kernel.inner, kernel.outer) for kernel in kernels]).reshape(-1)
    children: list[Sequence[int]] = []
    for number, kernel in enumerate(kernels):
        below = [*rows[kernel.outer].children]
        below[kernel.place] = snapshot.class_count + number
        children += [rows[kernel.inner].children, below]
    own = np.arange(snapshot.class_count, snapshot.class_count + len(kernels))
    classes = np.column_stack([own, snapshot.node_class[nodes[1::2]]]).reshape(-1)
    ends = snapshot.child_start[-1] + np.cumsum([len(each) for each in children])
    inner_types = snapshot.class_type_index[snapshot.node_class[nodes[::2]]]
    return replace(
        snapshot,
        node_class=np.concatenate([snapshot.node_class, classes]),
        child_start=np.concatenate([snapshot.child_start, ends]),
        child=np.concatenate([snapshot.child, np.asarray([of for each in children for of in each], np.int64)]),
        node_symbol=np.concatenate([snapshot.node_symbol, snapshot.node_symbol[nodes]]),
        node_atom=np.concatenate([snapshot.node_atom, snapshot.node_atom[nodes]]),
        class_type_index=np.concatenate([snapshot.class_type_index, inner_types]),
        constant=np.concatenate([snapshot.constant, np.zeros(len(kernels), bool)]),
    )


def _fused(
    choice: NDArray[np.int64], kernels: Sequence[_Kernel], snapshot: Snapshot, problem: Problem
) -> NDArray[np.int64]:
    """``choice`` with kernels where it has both their e-nodes, and the inner one for the outer one only."""
    if not kernels:
        return choice
    full = np.concatenate([choice, np.full(len(kernels), -1, np.int64)])
    uses = use_counts(problem, full.tolist(), walk(problem, full))
    fused = full.copy()
    for number, (outer, _, inner) in enumerate(kernels):
        whole, part = snapshot.node_class[outer], snapshot.node_class[inner]
        if fused[whole] == outer and fused[part] == inner and uses[part] == 1:
            fused[snapshot.class_count + number] = snapshot.node_count + 2 * number
            fused[whole] = snapshot.node_count + 2 * number + 1
    return fused


# ---- the graph that was given


def input_node_costs(region: Region, model: CostFunction) -> dict[int, float]:
    """Handle -> cost of each node of the graph as it was lowered; of equal nodes the first alone has one.

    Of two nodes that are one kernel, the inner one has the cost.
    """
    return _input_node_costs(region, Prices(region.snapshot, model, composite_costs(region)))


def _input_node_costs(region: Region, prices: Prices) -> dict[int, float]:
    class_of = region.snapshot.handle_class.tolist()
    same: dict[tuple[int, ...], int] = {}
    stands_for: dict[int, int] = {}
    nodes: dict[int, tuple[Row, list[int]]] = {}
    for handle, symbol, atom, children in region.lowered.nodes:
        below = [stands_for[child] for child in children]
        stands_for[handle] = first = same.setdefault((symbol, atom, *below), handle)
        if first == handle:
            row = prices.views.row(symbol, atom, class_of[handle], [class_of[child] for child in children])
            nodes[handle] = row, below
    costs = {handle: prices(row.view) for handle, (row, _) in nodes.items()}
    if prices.fusing is not None:
        _fuse_input(nodes, costs, prices, stands_for[region.lowered.root])
    return costs


def _fuse_input(nodes: dict[int, tuple[Row, list[int]]], costs: dict[int, float], prices: Prices, root: int) -> None:
    """Give the pairs of nodes that are one kernel the cost of that."""
    uses = dict.fromkeys(nodes, 0)
    uses[root] = 1
    for _, below in nodes.values():
        for child in below:
            uses[child] += 1
    for handle, (row, below) in nodes.items():
        for _, inner, cost in prices.kernels(row, below, lambda child: [(child, nodes[child][0])]):
            if uses[inner] == 1 and cost < costs[handle] + costs[inner]:
                costs[inner], costs[handle] = cost, 0.0
                break


def _incumbent(region: Region) -> NDArray[np.int64]:
    snapshot = region.snapshot
    choice = input_choice(snapshot, region.lowered)
    leaves = np.flatnonzero(_constant_leaves(snapshot))
    leaf = np.full(snapshot.class_count, -1, dtype=np.int64)
    leaf[snapshot.node_class[leaves]] = leaves
    return np.where((choice >= 0) & (leaf >= 0), leaf, choice)


# ---- constants


def _constant_leaves(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Which e-nodes are constants by themselves."""
    kinds = np.asarray([symbol.kind == "constant" for symbol in snapshot.symbols], dtype=bool)
    leaves: NDArray[np.bool_] = kinds[snapshot.node_symbol]
    return leaves


def _needless(snapshot: Snapshot) -> NDArray[np.bool_]:
    """E-nodes that compute what is at hand as a constant."""
    is_leaf = _constant_leaves(snapshot)
    has_leaf = np.zeros(snapshot.class_count, dtype=bool)
    has_leaf[snapshot.node_class[is_leaf]] = True
    needless: NDArray[np.bool_] = has_leaf[snapshot.node_class] & ~is_leaf
    return needless

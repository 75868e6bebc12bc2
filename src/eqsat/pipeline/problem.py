"""The extraction problem of a saturated region under a cost model.

Its nodes are the e-nodes that the target can write. Beside them stand

* *kernels*: several e-nodes that are written as one node, or that the runtime computes as one. A kernel is a choice of
  its own: a second e-node for its outermost operator, over classes of its own that hold the others and nothing else.
* *helpers*: the other nodes that are written for an e-node which the target has no single node for. Each has a class
  of its own, so e-nodes that need the same helper share it, as they do in what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.composites.rules import composites_among
from eqsat.cost import CostFunction
from eqsat.cost.kernels import KernelPrices
from eqsat.cost.prices import Prices, Row
from eqsat.cost.target import Objectives
from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import Problem
from eqsat.extraction.costs import Cost, as_tuple, total
from eqsat.pipeline.given import GivenGraph
from eqsat.pipeline.problem_builder import PlacedKernel, ProblemBuilder
from eqsat.pipeline.saturate import Region


@dataclass(frozen=True, repr=False)
class RegionProblem:
    """The extraction problem of a region.

    Attributes:
        region: The region, its snapshot with kernels.
        problem: The choices and their costs.
        kernels: The kernels among them.
        incumbent: The choice that describes the given graph, with constants instead of their computations.
        given: Handle -> costs of each node of the given graph; see :class:`~eqsat.pipeline.given.GivenGraph`.
        composed: Prices of composites; their model is the one that the problem was posed under.
    """

    region: Region
    problem: Problem
    kernels: Sequence[PlacedKernel]
    incumbent: NDArray[np.int64]
    given: Mapping[int, Objectives]
    composed: KernelPrices

    @property
    def breaks_ties(self) -> bool:
        """Whether the last objective only decides between graphs of equal cost; it is not part of results."""
        return self.composed.model.breaks_ties

    @property
    def input_cost(self) -> Cost:
        """The objectives of the given graph in written form."""
        return total(costs[:1] if self.breaks_ties else costs for costs in self.given.values())

    def extract(self, method: str, seconds: float) -> extraction.Result:
        """Return the cheapest choice; of equally cheap ones, one near the given graph.

        A runtime does not fuse a value that is used elsewhere too. Kernels that turn out to hold such a value are
        left out, and the rest is solved again.

        Args and errors: as :func:`eqsat.extraction.extract`.
        """
        problem = self.problem
        found = first = self._solve(problem, method, seconds)
        while barred := [one.outer for one in self.kernels if self._is_broken(one, found.choice)]:
            left_out = problem.excluded.copy()
            left_out[barred] = True
            problem = replace(problem, subsumed=left_out)
            found = self._solve(problem, method, seconds)
        if found is first:
            return found
        bound = min(first.lower_bound, found.cost)
        return replace(found, lower_bound=bound, optimal=bound == found.cost)

    def _is_broken(self, placed: PlacedKernel, choice: NDArray[np.int64]) -> bool:
        """Return whether a kernel of a choice contains a value that the choice also computes outside of it."""
        classes = self.problem.node_class
        if not placed.kernel.fused or choice[classes[placed.outer]] != placed.outer:
            return False
        return any(choice[classes[node]] == node for node in placed.kernel.nodes[:-1])

    def _solve(self, problem: Problem, method: str, seconds: float) -> extraction.Result:
        found = extraction.extract(problem, method, incumbent=self.incumbent, seconds=seconds)
        found = replace(found, choice=extraction.nearer(problem, found.choice, self.incumbent))
        if not self.breaks_ties:
            return found
        cost, bound, tree = (as_tuple(each)[0] for each in (found.cost, found.lower_bound, found.tree_cost))
        return replace(found, cost=cost, lower_bound=bound, tree_cost=tree, optimal=bound == cost)


def region_problem(region: Region, model: CostFunction) -> RegionProblem:
    """Return the extraction problem of a region under a cost model.

    A :class:`~eqsat.cost.target.TargetCost` says what the graph is written in and run by.

    Raises:
        ExtractionError: The model fails or returns something other than finite numbers.
    """
    prices = Prices(region.snapshot, model, {rule.composer.name: rule.cost for rule in composites_among(region.rules)})
    posed = ProblemBuilder(_rows(region.snapshot, prices), region.snapshot.class_count, prices)
    given = GivenGraph(region, prices)
    snapshot = posed.with_kernels(region.snapshot)
    problem = posed.problem(region.root, snapshot)
    incumbent = _completed(snapshot, given.choice(snapshot, posed.kernels), problem)
    region = replace(region, snapshot=snapshot)
    return RegionProblem(region, problem, posed.kernels, incumbent, given.costs, prices.composed)


def _rows(snapshot: Snapshot, prices: Prices) -> list[Row]:
    heads = (snapshot.node_symbol.tolist(), snapshot.node_atom.tolist(), snapshot.node_class.tolist())
    return [*map(prices.views.row, *heads, snapshot.child_lists())]


def _completed(snapshot: Snapshot, choice: NDArray[np.int64], problem: Problem) -> NDArray[np.int64]:
    """Return ``choice`` with constants wherever they are available, and with all helpers."""
    leaves = np.flatnonzero(snapshot.is_leaf)
    leaf = np.full(snapshot.class_count, -1, dtype=np.int64)
    leaf[snapshot.node_class[leaves]] = leaves
    found = np.where((choice >= 0) & (leaf >= 0), leaf, choice)
    return np.concatenate([found, np.arange(snapshot.node_count, problem.num_nodes)])

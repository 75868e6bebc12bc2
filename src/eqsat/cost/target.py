"""What graphs are written in, and what a graph costs as it is written there."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from eqsat.cost.models import NOTHING, CostFunction, CostModel, CostNode, ties_of
from eqsat.errors import ExtractionError
from eqsat.relay.expr import Op
from eqsat.relay.traits import Trait
from eqsat.relay.transform.merge_composite import PatternTable

Objectives: TypeAlias = tuple[float, ...]
"""Costs that are compared in order: the first that differs decides."""


class WrittenNode(NamedTuple):
    """One node of a target's format, as part of what an e-node is written as.

    Args:
        key: equal for nodes of one operator, attributes and embedded constants.
        node: what a cost model sees of it.
        inputs: what it takes: the number of an argument of the e-node, or ``~k`` for the written node ``k``.
    """

    key: Hashable
    node: CostNode
    inputs: tuple[int, ...]


Written: TypeAlias = tuple[WrittenNode, ...]
"""The nodes that an e-node is written as, inputs first and the result last; none where it equals an argument."""


def as_it_is(node: CostNode) -> Written:
    """Return ``node`` as the one that it is written as."""
    return (WrittenNode(None, node, tuple(range(len(node.arg_types)))),)


def is_written_as_it_is(node: CostNode) -> bool:
    """Tell whether ``node`` runs nothing, or is an operator of the format that the IR does not understand."""
    op = Op.find(node.op)
    return node.constant or op is None or op.has(Trait.FOREIGN)


class Target(Protocol):
    """A format that graphs are written in, whose nodes are not always those of the IR."""

    def write(self, node: CostNode) -> Written | None:
        """Return what ``node`` is written as, or None where the format has no form of it."""

    def partners(self, node: CostNode) -> Mapping[int, Collection[str]]:
        """Return the operators that may be written together with ``node``, by the argument they compute."""

    def write_together(self, node: CostNode, index: int, inner: CostNode) -> Written | None:
        """Return what ``node`` and ``inner``, which computes its argument ``index``, are written as together.

        Arguments are numbered as those of ``node`` with those of ``inner`` in the place of argument ``index``. The
        result is None where the two are written apart.
        """


@dataclass(frozen=True)
class TargetCost(CostModel):
    """A cost model applied to what is written for a target and run by a runtime.

    Args:
        model: the cost of one node.
        target: the format; None where nodes are written as they are.
        kernels: the pattern table of what the runtime computes as one kernel; see :mod:`eqsat.cost.runtimes`.
        counts: whether, of graphs that cost the same, the one of fewer written nodes is taken, whatever the runtime
            makes of them; where costs are tuples, these alone decide.
        version: the version of the format, such as the ONNX opset; None if there are none.
    """

    model: CostFunction
    target: Target | None = None
    kernels: PatternTable = ()
    counts: bool = False
    version: int | None = None

    @staticmethod
    def of(model: CostFunction) -> TargetCost:
        """Return ``model`` itself if it is applied to a target already."""
        return model if isinstance(model, TargetCost) else TargetCost(model)

    @property
    def ties(self) -> CostFunction | None:
        return ties_of(self.model)

    @property
    def fuses_all(self) -> bool:
        """Whether a given graph is priced with all kernels that the runtime makes of it."""
        return isinstance(self.model, CostModel) and self.model.as_it_runs

    @property
    def breaks_ties(self) -> bool:
        """Whether only the first objective counts, and the others decide between graphs of equal cost."""
        return self.ties is not None or (self.counts and not isinstance(self.model(NOTHING), tuple))

    def __call__(self, node: CostNode) -> float:
        """Return the cost of all that ``node`` is written as; its own where it cannot be written."""
        written = self.written(node)
        if written is None:
            return self.costs(node)[0]
        return math.fsum(self.costs(part.node)[0] for part in written)

    def settle(self) -> bool:
        return isinstance(self.model, CostModel) and self.model.settle()

    def written(self, node: CostNode) -> Written | None:
        """Return what ``node`` is written as, None where that is not possible."""
        if self.target is None:
            return as_it_is(node)
        return self.target.write(node)

    def costs(self, node: CostNode) -> Objectives:
        """Return the costs of one written node.

        Raises:
            ExtractionError: the model fails, or gives something else than finite numbers.
        """
        try:
            value = self.model(node if self.version is None else replace(node, version=self.version))
            ties = self.ties
            found = [*value] if isinstance(value, tuple) else [value, *[_written_count(node)] * self.counts]
            found += [] if ties is None or isinstance(value, tuple) else [ties(node)]
            costs = tuple(map(float, found))
        except Exception as error:
            raise ExtractionError(f"the cost model failed for {node.op}: {error!r}") from error
        if not all(map(math.isfinite, costs)):
            raise ExtractionError(f"the cost model returns, for {node.op}, {value}: costs must be finite")
        return costs


def _written_count(node: CostNode) -> int:
    """As how many nodes something is written: what a runtime makes one kernel of has no operator of its own."""
    if not node.runs:
        return 0
    return sum(part.runs for part in node.body) if node.body and Op.find(node.op) is None else 1

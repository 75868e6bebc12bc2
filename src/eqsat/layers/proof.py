"""Proof that no graph of all layers is cheaper than one with copies of the third layer of the shortened graph.

The *tops* of a layer are the e-classes that lead from it to the layer above, its *bottoms* those of the layer below. If
every graph contains some of the tops of each layer, it has three kinds of parts: one of the shortened graph up to the
third layer, one of each missing layer, and one of the shortened graph above. Its cost is the sum of theirs, where each
part is given what the part below has. What a part costs at least depends on which tops the parts below and above have;
dynamic programming gives the least sum. A part that is given more, or computes less, costs no more: few problems have
to be solved before the least sum is that of the copies. If it is less, the parts that have it are the cheapest graph.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.errors import ExtractionError
from eqsat.extraction import Problem
from eqsat.extraction.costs import Cost, as_tuple
from eqsat.layers.truncate import Unit
from eqsat.relay.visitor import children_first

MOST_TOPS = 3
"""Greatest number of tops of a layer: the sums grow with the square of the number of sets of these."""

State: TypeAlias = frozenset[int]
"""Positions of some of the tops of a layer."""

Part: TypeAlias = tuple[State | None, State | None]
"""The tops that a part is given, and those that it computes: none if it has no part below or above."""

_Trail: TypeAlias = "tuple[Part, _Trail | None]"
"""Parts one above the other, the highest first; a longer trail shares those below with others."""

_Way: TypeAlias = tuple[list[float], _Trail]
"""Parts one above the other, and what they cost at least."""

_Node: TypeAlias = tuple[int, Cost, list[int]]
"""Number, cost and child classes of an e-node; the number is -1 where a class is given."""


class Solution(NamedTuple):
    """The cheapest graph of all layers.

    Attributes:
        kept: The chosen e-node of each e-class of the shortened graph, -1 for none.
        layers: For each missing layer the chosen e-nodes of its e-classes, in those of the third layer, and its tops.
    """

    kept: NDArray[np.int64]
    layers: list[tuple[dict[int, int], list[int]]]

    @property
    def is_like_kept(self) -> bool:
        """Whether all missing layers have e-nodes of the third layer only."""
        kept = self.kept.tolist()
        return all(kept[of] == node for choice, _ in self.layers for of, node in choice.items())


def have_few_tops(units: Sequence[Unit]) -> bool:
    """Whether copies of the layers may be proved to cost least, which they never are for other ones.

    The choices for several chains with several tops each would have to be combined.
    """
    tops = [len(unit.tops) for unit in units]
    return max(tops, default=0) <= MOST_TOPS and sum(count > 1 for count in tops) <= 1


class LayerProof:
    """The proof for one chain of layers.

    Args:
        problem: The extraction problem of the shortened graph.
        root: The e-class of the shortened graph.
        unit: The layer whose copies are missing.
        is_inside: Whether an e-class is part of that layer alone.
        short_costs: What the shortened graph costs under each objective.
        costs: What the e-nodes cost that were chosen for the layer.

    Attributes:
        states: The sets of tops that a graph can have.
    """

    def __init__(
        self,
        problem: Problem,
        root: int,
        unit: Unit,
        is_inside: Callable[[int], bool],
        short_costs: list[float],
        costs: list[float],
    ):
        self.problem = problem
        self.root = root
        self.unit = unit
        self.is_inside = is_inside
        self.short_costs = short_costs
        self.costs = costs
        places = range(len(unit.tops))
        self.states = [frozenset(state) for size in places for state in combinations(places, size + 1)]
        self._proved: dict[Part, list[float]] = {}
        self._choices: dict[Part, dict[int, int]] = {}
        self._path: list[Part] = []

    def holds(self, seconds: float) -> bool:
        """Return whether the proof is found within ``seconds``."""
        unit = self.unit
        if self.problem.signed or not self._needs(self.root, unit.tops):
            return False
        if not all(self._needs(top, unit.bottoms) for top in unit.tops):
            return False
        *expected, last = _sum(self.short_costs, *[self.costs] * len(unit.renamed))
        expected.append(last - self.problem.tolerance(last, len(expected)))  # sums are rounded
        deadline = time.perf_counter() + seconds
        parts, path = self._loosest(), list[Part]()
        while parts:
            for part in parts:
                left = deadline - time.perf_counter()
                if left <= 0 or not self._prove(part, left / 2):
                    return False
            costs, trail = self._least()
            if not self.problem.is_less(costs, expected):
                return True
            path = _path(trail)
            parts = [part for part in dict.fromkeys(path) if part not in self._proved]
        self._path = path
        return False

    def cheapest(self, choice: NDArray[np.int64]) -> Solution | None:
        """Return the cheapest graph of all layers, where the proof found that it costs less than copies.

        None if it was not found, if it needs more from beside the layers than constants, or if what is above them needs
        a top that the part below does not have.

        Args:
            choice: The choice for the shortened graph, from which constants come that no part computes.
        """
        if len(self._path) < 3 or not (self._path[-1][0] or frozenset()) <= (self._path[0][1] or frozenset()):
            return None
        below, *layers, above = [self._choices[part] for part in self._path]
        kept = above | below
        known = kept.keys() | {*self.unit.tops, *self.unit.bottoms}
        children = self.problem.children
        used = {child: None for part in (*layers, above) for node in part.values() for child in children[node]}
        wanted = [of for of in used if of not in known and not any(of in part for part in layers)]
        beside = children_first(wanted, lambda of: children[choice[of]] if of not in known and choice[of] >= 0 else ())
        more = {of: int(choice[of]) for of in beside if of not in known}
        if any(node < 0 or any(costs[node] for costs in self.problem.objectives) for node in more.values()):
            return None
        kept |= more
        merged = np.full_like(choice, -1)
        merged[[*kept]] = [*kept.values()]
        tops = [[self.unit.tops[place] for place in sorted(upper or ())] for _, upper in self._path[1:-1]]
        return Solution(merged, [*zip(layers, tops, strict=True)])

    def _needs(self, root: int, parts: Sequence[int]) -> bool:
        """Whether every graph of the e-class ``root`` contains one of the e-classes ``parts``."""
        without = self.problem.excluded | np.isin(self.problem.node_class, parts)
        try:
            replace(self.problem, roots=np.asarray([root]), subsumed=without)
        except ExtractionError:
            return True
        return False

    # ---- parts one above the other

    def _loosest(self) -> list[Part]:
        """The parts that cost no more than others."""
        *_, every = self.states
        single = [state for state in self.states if len(state) == 1]
        layers: list[Part] = [(every, state) for state in single]
        return [*layers, *[(None, state) for state in single], (every, None)] if len(single) > 1 else layers

    def _least(self) -> _Way:
        """The cheapest parts of a graph of all layers, by what is proved."""
        layers = self.unit.renamed
        if len(self.states) == 1:  # nothing else may be given than what is computed
            (only,) = self.states
            return _sum(self.short_costs, *[self._bound((only, only))] * len(layers)), ((only, only), None)
        ways: dict[State, _Way] = {upper: (self._bound((None, upper)), ((None, upper), None)) for upper in self.states}
        bounds: dict[Part, list[float]] = {
            (lower, upper): self._bound((lower, upper)) for lower in self.states for upper in (*self.states, None)
        }
        for _ in layers:
            ways = {upper: self._cheapest(ways, upper, bounds) for upper in self.states}
        return self._cheapest(ways, None, bounds)

    def _cheapest(self, ways: Mapping[State, _Way], upper: State | None, bounds: Mapping[Part, list[float]]) -> _Way:
        """The cheapest of some ways with a part above that computes ``upper``, by the bounds of parts."""
        longer = [(_sum(costs, bounds[lower, upper]), lower) for lower, (costs, _) in ways.items()]
        costs, lower = reduce(lambda one, other: other if self.problem.is_less(other[0], one[0]) else one, longer)
        return costs, ((lower, upper), ways[lower][1])

    def _bound(self, part: Part) -> list[float]:
        """The greatest proved cost of a part that is given what ``part`` is, or more, and computes no more."""
        found = [costs for other, costs in self._proved.items() if _is_looser(other, part)]
        return reduce(lambda one, other: other if self.problem.is_less(one, other) else one, found)

    def _prove(self, part: Part, seconds: float) -> bool:
        """Find the least cost of a part, infinite if it cannot be computed; whether that is proved in time."""
        classes, nodes_of = self._classes(*part)
        number = {of: place for place, of in enumerate(classes)}
        nodes = [nodes_of(of) for of in classes]
        numbered = [[(cost, [number[child] for child in below]) for _, cost, below in each] for each in nodes]
        try:
            problem = Problem.from_lists(numbered, [number[root] for root in self._roots(*part)])
        except ExtractionError:
            self._proved[part] = [math.inf] * len(self.costs)
            return True
        best = extraction.extract(problem, "exact", seconds=seconds)
        self._proved[part] = [*as_tuple(best.cost)]
        chosen = {classes[problem.owner[node]]: node for node in best.choice.tolist() if node >= 0}
        all_nodes = [node for each in nodes for node, _, _ in each]
        self._choices[part] = {of: all_nodes[node] for of, node in chosen.items() if all_nodes[node] >= 0}
        return best.optimal

    # ---- the extraction problem of a part

    @cached_property
    def _below(self) -> set[int]:
        """The e-classes of the part below."""
        return {*children_first(self._roots_below, self._children)}

    @cached_property
    def _roots_below(self) -> list[int]:
        """The tops, and the roots of the shortened graph that none of them leads to."""
        readers: dict[int, list[int]] = {}
        for of in range(self.problem.num_classes):
            for child in self._children(of):
                readers.setdefault(child, []).append(of)
        above = {*children_first(self.unit.tops, lambda of: readers.get(of, ()))}
        return [*self.unit.tops, *[of for of in self.problem.roots.tolist() if of not in above]]

    def _children(self, of: int) -> list[int]:
        return [child for _, _, below in self._nodes(of) for child in below]

    def _nodes(self, of: int) -> list[_Node]:
        """The e-nodes of an e-class that may be chosen."""
        problem = self.problem
        return [(node, problem.costs[node], problem.children[node]) for node in problem.class_nodes[of]]

    def _roots(self, lower: State | None, upper: State | None) -> list[int]:
        """The e-classes that a part computes."""
        if upper is None:
            return [of for of in self.problem.roots.tolist() if of not in self._below]
        results = self.unit.results if lower is not None else self._roots_below[len(self.unit.tops) :]
        return [*[self.unit.tops[place] for place in sorted(upper)], *results]

    def _classes(self, lower: State | None, upper: State | None) -> tuple[list[int], Callable[[int], list[_Node]]]:
        """The e-classes of a part and the e-nodes of each. What other parts have costs nothing."""
        given = self.unit.tops if upper is None else self.unit.bottoms
        absent = set[int]() if lower is None else {of for place, of in enumerate(given) if place not in lower}

        def nodes_of(of: int) -> list[_Node]:
            if of in absent:
                return []
            is_own = lower is None or (of not in self._below if upper is None else self.is_inside(of))
            return self._nodes(of) if is_own else [(-1, self.problem.zero, [])]

        roots = self._roots(lower, upper)
        return children_first(roots, lambda of: [each for _, _, below in nodes_of(of) for each in below]), nodes_of


def _path(trail: _Trail) -> list[Part]:
    """The parts of a trail, the lowest first."""
    found: list[Part] = []
    rest: _Trail | None = trail
    while rest is not None:
        part, rest = rest
        found.append(part)
    return found[::-1]


def _is_looser(one: Part, other: Part) -> bool:
    """Whether a part is given what another one of its kind is, or more, and computes no more."""
    (lower, upper), (other_lower, other_upper) = one, other
    return _has_all(lower, other_lower) and _has_all(other_upper, upper)


def _has_all(one: State | None, other: State | None) -> bool:
    """Whether a set has what another one has; None, where there is no part, has no more than None."""
    return one is other if one is None or other is None else one >= other


def _sum(*costs: Sequence[float]) -> list[float]:
    return [math.fsum(each) for each in zip(*costs, strict=True)]

"""Repeated layers are optimized once: a few of them are saturated and extracted, the others are copies.

What is chosen for a layer of the shortened graph (:mod:`eqsat.layers.truncate`) is taken for each missing one, with
its own constants. It is used only where it is proved to be the cheapest: if the value between two layers is the only
way from one to the next, then every graph of all layers falls apart into one of the shortened chain and one of each
missing layer, and so does its cost. Otherwise the whole is saturated and extracted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.egraph.build import input_spans
from eqsat.egraph.python_rules import build_node
from eqsat.errors import ExtractionError
from eqsat.extraction import Problem
from eqsat.extraction.costs import Cost, as_tuple, total
from eqsat.layers.truncate import KEPT, Truncated, Unit
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.options import Options
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.fold import fold_constants
from eqsat.relay.visitor import children_first


def expand(
    short: Truncated, region: Region, units: Sequence[Unit], chosen: Extraction, options: Options
) -> Extraction | None:
    """The extraction of the whole function, None where it is not proved to be the cheapest.

    Args:
        short: The shortened function.
        region: The shortened function, saturated.
        units: The layers that the missing ones are copies of.
        chosen: What was chosen of the shortened function.
        options: For what is left of the call. The proof takes half of the time limit at most, so that there is
            some for the whole function if it fails.
    """
    (result,), (posed,) = chosen.results, chosen.problems
    if not result.optimal:
        return None
    layers = [_Layer(posed.problem, result.choice, region, unit) for unit in units]
    seconds = options.limits.seconds / 2 / len(layers)
    if not all(layer.is_cheapest(seconds) for layer in layers):
        return None
    body = _Expansion(short, posed.region, result.choice, layers).body()
    if body is None:
        return None
    handles = region.lowered.handles
    cost, input_cost = [result.cost], [chosen.input_cost]
    count = len(as_tuple(result.cost))
    for layer in layers:
        places = [handles[short.place[node]] for node in layer.unit.chain.nodes[2]]
        layer_input = as_tuple(total(posed.given[place] for place in places if place in posed.given))
        for _ in layer.unit.renamed:
            cost.append(tuple(layer.costs[:count]))
            input_cost.append(layer_input[:count])
    whole = replace(result, cost=total(cost), lower_bound=total(cost))
    problems = [replace(posed, region=replace(posed.region, function=short.whole))]
    return Extraction(short.whole, problems, [whole], [body], total(input_cost), chosen.report)


class _Layer:
    """What was chosen for a layer.

    Args:
        problem: the extraction problem of the shortened graph.
        choice: class -> chosen e-node.
        region: the shortened graph, without kernels.
        unit: the layer.

    Attributes:
        classes: the classes of the layer that the choice uses, children first.
        beside: those that they are computed of.
        costs: what was chosen for them costs under each objective.
    """

    def __init__(self, problem: Problem, choice: NDArray[np.int64], region: Region, unit: Unit):
        self.problem = problem
        self.root = region.root
        self.unit = unit
        self.kernels = region.snapshot.class_count  # number of the first class that is part of a kernel
        self.roots = [unit.top, *unit.results]

        def chosen(of: int) -> list[int]:
            return problem.children[int(choice[of])] if self._is_inside(of) else []

        used = children_first(self.roots, chosen)
        self.classes = [of for of in used if self._is_inside(of)]
        self.beside = [of for of in used if not self._is_inside(of)]
        nodes = choice[self.classes]
        self.costs = [math.fsum(costs[nodes].tolist()) for costs in problem.objectives]

    def _is_inside(self, of: int) -> bool:
        return of in self.unit.classes or of >= self.kernels

    def is_cheapest(self, seconds: float) -> bool:
        """Whether it is proved within some seconds that no graph of any number of these layers has cheaper ones.

        Every graph of the whole has the value above the layer, every graph of that the value below, and none of the
        layer alone, with all beside it for nothing, is cheaper.
        """
        if self.problem.signed or not self._needs(self.root, self.unit.top):
            return False
        if not self._needs(self.unit.top, self.unit.bottom):
            return False
        found = extraction.extract(self._alone(), "exact", seconds=seconds)
        return found.optimal and np.allclose(as_tuple(found.cost), self.costs, rtol=1e-9, atol=1e-12)

    def _needs(self, root: int, part: int) -> bool:
        """Whether no graph of one class is without another."""
        without = self.problem.excluded | (self.problem.node_class == part)
        try:
            replace(self.problem, roots=np.asarray([root]), subsumed=without)
        except ExtractionError:
            return True
        return False

    def _alone(self) -> Problem:
        """The extraction problem of the layer, with all beside it for nothing."""
        problem, excluded = self.problem, self.problem.excluded.tolist()
        number: dict[int, int] = {}
        classes: list[list[tuple[Cost, list[int]]]] = []
        todo = [*self.roots]
        while todo:
            of = todo.pop()
            if of in number:
                continue
            number[of] = len(number)
            inside = [node for node in problem.class_nodes[of] if not excluded[node]] if self._is_inside(of) else []
            classes.append([(problem.costs[node], problem.children[node]) for node in inside] or [(problem.zero, [])])
            todo += [child for node in inside for child in problem.children[node]]
        numbered = [[(cost, [number[child] for child in below]) for cost, below in nodes] for nodes in classes]
        return Problem.from_lists(numbered, [number[of] for of in self.roots])


class _Expansion:
    """Builds the graph of a choice with copies of layers.

    Args:
        short: the shortened function.
        region: it saturated, with kernels.
        choice: class -> chosen e-node.
        layers: those to copy, lower chains first.
    """

    def __init__(self, short: Truncated, region: Region, choice: NDArray[np.int64], layers: Sequence[_Layer]):
        self.short = short
        self.region = region
        self.snapshot = region.snapshot
        self.atoms = region.vocabulary.atoms  # those of the missing layers among them
        self.choice: list[int] = choice.tolist()
        self.layers = layers
        self.built: dict[int, Expr] = {}
        self.above: dict[int, Expr] = {}  # class that a layer computes -> what the last missing one computes
        self.results: dict[Expr, Expr] = {}  # result of the whole function -> what is built for it

    def body(self) -> Expr | None:
        """The graph, None where a layer needs, beside it, what is above it, or results are not a tuple of their own."""
        spans = input_spans(self.snapshot, self.region.lowered)
        tops = {layer.unit.top: layer for layer in self.layers}
        beside = [of for layer in self.layers for of in layer.beside]
        wanted = [self.short.class_of(result, self.region) for result in self.short.results]
        if any(self.choice[of] < 0 for of in wanted):
            return None
        for of in children_first([*beside, *wanted], lambda of: self.snapshot.children(self.choice[of])):
            below = [self._value(child) for child in self.snapshot.children(self.choice[of])]
            self.built[of] = self._node(of, {}, below, spans.get(of))
            if of in tops and not self._copy(tops[of]):
                return None
        return fold_constants(self._whole(wanted))

    def _value(self, of: int) -> Expr:
        """What those use that are above all layers that compute a class."""
        return self.above.get(of) or self.built[of]

    def _copy(self, layer: _Layer) -> bool:
        """Build the missing layers; whether all that they need was built."""
        unit = layer.unit
        if any(of not in self.built for of in layer.beside):
            return False
        beside = {of: self._value(of) for of in layer.beside}
        value = self.built[unit.top]
        for number, atoms in enumerate(unit.renamed, KEPT - 1):
            nodes = unit.chain.nodes[number]
            made = {**beside, unit.bottom: value}
            for of in layer.classes:
                span = nodes[unit.places[of]].span if of in unit.places else None
                below = [made[child] for child in self.snapshot.children(self.choice[of])]
                made[of] = self._node(of, atoms, below, span)
            value = made[unit.top]
            self.results |= zip(unit.chain.results(nodes), [made[of] for of in unit.results], strict=True)
        self.above[unit.top] = value
        return True

    def _node(self, of: int, atoms: Mapping[int, int], below: list[Expr], span: Any) -> Expr:
        """The expression of what is chosen for a class, with other atoms in place of its own."""
        snapshot, node = self.snapshot, self.choice[of]
        atom = int(snapshot.node_atom[node])
        symbol = snapshot.symbols[snapshot.node_symbol[node]]
        expr = build_node(symbol, self.atoms[atoms.get(atom, atom)], below)
        if expr._checked_type is None:
            expr._checked_type = snapshot.class_type[of]
        if expr.span is None:
            expr.span = span
        return expr

    def _whole(self, wanted: Sequence[int]) -> Expr:
        """The value of the function: of results that the shortened one has, by their classes, and of the others."""
        chains = [layer.unit.chain for layer in self.layers]
        lower = {result for chain in chains for layer in chain.nodes[: KEPT - 1] for result in chain.results(layer)}
        for result, of in zip(self.short.results, wanted, strict=True):
            self.results[result] = self.built[of] if result in lower else self._value(of)
        for outer in self.short.tuples:
            self.results[outer] = Tuple([self.results[field] for field in outer.fields])._carry(outer)
        return self.results[self.short.whole.body]

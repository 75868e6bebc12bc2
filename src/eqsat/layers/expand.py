"""Restoring the missing layers in a graph that was extracted without them.

Each missing layer gets the nodes that were chosen for the third layer of the shortened graph
(:mod:`eqsat.layers.truncate`), with its own constants, or those that the proof found to be cheaper
(:mod:`eqsat.layers.proof`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.python_rules import build_node
from eqsat.extraction import Problem
from eqsat.extraction.costs import as_cost, as_tuple, total
from eqsat.layers.find import Layers
from eqsat.layers.proof import LayerProof, Solution
from eqsat.layers.truncate import KEPT, Truncated, Unit
from eqsat.pipeline.extract import Copies, Extraction
from eqsat.pipeline.options import Options
from eqsat.pipeline.problem import RegionProblem
from eqsat.pipeline.provenance import Derived, derivation, owners
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.fold import fold_constants
from eqsat.relay.visitor import children_first


def expand(
    short: Truncated, region: Region, units: Sequence[Unit], chosen: Extraction, options: Options
) -> Extraction | None:
    """Return the extraction of the whole function with copies of a layer; None if there is no such graph.

    Args:
        short: The shortened function.
        region: The shortened function, saturated.
        units: The layers whose copies are missing; they have few tops.
        chosen: The extraction of the shortened function.
        options: The options for the remaining time of the call. The proof that no graph is cheaper takes at most half
            of the time limit, so that time remains for the whole function if the proof fails.
    """
    (result,), (posed,) = chosen.results, chosen.problems
    choice, is_proved = result.choice, result.optimal
    seconds = options.limits.seconds / 2 / len(units)
    solutions = list[Solution | None]()
    for unit in units:
        found = None
        if len(unit.tops) > 1:
            proof = _Layer(posed.problem, choice, region, unit).proof
            is_proved = proof.holds(seconds)
            found = None if is_proved else proof.cheapest(choice)
            if found is not None and region.traced is not None and not found.is_like_kept:
                found = None  # nothing is known of where e-nodes come from that only copies have
        if found is not None:
            choice, is_proved = found.kept, True
        solutions.append(found)
    layers = [_Layer(posed.problem, choice, region, *each) for each in zip(units, solutions, strict=True)]
    is_proved &= all(layer.proof.holds(seconds) for layer in layers if len(layer.unit.tops) == 1)
    expansion = _Expansion(short, posed, choice, layers)
    body = expansion.body()
    if body is None:
        return None
    handles = region.lowered.handles
    count = len(as_tuple(result.cost))
    kept = tuple(_costs(posed.problem, choice[choice >= 0])[:count])
    cost, input_cost = [as_cost(kept)], [chosen.input_cost]
    for layer in layers:
        places = [handles[short.place[node]] for node in layer.unit.chain.nodes[2]]
        layer_input = as_tuple(total(posed.given[place] for place in places if place in posed.given))
        for copy in layer.copies:
            cost.append(tuple(copy.costs[:count]))
            input_cost.append(layer_input[:count])
    least = -math.inf if posed.problem.signed else 0.0
    bound = total(cost) if is_proved else as_cost((least,) * count)
    whole = replace(result, choice=choice, cost=total(cost), lower_bound=bound, optimal=is_proved)
    source = short.whole.function or short.whole.expr
    problems = [replace(posed, region=replace(posed.region, function=short.whole.function))]
    dropped = expansion.derivation.dropped
    copies = Copies(expansion.given(), expansion.classes)
    return Extraction(source, problems, [whole], [body], total(input_cost), chosen.report, dropped, copies)


class _Copy:
    """The e-nodes of one missing layer, as e-nodes of the third.

    Attributes:
        choice: The chosen e-node of each e-class.
        tops: The tops that it has.
        classes: The e-classes of the layer that the choice uses, children first.
        beside: The e-classes outside the layer from which these are computed.
        costs: The cost of the chosen e-nodes under each objective.
    """

    def __init__(self, layer: _Layer, choice: Mapping[int, int], tops: list[int]):
        def chosen(of: int) -> list[int]:
            return layer.problem.children[choice[of]] if layer.is_inside(of) else []

        self.choice = choice
        self.tops = tops
        used = children_first([*tops, *layer.unit.results], chosen)
        self.classes = [of for of in used if layer.is_inside(of)]
        self.beside = [of for of in used if not layer.is_inside(of)]
        self.costs = _costs(layer.problem, np.array([choice[of] for of in self.classes], np.int64))


class _Layer:
    """A layer whose copies are missing; ``region`` is the shortened graph saturated, without kernels.

    Args:
        solution: The e-nodes of the copies, if they are not those that were chosen for the third layer.

    Attributes:
        copies: The missing layers.
        tops: The tops that the third layer has.
        proof: The proof that copies of the third layer cost least.
    """

    def __init__(
        self,
        problem: Problem,
        choice: NDArray[np.int64],
        region: Region,
        unit: Unit,
        solution: Solution | None = None,
    ):
        self.problem = problem
        self.unit = unit
        self.kernels = region.snapshot.class_count  # number of the first class that is part of a kernel
        self.tops = [of for of in unit.tops if choice[of] >= 0]
        if solution is None:
            self.copies = [_Copy(self, dict(enumerate(choice.tolist())), self.tops)] * len(unit.renamed)
        else:
            self.copies = [_Copy(self, *each) for each in solution.layers]
        short_costs = _costs(problem, choice[choice >= 0])
        self.proof = LayerProof(problem, region.root, unit, self.is_inside, short_costs, self.copies[0].costs)

    def is_inside(self, of: int) -> bool:
        """Whether an e-class is part of the layer alone."""
        return of in self.unit.classes or of >= self.kernels


def _costs(problem: Problem, nodes: NDArray[np.int64]) -> list[float]:
    """The cost of e-nodes under each objective."""
    return [math.fsum(costs[nodes].tolist()) for costs in problem.objectives]


class _Expansion:
    """Builds the graph of a choice, with copies of layers in it; ``posed`` is the problem of the shortened graph.

    Attributes:
        spans: E-class -> span of the expression that is built for it.
        built: E-class -> its expression, below the missing layers.
        above: E-class of the value of a layer -> the expression that the last missing layer computes.
        results: Result of the whole function -> its expression.
        classes: What is built -> its e-class and layer, as :class:`Copies` has them.
    """

    def __init__(self, short: Truncated, posed: RegionProblem, choice: NDArray[np.int64], layers: Sequence[_Layer]):
        self.short = short
        self.region = region = posed.region
        self.derivation = derivation(posed, choice)
        self.spans = self.derivation.spans
        self.snapshot = region.snapshot
        self.atoms = region.vocabulary.atoms  # those of the missing layers among them
        self.choice: list[int] = choice.tolist()
        self.layers = layers
        self.built: dict[int, Expr] = {}
        self.above: dict[int, Expr] = {}
        self.results: dict[Expr, Expr] = {}
        self.classes: dict[Expr, tuple[int, int]] = {}
        self._moves: dict[tuple[int, int], dict[Any, Any]] = {}

    def given(self) -> dict[Expr, tuple[Expr, int]]:
        """Node of the whole function -> the node that was lowered in its place, and its layer."""
        found = {node: (self.short.place[node], 0) for node in self.short.whole.children if node in self.short.place}
        for unit in [layer.unit for layer in self.layers]:
            models = unit.chain.nodes[2]
            own = [self.short.class_of(model, self.region) in unit.classes for model in models]
            for number in range(KEPT - 1, len(unit.chain.nodes) - 1):
                for node, model, is_own in zip(unit.chain.nodes[number], models, own, strict=True):
                    found[node] = (self.short.place[model], number if is_own else 0)
        return {node: found[node] for node in self.short.whole.children if node in found}

    def body(self) -> Expr | None:
        """The graph; None if a layer needs a value from above it, or if a result was not chosen."""
        wanted = [self.short.class_of(result, self.region) for result in self.short.results]
        if any(self.choice[of] < 0 for of in wanted):
            return None
        for layer in self.layers:
            if not self.built.keys().isdisjoint(layer.tops):
                return None  # what was built reads the third layer in the place of the last missing one
            beside = [of for copy in layer.copies for of in copy.beside if of not in layer.unit.bottoms]
            self._build([*dict.fromkeys(beside), *layer.tops])
            if not self._copy(layer):
                return None
        self._build(wanted)
        whole = self._whole(wanted)
        folded = fold_constants(whole)
        self._follow(whole, folded)
        return folded

    def _follow(self, whole: Expr, folded: Expr) -> None:
        """Update ``classes`` with the nodes of a graph whose constants were folded."""
        pairs, seen = [(whole, folded)], set[Expr]()
        while pairs:
            old, new = pairs.pop()
            if old is new or new in seen:
                continue
            seen.add(new)
            if old in self.classes:
                self.classes[new] = self.classes[old]
            below = old.children(), new.children()
            if len(below[0]) == len(below[1]):
                pairs += zip(*below, strict=True)

    def _build(self, classes: Sequence[int]) -> None:
        """Build the expressions of e-classes, and of what they are computed from."""
        for of in children_first(classes, lambda of: self.snapshot.children(self.choice[of]), self.built):
            below = [self._value(child) for child in self.snapshot.children(self.choice[of])]
            self.built[of] = self._node(of, self.choice[of], {}, below, self._span(of))
            self.classes.setdefault(self.built[of], (of, 0))

    def _value(self, of: int) -> Expr:
        """Return the expression of an e-class for its users above the layers."""
        return self.above.get(of) or self.built[of]

    def _copy(self, layer: _Layer) -> bool:
        """Build the copies of a layer; return whether all that they need was built before."""
        unit = layer.unit
        tops = dict(zip(unit.bottoms, unit.tops, strict=True))
        made = {of: self.built[of] for of in layer.tops}
        for number, (atoms, copy) in enumerate(zip(unit.renamed, layer.copies, strict=True), KEPT - 1):
            nodes = unit.chain.nodes[number]
            if any(tops[of] not in made for of in copy.beside if of in tops):
                return False
            made = {of: made[tops[of]] if of in tops else self._value(of) for of in copy.beside}
            for of in copy.classes:
                if of >= self.snapshot.class_count:
                    continue  # a helper, which is written with what needs it
                node, span = copy.choice[of], self._copied_span(of, unit, number)
                below = [made[child] for child in self.snapshot.children(node)]
                made[of] = self._node(of, node, atoms, below, span)
                self.classes.setdefault(made[of], (of, number))
            self.results |= zip(unit.chain.results(nodes), [made[of] for of in unit.results], strict=True)
        self.above |= {of: made[of] for of in layer.copies[-1].tops}
        return True

    def _span(self, of: int) -> Any:
        """Return the span of the expression of an e-class; the layer below the last one stands for the last one."""
        span = self.spans.get(of)
        for layer in self.layers:
            last = {self._owners.get(node) for node in layer.unit.chain.nodes[-1]}
            if isinstance(span, Derived) and not last.isdisjoint(span.origins):
                span = self._moved(span, layer.unit.chain, len(layer.unit.chain.nodes) - 2)
        return span

    def _copied_span(self, of: int, unit: Unit, number: int) -> Any:
        """The span of what is built for an e-class of the third layer in the copy of it that is layer ``number``."""
        span = unit.chain.nodes[number][unit.places[of]].span if of in unit.places else None
        model = self.spans.get(of)
        return replace(self._moved(model, unit.chain, number), span=span) if isinstance(model, Derived) else span

    def _moved(self, span: Derived, chain: Layers, number: int) -> Derived:
        """The span of what comes from layer ``number``, given that of what comes from the third in the same way."""
        new = self._moves.get((id(chain), number))
        if new is None:
            new = self._moves[id(chain), number] = {}
            for source, target in ((2, number), (1, number - 1), (-1, number + 1), (0, number - 2)):
                for node, other in zip(chain.nodes[source], chain.nodes[target], strict=True):
                    new.setdefault(self._owners.get(node), self._owners.get(other))
        return replace(span, origins=tuple([new.get(origin, origin) for origin in span.origins]))

    @cached_property
    def _owners(self) -> dict[Expr, Any]:
        """Node of the whole function -> span of the node that it belongs to."""
        return owners([*self.short.whole.children])

    def _node(self, of: int, node: int, atoms: Mapping[int, int], below: list[Expr], span: Any) -> Expr:
        """The expression of an e-node of an e-class, with other atoms in the place of its own."""
        snapshot = self.snapshot
        atom = int(snapshot.node_atom[node])
        symbol = snapshot.symbols[snapshot.node_symbol[node]]
        expr = build_node(symbol, self.atoms[atoms.get(atom, atom)], below)
        if expr._checked_type is None:
            expr._checked_type = snapshot.class_type[of]
        if expr.span is None:
            expr.span = span
        return expr

    def _whole(self, wanted: Sequence[int]) -> Expr:
        """The body of the whole function; ``wanted`` are the e-classes of the results of the shortened one."""
        chains = [layer.unit.chain for layer in self.layers]
        lower = {result for chain in chains for layer in chain.nodes[: KEPT - 1] for result in chain.results(layer)}
        for result, of in zip(self.short.results, wanted, strict=True):
            self.results[result] = self.built[of] if result in lower else self._value(of)
        for outer in self.short.tuples:
            self.results[outer] = Tuple([self.results[field] for field in outer.fields])._carry(outer)
        return self.results[self.short.whole.expr]

"""Restoring the missing layers in a graph that was extracted without them.

Each missing layer gets the nodes that were chosen for the third layer of the shortened graph
(:mod:`eqsat.layers.truncate`), with its own constants. The result is used only where it is proved to be the cheapest.
If every graph contains one of the e-classes between two layers, then it consists of a graph of the shortened chain and
one of each missing layer, and its cost is the sum of theirs. With one e-class it suffices to prove that the third layer
by itself has no cheaper form. With two, a layer may cost less if it is given the other one, or both. So the least cost
of a layer is found for each choice of e-classes below and above it, and that of the shortened chain for each choice of
those below and above the missing layers. Dynamic programming then gives the least cost of all layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat import extraction
from eqsat.egraph.python_rules import build_node
from eqsat.errors import ExtractionError
from eqsat.extraction import Problem
from eqsat.extraction.costs import Cost, as_tuple, total
from eqsat.layers.find import Layers
from eqsat.layers.truncate import KEPT, Truncated, Unit
from eqsat.pipeline.extract import Copies, Extraction
from eqsat.pipeline.options import Options
from eqsat.pipeline.problem import RegionProblem
from eqsat.pipeline.provenance import Derived, derivation, owners
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Expr, Tuple
from eqsat.relay.fold import fold_constants
from eqsat.relay.visitor import children_first

MOST_TOPS = 2
"""Greatest number of e-classes between two layers: that of problems that are solved grows with the sets of these."""

_State = tuple[int, ...]
"""Positions of some of the e-classes between two layers."""

_Pair = tuple[_State, _State]
"""What is given below a layer or a graph, and what it computes."""

_Node = tuple[Cost, list[int]]
"""Cost and child classes of an e-node."""


def have_few_tops(units: Sequence[Unit]) -> bool:
    """Whether :func:`expand` may prove that copies of the layers cost least, which it never does for other ones.

    The choices for several chains with several tops each would have to be combined.
    """
    tops = [len(unit.tops) for unit in units]
    return max(tops, default=0) <= MOST_TOPS and sum(count > 1 for count in tops) <= 1


def expand(
    short: Truncated, region: Region, units: Sequence[Unit], chosen: Extraction, options: Options
) -> Extraction | None:
    """Return the extraction of the whole function; None if it is not proved to be the cheapest.

    Args:
        short: The shortened function.
        region: The shortened function, saturated.
        units: The layers whose copies are missing; they have few tops.
        chosen: The extraction of the shortened function.
        options: The options for the remaining time of the call. The proof takes at most half of the time limit, so that
            time remains for the whole function if the proof fails.
    """
    (result,), (posed,) = chosen.results, chosen.problems
    if not result.optimal:
        return None
    layers = [_Layer(posed.problem, result.choice, region, unit) for unit in units]
    seconds = options.limits.seconds / 2 / len(layers)
    if not all(layer.is_cheapest(seconds) for layer in layers):
        return None
    expansion = _Expansion(short, posed, result.choice, layers)
    body = expansion.body()
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
    source = short.whole.function or short.whole.expr
    problems = [replace(posed, region=replace(posed.region, function=short.whole.function))]
    dropped = expansion.derivation.dropped
    copies = Copies(expansion.given(), expansion.classes)
    return Extraction(source, problems, [whole], [body], total(input_cost), chosen.report, dropped, copies)


class _Layer:
    """The e-nodes that were chosen for a layer; ``region`` is the shortened graph saturated, without kernels.

    Attributes:
        classes: The e-classes of the layer that the choice uses, children first.
        beside: The e-classes outside the layer from which these are computed.
        tops: The tops of the layer that the choice uses.
        costs: The cost of the chosen e-nodes under each objective.
        short_costs: The same for the whole of the shortened graph.
        states: The sets of tops that a graph can have, as tuples of their positions.
    """

    def __init__(self, problem: Problem, choice: NDArray[np.int64], region: Region, unit: Unit):
        self.problem = problem
        self.root = region.root
        self.unit = unit
        self.kernels = region.snapshot.class_count  # number of the first class that is part of a kernel

        def chosen(of: int) -> list[int]:
            return problem.children[int(choice[of])] if self._is_inside(of) else []

        places = range(len(unit.tops))
        self.states = [state for size in places for state in combinations(places, size + 1)]
        self.tops = [of for of in unit.tops if choice[of] >= 0]
        used = children_first([*self.tops, *unit.results], chosen)
        self.classes = [of for of in used if self._is_inside(of)]
        self.beside = [of for of in used if not self._is_inside(of)]
        self.costs = _costs(problem, choice[self.classes])
        self.short_costs = _costs(problem, choice[choice >= 0])

    def _is_inside(self, of: int) -> bool:
        return of in self.unit.classes or of >= self.kernels

    def is_cheapest(self, seconds: float) -> bool:
        """Return whether it can be proved within ``seconds`` that no graph of all layers is cheaper than copies."""
        unit, states, is_less = self.unit, self.states, self.problem.is_less
        if self.problem.signed or not self._needs(self.root, unit.tops):
            return False
        if not all(self._needs(top, unit.bottoms) for top in unit.tops):
            return False
        pairs = [(lower, upper) for lower in states for upper in states]
        seconds /= 2 * len(pairs)
        one = self._least_each(self._alone, pairs, seconds)
        rest = {pairs[0]: self.short_costs}  # with one top nothing else may be given than what is computed
        if one and len(pairs) > 1:
            rest = self._least_each(self._parted, pairs, seconds)
        if not one or not rest:
            return False
        *expected, last = _sum(self.short_costs, *[self.costs] * len(unit.renamed))
        expected.append(last - self.problem.tolerance(last, len(expected)))  # sums are rounded
        for lower in states:
            least = {lower: [0.0] * len(self.costs)}
            for _ in unit.renamed:
                sums = [(upper, _sum(costs, one[middle, upper])) for middle, costs in least.items() for upper in states]
                least = {}
                for upper, costs in sums:
                    if upper not in least or is_less(costs, least[upper]):
                        least[upper] = costs
            if any(is_less(_sum(costs, rest[lower, upper]), expected) for upper, costs in least.items()):
                return False
        return True

    def _needs(self, root: int, parts: Sequence[int]) -> bool:
        """Whether every graph of the e-class ``root`` contains one of the e-classes ``parts``."""
        without = self.problem.excluded | np.isin(self.problem.node_class, parts)
        try:
            replace(self.problem, roots=np.asarray([root]), subsumed=without)
        except ExtractionError:
            return True
        return False

    def _least_each(
        self, problem_of: Callable[[_State, _State], Problem | None], pairs: Sequence[_Pair], seconds: float
    ) -> dict[_Pair, list[float]]:
        """The least costs of a problem for each pair, infinite if there is none; empty if one is not proved in time."""
        found = {}
        for pair in pairs:
            problem = problem_of(*pair)
            if problem is None:
                found[pair] = [math.inf] * len(self.costs)
                continue
            best = extraction.extract(problem, "exact", seconds=seconds)
            if not best.optimal:
                return {}
            found[pair] = [*as_tuple(best.cost)]
        return found

    def _alone(self, lower: _State, upper: _State) -> Problem | None:
        """The extraction problem of some tops of the layer, in which some bottoms and what is beside it cost nothing.

        None if they cannot be computed from these.
        """
        problem, unit = self.problem, self.unit
        absent = {*unit.bottoms} - {unit.bottoms[place] for place in lower}

        def nodes_of(of: int) -> list[_Node]:
            if of in absent:
                return []
            inside = _nodes(problem, of) if self._is_inside(of) else []
            return inside or [(problem.zero, [])]

        return _problem([*[unit.tops[place] for place in upper], *unit.results], nodes_of)

    def _parted(self, lower: _State, upper: _State) -> Problem | None:
        """The extraction problem of the shortened graph in which the layer computes some tops, and others are used."""
        problem, unit = self.problem, self.unit
        below = {*children_first(unit.tops, lambda of: [each for node in _nodes(problem, of) for each in node[1]])}
        given = {top: problem.num_classes + place for place, top in enumerate(unit.tops)}

        def seen_from(of: int, child: int) -> int:
            return child if of in below else given.get(child, child)

        def nodes_of(of: int) -> list[_Node]:
            if of >= problem.num_classes:
                return [(problem.zero, [])] if of - problem.num_classes in upper else []
            return [(cost, [seen_from(of, child) for child in children]) for cost, children in _nodes(problem, of)]

        roots = [seen_from(-1, root) for root in problem.roots.tolist()]
        return _problem([*[unit.tops[place] for place in lower], *roots], nodes_of)


def _nodes(problem: Problem, of: int) -> list[_Node]:
    """The e-nodes of an e-class that may be chosen."""
    return [(problem.costs[node], problem.children[node]) for node in problem.class_nodes[of]]


def _problem(roots: Sequence[int], nodes_of: Callable[[int], list[_Node]]) -> Problem | None:
    """The extraction problem of some classes, given the e-nodes of each; None if there is no graph of them."""
    number: dict[int, int] = {}
    classes: list[list[_Node]] = []
    todo = [*roots]
    while todo:
        of = todo.pop()
        if of not in number:
            number[of] = len(number)
            classes.append(nodes_of(of))
            todo += [child for _, below in classes[-1] for child in below]
    numbered = [[(cost, [number[child] for child in below]) for cost, below in nodes] for nodes in classes]
    try:
        return Problem.from_lists(numbered, [number[root] for root in roots])
    except ExtractionError:
        return None


def _costs(problem: Problem, nodes: NDArray[np.int64]) -> list[float]:
    """The cost of e-nodes under each objective."""
    return [math.fsum(costs[nodes].tolist()) for costs in problem.objectives]


def _sum(*costs: Sequence[float]) -> list[float]:
    return [math.fsum(each) for each in zip(*costs, strict=True)]


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
            self._build([*layer.beside, *layer.tops])
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
            self.built[of] = self._node(of, {}, below, self._span(of))
            self.classes.setdefault(self.built[of], (of, 0))

    def _value(self, of: int) -> Expr:
        """Return the expression of an e-class for its users above the layers."""
        return self.above.get(of) or self.built[of]

    def _copy(self, layer: _Layer) -> bool:
        """Build the copies of a layer; return whether all that they need was built before."""
        unit = layer.unit
        bottoms = {bottom: top for bottom, top in zip(unit.bottoms, unit.tops, strict=True) if bottom in layer.beside}
        if any(top not in self.built for top in bottoms.values()):
            return False
        beside = {of: self._value(of) for of in layer.beside}
        made = {of: self.built[of] for of in layer.tops}
        for number, atoms in enumerate(unit.renamed, KEPT - 1):
            nodes = unit.chain.nodes[number]
            made = {**beside, **{bottom: made[top] for bottom, top in bottoms.items()}}
            for of in layer.classes:
                if of >= self.snapshot.class_count:
                    continue  # a helper, which is written with what needs it
                span = self._copied_span(of, unit, number)
                below = [made[child] for child in self.snapshot.children(self.choice[of])]
                made[of] = self._node(of, atoms, below, span)
                self.classes.setdefault(made[of], (of, number))
            self.results |= zip(unit.chain.results(nodes), [made[of] for of in unit.results], strict=True)
        self.above |= {of: made[of] for of in layer.tops}
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

    def _node(self, of: int, atoms: Mapping[int, int], below: list[Expr], span: Any) -> Expr:
        """The expression of the e-node that was chosen for an e-class, with other atoms in the place of its own."""
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
        """The body of the whole function; ``wanted`` are the e-classes of the results of the shortened one."""
        chains = [layer.unit.chain for layer in self.layers]
        lower = {result for chain in chains for layer in chain.nodes[: KEPT - 1] for result in chain.results(layer)}
        for result, of in zip(self.short.results, wanted, strict=True):
            self.results[result] = self.built[of] if result in lower else self._value(of)
        for outer in self.short.tuples:
            self.results[outer] = Tuple([self.results[field] for field in outer.fields])._carry(outer)
        return self.results[self.short.whole.expr]

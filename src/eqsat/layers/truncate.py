"""Graphs without most of their repeated layers, and whether what is found for these tells of the whole.

Of a chain of layers the first three and the last are kept. What rules find of the two in the middle they find of
each one in between in the whole graph, when

* what is known of the constants and inputs of the one is known of those of every other (:mod:`eqsat.egraph.renaming`)
  and no constant that is not shared by all layers is found twice anywhere;
* both came out the same, e-node for e-node (:mod:`eqsat.egraph.likeness`). Rules see an e-graph piece by piece: what
  follows for a layer follows from what is in it and beside it, so what is the same for two neighbours is the same for
  the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsat.egraph.likeness import ClassGraph
from eqsat.egraph.lower import region_children
from eqsat.egraph.renaming import Asked, all_asked, asked_about, renaming
from eqsat.egraph.report import Limits
from eqsat.layers.find import Layers, result_tuples
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Constant, Expr, Function, Tuple, Var
from eqsat.relay.visitor import post_order, rebuild

KEPT = 4
"""Layers of a chain that are kept."""


class Truncated:
    """A function without most layers of some chains.

    Args:
        whole: the function.
        chains: its layers.

    Attributes:
        function: without the layers between the third and the last of each chain, and without their results.
        place: node of ``whole`` -> what has its place.
        tuples: those of ``whole`` that hold its results, inner ones first.
        results: the results of ``whole`` that ``function`` has too.
        share: of the nodes of ``whole``, those that ``function`` has.
    """

    def __init__(self, whole: Function, chains: Sequence[Layers]):
        self.whole = whole
        self.chains = chains
        self.tuples = result_tuples(whole.body)
        self.results: list[Expr] = []
        body = self._body()
        below = {chain.cuts[-2]: chain.cuts[KEPT - 1] for chain in chains}
        above = {lower: upper for upper, lower in below.items()}
        self.place: dict[Expr, Expr] = {}
        order = post_order(body, children=lambda node: [below.get(child, child) for child in region_children(node)])
        for node in order:
            self.place[node] = rebuild(node, self.place)
            if node in above:
                self.place[above[node]] = self.place[node]
        self.function = Function(whole.params, self.place[body], None, whole.type_params, whole.attrs)
        missing = sum(len(nodes) for chain in chains for nodes in chain.nodes[KEPT - 1 : -1])
        self.share = len(order) / (len(order) + missing)

    def limits(self, limits: Limits) -> Limits:
        """The share of the limits of the whole, so that what stays within it would as a whole."""
        return replace(limits, nodes=max(1, int(limits.nodes * self.share)), seconds=limits.seconds * self.share)

    def class_of(self, node: Expr, region: Region) -> int:
        """The class of what has the place of a node of ``whole``, ``function`` saturated."""
        return int(region.snapshot.handle_class[region.lowered.handles[self.place[node]]])

    def _body(self) -> Expr:
        """The body without the results of missing layers."""
        layers = [(chain, layer) for chain in self.chains for layer in chain.nodes[KEPT - 1 : -1]]
        new: dict[Expr, Expr | None] = {result: None for chain, layer in layers for result in chain.results(layer)}
        for outer in self.tuples:
            self.results += [field for field in outer.fields if field not in new]
            fields = [field for old in outer.fields if (field := new.get(old, old)) is not None]
            new[outer] = Tuple(fields) if fields else None
        self.results = self.results or [self.whole.body]
        return new.get(self.whole.body) or self.whole.body


@dataclass(frozen=True)
class Unit:
    """The layer, third of its chain, that the missing ones are copies of.

    Args:
        chain: all layers.
        top, bottom: classes of the value that it computes, and of that which it computes it of.
        results: classes of its own results.
        classes: the classes that are the layer's alone.
        places: class -> a place in the layer whose node has a span.
        renamed: of each missing layer, the atoms that take the place of the layer's.
    """

    chain: Layers
    top: int
    bottom: int
    results: list[int]
    classes: frozenset[int]
    places: dict[int, int]
    renamed: list[dict[int, int]]


def find_units(short: Truncated, region: Region) -> list[Unit] | None:
    """The layers that the missing ones are copies of, lower chains first; None if that may not be told of some.

    Args:
        short: the shortened function.
        region: it saturated.
    """
    finder = _Finder(short, region)
    units = []
    for chain in short.chains:
        unit = finder.unit(chain)
        if unit is None:
            return None
        units.append(unit)
    return units


class _Finder:
    """See :func:`find_units`."""

    def __init__(self, short: Truncated, region: Region):
        self.short = short
        self.vocabulary = region.vocabulary
        self.graph = ClassGraph(region.snapshot)
        self.region = region
        self.taken = set(range(len(self.vocabulary.atoms)))

    def unit(self, chain: Layers) -> Unit | None:
        """The layer that the missing ones of a chain are copies of, None if they are not like it."""
        leaves = [self._leaves(nodes) for nodes in chain.nodes]
        model = leaves[2]
        own = [place for place, atom in model.items() if leaves[1][place] != atom]
        shared = model.keys() - set(own)
        if any(leaf[place] != model[place] for leaf in leaves for place in shared):
            return None
        kept = [{leaves[layer][place] for place in own} for layer in (0, 1, 2, -1)]
        neighbour = self._neighbour(_pairs(leaves[1], model, own), kept[0] | kept[2] | kept[3])
        if neighbour is None:
            return None
        asked = asked_about(self.vocabulary, set(neighbour.values()), kept[0] | kept[1] | kept[3])
        renamed = []
        for leaf in leaves[KEPT - 1 : -1]:
            atoms = self._renamed(asked, _pairs(model, leaf, own))
            if atoms is None or atoms.keys() != set(neighbour.values()):
                return None
            renamed.append(atoms)
        return self._unit(chain, neighbour, kept[0] | kept[1] | kept[3], renamed)

    # ---- what is known of constants and inputs

    def _leaves(self, nodes: Sequence[Expr]) -> dict[int, int]:
        """Place of each constant and input of a layer -> its atom."""
        return {
            place: self.vocabulary.constant(node) if isinstance(node, Constant) else self.vocabulary.variable(node)
            for place, node in enumerate(nodes)
            if isinstance(node, (Constant, Var))
        }

    def _neighbour(self, pairs: dict[int, int] | None, others: set[int]) -> dict[int, int] | None:
        """Atoms of a layer -> those of the next, with what Python computed of them."""
        found = None if pairs is None else renaming(self.vocabulary, all_asked(self.vocabulary), pairs)
        return None if found is None or asked_about(self.vocabulary, found, others) is None else found

    def _renamed(self, asked: Sequence[Asked] | None, pairs: dict[int, int] | None) -> dict[int, int] | None:
        """Atoms of a layer -> those of a missing one, which are found nowhere else."""
        atoms = None if asked is None or pairs is None else renaming(self.vocabulary, asked, pairs)
        if atoms is None or not self.taken.isdisjoint(atoms.values()) or len(set(atoms.values())) < len(atoms):
            return None
        self.taken.update(atoms.values())
        return atoms

    # ---- what came out

    def _unit(
        self, chain: Layers, neighbour: dict[int, int], others: set[int], renamed: list[dict[int, int]]
    ) -> Unit | None:
        """The third layer, if it and the second one are the same, and apart from the others.

        Args:
            chain: the layers.
            neighbour: atoms of the second layer -> those of the third.
            others: atoms of other layers that are kept.
            renamed: as for :class:`Unit`.
        """
        cuts = [self._class(cut) for cut in chain.cuts[:KEPT]]
        known = self._known_likes(chain)
        if known is None or len(set(cuts)) < len(cuts) or any(known.get(cut, -1) == cut for cut in cuts):
            return None
        fixed = {of for of, like in known.items() if of == like}
        results = [[self._class(result) for result in chain.results(chain.nodes[layer])] for layer in (1, 2)]
        second = self.graph.reach([cuts[2], *results[0]], {cuts[1], *fixed})
        third = self.graph.reach([cuts[3], *results[1]], {cuts[2], *fixed})
        like = self.graph.likeness(second, third, known, neighbour)
        if like is None or {like[of] for of in second} != set(third):
            return None
        alone = {like[of] for of in second if like[of] != of}
        if alone.intersection(second) or any(self.graph.has_leaf(of, others) for of in third):
            return None
        return Unit(chain, cuts[3], cuts[2], results[1], frozenset(alone), self._places(chain.nodes[2]), renamed)

    def _known_likes(self, chain: Layers) -> dict[int, int] | None:
        """Classes that the second layer is computed of -> those for the third, as far as nodes of theirs tell."""
        likes = [(chain.cuts[1], chain.cuts[2]), *zip(chain.nodes[1], chain.nodes[2], strict=True)]
        inside = {*chain.nodes[1], *chain.nodes[2], *chain.cuts[1:3]}
        beside = [child for layer in (1, 2) for node in chain.nodes[layer] for child in region_children(node)]
        likes += [(node, node) for node in beside if node not in inside]
        known: dict[int, int] = {}
        for one, other in likes:
            if known.setdefault(self._class(one), self._class(other)) != self._class(other):
                return None
        return known

    def _places(self, nodes: Sequence[Expr]) -> dict[int, int]:
        """Class -> place of the node of it that was lowered first among those with a span."""
        places: dict[int, int] = {}
        spanned = [place for place, node in enumerate(nodes) if node.span is not None]
        handles = self.region.lowered.handles
        for place in sorted(spanned, key=lambda place: handles[self.short.place[nodes[place]]]):
            places.setdefault(self._class(nodes[place]), place)
        return places

    def _class(self, node: Expr) -> int:
        return self.short.class_of(node, self.region)


def _pairs(ones: dict[int, int], others: dict[int, int], places: Sequence[int]) -> dict[int, int] | None:
    """What is at some places -> what is there in another layer; None if it is not one to one."""
    pairs: dict[int, int] = {}
    for place in places:
        if pairs.setdefault(ones[place], others[place]) != others[place]:
            return None
    return pairs if len(set(pairs.values())) == len(pairs) else None

"""Graphs without most of their repeated layers, and whether the missing layers would be saturated in the same way.

The first three layers and the last layer of a chain are kept. The missing ones lie between the third and the last.
Rules find the same for each missing layer as for the third one under these conditions:

* All that rules asked about the constants and inputs of the third layer has the same answers for those of the missing
  one (:mod:`eqsat.egraph.renaming`), and no constant occurs twice unless all layers share it.
* The second and the third layer have the same e-nodes (:mod:`eqsat.egraph.likeness`). What rules find for a layer
  follows from the layer and what is beside it. So if it is the same for two neighbours, it is the same for the next.
* What is above the third layer takes of it and of the second one only what leads to the next layer, and results: a
  missing layer has no place in what goes by them.

One value leads from a layer of the graph to the next, but several e-classes may: rules find reshaped forms of this
value, and these are computed from others of the layer below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from eqsat.egraph.likeness import ClassGraph
from eqsat.egraph.lower import region_children
from eqsat.egraph.renaming import Asked, all_asked, asked_about, renaming
from eqsat.egraph.report import Limits
from eqsat.layers.find import Layers
from eqsat.pipeline.saturate import Body, Region
from eqsat.relay.expr import Constant, Expr, Tuple, Var
from eqsat.relay.ty import TupleType, Type
from eqsat.relay.visitor import post_order, rebuild

KEPT = 4
"""Number of layers of a chain that are kept."""


class Truncated:
    """A function without most layers of its chains.

    Args:
        whole: The function.
        chains: Its chains of layers.
        tuples: The tuples that hold its results, inner ones first.

    Attributes:
        body: What is left without the layers between the third and the last of each chain, and their results.
        place: Node of ``whole`` -> the node of ``body`` in its place.
        results: The results of ``whole`` that ``body`` has as well.
        share: The number of nodes of ``body`` as a fraction of those of ``whole``.
    """

    def __init__(self, whole: Body, chains: Sequence[Layers], tuples: Sequence[Tuple]):
        self.whole = whole
        self.chains = chains
        self.tuples = tuples
        self.results: list[Expr] = []
        body = self._body()
        below = {chain.cuts[-2]: chain.cuts[KEPT - 1] for chain in chains}
        above = {lower: upper for upper, lower in below.items()}
        self.place: dict[Expr, Expr] = {}
        order = post_order(body, children=lambda node: [below.get(child, child) for child in region_children(node)])
        types: dict[Expr, Type] = {}
        for node in order:
            new = self.place[node] = rebuild(node, self.place)
            if node in whole.types:
                types[new] = whole.types[node]
            elif isinstance(new, Tuple):  # of fewer results
                types[new] = TupleType([types[field] for field in new.fields])
            if node in above:
                self.place[above[node]] = self.place[node]
        self.body = Body(None, None, False, self.place[body], types)
        missing = sum(len(nodes) for chain in chains for nodes in chain.nodes[KEPT - 1 : -1])
        self.share = len(order) / (len(order) + missing)

    def limits(self, limits: Limits) -> Limits:
        """Return limits: e-nodes in proportion to the size, and half of the time, since the whole may need the rest."""
        return replace(limits, nodes=max(1, int(limits.nodes * self.share)), seconds=limits.seconds / 2)

    def class_of(self, node: Expr, region: Region) -> int:
        """The e-class of a node of ``whole`` in ``body``, which ``region`` is the saturation of."""
        return int(region.snapshot.handle_class[region.lowered.handles[self.place[node]]])

    def _body(self) -> Expr:
        """The body without the results of missing layers."""
        layers = [(chain, layer) for chain in self.chains for layer in chain.nodes[KEPT - 1 : -1]]
        new: dict[Expr, Expr | None] = {result: None for chain, layer in layers for result in chain.results(layer)}
        for outer in self.tuples:
            self.results += [field for field in outer.fields if field not in new]
            fields = [field for old in outer.fields if (field := new.get(old, old)) is not None]
            new[outer] = Tuple(fields) if fields else None
        self.results = self.results or [self.whole.expr]
        return new.get(self.whole.expr) or self.whole.expr


class Unit(NamedTuple):
    """The third layer of a chain; the missing layers are copies of it.

    Attributes:
        chain: All layers of the chain.
        tops: The e-classes of the layer that the next layer is computed from.
        bottoms: Those of the layer below that it is itself computed from, in the same order.
        results: The e-classes of results of the whole function in the layer.
        classes: The e-classes that no other layer has.
        places: E-class -> position in the layer of a node of it that has a span.
        renamed: For each missing layer, atom of the third layer -> the atom in its place.
    """

    chain: Layers
    tops: list[int]
    bottoms: list[int]
    results: list[int]
    classes: frozenset[int]
    places: dict[int, int]
    renamed: list[dict[int, int]]


def find_units(short: Truncated, region: Region) -> list[Unit] | None:
    """Return the layers whose copies are missing, lower chains first; None if some may not be copies."""
    finder = _Finder(short, region)
    units = []
    for chain in short.chains:
        unit = finder.unit(chain)
        if unit is None:
            return None
        units.append(unit)
    return units


class _Finder:
    """Finds the layers for :func:`find_units`."""

    def __init__(self, short: Truncated, region: Region):
        self.short = short
        self.vocabulary = region.vocabulary
        self.graph = ClassGraph(region.snapshot)
        self.region = region
        self.taken = set(range(len(self.vocabulary.atoms)))

    def unit(self, chain: Layers) -> Unit | None:
        """Return the layer of a chain whose copies are missing; None if they may not be copies."""
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
        """Position of each constant and input in a layer -> its atom."""
        return {
            place: self.vocabulary.constant(node) if isinstance(node, Constant) else self.vocabulary.variable(node)
            for place, node in enumerate(nodes)
            if isinstance(node, (Constant, Var))
        }

    def _neighbour(self, pairs: dict[int, int] | None, others: set[int]) -> dict[int, int] | None:
        """Atoms of a layer, and of constants computed from them -> those of the next layer."""
        found = None if pairs is None else renaming(self.vocabulary, all_asked(self.vocabulary), pairs)
        return None if found is None or asked_about(self.vocabulary, found, others) is None else found

    def _renamed(self, asked: Sequence[Asked] | None, pairs: dict[int, int] | None) -> dict[int, int] | None:
        """Atoms of a layer -> those of a missing one, which occur nowhere else."""
        atoms = None if asked is None or pairs is None else renaming(self.vocabulary, asked, pairs)
        if atoms is None or not self.taken.isdisjoint(atoms.values()) or len(set(atoms.values())) < len(atoms):
            return None
        self.taken.update(atoms.values())
        return atoms

    # ---- what came out

    def _unit(
        self, chain: Layers, neighbour: dict[int, int], others: set[int], renamed: list[dict[int, int]]
    ) -> Unit | None:
        """The third layer, if it has the same e-nodes as the second, and none of its own in common with the others.

        ``neighbour`` leads from the atoms of the second layer to those of the third; ``others`` has those of the rest.
        """
        cuts = [self._class(cut) for cut in chain.cuts[:KEPT]]
        known = self._known_likes(chain)
        if known is None or len(set(cuts)) < len(cuts) or any(known.get(cut, -1) == cut for cut in cuts):
            return None
        fixed = {of for of, like in known.items() if of == like}
        results = [[self._class(result) for result in chain.results(layer)] for layer in chain.nodes[: KEPT - 1]]
        ends = zip(cuts[1:], accumulate(results), strict=True)
        below = [{*self.graph.reach([cut, *up_to], fixed)} for cut, up_to in ends]
        second, third = below[1] - below[0], below[2] - below[1]
        needed = self.graph.children_of(second) & below[0], self.graph.children_of(third) & below[1]
        shared = needed[0] & needed[1]
        lower, bottoms = needed[0] - shared, needed[1] - shared
        known |= dict(zip(shared, shared, strict=True))
        for node, other in zip(chain.nodes[0], chain.nodes[1], strict=True):
            if self._class(node) in lower:
                known.setdefault(self._class(node), self._class(other))
        like = self.graph.likeness(second, third, known, neighbour, lower, bottoms) if bottoms <= second else None
        if like is None or {like[of] for of in second} != third or {like.get(of) for of in lower} != bottoms:
            return None
        alone = {like[of] for of in second if like[of] != of}
        tops = {like[of] for of in bottoms}
        taken = self.graph.children_of(self.graph.reach([self.region.root], {*below[2], *fixed}))
        if taken & alone - tops - {*results[-1]} or taken & second - fixed - shared - tops - {*results[1]}:
            return None
        if any(self.graph.has_leaf(of, others) for of in third):
            return None
        atoms = others.union(neighbour.values())
        if any(self.graph.has_leaf(of, atoms) for of in self.graph.reach(shared, fixed)):
            return None
        ordered = sorted(bottoms)
        places = self._places(chain.nodes[2])
        return Unit(chain, [like[of] for of in ordered], ordered, results[-1], frozenset(alone), places, renamed)

    def _known_likes(self, chain: Layers) -> dict[int, int] | None:
        """E-classes of the nodes of the second layer and around it -> those of the third; None if they conflict."""
        likes = [(chain.cuts[1], chain.cuts[2]), *zip(chain.nodes[1], chain.nodes[2], strict=True)]
        inside = {*chain.nodes[1], *chain.nodes[2], *chain.cuts[1:3]}
        children = self.short.whole.children
        beside = [child for layer in (1, 2) for node in chain.nodes[layer] for child in children[node]]
        likes += [(node, node) for node in beside if node not in inside]
        known: dict[int, int] = {}
        for one, other in likes:
            if known.setdefault(self._class(one), self._class(other)) != self._class(other):
                return None
        return known

    def _places(self, nodes: Sequence[Expr]) -> dict[int, int]:
        """E-class -> position of its first node, in the order of lowering, that has a span."""
        places: dict[int, int] = {}
        spanned = [place for place, node in enumerate(nodes) if node.span is not None]
        handles = self.region.lowered.handles
        for place in sorted(spanned, key=lambda place: handles[self.short.place[nodes[place]]]):
            places.setdefault(self._class(nodes[place]), place)
        return places

    def _class(self, node: Expr) -> int:
        return self.short.class_of(node, self.region)


def _pairs(ones: dict[int, int], others: dict[int, int], places: Sequence[int]) -> dict[int, int] | None:
    """Atoms at some positions of a layer -> those of another layer; None if this is not one to one."""
    pairs: dict[int, int] = {}
    for place in places:
        if pairs.setdefault(ones[place], others[place]) != others[place]:
            return None
    return pairs if len(set(pairs.values())) == len(pairs) else None

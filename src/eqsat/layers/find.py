"""Repeated layers of a graph: where they are.

A value is computed of itself again and again: by layers that are the same but for their constants and inputs. They
are found by what surrounds each node, up to a radius, as a hash; nodes that look alike are candidates for the values
between layers, and two walks side by side, down from one of them and from the next, tell whether what lies
between is the same. Both are linear in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from math import ceil

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.lower import is_opaque, region_children
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

RADIUS = 4
"""How far below a node others may differ from it."""

MIN_LAYERS = 6
"""Fewer layers are not worth the search."""

MIN_CALLS = 8
"""Calls in a layer, at least, as rules see over smaller ones: of these several are one."""

_TRIES = 16
"""Groups of nodes that look alike, of which it is tried whether they lie between layers."""

_STEPS = 2
"""Nodes that the walks for one candidate may visit, for each node of the graph."""


@dataclass(frozen=True)
class Layers:
    """Layers one above the other: each computes the next of a chain of values from the one before.

    Args:
        cuts: the values, one more than layers.
        nodes: of each layer, its nodes, constants and inputs among them, in an order that is the same for all;
            the first is the value that the layer computes. What all layers share is in none.
        places: those in ``nodes`` of what is, in every layer, a result of the whole too.
    """

    cuts: list[Expr]
    nodes: list[list[Expr]]
    places: list[int]

    def results(self, layer: Sequence[Expr]) -> list[Expr]:
        """What the nodes of a layer are among the results of the whole."""
        return [layer[place] for place in self.places]


def result_tuples(body: Expr) -> list[Tuple]:
    """The tuples of a graph that do nothing but hold its results, those inside of others first."""
    if not isinstance(body, Tuple):
        return []
    nodes = post_order(body, children=region_children)
    users = Counter(child for node in nodes for child in dict.fromkeys(region_children(node)))
    held: Counter[Expr] = Counter()
    found = [body]
    for outer in found:
        for field in dict.fromkeys(outer.fields):
            held[field] += 1
            if isinstance(field, Tuple) and held[field] == users[field]:
                found.append(field)
    return found[::-1]


def find_layers(body: Expr, types: Mapping[Expr, Type]) -> list[Layers]:
    """Chains of layers in a graph, none where there are none worth anything; lower ones first.

    Args:
        body: the graph; if it is a tuple, layers may have results of their own in it.
        types: type of each node.
    """
    graph = _Graph(body, types)
    if any(map(is_opaque, graph.nodes)):
        return []
    found: list[Layers] = []
    taken: set[Expr] = set()
    tries = _TRIES
    for members in graph.candidates():
        if graph.nodes[members[len(members) // 2]] not in taken and tries:
            tries -= 1
            for layers in graph.layers_between(members):
                nodes = {node for one in layers.nodes for node in one}
                if taken.isdisjoint(nodes):
                    taken |= nodes
                    found.append(layers)
    return sorted(found, key=lambda layers: graph.number[layers.cuts[0]])


class _Graph:
    """A graph as numbers: nodes by their place in post-order, without those that are not in a region's own graph."""

    def __init__(self, body: Expr, types: Mapping[Expr, Type]):
        self.body = body
        self.nodes = post_order(body, children=region_children)
        self.number = number = {node: index for index, node in enumerate(self.nodes)}
        self.tuples = {number[outer] for outer in result_tuples(body)}
        self.children = [[number[child] for child in region_children(node)] for node in self.nodes]
        self.type = [types.get(node) for node in self.nodes]
        heads = zip(map(_head, self.nodes), self.type, strict=True)
        labels: dict[object, int] = {}
        self.label = [labels.setdefault(head, len(labels)) for head in heads]

    @cached_property
    def users(self) -> list[list[int]]:
        """Who uses each node, tuples of results aside."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for user, children in enumerate(self.children):
            if user not in self.tuples:
                for child in children:
                    users[child].append(user)
        return users

    @cached_property
    def results(self) -> set[int]:
        """The nodes that are results."""
        return {field for outer in self.tuples for field in self.children[outer]} - self.tuples

    def candidates(self) -> list[list[int]]:
        """Groups of calls that look alike, those first of which one has fewest values beside it."""
        groups: dict[int, list[int]] = {}
        for node, look in enumerate(self._looks().tolist()):
            if type(self.nodes[node]) is Call:
                groups.setdefault(look, []).append(node)
        several = [members for members in groups.values() if len(members) > 2]
        alive = self._alive()
        return sorted(several, key=lambda members: (alive[members[len(members) // 2]], -len(members), members[0]))

    def _alive(self) -> list[int]:
        """How many values, computed up to a node, are used after it: between layers there are fewest."""
        change = [0] * (len(self.nodes) + 1)
        for node, users in enumerate(self.users):
            if users and self.children[node]:
                change[node] += 1
                change[max(users)] -= 1
        return list(accumulate(change))

    def _looks(self) -> NDArray[np.uint64]:
        """A hash of each node and of what is below it, up to the radius."""
        arity = np.asarray([len(children) for children in self.children])
        child = np.asarray([child for children in self.children for child in children], dtype=np.int64)
        parent = np.repeat(np.arange(len(arity)), arity)
        place = np.arange(len(child)) - np.repeat(np.cumsum(arity) - arity, arity)
        weight = _mixed(~place.astype(np.uint64)) | np.uint64(1)
        alone = _mixed(np.asarray(self.label, dtype=np.uint64))
        look = alone
        for _ in range(RADIUS):
            below = np.zeros_like(alone)
            np.add.at(below, parent, look[child] * weight)
            look = _mixed(alone + below)
        return look

    def layers_between(self, members: Sequence[int]) -> list[Layers]:
        """Layers between nodes that look alike, and below them."""
        self._steps = _STEPS * len(self.nodes)
        middle = len(members) // 2
        cuts = [members[middle - 1], members[middle]]
        layers: list[list[int]] = []
        while (found := self._side_by_side(cuts[1], cuts[0], cuts[0])) is not None:
            above, below, cut = found
            if layers and layers[0] != above:
                break
            layers[:0] = [below] if layers else [below, above]
            cuts.insert(0, cut)
        for cut in members[middle + 1 :] if layers else ():
            found = self._side_by_side(cut, cuts[-1], cuts[-1])
            if found is None or found[1:] != (layers[-1], cuts[-2]):
                break
            layers.append(found[0])
            cuts.append(cut)
        layers, cuts = self._joined(layers, cuts)
        return [self._layers(layers[slice(*run)], cuts[run[0] : run[1] + 1]) for run in self._runs(layers)]

    def _joined(self, layers: list[list[int]], cuts: list[int]) -> tuple[list[list[int]], list[int]]:
        """Small layers as larger ones of several each; those that are left over above are none."""
        many = ceil(MIN_CALLS / self._calls(layers[0])) if layers else 1
        starts = range(0, len(layers) - many + 1, many)
        joined = [list(chain.from_iterable(layers[start : start + many][::-1])) for start in starts]
        return joined, cuts[::many][: len(joined) + 1]

    def _side_by_side(self, top: int, bottom: int, other: int) -> tuple[list[int], list[int], int] | None:
        """The nodes from ``top`` down to ``bottom``, the nodes from ``other`` down that are the same, and their bottom.

        Returns None where nothing is the same.
        """
        twin: dict[int, int] = {}
        taken: dict[int, None] = {}
        stack = [(top, other)]
        while stack:
            a, b = stack.pop()
            known = twin.get(a)
            if known == b or (a == b and a != bottom):
                continue
            self._steps -= 1
            if known is not None or b in taken or self._steps < 0:
                return None
            twin[a] = b
            taken[b] = None
            if a != bottom:
                if self.label[a] != self.label[b]:
                    return None
                stack += zip(self.children[a], self.children[b], strict=True)
        cut = twin.pop(bottom, None)
        if cut is None or self.type[cut] != self.type[bottom]:
            return None
        del taken[cut]
        return list(twin), list(taken), cut

    def _runs(self, layers: list[list[int]]) -> list[tuple[int, int]]:
        """First and last (exclusive) of so many layers in a row that nothing but the values between leads out of them.

        Results of the whole do.
        """
        owner: dict[int, int] = {}
        apart = [True] * len(layers)
        for number, nodes in enumerate(layers):
            for node in nodes:
                if (other := owner.setdefault(node, number)) != number:
                    apart[number] = apart[other] = False
        runs = [[0, 0]]
        for number, nodes in enumerate(layers):
            inner = {owner.get(user) for node in nodes[1:] for user in self.users[node]}
            outer = {owner.get(user) for user in self.users[nodes[0]]}
            first = runs[-1][0]
            if not apart[number] or not inner <= {number}:
                runs.append([number + 1, number + 1])
                continue
            if first < number and self._places(nodes) != self._places(layers[first]):
                runs.append([number, number])
            runs[-1][1] = number + 1
            if not outer <= {number, number + 1}:
                runs.append([number + 1, number + 1])
        return [(first, last) for first, last in runs if last - first >= MIN_LAYERS]

    def _calls(self, layer: list[int]) -> int:
        return sum(type(self.nodes[node]) is Call for node in layer)

    def _places(self, layer: list[int]) -> list[int]:
        return [place for place, node in enumerate(layer) if node in self.results]

    def _layers(self, layers: list[list[int]], cuts: list[int]) -> Layers:
        nodes = [[self.nodes[node] for node in layer] for layer in layers]
        return Layers([self.nodes[cut] for cut in cuts], nodes, self._places(layers[0]))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number scattered over all: a step of the generator splitmix64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _head(node: Expr) -> object:
    """What a node is beside its children and its type; equal for what may correspond."""
    if is_opaque(node):
        return node
    op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
    return (node.kind, op, None if isinstance(node, (Constant, Var)) else node.payload)

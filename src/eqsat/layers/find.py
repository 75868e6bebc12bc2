"""Where the repeated layers of a graph are.

A layer computes a value from the value of the layer before it; repeated layers differ in their constants and inputs
only. To find them, each node is hashed together with what is below it, up to a radius. Nodes of equal hashes are
candidates for the values between layers. Two walks side by side, down from one candidate and from the next, then
tell whether the nodes in between are the same. Both steps take time linear in the size of the graph.
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
"""Depth of the part below a node that its hash covers."""

MIN_LAYERS = 6
"""Least number of layers that are worth the search."""

MIN_CALLS = 8
"""Least number of calls in a layer. Smaller layers are joined: patterns of rules reach across them."""

_TRIES = 16
"""Number of groups of nodes with equal hashes that are tried as values between layers."""

_STEPS = 2
"""Nodes that the walks for one group may visit, as a multiple of the size of the graph."""


@dataclass(frozen=True)
class Layers:
    """A chain of layers: each computes the next of several values from the one before.

    Attributes:
        cuts: The values, lowest first; there is one more than there are layers.
        nodes: The nodes of each layer, constants and inputs included, in the same order for all layers. The first
            is the value that the layer computes. Nodes that all layers share are in none of the lists.
        places: The positions in each list of ``nodes`` of what is a result of the whole graph as well.
    """

    cuts: list[Expr]
    nodes: list[list[Expr]]
    places: list[int]

    def results(self, layer: Sequence[Expr]) -> list[Expr]:
        """The nodes of a layer that are results of the whole graph."""
        return [layer[place] for place in self.places]


class LayeredGraph:
    """A graph in which layers are looked for. Nodes are numbered in post-order; those inside functions have no number.

    Args:
        body: The graph. If it is a tuple, layers may have results of their own in it.
        types: Type of each node.
    """

    def __init__(self, body: Expr, types: Mapping[Expr, Type]):
        self.nodes = post_order(body, children=region_children)
        self.number = number = {node: index for index, node in enumerate(self.nodes)}
        self.children = [[number[child] for child in region_children(node)] for node in self.nodes]
        self.tuples = self._result_tuples()
        self.type = [types.get(node) for node in self.nodes]
        heads = zip(map(_head, self.nodes), self.type, strict=True)
        labels: dict[object, int] = {}
        self.label = [labels.setdefault(head, len(labels)) for head in heads]

    def chains(self) -> list[Layers]:
        """The chains of layers, lower ones first."""
        if any(map(is_opaque, self.nodes)):
            return []
        found: list[Layers] = []
        taken: set[Expr] = set()
        tries = _TRIES
        for members in self._candidates():
            if self.nodes[members[len(members) // 2]] not in taken and tries:
                tries -= 1
                for layers in self._layers_between(members):
                    nodes = {node for one in layers.nodes for node in one}
                    if taken.isdisjoint(nodes):
                        taken |= nodes
                        found.append(layers)
        return sorted(found, key=lambda layers: self.number[layers.cuts[0]])

    def result_tuples(self) -> list[Tuple]:
        """The tuples that do nothing but hold results of the graph, inner ones first."""
        nodes = [self.nodes[number] for number in self.tuples]
        return [node for node in reversed(nodes) if isinstance(node, Tuple)]

    def _result_tuples(self) -> dict[int, None]:
        """The numbers of these, outer ones first."""
        uses = Counter(child for children in self.children for child in dict.fromkeys(children))
        held: Counter[int] = Counter()
        found = {len(self.nodes) - 1: None} if isinstance(self.nodes[-1], Tuple) else {}
        waiting = [*found]
        for outer in waiting:
            for field in dict.fromkeys(self.children[outer]):
                held[field] += 1
                if isinstance(self.nodes[field], Tuple) and held[field] == uses[field]:
                    waiting.append(field)
        return dict.fromkeys(waiting)

    @cached_property
    def users(self) -> list[list[int]]:
        """The nodes that use each node, tuples of results left out."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for user, children in enumerate(self.children):
            if user not in self.tuples:
                for child in children:
                    users[child].append(user)
        return users

    @cached_property
    def results(self) -> set[int]:
        """The nodes that are results of the graph."""
        return {field for outer in self.tuples for field in self.children[outer]} - self.tuples.keys()

    def _candidates(self) -> list[list[int]]:
        """Groups of calls with equal hashes; first those of which the middle one has fewest values beside it."""
        groups: dict[int, list[int]] = {}
        for node, look in enumerate(self._looks().tolist()):
            if type(self.nodes[node]) is Call:
                groups.setdefault(look, []).append(node)
        several = [members for members in groups.values() if len(members) > 2]
        alive = self._alive()
        return sorted(several, key=lambda members: (alive[members[len(members) // 2]], -len(members), members[0]))

    def _alive(self) -> list[int]:
        """How many values computed up to each node are used after it: there are fewest between layers."""
        change = [0] * (len(self.nodes) + 1)
        for node, users in enumerate(self.users):
            if users and self.children[node]:
                change[node] += 1
                change[max(users)] -= 1
        return list(accumulate(change))

    def _looks(self) -> NDArray[np.uint64]:
        """A hash of each node and of what is below it, up to the radius; shape (nodes,)."""
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

    def _layers_between(self, members: Sequence[int]) -> list[Layers]:
        """The layers between nodes of equal hashes, and below them."""
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
        """Layers of enough calls, each made of several small ones; what is left over at the top is dropped."""
        many = ceil(MIN_CALLS / self._calls(layers[0])) if layers else 1
        starts = range(0, len(layers) - many + 1, many)
        joined = [list(chain.from_iterable(layers[start : start + many][::-1])) for start in starts]
        return joined, cuts[::many][: len(joined) + 1]

    def _side_by_side(self, top: int, bottom: int, other: int) -> tuple[list[int], list[int], int] | None:
        """Compare the nodes from ``top`` down to ``bottom`` with those from ``other`` down.

        Returns:
            The former, the latter, and the node among the latter that corresponds to ``bottom``; None if the two
            parts differ.
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
        """The runs of layers of which nothing is used outside but the values between them, and results of the graph.

        Returns:
            The first layer of each run, and the one after its last.
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
    """A hash of each number: one step of the generator splitmix64 (https://prng.di.unimi.it/splitmix64.c)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _head(node: Expr) -> object:
    """What tells whether nodes may correspond, beside their children and types: equal if they may."""
    if is_opaque(node):
        return node
    op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
    return (node.kind, op, None if isinstance(node, (Constant, Var)) else node.payload)

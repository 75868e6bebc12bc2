"""Finding the repeated layers of a graph.

A layer computes a value from the value of the layer before it; repeated layers differ in their constants and inputs
only. To find them, each node is compared together with what is below it, up to a radius. Nodes that look alike are
candidates for the values between layers. Two walks side by side, down from one candidate and from the next, then
tell whether the nodes in between are the same. Both steps take time linear in the size of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain
from math import ceil
from typing import NamedTuple

from eqsat.egraph.lower import is_opaque
from eqsat.pipeline.saturate import Body
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var

RADIUS = 4
"""Depth of the part below a node that is compared."""

MIN_LAYERS = 6
"""Minimum number of layers for which the search pays off."""

MIN_CALLS = 8
"""Minimum number of calls in a layer. Smaller layers are joined, because patterns of rules reach across them."""

_TRIES = 16
"""Number of groups of similar nodes that are tried as values between layers."""

_STEPS = 2
"""Nodes that the walks for one group may visit, as a multiple of the size of the graph."""


class Layers(NamedTuple):
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
    """

    def __init__(self, body: Body):
        self.nodes = [*body.children]
        number = {node: index for index, node in enumerate(self.nodes)}
        self.children = [[number[child] for child in children] for children in body.children.values()]
        self.type = [body.types.get(node) for node in self.nodes]
        self.tuples = self._result_tuples()

    def chains(self) -> list[Layers]:
        """The chains of layers, lower ones first: what a chain reads of another one, its end tells."""
        if any(map(is_opaque, self.nodes)):
            return []
        found: list[tuple[list[int], list[list[int]]]] = []
        taken: set[int] = set()
        tries = _TRIES
        for members in self._candidates():
            if members[len(members) // 2] not in taken and tries:
                tries -= 1
                for cuts, layers in self._layers_between(members):
                    nodes = set(chain.from_iterable(layers))
                    if taken.isdisjoint(nodes):
                        taken |= nodes
                        found.append((cuts, layers))
        return [
            Layers(self._nodes(cuts), [*map(self._nodes, layers)], self._places(layers[0]))
            for cuts, layers in sorted(found, key=lambda each: each[0][-1])
        ]

    @property
    def result_tuples(self) -> list[Tuple]:
        """The tuples that only contain results of the graph, inner ones first."""
        return [*self.tuples.values()][::-1]

    def _result_tuples(self) -> dict[int, Tuple]:
        """Number -> each of these, outer ones first."""
        uses = Counter(child for children in self.children for child in dict.fromkeys(children))
        held: Counter[int] = Counter()
        found: dict[int, Tuple] = {}
        waiting = [len(self.nodes) - 1]
        for number in waiting:
            node = self.nodes[number]
            if isinstance(node, Tuple):
                found[number] = node
                fields = dict.fromkeys(self.children[number])
                held.update(fields.keys())
                waiting += [field for field in fields if held[field] == uses[field]]
        return found

    @cached_property
    def label(self) -> list[int]:
        """For each node a number that is equal for nodes that may correspond, apart from their children."""
        return _numbered(zip(map(_head, self.nodes), self.type, strict=True))

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
        """Groups of similar calls; groups whose middle call has the fewest values beside it come first."""
        look = self.label
        for _ in range(RADIUS):
            around = zip(look, self.children, strict=True)
            look = _numbered((own, *[look[child] for child in below]) for own, below in around)
        groups: dict[int, list[int]] = {}
        for node, group in enumerate(look):
            if type(self.nodes[node]) is Call:
                groups.setdefault(group, []).append(node)
        several = [members for members in groups.values() if len(members) > 2]
        alive = self._alive()
        return sorted(several, key=lambda members: (alive[members[len(members) // 2]], -len(members), members[0]))

    def _alive(self) -> list[int]:
        """For each node, the number of values computed before it that are used after it; it is small between layers."""
        change = [0] * (len(self.nodes) + 1)
        for node, users in enumerate(self.users):
            if users and self.children[node]:
                change[node] += 1
                change[max(users)] -= 1
        return list(accumulate(change))

    def _layers_between(self, members: Sequence[int]) -> list[tuple[list[int], list[list[int]]]]:
        """Find the layers between similar nodes, and below them: for each chain its values and its layers."""
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
        return [(cuts[first : last + 1], layers[first:last]) for first, last in self._runs(layers)]

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

    def _nodes(self, numbers: Sequence[int]) -> list[Expr]:
        return [self.nodes[number] for number in numbers]


def _numbered(keys: Iterable[Hashable]) -> list[int]:
    """A number for each key, the same for equal ones."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def _head(node: Expr) -> Hashable:
    """What tells whether nodes may correspond, beside their children and types: equal if they may."""
    op = node.op if isinstance(node, Call) and isinstance(node.op, Op) else None
    return (node.kind, op, None if isinstance(node, (Constant, Var)) else node.payload)

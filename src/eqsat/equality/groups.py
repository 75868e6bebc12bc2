"""Groups of nodes of two joined graphs that are known to be equal."""

from __future__ import annotations

from eqsat.egraph.lower import region_children
from eqsat.equality.joining import Joined
from eqsat.relay.expr import Constant, Expr
from eqsat.relay.visitor import post_order

FIRST, SECOND = 1, 2
"""The two graphs, as bits."""


class Groups:
    """Groups of nodes that are equal. The leader of a group is the node that comes first.

    Args:
        joined: The graphs.

    Attributes:
        place: Node -> its place in the order of all nodes.
        constant: The nodes that depend on no variable.
    """

    def __init__(self, joined: Joined):
        self.joined = joined
        self.place = {node: place for place, node in enumerate(joined.nodes)}
        self._sides = dict.fromkeys(joined.nodes, 0)
        for root, side in zip(joined.roots, (FIRST, SECOND), strict=True):
            for node in post_order(root, children=region_children):
                self._sides[node] |= side
        self._own = dict(self._sides)
        self._leader: dict[Expr, Expr] = {}
        self.constant: set[Expr] = set()
        for node in joined.nodes:
            children = region_children(node)
            if isinstance(node, Constant) or (children and self.constant.issuperset(children)):
                self.constant.add(node)

    def leader(self, node: Expr) -> Expr:
        """Return the first node of a node's group."""
        while node in self._leader:
            node = self._leader[node]
        return node

    def sides(self, node: Expr) -> int:
        """Return the graphs that contain the node itself."""
        return self._own[node]

    def is_shared(self, node: Expr) -> bool:
        """Return whether both graphs contain a node, or a node that is known to be equal."""
        return self._sides[self.leader(node)] == FIRST | SECOND

    def merge(self, one: Expr, other: Expr) -> None:
        """Record that two nodes are equal."""
        first, second = sorted((self.leader(one), self.leader(other)), key=self.place.__getitem__)
        if first is not second:
            self._leader[second] = first
            self._sides[first] |= self._sides[second]

    @property
    def is_one(self) -> bool:
        """Whether the results of the graphs are equal."""
        first, second = self.joined.roots
        return self.leader(first) is self.leader(second)

    def partners(self) -> dict[Expr, Expr]:
        """Nodes of the second graph -> the first node of the first graph that is known to equal them."""
        firsts: dict[Expr, Expr] = {}
        for node in self.of(FIRST):
            firsts.setdefault(self.leader(node), node)
        known = {node: firsts.get(self.leader(node)) for node in self.of(SECOND)}
        return {node: first for node, first in known.items() if first is not None}

    def of(self, side: int) -> list[Expr]:
        """The nodes of a graph, each after those that it is computed from."""
        return [node for node, own in self._own.items() if own & side]

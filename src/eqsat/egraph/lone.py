"""Which classes only one other class uses: what a rule contracts is hidden from the rules where nothing else uses it.

lone(class)  an odd number where at most one class uses the class, an even one where more do; the latest is the largest
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.lower import Lowered
from eqsat.egraph.snapshot import Snapshot, take_snapshot


class LoneClasses:
    """Keeps ``lone`` up to date for the classes of a graph that was lowered."""

    def __init__(self, egraph: EGraph, lowered: Lowered):
        self.egraph = egraph
        self.lowered = lowered
        self._told: dict[int, int] = {}
        self._rounds = 0

    def update(self, snapshot: Snapshot | None = None) -> None:
        """Tell the engine what is new, if a rule asks for it.

        Args:
            snapshot: The e-graph as it is; it is taken where there is none.
        """
        if not self.egraph.asks_lone:
            return
        snapshot = snapshot or take_snapshot(self.egraph)
        lone = lone_classes(snapshot, self.lowered.root)
        handles = [handle for handle in self.lowered.handles.values() if snapshot.handle_class[handle] >= 0]
        news = {h: mark for h in handles if (mark := int(lone[snapshot.handle_class[h]])) != self._told.get(h)}
        if news:
            self._told |= news
            self._rounds += 1
            self.egraph.tell_lone([(handle, 2 * self._rounds + mark) for handle, mark in sorted(news.items())])


def lone_classes(snapshot: Snapshot, root: int) -> NDArray[np.bool_]:
    """Which classes at most one other class uses, by e-nodes that rules see and that the result may be made of.

    Args:
        root: The handle of the result, which counts as a use.
    """
    offsets, child, owner = snapshot.child_offsets, snapshot.child, snapshot.node_class
    seen = np.flatnonzero(~snapshot.hidden)
    nodes_of: list[list[int]] = [[] for _ in range(snapshot.class_count)]
    for node, of in zip(seen.tolist(), owner[seen].tolist(), strict=True):
        nodes_of[of].append(node)
    live = np.zeros(snapshot.class_count, dtype=bool)
    todo = [int(snapshot.handle_class[root])]
    live[todo] = True
    while todo:
        for node in nodes_of[todo.pop()]:
            for below in snapshot.children(node):
                if not live[below]:
                    live[below] = True
                    todo.append(below)
    lengths = np.diff(offsets)
    counted = np.repeat(live[owner] & ~snapshot.hidden, lengths)
    user, used = np.repeat(owner, lengths)[counted], child[counted]
    pairs = np.unique(user * snapshot.class_count + used)
    uses = np.bincount(pairs % snapshot.class_count, minlength=snapshot.class_count)
    uses[snapshot.handle_class[root]] += 1
    lone: NDArray[np.bool_] = uses <= 1
    return lone

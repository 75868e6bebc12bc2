"""An acyclic graph that grows at its end and whose nodes can be united."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class AcyclicGraph:
    """Nodes are numbered from 0; a node is added after all its predecessors."""

    def __init__(self) -> None:
        self._united: list[int] = []
        self._before: list[dict[int, None]] = []
        self._after: list[dict[int, None]] = []

    def add(self, predecessors: Iterable[int]) -> int:
        """Add a node behind ``predecessors`` and give its number."""
        node = len(self._united)
        before = {self.find(other): None for other in predecessors}
        self._united.append(node)
        self._before.append(before)
        self._after.append({})
        for other in before:
            self._after[other][node] = None
        return node

    def find(self, node: int) -> int:
        """The number that stands for ``node`` and all it was united with."""
        united = self._united
        while united[node] != node:
            united[node] = node = united[united[node]]
        return node

    def passes_another(self, source: int, sink: int) -> bool:
        """Whether a path leads from ``source`` to ``sink`` through some other node.

        Searches from both ends by turns, so it costs twice the cheaper of the two searches.
        """
        source, sink = self.find(source), self.find(sink)
        forward = self._search(source, sink, self._after)
        backward = self._search(sink, source, self._before)
        while True:
            for search in (forward, backward):
                found = next(search, False)
                if found is not None:
                    return found

    def _search(self, start: int, goal: int, edges: list[dict[int, None]]) -> Iterator[bool | None]:
        """One step at a time: None while searching, then True; ends when there is no path."""
        stack = [other for other in edges[start] if other != goal]
        seen = set(stack)
        while stack:
            for other in edges[stack.pop()]:
                if other == goal:
                    yield True
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
                yield None

    def unite(self, left: int, right: int) -> None:
        """Make one node of two; no path may pass another node between them."""
        keep, drop = self.find(left), self.find(right)
        if keep == drop:
            return
        if len(self._before[keep]) + len(self._after[keep]) < len(self._before[drop]) + len(self._after[drop]):
            keep, drop = drop, keep
        self._united[drop] = keep
        for edges, opposite in ((self._before, self._after), (self._after, self._before)):
            for other in edges[drop]:
                del opposite[other][drop]
                if other != keep:
                    opposite[other][keep] = None
                    edges[keep][other] = None
            edges[drop] = {}
        self._before[keep].pop(keep, None)
        self._after[keep].pop(keep, None)

"""From an equality in a congruence closure to rewrites, one after the other, of a whole term.

A pair of terms that are equal because their children are is rewritten child by child, and a pair that occurs in
several places is rewritten in all of them at once: a derivation is no longer than the graph has shared parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from eqsat.egraph.congruence import Congruence, Edge
from eqsat.egraph.journal import Term, Terms
from eqsat.relay.visitor import children_first

Pair = tuple[int, int]
Intern = Callable[[Term], int]


@dataclass(eq=False)
class _Task:
    """To rewrite one term into another: the edges to go, and where it is now."""

    source: int
    term: int
    path: list[Edge]
    index: int = 0
    parts: list[_Task | None] = field(default_factory=list)  # below an edge by congruence, one for each child

    @property
    def edge(self) -> Edge | None:
        return self.path[self.index] if self.index < len(self.path) else None

    def below(self) -> list[_Task]:
        """The parts that are to be rewritten."""
        return [part for part in self.parts if part is not None]

    def advance(self) -> None:
        self.term = self.path[self.index].target
        self.index += 1
        self.parts = []


class Derivation:
    """The rewrites that lead from ``source`` to ``target``, and the whole term after each.

    Iterate over it once. Each edge is an equation read in one direction; one without an equation repeats
    what earlier rewrites showed.

    Args:
        closure: where both are equal.
        terms: all terms.
        intern: the number of a term.
        source: what to begin with.
        target: what to end with.
    """

    def __init__(self, closure: Congruence, terms: Terms, intern: Intern, source: int, target: int):
        self.closure = closure
        self.terms = terms
        self.intern = intern
        self._live: dict[Pair, _Task] = {}
        self._done: set[Pair] = set()
        self._heights: dict[int, int] = {}
        self._root = self._task(source, target)

    def __iter__(self) -> Iterator[Edge]:
        while True:
            self._settle()
            ready = [task for task in self._open_tasks() if task.edge is not None and not task.parts]
            if not ready:
                return
            # outer terms first: what several of them share is then rewritten for all at once
            task = max(ready, key=lambda task: self._height(task.term))
            edge = task.path[task.index]
            task.advance()
            yield edge

    def whole(self) -> int:
        """The whole term now."""
        return self._now(self._root)

    def _now(self, whole: _Task) -> int:
        now: dict[_Task, int] = {}
        for task in children_first([whole], _Task.below):
            if task.parts:
                symbol, atom, *children = self.terms[task.term]
                parts = zip(children, task.parts, strict=True)
                now[task] = self.intern((symbol, atom, *[c if part is None else now[part] for c, part in parts]))
            else:
                now[task] = task.term
        return now[whole]

    def _task(self, source: int, target: int) -> _Task:
        pair = (source, target)
        if pair in self._done:
            return _Task(source, source, [Edge(source, target, None)])
        known = self._live.get(pair)
        if known is not None and self._now(known) == source:
            return known
        task = _Task(source, source, self.closure.path(source, target))
        return self._live.setdefault(pair, task) if known is None else task

    def _settle(self) -> None:
        """Open edges by congruence, and leave those behind whose parts are done."""
        changed = True
        while changed:
            changed = False
            for task in reversed(self._open_tasks()):
                edge = task.edge
                if edge is None or edge.equation is not None:
                    continue
                if not task.parts and edge[:2] not in self._done:
                    below = zip(self.terms[edge.source][2:], self.terms[edge.target][2:], strict=True)
                    task.parts = [None if a == b else self._task(a, b) for a, b in below]
                    changed = True
                elif task.parts and all(part.edge is None for part in task.below()):
                    task.advance()
                    changed = True
            self._retire()

    def _retire(self) -> None:
        for pair, task in [*self._live.items()]:
            if task.edge is None:
                self._done.add(pair)
                del self._live[pair]

    def _open_tasks(self) -> list[_Task]:
        """Tasks of the current edges, outer ones first."""
        found: dict[_Task, None] = {}
        stack = [self._root]
        while stack:
            task = stack.pop()
            if task not in found:
                found[task] = None
                stack += task.below()
        return list(found)

    def _height(self, term: int) -> int:
        heights = self._heights
        for one in children_first([term], lambda one: [child for child in self.terms[one][2:] if child not in heights]):
            heights[one] = 1 + max([heights[child] for child in self.terms[one][2:]], default=0)
        return heights[term]

"""From an equality in a congruence closure to rewrites, one after the other, of a whole term.

A pair of terms that are equal because their children are is rewritten child by child, and a pair that occurs in
several places is rewritten in all of them at once: a derivation is no longer than the graph has shared parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from eqsat.egraph.congruence import Congruence, Edge
from eqsat.egraph.journal import Term, Terms
from eqsat.relay.visitor import children_first

Pair = tuple[int, int]
Intern = Callable[[Term], int]


@dataclass(eq=False)
class _Task:
    """To rewrite one term into another: the edges to go, where it is now, and who waits for it."""

    pair: Pair
    term: int
    path: list[Edge]
    index: int = 0
    begun: bool = False
    parts: list[_Task | None] = field(default_factory=list)  # below an edge by congruence, one for each child
    open_parts: int = 0
    waiting: list[_Task] = field(default_factory=list)

    @property
    def edge(self) -> Edge | None:
        return self.path[self.index] if self.index < len(self.path) else None

    def below(self) -> list[_Task]:
        """The parts that are to be rewritten."""
        return [part for part in self.parts if part is not None]

    def begin(self) -> None:
        """Mark it, and all that it is part of, as no longer what it was."""
        stack = [self]
        while stack:
            task = stack.pop()
            if not task.begun:
                task.begun = True
                stack += task.waiting

    def advance(self) -> None:
        self.term = self.path[self.index].target
        self.index += 1
        self.parts = []


class Derivation:
    """The rewrites that lead from ``source`` to ``target``, and the whole term after each.

    Iterate over it once. Each edge is an equation read in one direction; one without an equation repeats
    what earlier rewrites showed. A rewrite costs the logarithm of how many could be next, not a walk of the term.

    Args:
        closure: where both are equal.
        intern: gives terms their numbers.
    """

    def __init__(self, closure: Congruence, terms: Terms, intern: Intern, source: int, target: int):
        self.closure = closure
        self.terms = terms
        self.intern = intern
        self._live: dict[Pair, _Task] = {}
        self._done: set[Pair] = set()
        self._heights: dict[int, int] = {}
        self._ready: list[tuple[int, int, _Task]] = []
        self._turn = count()
        self._root = self._task(source, target)
        self._settle(self._root)

    def __iter__(self) -> Iterator[Edge]:
        while self._ready:
            # outer terms first: what several of them share is then rewritten for all at once
            task = heappop(self._ready)[-1]
            edge = task.path[task.index]
            task.begin()
            task.advance()
            self._settle(task)
            yield edge

    def whole(self) -> int:
        """The whole term now."""
        now: dict[_Task, int] = {}
        for task in children_first([self._root], _Task.below):
            if task.parts:
                symbol, atom, *children = self.terms[task.term]
                parts = zip(children, task.parts, strict=True)
                now[task] = self.intern((symbol, atom, *[c if part is None else now[part] for c, part in parts]))
            else:
                now[task] = task.term
        return now[self._root]

    def difference(self, edge: Edge) -> tuple[list[int], list[int]]:
        """The terms within an edge's source that are not within its target, and the reverse; leaves left out.

        Outer ones first. What both have is looked into only as far down as what one of them has alone.
        """
        found: tuple[list[int], list[int]] = ([], [])
        sides = {term: side for term, side in ((edge.source, 1), (edge.target, 2)) if self.terms[term][2:]}
        agenda = [(-self._height(term), term) for term in sides]
        heapify(agenda)
        one_sided = len(sides)
        while one_sided:
            term = heappop(agenda)[-1]
            side = sides[term]
            if side < 3:
                one_sided -= 1
                found[side - 1].append(term)
            for child in self.terms[term][2:]:
                if not self.terms[child][2:]:
                    continue
                known = sides.get(child, 0)
                if not known:
                    heappush(agenda, (-self._height(child), child))
                sides[child] = known | side
                one_sided += (sides[child] < 3) - (0 < known < 3)
        return found

    def _task(self, source: int, target: int) -> _Task:
        pair = (source, target)
        if pair in self._done:
            return _Task(pair, source, [Edge(source, target, None)])
        known = self._live.get(pair)
        if known is not None and not known.begun:
            return known
        task = _Task(pair, source, self.closure.path(source, target))
        return self._live.setdefault(pair, task)

    def _settle(self, task: _Task) -> None:
        """Bring a task to its next rewrite, or to its end and those that wait for it to theirs."""
        agenda = [task]
        while agenda:
            task = agenda.pop()
            edge = task.edge
            if edge is None:
                agenda += self._retire(task)
            elif edge.equation is not None or edge[:2] in self._done:
                heappush(self._ready, (-self._height(task.term), next(self._turn), task))
            else:
                agenda += self._open(task, edge)

    def _open(self, task: _Task, edge: Edge) -> list[_Task]:
        """The parts of an edge by congruence that nobody works on yet."""
        fresh = []
        below = zip(self.terms[edge.source][2:], self.terms[edge.target][2:], strict=True)
        for source, target in below:
            part = None if source == target else self._task(source, target)
            task.parts.append(part)
            if part is not None:
                if not part.waiting:
                    fresh.append(part)
                part.waiting.append(task)
                task.open_parts += 1
        return fresh

    def _retire(self, task: _Task) -> list[_Task]:
        """Those that waited for this task alone, one edge further."""
        if self._live.get(task.pair) is task:
            del self._live[task.pair]
            self._done.add(task.pair)
        further = []
        for waiting in task.waiting:
            waiting.open_parts -= 1
            if not waiting.open_parts:
                waiting.advance()
                further.append(waiting)
        return further

    def _height(self, term: int) -> int:
        heights = self._heights
        for one in children_first([term], lambda one: [child for child in self.terms[one][2:] if child not in heights]):
            heights[one] = 1 + max([heights[child] for child in self.terms[one][2:]], default=0)
        return heights[term]

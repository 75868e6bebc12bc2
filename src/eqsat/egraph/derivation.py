"""Why two terms are equal: a congruence closure that can say so, and the rewrites that lead from one to the other.

The closure is that of Nieuwenhuis and Oliveras (2005). A pair of terms that are equal because their children are is
rewritten child by child, and a pair that occurs in several places is rewritten in all of them at once: a derivation is
no longer than the graph has shared parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from eqsat.egraph.journal import Equation, Term, Terms
from eqsat.relay.visitor import children_first

Pair = tuple[int, int]
Intern = Callable[[Term], int]


class Edge(NamedTuple):
    """``source`` and ``target`` are equal by ``equation``, read either way; without one, because their children are."""

    source: int
    target: int
    equation: Equation | None


class Congruence:
    """Ground equations between terms, of which there may be more and more, closed under congruence."""

    def __init__(self, terms: Terms):
        self.terms = terms
        self._parent: dict[int, int] = {}
        self._reason: dict[int, Edge] = {}  # proof forest: term -> edge towards its root
        self._sizes: dict[int, int] = {}  # of classes, by representative
        self._users: dict[int, list[int]] = {}
        self._signatures: dict[Term, int] = {}
        self._pending: deque[Edge] = deque()

    def add(self, term: int) -> None:
        """Take a term and all that is in it."""
        for one in children_first([term], self._new_children):
            if one not in self._parent:
                self._parent[one] = one
                self._sizes[one] = 1
                self._users[one] = []
                for child in dict.fromkeys(map(self.find, self.terms[one][2:])):
                    self._users[child].append(one)
                self._sign(one)
        self._close()

    def _new_children(self, term: int) -> list[int]:
        return [child for child in self.terms[term][2:] if child not in self._parent]

    def equate(self, equation: Equation) -> None:
        """Take an equation and what follows."""
        self.add(equation.left)
        self.add(equation.right)
        self._pending.append(Edge(equation.left, equation.right, equation))
        self._close()

    def find(self, term: int) -> int:
        """The representative of a term's class."""
        parent = self._parent
        while parent[term] != term:
            parent[term] = term = parent[parent[term]]
        return term

    def knows(self, term: int) -> bool:
        """Whether the term was added."""
        return term in self._parent

    def same(self, left: int, right: int) -> bool:
        """Whether two terms, added before, are equal."""
        return self.find(left) == self.find(right)

    def path(self, source: int, target: int) -> list[Edge]:
        """The edges that lead from one term to an equal one."""
        up, down = self._chain(source), self._chain(target)
        while up and down and up[-1] == down[-1]:
            up.pop()
            down.pop()
        return up + [Edge(edge.target, edge.source, edge.equation) for edge in reversed(down)]

    def _chain(self, term: int) -> list[Edge]:
        edges = []
        while term in self._reason:
            edges.append(self._reason[term])
            term = edges[-1].target
        return edges

    def _sign(self, term: int) -> None:
        symbol, atom, *children = self.terms[term]
        key = (symbol, atom, *map(self.find, children))
        known = self._signatures.setdefault(key, term)
        if known != term and not self.same(known, term):
            self._pending.append(Edge(known, term, None))

    def _close(self) -> None:
        while self._pending:
            edge = self._pending.popleft()
            small, large = self.find(edge.source), self.find(edge.target)
            if small == large:
                continue
            if self._sizes[small] > self._sizes[large]:
                small, large = large, small
                edge = Edge(edge.target, edge.source, edge.equation)
            self._reroot(edge.source)
            self._reason[edge.source] = edge
            self._parent[small] = large
            self._sizes[large] += self._sizes.pop(small)
            moved = self._users.pop(small)
            self._users[large] += moved
            for user in moved:
                self._sign(user)

    def _reroot(self, term: int) -> None:
        """Turn the edges above a term round, so that it is a root of the proof forest."""
        for edge in self._chain(term):
            self._reason[edge.target] = Edge(edge.target, edge.source, edge.equation)
        self._reason.pop(term, None)


def closure(terms: Terms, equations: Iterable[Equation], source: int, target: int) -> Congruence:
    """The closure of as many of the equations, in order, as make ``source`` and ``target`` equal."""
    found = Congruence(terms)
    found.add(source)
    found.add(target)
    for equation in equations:
        if found.same(source, target):
            break
        found.equate(equation)
    return found


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

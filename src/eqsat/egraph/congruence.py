"""Congruence closure that can say why two terms are equal (Nieuwenhuis and Oliveras, 2005)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from eqsat.egraph.journal import Equation, Term, Terms
from eqsat.relay.visitor import children_first


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

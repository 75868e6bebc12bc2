"""The extent of a certificate: the soundness of the steps that lead to each term of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.certificates.checker import Pair
from eqsat.egraph.derivation import Congruence, Edge
from eqsat.egraph.journal import Equation
from eqsat.egraph.symbols import Interner
from eqsat.relay.visitor import children_first

_Terms = tuple[int, int]
"""Two equal terms."""


def kept_by_term(pair: Pair, equations: Iterable[tuple[int, int, int]]) -> dict[int, int | None]:
    """Return the soundness of each term of the second function, given the values of its operands.

    Args:
        pair: The functions.
        equations: Equal terms, and the index of the step's soundness in :data:`eqsat.certificates.checker.WEAKER`.

    Returns:
        The term of each node of the second function, and the place in ``WEAKER`` of what all steps keep that lead to it
        from the first function, as far as they concern no operand; None for a term that no step leads to.
    """
    return _Extent(pair, list(equations)).found


class _Extent:
    def __init__(self, pair: Pair, equations: Sequence[tuple[int, int, int]]):
        terms = pair.terms
        symbols: Interner[object] = Interner()
        table: Interner[tuple[int, ...]] = Interner()
        for number, (head, children) in enumerate(zip(terms.heads, terms.children, strict=True)):
            key = (head.kind, head.op, head.key)
            table.intern(number, (symbols.intern(key, key), 0, *children))
        self.children = terms.children
        self.closed = Congruence(table)
        self.given = set(children_first(list(pair.numbers[0].values()), terms.children.__getitem__))
        self._kept: dict[Equation, int] = {}
        self._of_pair: dict[_Terms, int] = {}
        self.found: dict[int, int | None] = {}
        made = list(dict.fromkeys(pair.numbers[1].values()))
        for term in (*self.given, *made):
            self.closed.add(term)
        for left, right, kept in equations:
            equation = Equation(str(kept), left, right)
            self._kept[equation] = kept
            self.closed.equate(equation)
        self._givens = {self.closed.find(term): term for term in sorted(self.given, reverse=True)}
        self._visit(*pair.roots)
        for term in made:
            self.found.setdefault(term, None)

    def _visit(self, source: int, target: int) -> None:
        """Visit the terms below two results that should be equal."""
        agenda: list[tuple[int | None, int, int]] = [(source, target, 0)]
        seen: set[tuple[int | None, int]] = set()
        while agenda:
            one, term, above = agenda.pop()
            if one is None or not self.closed.same(one, term):
                one = self._givens.get(self.closed.find(term))
            if (one, term) in seen:
                continue
            seen.add((one, term))
            if one is None:
                self.found[term] = None
                agenda += [(None, child, 0) for child in self.children[term]]
            elif one != term:
                self._proved(one, term, agenda)
            elif term in self.given:
                self._note(term, 0)
                agenda += [(child, child, 0) for child in self.children[term]]
            else:  # the step above made it
                self._note(term, above)
                agenda += [(child, child, above) for child in self.children[term]]

    def _proved(self, source: int, target: int, agenda: list[tuple[int | None, int, int]]) -> None:
        path = self.closed.path(source, target)
        last = path[-1] if path[-1].equation is None else None
        kept = self._weakest(path if last is None else path[:-1])
        self._note(target, kept)
        below = self.children[target]
        agenda += [
            (one, child, kept)
            for one, child in zip(below if last is None else self.children[last.source], below, strict=True)
        ]

    def _note(self, term: int, kept: int) -> None:
        known = self.found.get(term, 0)
        self.found[term] = None if known is None else max(known, kept)

    def _weakest(self, path: Sequence[Edge]) -> int:
        """Return the weakest soundness of the steps of a path, including those below that make operands equal."""
        pairs = self._below(path)
        for pair in children_first([each for each in pairs if each not in self._of_pair], self._unknown):
            self._of_pair[pair] = self._own(self.closed.path(*pair))
        return self._own(path)

    def _unknown(self, pair: _Terms) -> list[_Terms]:
        return [each for each in self._below(self.closed.path(*pair)) if each not in self._of_pair]

    def _own(self, path: Sequence[Edge]) -> int:
        kept = [self._kept[edge.equation] for edge in path if edge.equation is not None]
        return max([*kept, *[self._of_pair.get(each, 0) for each in self._below(path)]], default=0)

    def _below(self, path: Sequence[Edge]) -> list[_Terms]:
        """Return the operands that a path assumes to be equal."""
        pairs = [
            each
            for edge in path
            if edge.equation is None
            for each in zip(self.children[edge.source], self.children[edge.target], strict=True)
        ]
        return [(one, other) for one, other in pairs if one != other]

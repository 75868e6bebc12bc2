"""What a rule waits for: with it in the e-graph there may be more ways to match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.required_heads import SymbolHead
from eqsat.egraph.symbols import Symbol
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Op


class Awaited(Protocol):
    """What a rule waits for before it is compiled again."""

    def has_come(self, prefilter: Prefilter) -> bool:
        """Whether something of it is in the e-graph now."""


class Whenever:
    """Nothing but that patterns may match.

    Args:
        roots: the patterns.
    """

    def __init__(self, roots: Sequence[DFPattern]):
        self._roots = roots

    def has_come(self, prefilter: Prefilter) -> bool:
        """Whether all patterns may match somewhere."""
        return all(map(prefilter.may_match, self._roots))


class Dependencies:
    """What queries were made from, and what they were not made of as it is not in the e-graph.

    Args:
        egraph: where.
        prefilter: what is in it; without it nothing is left out but what there are no symbols for.
    """

    def __init__(self, egraph: EGraph, prefilter: Prefilter | None = None):
        self._egraph = egraph
        self._presence = prefilter
        self._symbols: dict[SymbolHead, int] = {}  # how many there were of each head
        self._missing: dict[Symbol, None] = {}
        self._every: int | None = None  # how many there were of all, where each new one counts
        self._edges: dict[tuple[SymbolHead, SymbolHead], None] = {}
        self._patterns: dict[DFPattern, None] = {}

    def symbols(self, kind: str, op: Op | None = None, arity: int | None = None) -> list[int]:
        """The indices of the symbols of a head: that of an arity, or those of all arities for None."""
        if arity is not None:
            symbol = Symbol(kind, op, arity)
            index = self._egraph.vocabulary.symbols.find(symbol)
            if index is None:
                self._missing[symbol] = None
            return [] if index is None else [index]
        indices = self._egraph.vocabulary.symbols_of.get((kind, op), [])
        self._symbols[kind, op] = len(indices)
        return indices

    def every(self) -> range:
        """The indices of all symbols."""
        self._every = len(self._egraph.vocabulary.symbols)
        return range(self._every)

    def may_match(self, pattern: DFPattern) -> bool:
        """Whether there may be a class that ``pattern`` matches."""
        found = self._presence is None or self._presence.may_match(pattern)
        if not found:
            self._patterns[pattern] = None
        return found

    def is_under(self, above: SymbolHead | None, op: Op) -> bool:
        """Whether calls of ``op`` are in classes below e-nodes of a head; below any, for None."""
        if self._presence is None or above is None or (above, ("call", op)) in self._presence.has:
            return True
        self._edges[above, ("call", op)] = None
        return False

    def has_come(self, prefilter: Prefilter) -> bool:
        """Whether something of it is in the e-graph now."""
        symbols = self._egraph.vocabulary.symbols_of
        return (
            any(len(symbols.get(head, ())) > count for head, count in self._symbols.items())
            or any(self._egraph.vocabulary.symbols.find(symbol) is not None for symbol in self._missing)
            or (self._every is not None and len(self._egraph.vocabulary.symbols) > self._every)
            or not prefilter.has.isdisjoint(self._edges)
            or any(map(prefilter.may_match, self._patterns))
        )

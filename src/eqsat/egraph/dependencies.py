"""What a rule waits for: with it in the e-graph there may be more ways to match."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.prefilter import Prefilter
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Op


class Dependencies:
    """What queries were made from, and what they were not made of as it is not in the e-graph.

    Args:
        egraph: where.
        prefilter: what is in it; without it nothing is left out but what there are no symbols for.
    """

    def __init__(self, egraph: EGraph, prefilter: Prefilter | None = None):
        self._egraph = egraph
        self._presence = prefilter
        self._counts: dict[tuple[str | None, Op | None, int | None], int] = {}
        self._patterns: dict[DFPattern, None] = {}

    def symbols(self, kind: str | None = None, op: Op | None = None, arity: int | None = None) -> Sequence[int]:
        """The indices of all symbols, or of those of a head, or of those of a head and an arity."""
        found = self._indices(kind, op, arity)
        self._counts[kind, op, arity] = len(found)
        return found

    def _indices(self, kind: str | None, op: Op | None, arity: int | None) -> Sequence[int]:
        symbols, symbols_of = self._egraph.vocabulary.symbols, self._egraph.vocabulary.symbols_of
        found = range(len(symbols)) if kind is None else symbols_of.get((kind, op), ())
        return found if arity is None else [index for index in found if symbols[index].arity == arity]

    def may_match(self, pattern: DFPattern) -> bool:
        """Whether there may be a class that ``pattern`` matches."""
        found = self._presence is None or self._presence.may_match(pattern)
        if not found:
            self._patterns[pattern] = None
        return found

    def has_come(self, prefilter: Prefilter) -> bool:
        """Whether something of it is in the e-graph now."""
        return any(len(self._indices(*key)) > count for key, count in self._counts.items()) or any(
            map(prefilter.may_match, self._patterns)
        )

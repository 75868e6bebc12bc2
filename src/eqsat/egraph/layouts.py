"""Which numbers of fields the tuples of an e-graph have where the variadic patterns of a rule may match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache

import numpy as np

from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.symbols import SymbolHead
from eqsat.egraph.variadic import Expansion, Field, Layout, is_variadic, laid_out, outer_tuples
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern, TuplePattern, wildcard
from eqsat.relay.dataflow_pattern.language import Copy

_TUPLE: SymbolHead = ("tuple", None)

MOST_ARRANGED = 64
"""Fields of a tuple up to which they are shared out among several repetitions of one pattern.

Each way to do so is a rule of its own that Python is asked about, with all fields: the work is the cube of their
number.
"""


def find_layouts(roots: Sequence[DFPattern], prefilter: Prefilter) -> list[Layout]:
    """The layouts with which the patterns ``roots`` may match in an e-graph, in the order of its symbols."""
    finder = _Finder(roots, prefilter)
    found: list[Layout] = [{}]
    for whole in outer_tuples(roots):
        options = {tuple(option.items()): option for option in finder.layouts(whole)}
        found = [{**before, **option} for before in found for option in options.values()]
    return found


@lru_cache(maxsize=1 << 12)
def _with_any_fields(roots: tuple[DFPattern, ...], whole: TuplePattern, arity: int) -> list[DFPattern]:
    """``roots`` where the tuple pattern ``whole`` has so many fields, of whatever kind."""
    expansion = Expansion(roots, {whole: tuple([(wildcard(), None) for _ in range(arity)])})
    return [expansion.fixed[root] for root in roots]


class _Finder:
    """Finds layouts of tuple patterns that are in ``roots``."""

    def __init__(self, roots: Sequence[DFPattern], prefilter: Prefilter):
        self.roots = roots
        self.prefilter = prefilter
        self.snapshot = prefilter.snapshot
        self._nodes_of: dict[SymbolHead, dict[int, list[int]]] = {}
        self._fits = cache(self._find_fits)

    def layouts(self, whole: TuplePattern) -> Iterator[Layout]:
        """Those of ``whole``, which is repeated by no other pattern."""
        varies = any(many.some is not None or any(map(is_variadic, many.children())) for many in whole.repetitions)
        for symbol in self.prefilter.symbols_of(_TUPLE):
            arity = self.snapshot.symbols[symbol].arity
            if arity > MOST_ARRANGED and len(whole.repetitions) > 1:
                continue
            if not all(map(self.prefilter.may_match, _with_any_fields(tuple(self.roots), whole, arity))):
                continue
            if varies:
                for node in self.prefilter.nodes_of(symbol).tolist():
                    if self.snapshot.node_class[node] in self._widest:
                        yield from self._of_node(whole, node)
            else:
                for counts in whole.arrangements(arity):
                    if len(self.prefilter.nodes_over(symbol, whole.arranged(counts))):
                        yield {whole: laid_out(whole, counts)}

    @cached_property
    def _widest(self) -> set[int]:
        """The classes of tuples that are operands of something that has no wider tuple in their place.

        What several layouts are found for is rewritten step by step; the last step is enough to go on from.
        """
        snapshot = self.snapshot
        sizes = np.diff(snapshot.child_offsets)
        nodes = np.concatenate([self.prefilter.nodes_of(index) for index in self.prefilter.symbols_of(_TUPLE)])
        width = np.zeros(snapshot.class_count, dtype=np.int64)
        np.maximum.at(width, snapshot.node_class[nodes], sizes[nodes])
        places = np.flatnonzero(width[snapshot.child])
        users = np.repeat(np.arange(snapshot.node_count), sizes)[places]
        tuples = snapshot.child[places]
        columns = (snapshot.node_class[users], snapshot.node_atom[users], tuples, width[tuples])
        uses = list(zip(*[column.tolist() for column in columns], strict=True))
        most: dict[tuple[int, int], int] = {}
        for result, atom, _, wide in uses:
            most[result, atom] = max(wide, most.get((result, atom), 0))
        return {of for result, atom, of, wide in uses if wide == most[result, atom]}

    def _of_node(self, whole: TuplePattern, node: int) -> Iterator[Layout]:
        """The layouts of a tuple, of which fields may in turn have several.

        Fields that match what only some must match do so together with those whose attributes are the same: the
        attributes of one are as likely to be what a rule asks for as those of another.
        """
        fields = self.snapshot.children(node)
        for counts in whole.arrangements(len(fields)):
            arranged = list(zip(whole.arranged(counts), fields, strict=True))
            atoms: dict[int | None, None] = {}
            for field, of in arranged:
                if isinstance(field, Copy) and field.some is not None:
                    atoms |= {atom: None for _, atom in self._fits(field.some, of)}
            if all(many.some is None for many in whole.repetitions):
                atoms = {None: None}
            for atom in atoms:
                option = self._with_atom(whole, arranged, atom)
                if option is not None:
                    yield option

    def _with_atom(
        self, whole: TuplePattern, arranged: Sequence[tuple[DFPattern | Copy, int]], atom: int | None
    ) -> Layout | None:
        """The widest layout of a tuple, in which fields that some must match have the attributes ``atom``."""
        found: list[Field] = []
        inner: Layout = {}
        for field, of in arranged:
            copy = field if isinstance(field, Copy) else None
            pattern = field.pattern if isinstance(field, Copy) else field
            fits = [fit for fit, _ in self._fits(pattern, of)]
            if copy is not None and copy.some is not None:
                some = [fit for fit, its in self._fits(copy.some, of) if its == atom]
                if some:
                    pattern, fits = copy.some, some
            if not fits:
                return None
            found.append((pattern, copy))
            widest: Layout = max(fits, key=_width)
            inner = {**inner, **widest}
        return {whole: tuple(found), **inner}

    def _find_fits(self, pattern: DFPattern, of: int) -> list[tuple[Layout, int | None]]:
        """The layouts with which ``pattern`` may match a class, each with the attributes of the call."""
        if not is_variadic(pattern):
            return [({}, None)] if self.prefilter.may_match_class(pattern, of) else []
        if isinstance(pattern, TuplePattern) and pattern.repetitions:
            return [(fit, None) for node in self._nodes_in(of, _TUPLE) for fit in self._of_node(pattern, node)]
        if not isinstance(pattern, CallPattern) or pattern.named is None:
            return [fit for part in pattern.same_expression() for fit in self._fits(part, of)]
        found: list[tuple[Layout, int | None]] = []
        for node in self._nodes_in(of, ("call", pattern.named)):
            below = self.snapshot.children(node)
            if len(below) != len(pattern.args or ()):
                continue
            options: list[Layout] = [{}]
            for arg, child in zip(pattern.args or (), below, strict=True):
                options = [{**one, **fit} for one in options for fit, _ in self._fits(arg, child)]
            found += [(option, int(self.snapshot.node_atom[node])) for option in options]
        return found

    def _nodes_in(self, of: int, head: SymbolHead) -> list[int]:
        """The e-nodes of a head in a class."""
        if head not in self._nodes_of:
            nodes_of: dict[int, list[int]] = {}
            nodes = [self.prefilter.nodes_of(symbol) for symbol in self.prefilter.symbols_of(head)]
            for node in np.concatenate([np.empty(0, np.int64), *nodes]).tolist():
                nodes_of.setdefault(int(self.snapshot.node_class[node]), []).append(node)
            self._nodes_of[head] = nodes_of
        return self._nodes_of[head].get(of, [])


def _width(layout: Layout) -> int:
    """How many fields all tuples of a layout have together."""
    return sum([len(fields) for fields in layout.values()])

"""Where in an e-graph a pattern may match, as far as that is cheap to tell: rules that match nowhere can wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.forms import (
    Edge,
    NodeForm,
    attrs_test,
    called_operators,
    identity_test,
    may_be_function,
    method_for,
    needed_edges,
    needed_heads,
    node_form,
    pattern_of_expr,
    reassociations,
    type_test,
    value_test,
)
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.symbols import SymbolHead
from eqsat.egraph.vocabulary import Test, Vocabulary
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    TuplePattern,
    TypedPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.dataflow_pattern.language import Copy
from eqsat.relay.expr import Constant, Expr, Op, Var

Mask = NDArray[np.bool_]
"""One truth value for each class, or each e-node of a symbol."""


class Prefilter:
    """What there is in an e-graph at one moment.

    A pattern may match at least where it does: each of its parts is looked for by itself, so where two parts
    are the same, or meet only in other places, it may seem to match where it does not.

    Attributes:
        heads: heads of e-nodes that rules see.
        edges: pairs of these, of which one is above the other.
    """

    def __init__(self, snapshot: Snapshot, vocabulary: Vocabulary):
        self.snapshot = snapshot
        self.vocabulary = vocabulary
        self._found: dict[DFPattern, Mask] = {}
        self._known: dict[DFPattern, bool] = {}
        seen = np.flatnonzero(~self.snapshot.hidden)
        starts = np.searchsorted(self.snapshot.node_symbol[seen], np.arange(1, len(self.snapshot.symbols)))
        self._nodes_of = np.split(seen, starts)
        self._children: dict[int, list[NDArray[np.int32]]] = {}
        self._indices: dict[SymbolHead, list[int]] = {}
        self._nowhere: Mask = np.zeros(self.snapshot.class_count, dtype=bool)
        for index, (symbol, nodes) in enumerate(zip(self.snapshot.symbols, self._nodes_of, strict=False)):
            if len(nodes):
                self._indices.setdefault((symbol.kind, symbol.op), []).append(index)
        self.heads = set(self._indices)
        self._operators = [op for kind, op in self._indices if kind == "call" and op is not None]
        self.edges = self._edges()

    def _edges(self) -> set[Edge]:
        snapshot, heads = self.snapshot, list(self._indices)
        head_of = np.full(snapshot.node_count, -1)
        holds = np.zeros((len(heads), snapshot.class_count), dtype=bool)
        for number, head in enumerate(heads):
            for index in self._indices[head]:
                head_of[self._nodes_of[index]] = number
                holds[number, snapshot.node_class[self._nodes_of[index]]] = True
        above = np.repeat(head_of, np.diff(snapshot.child_offsets))
        found: set[Edge] = set()
        for upper, head in enumerate(heads):
            below = holds[:, snapshot.child[above == upper]].any(axis=1)
            found.update((head, heads[lower]) for lower in np.flatnonzero(below).tolist())
        return found

    def may_match(self, pattern: DFPattern) -> bool:
        """Whether there may be a class that ``pattern`` matches."""
        if type(pattern) is WildcardPattern:
            return True
        if pattern not in self._known:
            self._known[pattern] = bool(self._classes(pattern).any())
        return self._known[pattern]

    def may_have(self, pattern: DFPattern) -> bool:
        """Whether there are the heads, and pairs of them, that ``pattern`` asks for, in whatever classes."""
        return needed_heads(pattern) <= self.heads and needed_edges(pattern) <= self.edges

    def may_match_class(self, pattern: DFPattern, of: int) -> bool:
        """Whether ``pattern`` may match a class."""
        return type(pattern) is WildcardPattern or bool(self._classes(pattern)[of])

    def symbols_of(self, head: SymbolHead) -> list[int]:
        """The indices of the symbols of a head that e-nodes have which rules see."""
        return self._indices.get(head, [])

    def nodes_of(self, symbol: int) -> NDArray[np.int64]:
        """The e-nodes of a symbol that rules see."""
        return self._nodes_of[symbol]

    def constant_symbols(self) -> list[int]:
        """The symbols of which an e-node is in a class that equals, or can be computed from, constants."""
        symbols = self.snapshot.node_symbol[self.snapshot.constant[self.snapshot.node_class]]
        found: list[int] = np.flatnonzero(np.bincount(symbols)).tolist()
        return found

    def _classes(self, pattern: DFPattern) -> Mask:
        """The classes that a pattern may match."""
        if pattern not in self._found:
            self._found[pattern] = self._look_for(pattern) if self.may_have(pattern) else self._nowhere
        return self._found[pattern]

    def _look_for(self, pattern: DFPattern) -> Mask:
        method, form = method_for(pattern, _METHODS), node_form(pattern)
        if method is not None:
            return method(self, pattern)
        return self._everywhere() if form is None else self._of_form(form)

    def _everywhere(self) -> Mask:
        return np.ones(self.snapshot.class_count, dtype=bool)

    def _holding(self, nodes: Iterable[NDArray[np.int64]]) -> Mask:
        """The classes of e-nodes."""
        found = np.zeros(self.snapshot.class_count, dtype=bool)
        for some in nodes:
            found[self.snapshot.node_class[some]] = True
        return found

    def _nodes(
        self, kind: str, op: Op | None = None, below: Sequence[DFPattern] | None = None, test: Test | None = None
    ) -> list[NDArray[np.int64]]:
        """The e-nodes of a kind (and operator) over what patterns may match, with an atom that satisfies a test."""
        found = []
        for index in self._indices.get((kind, op), ()):
            nodes = self._nodes_of[index] if below is None else self.nodes_over(index, below)
            if test is not None and len(nodes):
                good = self.vocabulary.predicates.find(test).ids
                nodes = nodes[[atom in good for atom in self.snapshot.node_atom[nodes].tolist()]]
            found.append(nodes)
        return found

    def nodes_over(self, symbol: int, below: Sequence[DFPattern | Copy]) -> NDArray[np.int64]:
        """The e-nodes of a symbol that have children which the patterns may match."""
        nodes = self._nodes_of[symbol]
        if self.snapshot.symbols[symbol].arity != len(below):
            return nodes[:0]
        fit: Mask | None = None
        where: dict[DFPattern, NDArray[np.int32]] = {}
        for pattern, children in zip(below, self._children_of(symbol), strict=True):
            if isinstance(pattern, Copy):
                choices = [pattern.many.pattern, pattern.many.some]
                if any(type(one) is WildcardPattern for one in choices):
                    continue
                fits = reduce(or_, [self._classes(one)[children] for one in choices if one is not None])
            elif pattern in where:
                fits = children == where[pattern]
            else:
                where[pattern] = children
                if type(pattern) is WildcardPattern:
                    continue
                fits = self._classes(pattern)[children]
            fit = fits if fit is None else fit & fits
            if not fit.any():  # most often, and what the others match need not be found then
                return nodes[:0]
        return nodes if fit is None else nodes[fit]

    def _children_of(self, symbol: int) -> list[NDArray[np.int32]]:
        """The first children of a symbol's e-nodes, their second ones, and so on."""
        if symbol not in self._children:
            first = self.snapshot.child_offsets[self._nodes_of[symbol]]
            arity = self.snapshot.symbols[symbol].arity
            self._children[symbol] = [self.snapshot.child[first + position] for position in range(arity)]
        return self._children[symbol]

    def _of_form(self, form: NodeForm) -> Mask:
        return self._holding(self._nodes(form.kind, below=form.below, test=form.test))

    # ---- one method for each pattern class that is more than the e-nodes of one kind

    def _constant(self, pattern: ConstantPattern) -> Mask:
        if pattern.predicate is None:
            return self.snapshot.constant
        return self._holding(self._nodes("constant", test=value_test(pattern.predicate)))

    def _expr(self, pattern: ExprPattern) -> Mask:
        expr: Expr = pattern.expr
        if isinstance(expr, Constant):
            atom = self.vocabulary.constant(expr)
            return self._holding([some[self.snapshot.node_atom[some] == atom] for some in self._nodes("constant")])
        if isinstance(expr, Var):
            return self._of_form(NodeForm("var", (), identity_test(expr)))
        return self._everywhere() if isinstance(expr, Op) else self._classes(pattern_of_expr(expr))

    def _call(self, pattern: CallPattern) -> Mask:
        return self._holding(self._calls(pattern))

    def _calls(self, pattern: CallPattern, wanted: Attrs | None = None) -> list[NDArray[np.int64]]:
        """The e-nodes that a call pattern may match, with some attributes."""
        if pattern.named is None and may_be_function(pattern.op):
            return [np.arange(self.snapshot.node_count)]
        found = []
        for form in (pattern, *reassociations(pattern)):
            called = called_operators(form.op, lambda: self._operators)
            for op in self._operators if called is None else called:
                nodes = partial(self._nodes, "call", op, test=None if wanted is None else attrs_test(op, wanted))
                found += nodes(below=form.args)
                if form.args is not None and op.name in SWAPPED:
                    found += nodes(below=form.args[::-1])
        return found

    def _attr(self, pattern: AttrPattern) -> Mask:
        inside = pattern.pattern
        if isinstance(inside, CallPattern):
            return self._holding(self._calls(inside, pattern.attrs))
        return self._classes(inside)

    def _alt(self, pattern: AltPattern) -> Mask:
        return self._classes(pattern.left) | self._classes(pattern.right)

    def _tuple(self, pattern: TuplePattern) -> Mask:
        if not pattern.repetitions:
            return self._holding(self._nodes("tuple", below=pattern.fields))
        found = []
        for index in self.symbols_of(("tuple", None)):
            for counts in pattern.arrangements(self.snapshot.symbols[index].arity):
                found.append(self.nodes_over(index, pattern.arranged(counts)))
                if len(found[-1]) == len(self._nodes_of[index]):
                    break
        return self._holding(found)

    def _dominator(self, pattern: DominatorPattern) -> Mask:
        return self._classes(pattern.child)

    def _typed(self, pattern: TypedPattern) -> Mask:
        good = self.vocabulary.predicates.find(type_test(pattern)).ids
        fits = np.asarray([*[self.vocabulary.type_id(ty) in good for ty in self.snapshot.types], False])
        found: Mask = self._classes(pattern.pattern) & fits[self.snapshot.class_type_index]  # -1, no type, is the last
        return found


_METHODS: dict[type[DFPattern], Callable[..., Mask]] = {
    ConstantPattern: Prefilter._constant,
    ExprPattern: Prefilter._expr,
    CallPattern: Prefilter._call,
    AltPattern: Prefilter._alt,
    AttrPattern: Prefilter._attr,
    DominatorPattern: Prefilter._dominator,
    TuplePattern: Prefilter._tuple,
    TypedPattern: Prefilter._typed,
}


class Dependencies:
    """What queries were made from, and what they were not made of as it is not in the e-graph.

    Without a prefilter nothing is left out but what there are no symbols for.
    """

    def __init__(self, egraph: EGraph, prefilter: Prefilter | None = None):
        self._egraph = egraph
        self._presence = prefilter
        self._symbols = len(egraph.vocabulary.symbols)
        self._counts: dict[tuple[str | None, Op | None, int | None], int] = {}
        self._patterns: dict[DFPattern, None] = {}
        self._edges: dict[Edge, None] = {}

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

    def is_under(self, above: SymbolHead | None, op: Op) -> bool:
        """Whether calls of ``op`` are in classes below e-nodes of a head; below any, for None."""
        edge = above and (above, ("call", op))
        if self._presence is None or edge is None or edge in self._presence.edges:
            return True
        self._edges[edge] = None
        return False

    def has_come(self, prefilter: Prefilter) -> bool:
        """Whether something of it is in the e-graph now."""
        symbols, known = len(self._egraph.vocabulary.symbols), self._symbols
        return (
            (symbols > known and any(len(self._indices(*key)) > count for key, count in self._counts.items()))
            or not prefilter.edges.isdisjoint(self._edges)
            or any(map(prefilter.may_match, self._patterns))
        )

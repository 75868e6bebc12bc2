"""Explanations of a result: which rule created each of its nodes, and the rewrites that lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.brief import one_line
from eqsat.egraph.build import build_captured
from eqsat.egraph.derivation import Congruence, Derivation, Edge, closure
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import is_opaque, region_children
from eqsat.errors import ArgumentError
from eqsat.notebook import lines, preview
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Call, Constant, Expr, If, Op
from eqsat.relay.structural import structural_equal
from eqsat.relay.visitor import children_first

INPUT = "input"
"""Origin of a node that is part of the given graph."""

AGAIN = "again"
"""Rule of a step that repeats earlier steps at another place."""


@dataclass(frozen=True)
class Step:
    """One rewrite, in which each occurrence of ``before`` in the graph is replaced by ``after``.

    ``eqsat.rules.verify.verify_equal(step.before, step.after)`` compares the two on random inputs.

    Attributes:
        rule: Name of the rule, ``commute`` for an exchange of operands, or ``again`` for a repetition of earlier steps.
        forward: Whether the rule was applied from left to right.
        before: The part of the graph that the rule matched.
        after: Its replacement.
        removed: The nodes of ``before`` that are not in ``after``, outer ones first, without variables and constants.
        added: The nodes of ``after`` that are not in ``before``, likewise.
    """

    rule: str
    forward: bool
    before: Expr
    after: Expr
    removed: tuple[Expr, ...]
    added: tuple[Expr, ...]

    def __str__(self) -> str:
        arrow = "" if self.forward else ", from right to left"
        return f"{self.rule}{arrow}:\n{self.before}\n  =\n{self.after}"


@dataclass(frozen=True)
class Change:
    """Equal steps at different places.

    Attributes:
        rule: Name of the rule.
        forward: Whether the rule was applied from left to right.
        removed: Names of the operators that were removed, outer ones first.
        added: Names of the operators in their place, or ``constant``; none if the graph computed the value already.
        places: For each step that removed a node of the given graph, the place of the first such node.
        count: Number of steps.
    """

    rule: str
    forward: bool
    removed: tuple[str, ...]
    added: tuple[str, ...]
    places: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        arrow = "" if self.forward else " from right to left"
        place = f"  (at {self.places[0]})" if self.places else ""
        removed, added = (" ".join(operators) or "nothing" for operators in (self.removed, self.added))
        return f"{self.count} x {self.rule}{arrow}: {removed} -> {added}{place}"


class Explanation:
    """How the result for one region follows from the given graph.

    Args:
        region: The region, saturated with ``explain=True``.
        choice: E-class -> chosen e-node; an integer array of shape (e-classes,).
        result: The graph that was built from the choice.

    Raises:
        ArgumentError: The region was saturated without ``explain=True``.
    """

    def __init__(self, region: Region, choice: NDArray[np.int64], result: Expr):
        if region.journal is None:
            raise ArgumentError("nothing was recorded for an explanation: saturate with explain=True")
        self.region = region
        self.result = result
        self._journal: Journal = region.journal
        self._choice = choice
        self._exprs: dict[int, Expr] = {}

    def __repr__(self) -> str:
        return one_line(f"Explanation({self.region.title})")

    def _repr_html_(self) -> str:
        return preview(repr(self), lines(str(self)))

    @cached_property
    def origins(self) -> dict[Expr, str]:
        """Node of the result -> the name of the rule that created it, or ``input``.

        Nodes inside composites that were formed after extraction are left out.
        """
        makers, closed, terms = self._makers, self._closure, self._journal.terms
        symbols = self._journal.vocabulary.symbols
        found: dict[Expr, str] = {}
        pairs = [(self._target, self.result)]
        while pairs:
            term, expr = pairs.pop()
            symbol, atom, *children = terms[term]
            if expr in found:
                continue
            found[expr] = makers.get((symbol, atom, *map(closed.find, children)), INPUT)
            below = region_children(expr)
            of = expr.op if isinstance(expr, Call) and isinstance(expr.op, Op) else None
            if not is_opaque(expr) and symbols[symbol].op is of and len(below) == len(children):
                pairs += zip(children, below, strict=True)
        return found

    def steps(self) -> list[Step]:
        """Return the rewrites that lead from the given graph to the result, in order.

        Constant folding follows after them: see :meth:`graphs`.
        """
        derivation = self._derivation()
        return [self._step(edge, derivation) for edge in derivation]

    def graphs(self) -> Iterator[Expr]:
        """Return the given graph without lets, the graph after each step, and the folded result if it differs."""
        derivation = self._derivation()
        yield self._expr(derivation.whole())
        for _ in derivation:
            yield self._expr(derivation.whole())
        if not structural_equal(self._expr(self._target), self.result):
            yield self.result

    def changes(self) -> list[Change]:
        """Return a summary of the steps: equal steps are counted together, in order of their first appearance."""
        alike: dict[tuple[str, bool, tuple[str, ...], tuple[str, ...]], list[Step]] = {}
        for step in self.steps():
            added = ("constant",) if isinstance(step.after, Constant) else _operators(step.added)
            key = (step.rule, step.forward, _operators(step.removed), added)
            alike.setdefault(key, []).append(step)
        return [Change(*key, tuple(filter(None, map(_place, steps))), len(steps)) for key, steps in alike.items()]

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes()))

    # ---- the proof

    @property
    def journal(self) -> Journal:
        """The equations that rules found."""
        return self._journal

    @property
    def proof(self) -> tuple[Congruence, int, int]:
        """The closure of the equations that are needed, and the given and the chosen graph as terms of the journal."""
        return self._closure, self._source, self._target

    @cached_property
    def _spans(self) -> dict[int, Any]:
        """Term -> the span of its node of the given graph."""
        nodes = self.region.lowered.handles.items()
        return {self._journal.of_handle[handle]: node.span for node, handle in nodes if node.span is not None}

    @cached_property
    def _source(self) -> int:
        return self._journal.of_handle[self.region.lowered.root]

    @cached_property
    def _target(self) -> int:
        """The chosen graph as a term."""
        snapshot, choice = self.region.snapshot, self._choice
        found: dict[int, int] = {}
        for of in children_first([self.region.root], lambda of: snapshot.children(int(choice[of]))):
            node = int(choice[of])
            symbol, atom = int(snapshot.node_symbol[node]), int(snapshot.node_atom[node])
            found[of] = self._journal.term(symbol, atom, [found[child] for child in snapshot.children(node)])
        return found[self.region.root]

    @cached_property
    def _closure(self) -> Congruence:
        return closure(self._journal.terms, self._journal.equations, self._source, self._target)

    def _derivation(self) -> Derivation:
        terms = self._journal.terms
        return Derivation(self._closure, terms, lambda key: terms.intern(key, key), self._source, self._target)

    @cached_property
    def _makers(self) -> dict[tuple[int, ...], str]:
        """Symbol, atom and child classes of an e-node -> the rule that first created it, or ``input``."""
        journal, closed = self._journal, self._closure
        made: dict[tuple[int, ...], str] = {}
        entered: set[int] = set()

        def new_children(term: int) -> list[int]:
            return [child for child in journal.terms[term][2:] if child not in entered]

        def enter(term: int, maker: str) -> None:
            for one in children_first([term] if term not in entered else [], new_children):
                entered.add(one)
                symbol, atom, *children = journal.terms[one]
                if all(map(closed.knows, children)):
                    made.setdefault((symbol, atom, *map(closed.find, children)), maker)

        enter(self._source, INPUT)
        for equation in journal.equations:
            enter(equation.left, INPUT)
            enter(equation.right, equation.rule)
        return made

    # ---- terms as expressions

    def _step(self, edge: Edge, derivation: Derivation) -> Step:
        equation = edge.equation
        rule = AGAIN if equation is None else equation.rule
        forward = equation is None or equation.left == edge.source
        before, after = self._expr(edge.source), self._expr(edge.target)
        removed, added = (tuple(map(self._expr, terms)) for terms in derivation.difference(edge))
        return Step(rule, forward, before, after, removed, added)

    def _expr(self, term: int) -> Expr:
        vocabulary, terms, exprs = self._journal.vocabulary, self._journal.terms, self._exprs
        missing = [term] if term not in exprs else []
        for one in children_first(missing, lambda one: [child for child in terms[one][2:] if child not in exprs]):
            symbol, atom, *children = terms[one]
            below = [exprs[child] for child in children]
            exprs[one] = build_captured(vocabulary.symbols[symbol], vocabulary.atoms[atom], below, {})
            exprs[one].span = self._spans.get(one)
        return exprs[term]


def _operators(nodes: Iterable[Expr]) -> tuple[str, ...]:
    names: list[str] = []
    for node in nodes:
        if isinstance(node, Call):
            names.append(node.op.name if isinstance(node.op, Op) else "call")
        elif isinstance(node, If):
            names.append("if")
    return tuple(names)


def _place(step: Step) -> str:
    return next((str(node.span) for node in step.removed if node.span is not None), "")

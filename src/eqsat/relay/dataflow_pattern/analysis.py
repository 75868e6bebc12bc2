"""What matcher and grouper need to know of a whole pattern, found once per root pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from weakref import WeakKeyDictionary

from eqsat.relay.dataflow_pattern.graph import AncestorTree
from eqsat.relay.dataflow_pattern.language import (
    CallPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    LetPattern,
    TuplePattern,
    WildcardPattern,
    at_same_expression,
    is_operator,
)
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.visitor import children_first

_analyses: WeakKeyDictionary[DFPattern, PatternAnalysis] = WeakKeyDictionary()


def analyse(pattern: DFPattern) -> PatternAnalysis:
    """The analysis of ``pattern``, which is kept until some wildcard is redirected."""
    known = _analyses.get(pattern)
    if known is None or known.redirections != WildcardPattern.redirections:
        known = _analyses[pattern] = PatternAnalysis(pattern)
    return known


class PatternAnalysis:
    """Facts about the pattern rooted at ``root``."""

    def __init__(self, root: DFPattern):
        self.root = root
        self.redirections = WildcardPattern.redirections

    @cached_property
    def order(self) -> list[DFPattern]:
        """Every pattern object once, children first (cycles are cut where they close)."""
        return children_first([self.root], DFPattern.children)

    @cached_property
    def self_contained(self) -> frozenset[DFPattern]:
        """The patterns whose sub-patterns, bare operators apart, occur nowhere else in the pattern.

        Whether such a pattern matches does not depend on what was bound before, so that a failure may be
        remembered. They are those that dominate everything below them. None in a recursive pattern.
        """
        if any(type(pattern) is WildcardPattern and pattern.pattern for pattern in self.order):
            return frozenset()
        users: dict[DFPattern, list[DFPattern]] = {}
        for pattern in self.order:
            for child in pattern.children():
                if not is_operator(child):
                    users.setdefault(child, []).append(pattern)
        tree: AncestorTree[DFPattern] = AncestorTree()
        dominator_depth: dict[DFPattern, int] = {}
        for pattern in reversed(self.order):
            dominator = tree.common_ancestor(users.get(pattern, ()))
            tree.add(pattern, dominator)
            dominator_depth[pattern] = tree.depth[dominator]
        highest: dict[DFPattern, int] = {}  # the least depth of a dominator of anything strictly below
        contained = []
        for pattern in self.order:
            children = [child for child in pattern.children() if not is_operator(child)]
            below = [min(dominator_depth[child], highest[child]) for child in children]
            highest[pattern] = min(below, default=len(self.order) + 1)
            if highest[pattern] >= tree.depth[pattern]:
                contained.append(pattern)
        return frozenset(contained)

    @cached_property
    def entering_lets(self) -> list[DFPattern]:
        """The patterns through which a match may get into the scope of a let: they match lets and go on inside."""
        lets: list[DFPattern] = [pattern for pattern in self.order if isinstance(pattern, LetPattern)]
        return lets + [pattern.path for pattern in self.order if isinstance(pattern, DominatorPattern)]

    @cached_property
    def feeders(self) -> list[DFPattern]:
        """The patterns whose matches may be inputs of a group: leaves but bare operators, and those of any arity."""
        return [
            pattern for pattern in self.order if is_fuzzy(pattern) or not (pattern.children() or is_operator(pattern))
        ]

    @cached_property
    def may_match(self) -> Callable[[Expr], bool]:
        """A cheap test that every expression the root pattern matches passes."""
        return _head_test(self.root)


def is_fuzzy(pattern: DFPattern) -> bool:
    """Whether ``pattern`` is a call or tuple pattern that leaves number and kind of operands open."""
    return (isinstance(pattern, CallPattern) and pattern.args is None) or (
        isinstance(pattern, TuplePattern) and pattern.fields is None
    )


SWAPPED = ("add", "multiply")
"""The operators that Relay's patterns name whose two operands are matched in either order: these, and no others that
commute."""


def _head_test(root: DFPattern) -> Callable[[Expr], bool]:
    operators: set[Op] = set()
    kinds: set[type[Expr]] = set()
    for pattern in at_same_expression(root):
        if isinstance(pattern, CallPattern):
            callees = _callees(pattern)
            if callees is None:
                kinds.add(Call)
            else:
                operators.update(callees)
        elif isinstance(pattern, WildcardPattern):
            if pattern.pattern is None:
                return lambda _: True
        elif isinstance(pattern, ExprPattern):
            kinds.add(type(pattern.expr))
        elif pattern.kind is not None:
            kinds.add(pattern.kind)
    if Call in kinds or not operators:
        return lambda expr: type(expr) in kinds
    return lambda expr: expr.op in operators if type(expr) is Call else type(expr) in kinds


def _callees(pattern: CallPattern) -> tuple[Op, ...] | None:
    """The operators whose calls a call pattern can match, None for any callee.

    Products and quotients match each other by re-association; those that are written without their two
    arguments are errors on other calls, see :meth:`Matcher`.
    """
    if pattern.named is None:
        return None
    if pattern.named.name not in ("multiply", "divide"):
        return (pattern.named,)
    if pattern.args is None or len(pattern.args) < 2:
        return None
    return (Op.get("multiply"), Op.get("divide"))

"""Rewriting: callbacks replace the matches of their patterns until nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eqsat.collector import paused_gc
from eqsat.errors import NoMatchError, RewriteError
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import Group, find_groups
from eqsat.relay.dataflow_pattern.language import DFPattern
from eqsat.relay.dataflow_pattern.matcher import NodeMap
from eqsat.relay.expr import Expr, TupleWrapper, expression_hint
from eqsat.relay.infer import infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.structural import structural_equal
from eqsat.relay.visitor import rebuild

PASS_LIMIT = 100
"""Maximum number of passes of a callback; rewriting that needs more is an error."""

_GROWTH_LIMIT = 100
_GROWTH_FREE = 100_000


class DFPatternCallback:
    """A pattern and a function that returns replacements of its matches. Subclasses set ``pattern`` in ``__init__``.

    Args:
        require_type: Whether to infer types before each pass, so that ``pre`` and the nodes below it have checked
            types.
        rewrite_once: Whether to stop after the first pass that changes something.
    """

    pattern: DFPattern | None = None
    require_type = False
    rewrite_once = False

    def __init__(self, require_type: bool = False, rewrite_once: bool = False):
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """Return ``expr``, rewritten by this callback alone."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        """Return the replacement of a match.

        Args:
            pre: The root of the match.
            post: The same node with operands that are already rewritten; return it to keep the match unchanged.
            node_map: Each sub-pattern that took part -> a list of the rewritten expressions that it matched. The list
                has one element, except for patterns on a dominator's path and in recursive patterns. Any other pattern
                raises NoMatchError, a KeyError.
        """
        raise RewriteError(f"{type(self).__name__} does not define callback(self, pre, post, node_map)")


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr, mod: IRModule | None = None
) -> Expr:
    """Return ``expr``, rewritten by all callbacks in passes, in their order, until none changes anything.

    Args:
        callbacks: One or several callbacks.
        expr: The graph; it is not changed.
        mod: The module of the functions that ``expr`` calls, for type inference.

    Raises:
        RewriteError: A callback has no pattern or does not return an expression, or rewriting does not end.
    """
    active: list[DFPatternCallback] = (
        [*callbacks] if isinstance(callbacks, Iterable) and not isinstance(callbacks, str) else [callbacks]
    )
    for callback in active:
        _pattern_of(callback)
    if not isinstance(expr, Expr):
        raise RewriteError(f"rewrite works on expressions, not {expr!r}{expression_hint(expr)}")
    limit = _GROWTH_FREE + _GROWTH_LIMIT * len(DataflowGraph(expr).order)
    for _ in range(PASS_LIMIT):
        before = expr
        for callback in list(active):
            last = expr
            expr = _one_pass(callback, expr, mod, limit)
            if callback.rewrite_once and not _same(last, expr):
                active.remove(callback)
        if _same(before, expr):
            return expr
    raise RewriteError("Observed 100 rewrite passes, possible conflicting passes?")


def _same(before: Expr, after: Expr) -> bool:
    return before is after or structural_equal(before, after, map_free_vars=True)


def _pattern_of(callback: Any) -> DFPattern:
    if not isinstance(callback, DFPatternCallback):
        raise RewriteError(f"rewrite needs DFPatternCallbacks, not {callback!r}; eqsat.rules.rewrite makes rules")
    if not isinstance(callback.pattern, DFPattern):
        raise RewriteError(f"{type(callback).__name__} has no pattern: set self.pattern in __init__")
    return callback.pattern


@paused_gc()
def _one_pass(callback: DFPatternCallback, expr: Expr, mod: IRModule | None, limit: int) -> Expr:
    """``expr`` with every match of one callback that can be taken replaced, once.

    Raises:
        RewriteError: The callback does not return an expression, or the graph has more than ``limit`` nodes.
    """
    if callback.require_type:
        expr = infer_type(expr, mod)
    graph = DataflowGraph(expr)
    if len(graph.order) > limit:
        raise RewriteError(
            f"rewriting made a graph of {len(graph.order)} nodes before a pass of {type(callback).__name__}: "
            "callbacks whose results contain their own pattern grow without end; pass rewrite_once=True"
        )
    return replace_matches(callback, graph)


@paused_gc()
def replace_matches(callback: DFPatternCallback, graph: DataflowGraph) -> Expr:
    """Return the root of a graph, which has the types that the callback asks for, after one pass of the callback.

    Raises:
        RewriteError: The callback has no pattern, or does not return an expression.
    """
    groups = find_groups(_pattern_of(callback), graph)
    new: dict[Expr, Expr] = {}
    for node in graph.order if groups else ():
        new[node] = rebuild(node, new)
        if node in groups:
            new[node] = _result(callback, groups[node], new)
    return new.get(graph.root, graph.root)


class Matched(dict[DFPattern, list[Expr]]):
    """What each pattern matched; ``pattern in node_map`` tells whether it took part."""

    def get(self, pattern: DFPattern, default: Any = None) -> Any:
        """What a pattern matched, ``default``, which may be given by that name, if it took no part."""
        return super().get(pattern, default)

    def __missing__(self, pattern: DFPattern) -> list[Expr]:
        what = f"{type(pattern).__name__} {pattern.label or ''}".strip() if isinstance(pattern, DFPattern) else pattern
        raise NoMatchError(
            f"node_map has nothing for this {what}: it is no part of the callback's pattern, or stands in an "
            "alternative that was not taken; ask `pattern in node_map` first"
        )


def _result(callback: DFPatternCallback, group: Group, new: dict[Expr, Expr]) -> Expr:
    node_map = Matched((pattern, [new.get(node, node) for node in nodes]) for pattern, nodes in group.bound.items())
    result = callback.callback(group.root, new[group.root], node_map)
    if isinstance(result, TupleWrapper):
        result = result.astuple()
    if not isinstance(result, Expr):
        hint = ": return post to leave the match alone" if result is None else ""
        raise RewriteError(f"the callback of {type(callback).__name__} gave {result!r}, not an expression{hint}")
    return result

"""Rules that rewrite several matches of one pattern together, however many there are: siblings are merged at once.

A rule of two roots would merge pairs, then pairs of pairs, in every order; of n siblings that makes 2^n e-nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from eqsat.egraph.python_rules import Alternative, PythonRuleRunner
from eqsat.egraph.rule import PythonRule, Refusal
from eqsat.egraph.trace import Key
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.expr import Expr

NodeMap: TypeAlias = dict[DFPattern, list[Expr]]


def _alone(root: Expr, node_map: NodeMap) -> Any:
    return Refusal("it rewrites several matches together")


@dataclass(frozen=True)
class GroupRule(PythonRule):
    """Matches of ``lhs`` that agree are rewritten together.

    Args:
        shared: patterns in ``lhs`` that must have matched the same value in all.
        key: ``key(node_map)`` says which of them go together: those of equal keys; or it refuses a match.
        merge: ``merge(node_maps)`` returns what equals the root of each, in order, or a refusal: an expression, or a
            list of any number of them.
        alone: ``alone(node_map, merged)`` returns what equals the root of one match, in the form of ``merged``, or a
            refusal. None where what equals a root depends on the other matches.
    """

    apply: Callable[[Expr, NodeMap], Any] = _alone
    shared: tuple[DFPattern, ...] = ()
    key: Callable[[NodeMap], Hashable] = lambda node_map: None
    merge: Callable[[Sequence[NodeMap]], Any] = lambda node_maps: None
    alone: Callable[[NodeMap, Expr], Any] | None = None

    def result_like(self, root: Expr, node_map: NodeMap, known: Callable[[], Expr]) -> Expr | Refusal:
        """Return what equals the root of one match by itself, or a refusal."""
        if self.alone is None:
            return self.result(root, node_map)
        return self.called(root, partial(self.alone, node_map, known()))


class _Sibling(NamedTuple):
    """A match that may be merged: ``handle`` is its root's, ``shared`` those of what the group must agree in."""

    handle: int
    shared: tuple[int, ...]
    key: Hashable
    root: Expr
    node_map: NodeMap
    matched: Sequence[Key]


class GroupRuleRunner(PythonRuleRunner):
    """Keeps the match tables of one group rule and applies it; see :class:`PythonRuleRunner`."""

    rule: GroupRule

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._known: list[_Sibling] = []
        self._merged: set[tuple[int, ...]] = set()

    def apply(self) -> bool:
        """Apply the rule to every group that has grown since the last time; whether it did anything.

        Raises:
            RuleError: the rule's functions fail or return something of another type than the match.
        """
        changed = False
        for group in self._groups() if self._look() else ():
            handles = tuple([match.handle for match in group])
            if len(group) > 1 and handles not in self._merged:
                self._merged.add(handles)
                self.matches += 1
                changed |= self._guard(partial(self._merge, group))
        self.egraph.flush()
        return changed

    def _look(self) -> bool:
        """Take note of new matches; whether there are any that may be merged."""
        new_rows = self.egraph.engine.new_integers
        rows = [(alternative, row) for alternative in self._alternatives for row in new_rows(alternative.table)]
        new = [match for alternative, row in rows if (match := self._match(alternative, row)) is not None]
        self._known += new
        return bool(new)

    def _match(self, alternative: Alternative, row: tuple[int, ...]) -> _Sibling | None:
        values = dict(zip(alternative.columns, row, strict=True))
        classes = alternative.query.classes
        root, node_map = self._rebuild(alternative.query, values)
        key = self._guarded(self.rule.key, node_map)
        if isinstance(key, Refusal):
            self.refuse(self.rule.name, key.reason)
            return None
        shared = tuple([values[classes[pattern]] for pattern in self.rule.shared])
        root_handle, matched = values[classes[self.rule.lhs]], self._matched(alternative.query, values)
        return _Sibling(root_handle, shared, key, root, node_map, matched)

    def _groups(self) -> list[list[_Sibling]]:
        """Matches that go together; of one class the first only."""
        class_of = self.names.class_of_handles()
        groups: dict[Hashable, dict[int, _Sibling]] = {}
        for match in self._known:
            group = groups.setdefault((match.key, *[class_of[handle] for handle in match.shared]), {})
            group.setdefault(class_of[match.handle], match)
        return [list(group.values()) for group in groups.values()]

    def _merge(self, group: list[_Sibling]) -> bool:
        results = self._guarded(self.rule.merge, [match.node_map for match in group])
        if isinstance(results, Refusal):
            self.refuse(self.rule.name, results.reason)
            return False
        if len(results) != len(group):
            raise RuleError(f"rule {self.rule.name} returned {len(results)} results for {len(group)} matches")
        for match, found in zip(group, results, strict=True):
            others = () if self.rule.alone else [other.matched for other in group if other is not match]
            for result in found if isinstance(found, list) else [found]:
                if not isinstance(result, Expr):
                    raise RuleError(f"rule {self.rule.name} returned {result!r}: return an expression for each match")
                self._add(match.handle, match.root, result, [match.matched, *others])
        return True

    def _guarded(self, function: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return function(argument)
        except Exception as error:
            raise RuleError(f"rule {self.rule.name} failed: {error!r}") from error

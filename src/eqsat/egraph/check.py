"""What can be said of a rewrite before it meets a graph."""

from __future__ import annotations

from typing import Any

from eqsat.egraph.rule import Compute, Like, Rewrite
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)


def check_rewrite(rule: Rewrite) -> None:
    """Raise RuleError when the right side or a guard uses what the left side cannot have matched."""
    matched = {pattern for root in rule.lhs for pattern in subpatterns(root)}
    for distinct in rule.distinct:
        for pattern in distinct.patterns:
            _require(rule, pattern, matched, "a condition")
    for non_constant in rule.non_constant:
        _require(rule, non_constant.pattern, matched, "a condition")
    for guard in rule.when:
        for ref in guard.refs:
            _require(rule, ref.pattern, matched, "a guard")
    for template in rule.rhs:
        _check_template(rule, template, matched)
    for root in rule.lhs:
        if isinstance(root, (WildcardPattern, VarPattern)):
            raise RuleError(f"rule {rule.name}: its left side matches everything; name an operator")


def subpatterns(pattern: DFPattern) -> list[DFPattern]:
    """``pattern`` and all patterns in it, each once."""
    found: dict[DFPattern, None] = {}
    stack: list[Any] = [pattern]
    while stack:
        one = stack.pop()
        if isinstance(one, DFPattern) and one not in found:
            found[one] = None
            stack.extend(reversed(one.children()))
    return list(found)


def _check_template(rule: Rewrite, template: Any, matched: set[DFPattern]) -> None:
    stack = [template]
    while stack:
        one = stack.pop()
        if one in matched:
            continue
        if isinstance(one, Compute):
            for ref in one.refs:
                _require(rule, ref.pattern, matched, "a computed value")
        elif isinstance(one, Like):
            _require(rule, one.call, matched, "like()")
            stack.extend((*one.args, *(value for value in one.changes.values() if isinstance(value, Compute))))
        elif isinstance(one, AttrPattern):
            stack.extend((one.pattern, *(value for value in one.attrs.values() if isinstance(value, Compute))))
        elif isinstance(one, CallPattern):
            stack.extend(one.args or ())
        elif isinstance(one, TuplePattern):
            stack.extend(one.fields or ())
        elif isinstance(one, TupleGetItemPattern):
            stack.append(one.tuple)
        elif isinstance(one, (WildcardPattern, VarPattern, ConstantPattern)):
            _require(rule, one, matched, "the right side")


def _require(rule: Rewrite, pattern: DFPattern, matched: set[DFPattern], where: str) -> None:
    if pattern not in matched:
        name = pattern.label or type(pattern).__name__
        raise RuleError(f"rule {rule.name}: {where} uses {name!r}, which the left side does not match")

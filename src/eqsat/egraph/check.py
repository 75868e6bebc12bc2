"""What can be said of a rewrite before it meets a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.egraph.rule import Compute, Ref, Rewrite
from eqsat.egraph.templates import TemplateBuilder
from eqsat.egraph.variadic import Expansion, expanded, smallest_layout
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import DFPattern, VarPattern, WildcardPattern
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Constant, Op


def check_rewrite(rule: Rewrite) -> None:
    """Raise RuleError when the right side or a guard uses what the left side cannot have matched."""
    layout = smallest_layout(rule.lhs)
    if layout:
        rule = expanded(rule, Expansion(rule.lhs, layout))
    checks = _Checks(rule)
    for distinct in rule.distinct:
        for pattern in distinct.patterns:
            checks.require(pattern, "a condition")
    for non_constant in rule.non_constant:
        checks.require(non_constant.pattern, "a condition")
    for guard in rule.when:
        checks.require_all(guard.refs, "a guard")
    builder = TemplateBuilder(rule.name, checks)
    for template in rule.rhs:
        builder.build(template)
    for root in rule.lhs:
        if isinstance(root, (WildcardPattern, VarPattern)):
            raise RuleError(f"rule {rule.name}: its left side matches everything; name an operator")


class _Checks:
    """Builds nothing of the templates of a rule, but requires that the left side matches what they refer to."""

    def __init__(self, rule: Rewrite):
        self.rule = rule
        self.patterns = {pattern for root in rule.lhs for pattern in subpatterns(root)}

    def require(self, pattern: DFPattern, where: str) -> None:
        """Raise RuleError unless the left side has a pattern that is used somewhere."""
        if pattern not in self.patterns:
            name = pattern.label or type(pattern).__name__
            raise RuleError(f"rule {self.rule.name}: {where} uses {name!r}, which the left side does not match")

    def require_all(self, refs: Sequence[Ref], where: str) -> None:
        """:meth:`require` what is referred to."""
        for ref in refs:
            self.require(ref.pattern, where)

    def matched(self, pattern: DFPattern) -> bool | None:
        return True if pattern in self.patterns else None

    def constant(self, value: Constant) -> bool:
        return True

    def computed(self, template: Compute) -> bool:
        self.require_all(template.refs, "a computed value")
        return True

    def call(self, op: Op, args: Sequence[bool], attrs: Mapping[str, Any]) -> bool:
        for value in attrs.values():
            if isinstance(value, Compute):
                self.computed(value)
        return True

    def like(self, pattern: DFPattern, operands: Sequence[bool], changes: Mapping[str, Any]) -> bool:
        self.require(pattern, "like()")
        for value in changes.values():
            if isinstance(value, Compute):
                self.computed(value)
        return True

    def tuple_of(self, fields: Sequence[bool]) -> bool:
        return True

    def field_of(self, whole: bool, index: int) -> bool:
        return True

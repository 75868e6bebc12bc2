"""Right sides of rules: one walk over their templates, for all that is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from eqsat.egraph.rule import Compute, Like
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    DFPattern,
    ExprPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from eqsat.relay.expr import Constant, Op

Node = TypeVar("Node")


class Backend(Protocol[Node]):
    """What a :class:`TemplateBuilder` makes nodes with: actions of the engine, expressions, or nothing but checks.

    Values of attributes are values, or :class:`Compute` for those that depend on the match.
    """

    def matched(self, pattern: DFPattern) -> Node | None:
        """What a pattern of the left side matched; None for everything else."""

    def constant(self, value: Constant) -> Node:
        """A constant that is the same in each match."""

    def computed(self, template: Compute) -> Node:
        """A constant that is computed from the match."""

    def call(self, op: Op, args: Sequence[Node], attrs: Mapping[str, Any]) -> Node:
        """A call of an operator; attributes that are not given have their defaults."""

    def like(self, pattern: DFPattern, operands: Sequence[Node], changes: Mapping[str, Any]) -> Node:
        """The call, or field of a tuple, that ``pattern`` matched, with other operands and some other attributes."""

    def tuple_of(self, fields: Sequence[Node]) -> Node:
        """A tuple."""

    def field_of(self, whole: Node, index: int) -> Node:
        """A field of a tuple."""


class TemplateBuilder(Generic[Node]):
    """Builds the templates of one right side, that of the rule named ``rule``, each once."""

    def __init__(self, rule: str, backend: Backend[Node]):
        self.rule = rule
        self.backend = backend
        self._built: dict[DFPattern, Node] = {}

    def build(self, template: DFPattern) -> Node:
        """The node that ``template`` stands for.

        Raises:
            RuleError: it is neither a template nor matched by the left side.
        """
        matched = self.backend.matched(template)
        if matched is not None:
            return matched
        if template not in self._built:
            self._built[template] = self._new(template)
        return self._built[template]

    def _new(self, template: DFPattern) -> Node:
        if isinstance(template, Compute):
            return self.backend.computed(template)
        if isinstance(template, Like):
            return self.backend.like(template.call, self._all(template.args), template.changes)
        if isinstance(template, AttrPattern):
            return self._call(template.pattern, template.attrs)
        if isinstance(template, CallPattern):
            return self._call(template, {})
        if isinstance(template, TuplePattern) and template.fields is not None:
            return self.backend.tuple_of(self._all(template.fields))
        if isinstance(template, TupleGetItemPattern) and template.index >= 0:
            return self.backend.field_of(self.build(template.tuple), template.index)
        if isinstance(template, ExprPattern) and isinstance(template.expr, Constant):
            return self.backend.constant(template.expr)
        name = getattr(template, "label", None) or type(template).__name__
        raise RuleError(
            f"rule {self.rule}: the right side uses {name!r}, which the left side does not match in every alternative"
        )

    def _call(self, template: DFPattern, attrs: Mapping[str, Any]) -> Node:
        if not isinstance(template, CallPattern) or template.named is None or template.args is None:
            raise RuleError(f"rule {self.rule}: a call on the right side needs a known operator and arguments")
        return self.backend.call(template.named, self._all(template.args), attrs)

    def _all(self, templates: Sequence[DFPattern]) -> list[Node]:
        return [self.build(template) for template in templates]

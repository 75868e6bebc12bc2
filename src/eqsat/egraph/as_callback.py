"""Saturation rules as Relay callbacks, so that the same rules can also rewrite a graph in place.

What a rule cannot do in the e-graph it does not do here: a guard that does not hold, a value that is not
known, a right side that does not type-check leave the match alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.egraph.rule import Compute, PythonRule, Ref, Refusal, Rewrite, refs_of
from eqsat.egraph.templates import TemplateBuilder
from eqsat.egraph.variadic import arrangements_like, expanded, matched_layout
from eqsat.errors import EqsatError, OperatorError, RuleError, TypeCheckError
from eqsat.relay.dataflow_pattern import DFPattern, DFPatternCallback
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.infer import extend_types
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import IncompleteType
from eqsat.relay.visitor import post_order

NodeMap = dict[DFPattern, list[Expr]]


def as_callback(rule: Rewrite | PythonRule) -> DFPatternCallback:
    """``rule`` as a callback of :func:`eqsat.relay.dataflow_pattern.rewrite`; it asks for typed expressions.

    Raises:
        RuleError: a rule with several roots, for which one place to write the result is not enough, or that asks
            for what a callback is not told of.
    """
    if isinstance(rule, PythonRule):
        return _InPlace(rule)
    if _asks_places(rule):
        raise RuleError(f"rule {rule.name} asks for uses or places, which a callback is not told of")
    if rule.numbers:
        raise RuleError(f"rule {rule.name} asks what real numbers are, which a callback is not told of")
    if len(rule.lhs) != 1:
        raise RuleError(f"rule {rule.name} joins {len(rule.lhs)} patterns: rewriting in place replaces one match only")
    return _InPlace(rule)


def asks_e_graph(rule: Rewrite) -> bool:
    """Whether a rule asks for what a callback is not told of."""
    return bool(rule.numbers) or _asks_places(rule)


def _asks_places(rule: Rewrite) -> bool:
    return any(ref.kind in ("uses", "place") for ref in refs_of(rule))


class _InPlace(DFPatternCallback):
    def __init__(self, rule: Rewrite | PythonRule):
        super().__init__(require_type=True)
        self.rule = rule
        self.pattern = rule.lhs if isinstance(rule, PythonRule) else rule.lhs[0]

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        if isinstance(self.rule, PythonRule):
            results = iter([_computed(self.rule, post, node_map)])
        else:
            results = (_rewritten(match, pre) for match in _matches(self.rule, post, node_map))
        result = next((result for result in results if result is not None), None)
        if result is None:
            return post
        _keep_type(self.rule.name, pre, result)
        return result


def _computed(rule: PythonRule, root: Expr, node_map: NodeMap) -> Expr | None:
    for nodes in (*node_map.values(), [root]):
        for node in nodes:
            check_types(node)
    result = rule.result(root, node_map)
    return None if isinstance(result, Refusal) else result


def _rewritten(match: _InPlaceMatch, pre: Expr) -> Expr | None:
    (template,) = match.rule.rhs
    try:
        if not all(match.ask(guard.holds, guard.refs) for guard in match.rule.when):
            return None
        result = TemplateBuilder(match.rule.name, match).build(template)
        check_types(result)
    except (_NotKnown, OperatorError, TypeCheckError):
        return None
    if template in match.bound and result._checked_type != pre._checked_type:
        return None  # as in the e-graph: a matched part that only broadcasts to the result is not equal to it
    return result


def _matches(rule: Rewrite, post: Expr, node_map: NodeMap) -> Iterator[_InPlaceMatch]:
    """The match of a rule, and where its fields can be shared out among several repetitions, the other matches."""
    layout = matched_layout(rule.lhs, node_map)
    if not layout:
        yield _InPlaceMatch(rule, {pattern: nodes[0] for pattern, nodes in node_map.items() if nodes})
    for arranged in arrangements_like(layout):
        fixed = expanded(rule, arranged)
        matcher = Matcher(fixed.lhs[0], DataflowGraph(post))
        if matcher.match(post):
            yield _InPlaceMatch(fixed, {pattern: nodes[0] for pattern, nodes in matcher.bound.items()})


class _NotKnown(Exception):
    """The match lacks a type, attributes or a value that the rule asks for, or Python refused."""


class _InPlaceMatch:
    """What a left side matched, and the expressions that the right side makes of it.

    It makes them as a :class:`eqsat.egraph.templates.Backend`, whose nodes are expressions.
    """

    def __init__(self, rule: Rewrite, bound: dict[DFPattern, Expr]):
        self.rule = rule
        self.bound = bound

    def ask(self, function: Callable[..., Any], refs: Sequence[Ref]) -> Any:
        """What a Python part of the rule makes of the parts of the match it refers to; _NotKnown for a refusal."""
        values = [self._value(ref) for ref in refs]
        try:
            result = function(*values)
        except EqsatError as error:
            raise _NotKnown from error
        except Exception as error:
            raise RuleError(f"rule {self.rule.name}: its Python part failed: {error!r}") from error
        if isinstance(result, Refusal):
            raise _NotKnown
        return result

    def matched(self, pattern: DFPattern) -> Expr | None:
        return self.bound.get(pattern)

    def constant(self, value: Constant) -> Expr:
        return value

    def computed(self, template: Compute) -> Expr:
        return Constant(np.asarray(self.ask(template.function, template.refs)))

    def call(self, op: Op, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Expr:
        return Call(op, args, make_attrs(op, self._attributes(attrs)))

    def like(self, pattern: DFPattern, operands: Sequence[Expr], changes: Mapping[str, Any]) -> Expr:
        matched = self._node(pattern)
        if isinstance(matched, TupleGetItem):
            return TupleGetItem(operands[0], matched.index)
        attrs = matched.attrs
        if changes and isinstance(matched.op, Op):
            attrs = make_attrs(matched.op, {**(attrs or {}), **self._attributes(changes)})
        return Call(matched.op, operands, attrs)

    def tuple_of(self, fields: Sequence[Expr]) -> Expr:
        return Tuple(fields)

    def field_of(self, whole: Expr, index: int) -> Expr:
        return TupleGetItem(whole, index)

    def _attributes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self.ask(value.function, value.refs) if isinstance(value, Compute) else value
            for name, value in given.items()
        }

    def _node(self, pattern: DFPattern) -> Call | TupleGetItem:
        node = self.bound.get(pattern)
        if not isinstance(node, (Call, TupleGetItem)):
            raise RuleError(f"rule {self.rule.name}: it asks for the attributes of a pattern that matched no call")
        return node

    def _value(self, ref: Ref) -> Any:
        if ref.pattern not in self.bound:
            raise RuleError(f"rule {self.rule.name}: it refers to a pattern that the left side does not match")
        if ref.kind in ("attrs", "index"):
            node = self._node(ref.pattern)
            return node.index if isinstance(node, TupleGetItem) else node.attrs
        expr = self.bound[ref.pattern]
        if ref.kind == "type":
            check_types(expr)
            if isinstance(expr._checked_type, IncompleteType):
                raise _NotKnown
            return expr.checked_type
        if not isinstance(expr, Constant):
            raise _NotKnown
        return expr.data.numpy()


def check_types(root: Expr) -> None:
    """Infer the types of the nodes of ``root`` that have none, down to those that have.

    Raises:
        TypeCheckError: they do not type-check.
    """
    fresh = post_order(root, children=lambda node: () if node._checked_type is not None else node.children())
    types = {node: node._checked_type for node in fresh if node._checked_type is not None}
    if len(types) == len(fresh):
        return
    extend_types(types, root)
    for node in fresh:
        node._checked_type = types.get(node)


def _keep_type(name: str, pre: Expr, result: Expr) -> None:
    try:
        check_types(result)
    except TypeCheckError as error:
        raise RuleError(f"rule {name} made a graph that does not type-check: {error}") from error
    if result._checked_type != pre._checked_type:
        raise RuleError(
            f"rule {name} would put an expression of type {result._checked_type} in the place of one of type"
            f" {pre._checked_type}: a rule must keep the type"
        )

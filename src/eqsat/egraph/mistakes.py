"""What can be wrong with a rule is said when it is made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import FunctionType
from typing import Any

from eqsat.egraph.rule import Compute, Ref, Rewrite
from eqsat.egraph.templates import TemplateBuilder
from eqsat.egraph.variadic import expanded, smallest_layout
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    ExprPattern,
    VarPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.language import TypedPattern, is_operator, subpatterns
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import REQUIRED, Field, operators

_NO_CALLS = (WildcardPattern, VarPattern, ConstantPattern)
"""Classes of patterns that match no call by which its attributes are known."""


def check_rewrite(rule: Rewrite) -> None:
    """Raise RuleError when the rule cannot match, or uses what its left side cannot have matched.

    That is so of a pattern with an attribute or a number of arguments that its operators do not have.
    """
    for root in rule.lhs:
        check_pattern(rule.name, root)
    layout = smallest_layout(rule.lhs)
    if layout:
        rule = expanded(rule, layout)
    checks = _Checks(rule)
    for distinct in rule.distinct:
        for pattern in distinct.patterns:
            checks.require(pattern, "a condition")
    for pattern in (*rule.varying, *(each.pattern for each in rule.numbers)):
        checks.require(pattern, "a condition")
    for derived in rule.derived:
        for pattern in (derived.pattern, derived.operand):
            checks.require(pattern, "a condition")
    for guard in rule.when:
        checks.require_all(guard.refs, "a guard")
        _check_function(rule.name, "a guard", guard.holds, guard.refs)
    builder = TemplateBuilder(rule.name, checks)
    for template in rule.rhs:
        builder.build(template)
    for root in rule.lhs:
        if isinstance(root, (WildcardPattern, VarPattern)):
            raise RuleError(f"rule {rule.name}: its left side matches everything; name an operator")


def check_pattern(rule: str, root: DFPattern) -> None:
    """Raise RuleError when a part of a left side cannot match, whatever the graph.

    The pattern language itself takes such patterns, as Relay's does: they match nothing.
    """
    for pattern in subpatterns(root):
        if isinstance(pattern, CallPattern) and pattern.named is not None and pattern.args is not None:
            _check_arguments(rule, pattern.named, len(pattern.args))
        elif isinstance(pattern, AttrPattern):
            called = _called(pattern)
            if called is not None:
                _check_attributes(rule, called, pattern.attrs)
            elif is_operator(pattern.pattern):
                _check_operator_attributes(rule, pattern.attrs)


def _called(pattern: DFPattern) -> list[Op] | None:
    """The operators whose calls a pattern matches; None for those of any, or what is not a call."""
    found: dict[Op, None] = {}
    stack = [(pattern, False)]
    while stack:
        part, is_callee = stack.pop()
        if isinstance(part, AltPattern):
            stack += [(part.left, is_callee), (part.right, is_callee)]
        elif isinstance(part, (AttrPattern, TypedPattern)):
            stack.append((part.pattern, is_callee))
        elif isinstance(part, CallPattern) and not is_callee:
            stack.append((part.op, True))
        elif is_callee and isinstance(part, ExprPattern) and isinstance(part.expr, Op):
            found[part.expr] = None
        else:
            return None
    return list(found)


def _check_arguments(rule: str, op: Op, count: int) -> None:
    if op.arguments is not None and op.infer is not None and count != len(op.arguments):
        told = f"{len(op.arguments)} arguments ({', '.join(op.arguments)})"
        raise RuleError(f"rule {rule}: {op.name} has {told}, not {count}")


def _check_attributes(rule: str, ops: Sequence[Op], attrs: Mapping[str, Any]) -> None:
    """Raise RuleError unless one of the operators has the attributes; of those that TVM's way adds nothing is known."""
    if not ops or any(op.infer is None for op in ops):
        return
    names = " or ".join(op.name for op in ops)
    for name, value in attrs.items():
        fields = [field for op in ops for field in op.fields if field.name == name]
        if not fields:
            known = list(dict.fromkeys(field.name for op in ops for field in op.fields))
            raise RuleError(f"rule {rule}: {names} has no attribute {name!r}{_meant(name, known)}; it has {known}")
        if not isinstance(value, Compute) and not any(_takes(field, value) for field in fields):
            raise RuleError(f"rule {rule}: {names}: {name}={value!r} is not of kind {fields[0].kind}")


def _takes(field: Field, value: Any) -> bool:
    try:
        field(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_operator_attributes(rule: str, attrs: Mapping[str, Any]) -> None:
    """Raise RuleError unless some operator has the attributes that :func:`register_op_attr` sets."""
    known = sorted({name for op in operators() for name in op.attr_map})
    for name in attrs:
        if name not in known:
            raise RuleError(
                f"rule {rule}: no operator has an operator attribute {name!r}{_meant(name, known)}; register it before "
                "the rule is made, or write has_attr() behind the call for an attribute of calls"
            )


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else ""


def _check_function(rule: str, what: str, function: Any, refs: Sequence[Ref]) -> None:
    """Raise RuleError unless a function can be called with what is referred to."""
    if not callable(function):
        raise RuleError(f"rule {rule}: {what} is made of a function and what it gets, not {function!r}")
    if type(function) is FunctionType and _takes_so_many(function, len(refs)):
        return
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions that are not written in Python do not tell
        return
    try:
        signature.bind(*refs)
    except TypeError as error:
        raise RuleError(
            f"rule {rule}: {what} gets {len(refs)} values, which its function does not take: {error}"
        ) from None


def _takes_so_many(function: FunctionType, count: int) -> bool:
    """Whether a function takes so many values, as is seen without its signature, whose making takes a while."""
    code = function.__code__
    least = code.co_argcount - len(function.__defaults__ or ())
    return least <= count <= code.co_argcount and not code.co_kwonlyargcount and not function.__dict__


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
            if not isinstance(ref, Ref):
                raise RuleError(
                    f"rule {self.rule.name}: {where} gets {ref!r}: say what of a pattern, such as type_of(pattern)"
                )
            self.require(ref.pattern, where)
            if ref.kind == "attrs" and type(ref.pattern) in _NO_CALLS and not ref.pattern.children():
                name = ref.pattern.label or type(ref.pattern).__name__
                raise RuleError(f"rule {self.rule.name}: {where} asks {name!r} for attributes, and it matches no call")

    def matched(self, pattern: DFPattern) -> bool | None:
        return True if pattern in self.patterns else None

    def constant(self, value: Constant) -> bool:
        return True

    def computed(self, template: Compute) -> bool:
        self.require_all(template.refs, "a computed value")
        _check_function(self.rule.name, "a computed value", template.function, template.refs)
        return True

    def call(self, op: Op, args: Sequence[bool], attrs: Mapping[str, Any]) -> bool:
        _check_arguments(self.rule.name, op, len(args))
        self.attributes([op], attrs)
        missing = [field.name for field in op.fields if field.default is REQUIRED and field.name not in attrs]
        if missing:
            raise RuleError(f"rule {self.rule.name}: {op.name} on the right side needs attribute {missing[0]!r}")
        return True

    def attributes(self, ops: Sequence[Op], attrs: Mapping[str, Any]) -> None:
        """See that calls of some operators can have attributes of these values."""
        _check_attributes(self.rule.name, ops, attrs)
        for value in attrs.values():
            if isinstance(value, Compute):
                self.computed(value)

    def like(self, pattern: DFPattern, operands: Sequence[bool], changes: Mapping[str, Any]) -> bool:
        self.require(pattern, "like()")
        self.attributes(_called(pattern) or (), changes)
        return True

    def tuple_of(self, fields: Sequence[bool]) -> bool:
        return True

    def field_of(self, whole: bool, index: int) -> bool:
        return True

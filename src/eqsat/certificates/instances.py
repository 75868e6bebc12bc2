"""Whether terms are an instance of a rule: its patterns matched against them, its conditions, its right side built.

What a rule says is data: patterns, and functions that its conditions and computed parts call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.certificates.levels import Levels
from eqsat.certificates.terms import Terms
from eqsat.egraph.rule import Compute, Guard, Like, Ref, Refusal, Rewrite
from eqsat.egraph.variadic import Layout, expanded, is_variadic, laid_out, outer_tuples
from eqsat.errors import CertificateError, EqsatError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    ExprPattern,
    TupleGetItemPattern,
    TuplePattern,
    TypedPattern,
    VarPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.dataflow_pattern.attributes import has_attributes
from eqsat.relay.expr import Call, Constant, Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.traits import Trait
from eqsat.relay.ty import agree

Match = Mapping[DFPattern, int]
"""The term that each pattern matched."""

MOST_MATCHES = 10_000
"""Ways to match a rule against given terms that are tried."""


PLACES = ("uses", "place")
"""What rules may ask of the given graph."""


class NoInstance(CertificateError):
    """Terms are no instance of a rule; the argument says why."""


class Instances:
    """Checks instances of rules among terms.

    Args:
        terms: The terms, and what is known to be equal.
        levels: Which terms hold real numbers.
    """

    def __init__(self, terms: Terms, levels: Levels):
        self.terms = terms
        self.levels = levels

    def check(self, rule: Rewrite, left: Sequence[int], right: Sequence[int]) -> None:
        """Check that ``rule`` says that each of ``left`` equals the term of ``right`` at its place.

        Conditions that only decide where a rule is worth applying are not looked at: which values are distinct, no
        constants or bases, and how often and where the given graph uses them.

        Raises:
            NoInstance: The rule does not say so.
        """
        if len(left) != len(rule.lhs) or len(right) != len(left):
            raise NoInstance(f"the rule has {len(rule.lhs)} left sides")
        why = "its left side does not match"
        tried = 0
        for fixed in self._fixed(rule, left):
            for match in self._all(list(zip(fixed.lhs, left, strict=True)), {}):
                tried += 1
                if tried > MOST_MATCHES:
                    raise NoInstance("there are too many ways in which its left side could match")
                try:
                    self._apply(fixed, match, left, right)
                    return
                except NoInstance as reason:
                    why = str(reason)
                except EqsatError as reason:
                    why = f"a condition or computed part fails: {reason}"
        raise NoInstance(why)

    # ---- matching

    def _fixed(self, rule: Rewrite, left: Sequence[int]) -> Iterator[Rewrite]:
        """The rule with as many fields as the terms have, where it repeats patterns."""
        if any(map(is_variadic, rule.lhs)):
            for layout in self._layouts(rule, left):
                yield expanded(rule, layout)
        else:
            yield rule

    def _layouts(self, rule: Rewrite, left: Sequence[int]) -> Iterator[Layout]:
        """The ways in which the repetitions of a rule can stand for fields of terms."""
        wholes = {
            pattern: term
            for root, term in zip(rule.lhs, left, strict=True)
            for pattern, term in self._tuples(root, term)
        }
        found: list[dict[TuplePattern, Any]] = [{}]
        for whole in outer_tuples(rule.lhs):
            if whole not in wholes:
                return
            fields = self.terms.children[wholes[whole]]
            options = [
                option for counts in whole.arrangements(len(fields)) for option in self._laid_out(whole, counts, fields)
            ]
            found = [{**one, **option} for one in found for option in options]
        yield from found

    def _laid_out(
        self, whole: TuplePattern, counts: Sequence[int], fields: Sequence[int]
    ) -> Iterator[dict[TuplePattern, Any]]:
        """The ways in which fields match what only some must match: those with the same attributes do so together."""
        attributes: dict[DFPattern, Hashable] = {}
        for field, term in zip(whole.arranged(counts), fields, strict=True):
            some = getattr(field, "some", None)
            if some is not None and self._may_match(some, term):
                attributes[some] = self.terms.heads[term].key
        for key in dict.fromkeys(attributes.values()) if attributes else [None]:
            chosen = {some for some, each in attributes.items() if each == key}
            yield from self._with_inner(whole, laid_out(whole, counts, chosen.__contains__), fields)

    def _with_inner(
        self, whole: TuplePattern, layout: Sequence[Any], fields: Sequence[int]
    ) -> Iterator[dict[TuplePattern, Any]]:
        """A layout with those of the tuples in its fields."""
        inner = [
            (pattern, term)
            for (pattern, copy), term in zip(layout, fields, strict=True)
            if copy is not None and is_variadic(pattern)
        ]
        found: list[dict[TuplePattern, Any]] = [{whole: layout}]
        for pattern, term in inner:
            for nested, of in self._tuples(pattern, term):
                if nested.repetitions:
                    below = self.terms.children[of]
                    options = [o for c in nested.arrangements(len(below)) for o in self._laid_out(nested, c, below)]
                    found = [{**one, **option} for one in found for option in options]
        yield from found

    def _may_match(self, pattern: DFPattern, term: int) -> bool:
        """Whether the operator that a pattern starts with is that of a term."""
        if isinstance(pattern, AltPattern):
            return self._may_match(pattern.left, term) or self._may_match(pattern.right, term)
        if isinstance(pattern, (AttrPattern, TypedPattern)):
            return self._may_match(pattern.pattern, term)
        head = self.terms.heads[term]
        if isinstance(pattern, CallPattern):
            return head.op is not None and (pattern.named is None or head.op is pattern.named)
        if isinstance(pattern, TuplePattern):
            return head.kind == "tuple"
        return True

    def _tuples(self, pattern: DFPattern, term: int) -> Iterator[tuple[TuplePattern, int]]:
        """The tuple patterns with repetitions in a pattern, and the terms that they stand against."""
        stack = [(pattern, term)]
        while stack:
            one, of = stack.pop()
            if isinstance(one, (AttrPattern, TypedPattern)):
                stack.append((one.pattern, of))
            elif isinstance(one, AltPattern):
                stack += [(side, of) for side in (one.right, one.left) if self._may_match(side, of)]
            elif isinstance(one, TuplePattern) and one.repetitions:
                if self.terms.heads[of].kind == "tuple":
                    yield one, of
            elif isinstance(one, (CallPattern, TuplePattern, TupleGetItemPattern)) and self._may_match(one, of):
                parts = one.args if isinstance(one, CallPattern) else one.children()
                below = self.terms.children[of]
                if parts is not None and len(parts) == len(below):
                    stack += zip(parts, below, strict=True)

    def _all(self, pairs: Sequence[tuple[DFPattern, int]], match: Match) -> Iterator[Match]:
        """The ways to match several patterns together."""
        if not pairs:
            yield match
            return
        (pattern, term), rest = pairs[0], pairs[1:]
        for one in self._match(pattern, term, match):
            yield from self._all(rest, one)

    def _match(self, pattern: DFPattern, term: int, match: Match) -> Iterator[Match]:
        """The ways to match a pattern, which is as deep as a rule, against a term."""
        if pattern in match:
            if self.terms.same(match[pattern], term):
                yield match
            return
        bound = {**match, pattern: term}
        head, children = self.terms.heads[term], self.terms.children[term]
        if isinstance(pattern, AltPattern):
            for side in (pattern.left, pattern.right):
                for one in self._match(side, term, match):
                    yield {**one, pattern: term}
        elif isinstance(pattern, TypedPattern):
            ty = self.terms.type_of(term)
            if ty is not None and pattern.accepts(ty):
                for one in self._match(pattern.pattern, term, match):
                    yield {**one, pattern: term}
        elif isinstance(pattern, AttrPattern):
            if head.op is not None and _has(head.op, head.value, pattern.attrs):
                for one in self._match(pattern.pattern, term, match):
                    yield {**one, pattern: term}
        elif isinstance(pattern, WildcardPattern) and pattern.pattern is None:
            yield bound
        elif isinstance(pattern, ConstantPattern):
            value = self.terms.array_of(term)
            if value is not None:
                if pattern.predicate is None or pattern.predicate(value):
                    yield bound
            elif pattern.predicate is None and self.levels.is_constant(term):
                yield bound
        elif isinstance(pattern, VarPattern):
            if head.kind == "var" and pattern.name in ("", head.value.name_hint):
                yield bound
        elif isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant):
            constant = self.terms.constant_of(term)
            if constant is not None and self.terms.heads[constant].value.data.digest() == pattern.expr.data.digest():
                yield bound
        elif isinstance(pattern, CallPattern):
            for form in (pattern, *_forms(pattern)):
                yield from self._call(form, term, bound)
        elif isinstance(pattern, TuplePattern):
            if head.kind == "tuple" and (pattern.fields is None or len(pattern.fields) == len(children)):
                yield from self._all(
                    list(zip(pattern.fields or (), children, strict=pattern.fields is not None)), bound
                )
        elif isinstance(pattern, TupleGetItemPattern):
            if head.kind == "project" and pattern.index in (-1, head.value):
                yield from self._match(pattern.tuple, children[0], bound)
        else:
            raise CertificateError(f"patterns of class {type(pattern).__name__} are not checked")

    def _call(self, pattern: CallPattern, term: int, bound: Match) -> Iterator[Match]:
        head, children = self.terms.heads[term], self.terms.children[term]
        if head.op is None or not _calls(pattern.op, head.op):
            return
        if pattern.args is None:
            yield bound
        elif len(pattern.args) == len(children):
            yield from self._all(list(zip(pattern.args, children, strict=True)), bound)
            if head.op.name in SWAPPED:
                yield from self._all(list(zip(pattern.args, reversed(children), strict=True)), bound)

    # ---- conditions and right sides

    def _apply(self, rule: Rewrite, match: Match, left: Sequence[int], right: Sequence[int]) -> None:
        for guard in rule.when:
            if not all(ref.kind in PLACES for ref in guard.refs) and not self._ask(guard, match):
                raise NoInstance("one of its conditions does not hold")
        for condition in rule.numbers:
            if self.levels.level(match[condition.pattern], condition.level) < condition.level:
                raise NoInstance("what must be real numbers is not known to be")
        builder = _Builder(self, match)
        built = [builder.build(template) for template in rule.rhs]
        if len(built) < len(left):
            built = [self.terms.field_of(built[0], index) for index in range(len(left))]
        matched = {match[root] for root in rule.lhs if root in match}
        for root, mine, theirs, template in zip(left, built, right, [*rule.rhs] * len(left), strict=False):
            if not self.terms.same(mine, theirs):
                raise NoInstance("its right side is something else")
            self.check_types(root, theirs, exactly=template in match and mine not in matched)

    def check_types(self, left: int, right: int, exactly: bool = False) -> None:
        """Check that both sides of an equation have one type; ``exactly``, that they are known to have."""
        one, other = self.terms.type_of(left), self.terms.type_of(right)
        if not (self.terms.have_one_type(left, right) if exactly else agree(one, other)):
            raise NoInstance(f"its sides are of types {one} and {other}")

    def _ask(self, asked: Guard, match: Match) -> Any:
        return asked.holds(*[self.value(ref, match) for ref in asked.refs])

    def compute(self, template: Compute, match: Match) -> Any:
        """A computed part of a right side."""
        found = template.function(*[self.value(ref, match) for ref in template.refs])
        if isinstance(found, Refusal):
            raise NoInstance(found.reason)
        return found

    def value(self, ref: Ref, match: Match) -> Any:
        """What a rule refers to."""
        term = match.get(ref.pattern)
        if term is None:
            raise NoInstance("it refers to what was not matched")
        if ref.kind == "type":
            found: Any = self.terms.type_of(term)
        elif ref.kind == "value":
            found = self.terms.array_of(term)
        elif ref.kind in ("attrs", "index"):
            return self.terms.heads[term].value
        else:
            raise NoInstance(f"one of its conditions asks for the {ref.kind} of a value beside other things")
        if found is None:
            raise NoInstance(f"the {ref.kind} of {self.terms.told(term)} is not known")
        return found


class _Builder:
    """Builds a right side as terms."""

    def __init__(self, instances: Instances, match: Match):
        self.instances = instances
        self.terms = instances.terms
        self.match = match
        self._built: dict[DFPattern, int] = {}

    def build(self, template: DFPattern) -> int:
        """The term of a template, which is as deep as a rule."""
        if template in self.match:
            return self.match[template]
        if template not in self._built:
            self._built[template] = self._new(template)
        return self._built[template]

    def _new(self, template: DFPattern) -> int:
        if isinstance(template, Compute):
            return self.terms.constant(Constant(np.asarray(self.instances.compute(template, self.match))))
        if isinstance(template, Like):
            return self._like(template)
        if isinstance(template, AttrPattern) and isinstance(template.pattern, CallPattern):
            return self._call(template.pattern, template.attrs)
        if isinstance(template, CallPattern):
            return self._call(template, {})
        if isinstance(template, TuplePattern) and template.fields is not None:
            return self.terms.tuple_of([self.build(field) for field in template.fields])
        if isinstance(template, TupleGetItemPattern):
            return self.terms.field_of(self.build(template.tuple), template.index)
        if isinstance(template, ExprPattern) and isinstance(template.expr, Constant):
            return self.terms.constant(template.expr)
        raise NoInstance(f"its right side has a {type(template).__name__} that its left side does not match")

    def _call(self, template: CallPattern, attrs: Mapping[str, Any]) -> int:
        if template.named is None or template.args is None:
            raise NoInstance("its right side calls no known operator")
        given = {name: self._value(value) for name, value in attrs.items()}
        return self.terms.call(
            template.named, make_attrs(template.named, given), [self.build(arg) for arg in template.args]
        )

    def _like(self, template: Like) -> int:
        term = self.match.get(template.call)
        if term is None:
            raise NoInstance("it is like a call that was not matched")
        head, below = self.terms.heads[term], [self.build(arg) for arg in template.args]
        if head.kind == "project":
            return self.terms.field_of(below[0], head.value)
        if head.op is None:
            raise NoInstance("it is like something that is no call")
        attrs: Attrs | None = head.value
        if template.changes:
            changes = {name: self._value(value) for name, value in template.changes.items()}
            attrs = make_attrs(head.op, {**(attrs or {}), **changes})
        return self.terms.call(head.op, attrs, below)

    def _value(self, value: Any) -> Any:
        return self.instances.compute(value, self.match) if isinstance(value, Compute) else value


@lru_cache(maxsize=1 << 12)
def _forms(pattern: CallPattern) -> list[CallPattern]:
    """What Relay's matcher takes a pattern for beside itself: ``(a b) / c`` for ``a (b / c)``, and the reverse."""
    found = []
    if (quotient := _operands(pattern, "divide")) and (product := _operands(quotient[0], "multiply")):
        for first, second in (product, product[::-1]):
            inner = CallPattern(pattern.op, [first, quotient[1]])
            found.append(CallPattern(quotient[0].op, [second, inner]))  # type: ignore[attr-defined]
    if product := _operands(pattern, "multiply"):
        for factor, other in (product, product[::-1]):
            if inside := _operands(factor, "divide"):
                numerator = CallPattern(pattern.op, [inside[0], other])
                found.append(CallPattern(factor.op, [numerator, inside[1]]))  # type: ignore[attr-defined]
    return found


def _operands(pattern: DFPattern, name: str) -> tuple[DFPattern, ...]:
    """The two argument patterns of a call of the named operator; none of another pattern."""
    is_call = isinstance(pattern, CallPattern) and pattern.named is not None and pattern.named.name == name
    args = pattern.args or () if is_call and isinstance(pattern, CallPattern) else ()
    return args if len(args) == 2 else ()


def _calls(callee: DFPattern, op: Op) -> bool:
    """Whether a pattern in callee position matches an operator."""
    if isinstance(callee, AltPattern):
        return _calls(callee.left, op) or _calls(callee.right, op)
    if isinstance(callee, AttrPattern):
        return _calls(callee.pattern, op) and has_attributes(op, callee.attrs)
    if isinstance(callee, ExprPattern):
        return callee.expr is op
    return isinstance(callee, WildcardPattern)


def _has(op: Op, attrs: Attrs | None, wanted: Attrs) -> bool:
    try:
        return has_attributes(Call(op, (), attrs), wanted)
    except EqsatError:
        return False


def is_commutative(op: Op | None) -> bool:
    """Whether the two operands of an operator may be exchanged."""
    return op is not None and op.name in SWAPPED


def is_injective(op: Op | None) -> bool:
    """Whether an operator makes different results of different arguments of one type."""
    return op is not None and op.has(Trait.INJECTIVE)

"""Whether terms are an instance of a rule: Relay's matcher, the rule's conditions, and its right side built anew.

What a rule says is data: patterns, and functions that its conditions and computed parts call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from eqsat.certificates.folding import Values
from eqsat.certificates.levels import Levels
from eqsat.certificates.terms import Terms
from eqsat.egraph.rule import Compute, Like, PythonRule, Ref, Refusal, Rewrite, roots_of
from eqsat.egraph.variadic import arrangements_like, expanded, matched_layout
from eqsat.errors import CertificateError, EqsatError
from eqsat.nd import NDArray
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    DFPattern,
    ExprPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from eqsat.relay.fold import is_folded
from eqsat.relay.infer import extend_types
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import TensorType, Type, agree, is_static
from eqsat.relay.visitor import children_first, post_order

Bound: TypeAlias = dict[DFPattern, list[Expr]]
"""Pattern -> what it matched; for a repeated pattern, what it matched in each field."""

PLACES = ("uses", "place")
"""Kinds of information about the given graph that rules may use."""


class NoInstance(CertificateError):
    """Raised if terms are not an instance of a rule; the argument is the reason."""


class Instances:
    """Checks instances of rules among terms.

    Args:
        terms: The terms, and what is known to be equal.
        levels: Which terms hold real numbers.
        values: Computes terms over constants.

    Attributes:
        number_of: The term of each expression that Relay's matcher was shown.
    """

    def __init__(self, terms: Terms, levels: Levels, values: Values):
        self.terms = terms
        self.levels = levels
        self.values = values
        self.number_of: dict[Expr, int] = {}
        self._exprs: tuple[dict[int, Expr], dict[int, Expr]] = ({}, {})

    def check(self, rule: Rewrite | PythonRule, left: Sequence[int], right: Sequence[int]) -> None:
        """Check that ``rule`` equates each term of ``left`` with the term at the same place of ``right``.

        Conditions that only decide where applying a rule is useful are ignored: whether values are distinct, constants
        or bases, and how often and where the given graph uses them.

        Raises:
            NoInstance: The rule does not equate them.
        """
        sides = roots_of(rule)
        if len(left) != len(sides) or len(right) != len(sides):
            raise NoInstance(f"the rule has {len(sides)} left sides")
        why = "its left side does not match"
        if isinstance(rule, PythonRule):
            self._check_python(rule, left[0], right[0])
            return
        for fixed, bound in self._matches(rule, left):
            try:
                matched = {pattern: self.number_of[expr] for pattern, expr in bound.items() if expr in self.number_of}
                Match(self, matched).check(fixed, left, right)
                return
            except NoInstance as reason:
                why = str(reason)
            except EqsatError as reason:
                why = f"a condition or computed part fails: {reason}"
        raise NoInstance(why)

    def _check_python(self, rule: PythonRule, left: int, right: int) -> None:
        """Check an instance of a rule whose right side is a function: it is called with the matched expression."""
        for child in self.terms.children[left]:
            self._expr(child, True)
        root = self._node(left, self._exprs[True])
        bound = self._bound([rule.lhs], [root], True)
        if bound is None:
            raise NoInstance("its left side does not match")
        found = rule.result_like(root, bound, partial(self._expr, right))
        if isinstance(found, Refusal):
            raise NoInstance(found.reason)
        nodes = post_order(found, children=lambda node: () if node in self.number_of else node.children())
        known = {each: self.number_of[each] for each in nodes if each in self.number_of}
        types: dict[Expr, Type] = {each: ty for each in known if (ty := each._checked_type) is not None}
        extend_types(types, found)
        if not self.terms.same(self.terms.add(found, types, known)[found], right):
            raise NoInstance("its right side is something else")
        self.check_types(left, right, exactly=True)

    def _matches(self, rule: Rewrite, left: Sequence[int]) -> Iterator[tuple[Rewrite, dict[DFPattern, Expr]]]:
        """Yield the matches of a rule on the terms themselves, then with known constants in place of terms."""
        roots = [self._expr(term) for term in left]
        for folded in (False, True):
            bound = self._bound(rule.lhs, roots, folded)
            if bound is None:
                continue
            if not matched_layout(rule.lhs, bound):
                yield rule, _firsts(bound)
            for part in self._parts(rule, bound):
                for layout in arrangements_like(matched_layout(rule.lhs, part)):
                    fixed = expanded(rule, layout)
                    again = self._bound(fixed.lhs, roots, folded)
                    if again is not None:
                        yield fixed, _firsts(again)

    def _bound(self, patterns: Sequence[DFPattern], roots: Sequence[Expr], folded: bool) -> Bound | None:
        """Return what patterns match together; None if they do not match."""
        root, pattern = (roots[0], patterns[0]) if len(roots) == 1 else (Tuple(roots), TuplePattern(patterns))
        matcher = TermMatcher(pattern, root, self, folded)
        return matcher.bound if matcher.match(root) else None

    def _parts(self, rule: Rewrite, bound: Bound) -> Iterator[Bound]:
        """What matched, then the parts of it where what only some fields match has the same attributes in each."""
        yield bound
        fields = [field for each in matched_layout(rule.lhs, bound).values() for field in each]
        some = [pattern for pattern, copy in fields if copy is not None and pattern is copy.some]
        keys = {pattern: self.terms.heads[self.number_of[bound[pattern][0]]].key for pattern in some}
        for key in dict.fromkeys(keys.values()) if len({*keys.values()}) > 1 else ():
            yield {pattern: found for pattern, found in bound.items() if keys.get(pattern, key) == key}

    def _expr(self, term: int, folded: bool = False) -> Expr:
        """Return a term as an expression; if ``folded``, constants replace terms that depend only on constants."""
        terms, known = self.terms, self._exprs[folded]
        for one in children_first([term], lambda of: () if of in known else terms.children[of]):
            if one not in known:
                known[one] = (self._constant(one, known) if folded else None) or self._node(one, known)
        return known[term]

    def as_constant(self, expr: Expr) -> Expr:
        """Return the constant that a term is known to equal or that can be computed for it; otherwise ``expr``."""
        term = self.number_of.get(expr)
        if term is None:
            return expr
        equal = self.terms.constant_of(term)
        found = self._expr(term, True) if equal is None else self._expr(equal)
        return found if isinstance(found, Constant) else expr

    def _node(self, term: int, known: Mapping[int, Expr]) -> Expr:
        """Return a term as an expression over the expressions of its children."""
        head, below = self.terms.heads[term], [known[child] for child in self.terms.children[term]]
        if head.op is not None:
            expr: Expr = Call(head.op, below, head.value)
        elif head.kind == "tuple":
            expr = Tuple(below)
        elif head.kind == "project":
            expr = TupleGetItem(below[0], head.value)
        else:
            expr = head.value if head.kind == "constant" else Var(head.value.name_hint)
        expr._checked_type = self.terms.type_of(term)
        self.number_of[expr] = term
        return expr

    def _constant(self, term: int, known: Mapping[int, Expr]) -> Expr | None:
        """The constant that a term is known to equal, or that is computed from it when it is asked for."""
        head, below, ty = self.terms.heads[term], self.terms.children[term], self.terms.type_of(term)
        equal = self.terms.constant_of(term)
        if equal is not None:
            return self._node(equal, known)
        parts = [part for one in below for part in (known[one], *known[one].children()) if not isinstance(part, Tuple)]
        is_made = head.op is not None and is_folded(head.op) and all(isinstance(part, Constant) for part in parts)
        if not is_made or not below or not isinstance(ty, TensorType) or not is_static(ty):
            return None
        found = Constant(
            NDArray(
                tuple([dim for dim in ty.shape if isinstance(dim, int)]), ty.dtype, partial(self.values.value, term)
            )
        )
        found._checked_type = ty
        self.number_of[found] = term
        return found

    def check_types(self, left: int, right: int, exactly: bool = False) -> None:
        """Check that the types of both sides of an equation may agree; if ``exactly``, that they are known to agree."""
        one, other = self.terms.type_of(left), self.terms.type_of(right)
        if not (self.terms.have_one_type(left, right) if exactly else agree(one, other)):
            raise NoInstance(f"its sides are of types {one} and {other}")


def _firsts(bound: Bound) -> dict[DFPattern, Expr]:
    return {pattern: found[0] for pattern, found in bound.items() if found}


class TermMatcher(Matcher):
    """Relay's matcher, for which terms that are known to be equal are the same.

    Args:
        pattern: The pattern.
        root: The expression of a term.
        instances: The object that knows the terms.
        folded: Whether patterns of constants match expressions that depend only on constants.
    """

    def __init__(self, pattern: DFPattern, root: Expr, instances: Instances, folded: bool):
        super().__init__(pattern, DataflowGraph(root))
        self.instances = instances
        self.folded = folded

    def same(self, one: Expr | None, other: Expr) -> bool:
        """Return whether two expressions belong to terms that are known to be equal."""
        number_of = self.instances.number_of
        if one is None or one not in number_of or other not in number_of:
            return one is other
        return self.instances.terms.same(number_of[one], number_of[other])

    def as_constant(self, expr: Expr) -> Expr:
        """Return the constant that an expression is or may be treated as."""
        return self.instances.as_constant(expr) if self.folded else expr


class Match:
    """What the patterns of a rule matched.

    Args:
        instances: The terms.
        bound: The term of each pattern, to which those of the right side are added.
    """

    def __init__(self, instances: Instances, bound: dict[DFPattern, int]):
        self.terms = instances.terms
        self.instances = instances
        self.bound = bound

    def check(self, rule: Rewrite, left: Sequence[int], right: Sequence[int]) -> None:
        """Check the conditions of a rule, and that its right side is the given one.

        Raises:
            EqsatError: A condition does not hold, or the right side is another one.
        """
        for guard in rule.when:
            if not all(ref.kind in PLACES for ref in guard.refs) and not self._called(guard.holds, guard.refs):
                raise NoInstance("one of its conditions does not hold")
        for condition in rule.numbers:
            if self.instances.levels.level(self.bound[condition.pattern], condition.level) < condition.level:
                raise NoInstance("values that must be real numbers are not known to be real")
        is_matched = [template in self.bound and template not in rule.lhs for template in rule.rhs]
        built = [self._build(template) for template in rule.rhs]
        if len(built) < len(left):
            built = [self.terms.field_of(built[0], index) for index in range(len(left))]
            is_matched = [False] * len(left)
        for mine, theirs, root, exactly in zip(built, right, left, is_matched, strict=True):
            if not self.terms.same(mine, theirs):
                raise NoInstance("its right side is something else")
            self.instances.check_types(root, theirs, exactly)

    def _called(self, function: Any, refs: Sequence[Ref]) -> Any:
        """Return the result of a condition or computed part for the match."""
        found = function(*[self._value(ref) for ref in refs])
        if isinstance(found, Refusal):
            raise NoInstance(found.reason)
        return found

    def _value(self, ref: Ref) -> Any:
        """Return the value that a rule refers to."""
        term = self.bound.get(ref.pattern)
        if term is None:
            raise NoInstance("it refers to a pattern that was not matched")
        if ref.kind in ("attrs", "index"):
            return self.terms.heads[term].value
        if ref.kind not in ("type", "value"):
            raise NoInstance(f"one of its conditions asks for the {ref.kind} of a value together with other arguments")
        found = self.terms.type_of(term) if ref.kind == "type" else self.terms.array_of(term)
        if found is None:
            raise NoInstance(f"the {ref.kind} of {self.terms.told(term)} is not known")
        return found

    # ---- right sides

    def _build(self, template: DFPattern) -> int:
        """Return the term of a template."""
        if template not in self.bound:
            self.bound[template] = self._new(template)
        return self.bound[template]

    def _new(self, template: DFPattern) -> int:
        terms = self.terms
        if isinstance(template, Compute):
            return terms.constant(Constant(np.asarray(self._called(template.function, template.refs))))
        if isinstance(template, ExprPattern) and isinstance(template.expr, Constant):
            return terms.constant(template.expr)
        if isinstance(template, TuplePattern) and template.fields is not None:
            return terms.tuple_of(list(map(self._build, template.fields)))
        if isinstance(template, TupleGetItemPattern):
            return terms.field_of(self._build(template.tuple), template.index)
        if isinstance(template, Like) and template.call in self.bound:
            head, below = terms.heads[self.bound[template.call]], list(map(self._build, template.args))
            if head.kind == "project":
                return terms.field_of(below[0], head.value)
            if head.op is not None:
                changed = {**(head.value or {}), **self._attributes(template.changes)}
                return terms.call(head.op, make_attrs(head.op, changed) if template.changes else head.value, below)
        attrs, call = (template.attrs, template.pattern) if isinstance(template, AttrPattern) else ({}, template)
        if isinstance(call, CallPattern) and call.named is not None and call.args is not None:
            given = make_attrs(call.named, self._attributes(attrs))
            return terms.call(call.named, given, list(map(self._build, call.args)))
        raise NoInstance(f"its right side has a {type(template).__name__} that its left side does not match")

    def _attributes(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._called(value.function, value.refs) if isinstance(value, Compute) else value
            for name, value in attrs.items()
        }

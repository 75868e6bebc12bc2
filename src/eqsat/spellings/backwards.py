"""Rules from right to left: an instance of the left side is guessed for what the right side matches, and checked.

A right side need not say all of the left one: attributes are computed, constants are folded, what multiplies zero is
gone. So what the right side says is taken over, the rest is drawn at random, and the guess is right if the rule makes
of it, from left to right, what was there before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from eqsat.egraph.as_callback import as_callback
from eqsat.egraph.rule import Array, Compute, Like, PythonRule, Rewrite, Soundness
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DFPatternCallback,
    ExprPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
    is_constant,
)
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.dataflow_pattern.rewriter import Matched
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.fold import fold_constants
from eqsat.relay.op.draw import Draw, complete
from eqsat.relay.op.op import make_attrs
from eqsat.relay.structural import values_equal
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild, substitute
from eqsat.rules.verify.instantiate import Instantiator, Mismatch

GUESSES = 4
"""Number of left sides that are guessed for one match of a right side."""

LARGEST = 4096
"""Maximum number of elements of a constant from which another constant is guessed."""


class Forwards:
    """A rule from left to right.

    Args:
        rule: A rule with one root.

    Raises:
        RuleError: It needs information that one place of a graph does not provide.
    """

    def __init__(self, rule: Rewrite | PythonRule):
        self.name = rule.name
        self.pattern = rule.lhs if isinstance(rule, PythonRule) else rule.lhs[0]
        self.callback = as_callback(rule)

    def apply(self, node: Expr, graph: DataflowGraph, random: Random) -> Expr | None:
        """Return an expression that equals ``node`` by the rule; None if the rule does not apply."""
        matcher = Matcher(self.pattern, graph)
        return _applied(self.callback, node, matcher) if matcher.match(node) else None


class Backwards:
    """A rule from right to left.

    Args:
        rule: A rule with one root and a fixed number of fields.

    Raises:
        RuleError: Its right side is not specific enough to be matched.
    """

    def __init__(self, rule: Rewrite):
        self.name = f"{rule.name} backwards"
        self.rule = rule
        self.forwards = Forwards(rule)
        self.left = list(subpatterns(rule.lhs[0]))
        reading = _Reading(set(self.left))
        self.pattern = reading.pattern(rule.rhs[0])
        self.likes = reading.likes
        self.folded = reading.folded

    def apply(self, node: Expr, graph: DataflowGraph, random: Random) -> Expr | None:
        """Return an expression that equals ``node`` by the rule; None if no left side was found."""
        matcher = Matcher(self.pattern, graph)
        if not matcher.match(node):
            return None
        part = _Part(node, {pattern: exprs[0] for pattern, exprs in matcher.bound.items()})
        for _ in range(GUESSES):
            try:
                made = _Guess(self, part, random).left_side()
            except (EqsatError, Mismatch):
                continue
            if made._checked_type == part.root._checked_type and self._leads_back(made, part.root):
                return substitute(made, part.inside)
        return None

    def _leads_back(self, made: Expr, wanted: Expr) -> bool:
        """Return whether the rule rewrites ``made`` to ``wanted``."""
        found = self.forwards.apply(made, DataflowGraph(made), Random(0))
        exact = self.rule.soundness is Soundness.EXACT
        return found is not None and _is_same(fold_constants(found), fold_constants(wanted), exact)


def _applied(callback: DFPatternCallback, node: Expr, matcher: Matcher) -> Expr | None:
    try:
        result = callback.callback(node, node, Matched(matcher.bound))
    except EqsatError:  # such as a type that is not the same, since it is known less well
        return None
    return None if result is node else result


def _is_same(one: Expr, other: Expr, exact: bool) -> bool:
    """Return whether two small graphs are equal; unless ``exact``, constants may differ by one rounding."""
    stack = [(one, other)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Constant) and isinstance(b, Constant):
            if not _are_close(a.data.numpy(), b.data.numpy(), exact):
                return False
        elif (
            type(a) is not type(b)
            or isinstance(a, (Var, Op))
            or len(a.children()) != len(b.children())
            or (isinstance(a, Call) and isinstance(b, Call) and not values_equal(a.attrs, b.attrs))
            or (isinstance(a, TupleGetItem) and isinstance(b, TupleGetItem) and a.index != b.index)
        ):
            return False
        else:
            stack += zip(a.children(), b.children(), strict=True)
    return True


def _are_close(a: Array, b: Array, exact: bool) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if exact or a.dtype.kind != "f":
        return np.array_equal(a, b)
    with np.errstate(all="ignore"):
        return np.allclose(a, b, rtol=4 * float(np.finfo(a.dtype).eps), atol=0.0)


class _Reading:
    """Reads a right side as a pattern.

    Args:
        left: All patterns of the left side, which stand for themselves.

    Attributes:
        likes: Call of the left side -> the call of the right side that is like it, and the names of the attributes
            that are not.
        folded: Patterns of the constants in the place of what is computed from constants alone.
    """

    def __init__(self, left: set[DFPattern]):
        self.left = left
        self.likes: dict[DFPattern, tuple[DFPattern, frozenset[str]]] = {}
        self.folded: list[DFPattern] = []
        self._read: dict[DFPattern, DFPattern] = {}

    def pattern(self, template: DFPattern) -> DFPattern:
        """Return the pattern that matches what a template builds; equal templates give one pattern."""
        if template in self.left:
            return template
        if template not in self._read:
            if _is_of_constants(template):
                self._read[template] = constant = is_constant()
                self.folded.append(constant)
            else:
                self._read[template] = self._new(template)
        return self._read[template]

    def _new(self, template: DFPattern) -> DFPattern:
        if isinstance(template, Like):
            return self._like(template)
        if isinstance(template, AttrPattern):
            given = {name: value for name, value in template.attrs.items() if not isinstance(value, Compute)}
            inner = self.pattern(template.pattern)
            return inner.has_attr(given) if given else inner
        if isinstance(template, CallPattern) and template.args is not None:
            return CallPattern(template.op, [self.pattern(arg) for arg in template.args])
        if isinstance(template, TuplePattern) and template.fields is not None and not template.repetitions:
            return TuplePattern([self.pattern(field) for field in template.fields])
        if isinstance(template, TupleGetItemPattern):
            return TupleGetItemPattern(self.pattern(template.tuple), template.index)
        if isinstance(template, ExprPattern):
            return template
        raise RuleError(f"a {type(template).__name__} on a right side cannot be matched")

    def _like(self, template: Like) -> DFPattern:
        args = [self.pattern(arg) for arg in template.args]
        call = _call_of(template.call)
        if isinstance(call, TupleGetItemPattern):
            (whole,) = args
            return TupleGetItemPattern(whole, call.index)
        if not isinstance(call, CallPattern):
            raise RuleError(f"like() of a {type(call).__name__} cannot be matched")
        found = CallPattern(call.op, args)
        self.likes[call] = (found, frozenset(template.changes))
        return found


def _call_of(pattern: DFPattern) -> DFPattern:
    while isinstance(pattern, AttrPattern):
        pattern = pattern.pattern
    return pattern


def _is_of_constants(template: DFPattern) -> bool:
    """Whether a template is computed from constants alone, of which there are some."""
    if isinstance(template, Compute):
        return True
    call = _call_of(template)
    args = call.args if isinstance(call, (CallPattern, Like)) else None
    return bool(args) and all(map(_is_constant, args or ()))


def _is_constant(template: DFPattern) -> bool:
    if isinstance(template, ExprPattern):
        return isinstance(template.expr, Constant)
    return isinstance(template, ConstantPattern) or _is_of_constants(template)


class _Part:
    """What a right side matched, by itself: variables stand for the values that it is computed from.

    Args:
        node: The root of what was matched.
        bound: What each pattern matched.

    Attributes:
        root: The same as ``node`` over variables.
        bound: What each pattern matched in it.
        inside: Variable -> what it stands for.
    """

    def __init__(self, node: Expr, bound: Mapping[DFPattern, Expr]):
        wild = [expr for pattern, expr in bound.items() if isinstance(pattern, WildcardPattern)]
        leaves = [expr for expr in dict.fromkeys(wild) if not isinstance(expr, (Constant, Op))]
        new: dict[Expr, Expr] = {}
        self.inside: dict[Expr, Expr] = {}
        for number, leaf in enumerate(leaves):
            new[leaf] = variable = Var(f"v{number}", leaf._checked_type)
            variable._checked_type = leaf._checked_type
            self.inside[variable] = leaf
        for each in post_order(node, stop=leaves):
            new[each] = rebuild(each, new)
        self.root = new[node]
        self.bound = {pattern: new.get(expr, expr) for pattern, expr in bound.items()}


class _Guess(Instantiator):
    """One guess of a left side.

    Args:
        backwards: The rule.
        part: What its right side matched.
        random: The source of choices.
    """

    def __init__(self, backwards: Backwards, part: _Part, random: Random):
        super().__init__(Draw(random, finite=True))
        self.backwards = backwards
        self.part = part
        for node in post_order(part.root):
            if node._checked_type is None and not isinstance(node, Op):
                raise Mismatch
            if node._checked_type is not None:
                self.types[node] = node._checked_type
        self.operators = {pattern: expr for pattern, expr in part.bound.items() if isinstance(expr, Op)}
        for pattern in backwards.left:
            if pattern in part.bound and pattern not in self.operators:
                if part.bound[pattern] not in self.types:  # it is inside of what another variable matched
                    raise Mismatch
                self.matched[pattern] = part.bound[pattern]
        self.calls: dict[Op, list[Call]] = {}
        for node in post_order(part.root):
            if isinstance(node, Call) and isinstance(node.op, Op):
                self.calls.setdefault(node.op, []).append(node)
        self._guess_constants()

    def left_side(self) -> Expr:
        """Return the guessed left side; raises Mismatch or an EqsatError if the parts do not fit together."""
        return self.root(self.backwards.rule.lhs[0])

    def _guess_constants(self) -> None:
        """Guess constants of the left side from what was computed of them, and those of given values as scalars."""
        folded = [self.part.bound[pattern] for pattern in self.backwards.folded if pattern in self.part.bound]
        values = [expr.data for expr in folded if isinstance(expr, Constant)]
        known = [value.numpy() for value in values if np.prod(value.shape) <= LARGEST and value.dtype != "bool"]
        dtype = next((ty.dtype for ty in self.types.values() if isinstance(ty, TensorType)), "float32")
        for pattern in self.backwards.left:
            if not isinstance(pattern, ConstantPattern) or pattern in self.matched:
                continue
            example = getattr(pattern.predicate, "example", None)
            if example is not None and self.draw.chance(0.5):
                self.put(pattern, Constant(np.asarray(example((), dtype))))
            elif pattern.predicate is None and known:
                self.put(pattern, Constant(self._source_of(self.draw.rng.choice(known))))

    def _source_of(self, value: Array) -> Array:
        """Return a constant from which ``value`` may have been computed."""
        with np.errstate(all="ignore"):
            ways = (value, -value, 1 / value, value / 2, value - 1, np.sqrt(np.abs(value)), np.ones_like(value))
            return np.asarray(self.draw.rng.choice(ways)).astype(value.dtype)

    def variable(self, ty: Type, name: str = "") -> Any:
        """Return any available value of a type, or a constant."""
        alike = [node for node in self.part.inside if node._checked_type == ty]
        if alike and self.draw.chance(0.7):
            return self.draw.rng.choice(alike)
        if not isinstance(ty, TensorType) or not is_static(ty) or np.prod(ty.concrete_shape) > LARGEST:
            raise Mismatch
        return Constant(self.draw.array(ty))

    def constant(self, pattern: ConstantPattern, ty: TensorType) -> Constant:
        if not is_static(ty):
            raise Mismatch
        return super().constant(pattern, ty)

    def operator(self, pattern: DFPattern, arity: int | None) -> Op:
        return self.operators.get(pattern) or super().operator(pattern, arity)

    def call(self, pattern: DFPattern, fixed: dict[str, Any]) -> None:
        """As the right side says, as far as it does: attributes of a call like this one, or of one of the operator."""
        if pattern in self.matched or not isinstance(pattern, CallPattern) or pattern.args is None:
            super().call(pattern, fixed)
            return
        like, changed = self.backwards.likes.get(pattern, (None, frozenset()))
        model = self.part.bound.get(like) if like is not None else None
        if isinstance(model, Call) and isinstance(model.op, Op):
            self.operators[pattern.op] = model.op
        op = self.operator(pattern.op, len(pattern.args))
        if model is None and self.calls.get(op) and self.draw.chance(0.7):
            model = self.draw.rng.choice(self.calls[op])
        given = dict(model.attrs) if isinstance(model, Call) and model.attrs is not None else {}
        given = {name: value for name, value in given.items() if name not in changed or self.draw.chance(0.5)}
        attrs = {**given, **fixed}
        for arg in pattern.args:
            self.prepare(arg)
        args: Sequence[Expr | None] = [self._at_hand(arg) for arg in pattern.args]
        missing = [field.name for field in op.fields if field.name not in attrs]
        if missing or None in args:
            types, attrs = complete(self.draw, op, [self.known(arg) for arg in pattern.args], attrs)
            args = [self.bind(*pair) for pair in zip(pattern.args, types, strict=True)]
        self.put(pattern, Call(op, [arg for arg in args if arg is not None], make_attrs(op, attrs)))

    def _at_hand(self, pattern: DFPattern) -> Expr | None:
        """What a pattern stands for, if that is known; a tuple is put together."""
        if pattern in self.matched:
            return self.matched[pattern]
        if isinstance(pattern, TuplePattern) and pattern.fields is not None:
            fields = [self._at_hand(field) for field in pattern.fields]
            known = [field for field in fields if field is not None]
            return self.put(pattern, Tuple(known)) if len(known) == len(fields) else None
        inner = self.inner(pattern)
        return None if inner is pattern else self._at_hand(inner)


def is_typed(ty: Type | None) -> bool:
    """Whether a type is that of a tensor or of a tuple of tensors."""
    if isinstance(ty, TupleType):
        return all(map(is_typed, ty.fields))
    return isinstance(ty, TensorType)

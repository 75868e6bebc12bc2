"""Random typed expressions that the left side of a rule matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.rule import Examples, Guard, PythonRule, Ref, Rewrite
from eqsat.egraph.variadic import Expansion, Field, Layout, expanded, is_variadic, laid_out, outer_tuples
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    ExprPattern,
    IfPattern,
    TupleGetItemPattern,
    TuplePattern,
    TypedPattern,
    VarPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.attributes import has_attributes
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Call, Constant, Expr, If, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.op.draw import Draw, can_complete, complete, usual_rank
from eqsat.relay.op.op import make_attrs, operators
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules.verify.examples import examples_of

_LEAVES = (WildcardPattern, VarPattern, ConstantPattern)


@dataclass
class Instance:
    """An expression for every pattern of a rule's left side, and values of its variables.

    Args:
        roots: what the left side's patterns matched.
        values: of the variables.
    """

    roots: tuple[Expr, ...]
    values: dict[Var, Any]

    @property
    def size(self) -> int:
        """Elements in all inputs: what makes a counterexample small."""
        constants = [node.data for node in post_order(Tuple(self.roots)) if isinstance(node, Constant)]
        arrays = [*map(np.asarray, self.values.values()), *(data.numpy() for data in constants)]
        return sum(array.size + array.ndim for array in arrays)


class _Mismatch(Exception):
    """The drawn parts do not fit together."""


class Instantiator:
    """Draws one instance of patterns.

    Args:
        draw: random choices.
    """

    def __init__(self, draw: Draw):
        self.draw = draw
        self.matched: dict[DFPattern, Expr] = {}
        self.types: dict[Expr, Type] = {}
        self.sides: dict[AltPattern, DFPattern] = {}

    def root(self, pattern: DFPattern) -> Expr:
        """An expression that ``pattern`` matches."""
        self.prepare(pattern)
        if pattern not in self.matched:
            self.bind(pattern, self.draw.tensor())
        return self.matched[pattern]

    def forget(self, keep: Sequence[DFPattern]) -> None:
        """Draw other expressions from now on for all patterns but those to ``keep``."""
        self.matched = {pattern: self.matched[pattern] for pattern in keep}
        self.sides = {}

    def prepare(self, pattern: DFPattern) -> None:
        """Build what ``pattern`` says; leaves wait for the type that their first user wants."""
        if pattern in self.matched or isinstance(pattern, _LEAVES):
            return
        if isinstance(pattern, AltPattern):
            self.prepare(self.side(pattern))
        elif isinstance(pattern, AttrPattern):
            self.call(pattern.pattern, dict(pattern.attrs))
        elif isinstance(pattern, CallPattern):
            self.call(pattern, {})
        elif isinstance(pattern, TuplePattern):
            for item in pattern.fields or ():
                self.prepare(item)
        elif isinstance(pattern, TupleGetItemPattern):
            self.projection(pattern)
        elif isinstance(pattern, IfPattern):
            self.branch(pattern)
        elif isinstance(pattern, TypedPattern):
            self.typed(pattern)
        elif isinstance(pattern, ExprPattern):
            self.put(pattern, pattern.expr)
        else:
            raise RuleError(f"no instance of a {type(pattern).__name__} can be drawn: give the rule examples=")
        inner = self.inner(pattern)
        if inner is not pattern and inner in self.matched:
            self.matched[pattern] = self.matched[inner]

    def side(self, pattern: AltPattern) -> DFPattern:
        if pattern not in self.sides:
            self.sides[pattern] = self.draw.rng.choice((pattern.left, pattern.right))
        return self.sides[pattern]

    def inner(self, pattern: DFPattern) -> DFPattern:
        """What stands for the same expression one level down."""
        if isinstance(pattern, AltPattern):
            return self.side(pattern)
        if isinstance(pattern, (AttrPattern, TypedPattern)):
            return pattern.pattern
        return pattern

    def known(self, pattern: DFPattern) -> Any:
        if pattern in self.matched:
            return self.types[self.matched[pattern]]
        if isinstance(pattern, TuplePattern):
            return None if pattern.fields is None else [self.known(item) for item in pattern.fields]
        inner = self.inner(pattern)
        return None if inner is pattern else self.known(inner)

    def bind(self, pattern: DFPattern, ty: Type | Constant) -> Expr:
        """The expression of ``pattern``; leaves that still wait become variables or constants of type ``ty``.

        Where ``ty`` is a constant, leaves that may be it become it.
        """
        if pattern in self.matched:
            return self.matched[pattern]
        if isinstance(ty, Constant) and isinstance(pattern, _LEAVES):
            if not isinstance(pattern, VarPattern) and getattr(pattern, "predicate", None) is None:
                return self.put(pattern, ty)
            ty = TensorType(ty.data.shape, ty.data.dtype)
        if isinstance(pattern, TuplePattern) and pattern.fields is not None:
            if not isinstance(ty, TupleType) or len(ty.fields) != len(pattern.fields):
                raise _Mismatch
            return self.put(pattern, Tuple([self.bind(*pair) for pair in zip(pattern.fields, ty.fields, strict=True)]))
        inner = self.inner(pattern)
        if inner is not pattern:
            self.matched[pattern] = self.bind(inner, ty)
            return self.matched[pattern]
        if isinstance(ty, TupleType):
            return self.put(pattern, Tuple([self.variable(item) for item in ty.fields]))
        if not isinstance(ty, TensorType):
            raise _Mismatch
        if isinstance(pattern, ConstantPattern):
            return self.put(pattern, self.constant(pattern, ty))
        if isinstance(pattern, WildcardPattern) and self.draw.chance(0.05):
            return self.put(pattern, Constant(self.draw.array(ty)))
        return self.put(pattern, self.variable(ty, getattr(pattern, "name", "")))

    def variable(self, ty: Type, name: str = "") -> Var:
        return Var(name or f"v{len(self.types)}", ty)

    def constant(self, pattern: ConstantPattern, ty: TensorType) -> Constant:
        holds = pattern.predicate
        if holds is None:
            return Constant(self.draw.array(ty))
        example = getattr(holds, "example", None)
        tries = [example(ty.concrete_shape, ty.dtype)] if example is not None else []
        tries += [np.full(ty.concrete_shape, value).astype(ty.dtype) for value in (0, 1, 2, 0.5, -1, 3, 6)]
        for array in (*tries, self.draw.array(ty)):
            if holds(array):
                return Constant(array)
        raise _Mismatch

    def put(self, pattern: DFPattern, expr: Expr) -> Expr:
        extend_types(self.types, expr)
        expr._checked_type = self.types[expr]
        self.matched[pattern] = expr
        return expr

    def call(self, pattern: DFPattern, fixed: dict[str, Any]) -> None:
        if pattern in self.matched:
            return
        if not isinstance(pattern, CallPattern):
            raise RuleError("has_attr on something that is no call: give the rule examples=")
        op = self.operator(pattern.op, None if pattern.args is None else len(pattern.args))
        arguments: list[DFPattern] = list(pattern.args or [WildcardPattern() for _ in op.arguments or ()])
        if len(arguments) != len(op.arguments or arguments):
            raise _Mismatch
        for argument in arguments:
            self.prepare(argument)
        types, attrs = complete(self.draw, op, [self.known(argument) for argument in arguments], fixed)
        args = [self.bind(*pair) for pair in zip(arguments, types, strict=True)]
        self.put(pattern, Call(op, args, make_attrs(op, attrs)))

    def operator(self, pattern: DFPattern, arity: int | None) -> Op:
        """An operator that matches; of many, one of ``arity`` arguments that can be computed."""
        if isinstance(pattern, AltPattern):
            return self.operator(self.side(pattern), arity)
        if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Op):
            return pattern.expr
        wanted = pattern.attrs if isinstance(pattern, AttrPattern) else Attrs()
        return self.draw.rng.choice(
            [
                op
                for op in operators()
                if op.kernel is not None
                and can_complete(op)
                and (arity is None or len(op.arguments or ()) == arity)
                and has_attributes(op, wanted)
            ]
        )

    def projection(self, pattern: TupleGetItemPattern) -> None:
        self.prepare(pattern.tuple)
        whole = self.bind(pattern.tuple, TupleType([self.draw.tensor(), self.draw.tensor()]))
        ty = self.types[whole]
        count = len(ty.fields) if isinstance(ty, TupleType) else 0
        index = pattern.index if pattern.index is not None and pattern.index >= 0 else self.draw.rng.randrange(count)
        if index >= count:
            raise _Mismatch
        self.put(pattern, TupleGetItem(whole, index))

    def branch(self, pattern: IfPattern) -> None:
        for part in pattern.children():
            self.prepare(part)
        ty = self.known(pattern.true_branch) or self.known(pattern.false_branch) or self.draw.tensor()
        condition = self.bind(pattern.cond, TensorType((), "bool"))
        parts = [self.bind(part, ty) for part in (pattern.true_branch, pattern.false_branch)]
        self.put(pattern, If(condition, *parts))

    def typed(self, pattern: TypedPattern) -> None:
        self.prepare(pattern.pattern)
        found = self.types[self.bind(pattern.pattern, pattern.fitted(self.draw.tensor()))]
        if not pattern.accepts(found):
            raise _Mismatch


def draw_instances(rule: Rewrite | PythonRule, make: Callable[[], Draw], attempts: int) -> Iterator[Instance]:
    """Instances of the left side of ``rule`` that satisfy its guards, as far as ``attempts`` draws give any.

    Raises:
        RuleError: a pattern or operator of which no instance can be drawn.
    """
    examples = examples_of(rule)
    patterns = rule.lhs if isinstance(rule, Rewrite) else (rule.lhs,)
    rank = _usual_rank(patterns)
    for _ in range(attempts):
        draw = make()
        if rank is not None and draw.chance(0.9):
            draw.rank = rank
        try:
            instance = _from_patterns(rule, patterns, draw) if examples is None else _from_examples(examples, draw)
        except RuleError:
            raise
        except (EqsatError, _Mismatch):
            continue
        if instance is not None:
            yield instance


def _usual_rank(patterns: Sequence[DFPattern]) -> int | None:
    """The number of axes that an operator of a layout asks for, if there is one in ``patterns``."""
    every = [part for pattern in patterns for part in subpatterns(pattern)]
    operators = [part.named for part in every if isinstance(part, CallPattern) and part.named is not None]
    return next((rank for rank in map(usual_rank, operators) if rank is not None), None)


def _from_examples(examples: Examples, draw: Draw) -> Instance:
    made = examples(draw)
    roots = made if isinstance(made, tuple) else (made,)
    types: dict[Expr, Type] = {}
    for root in roots:
        extend_types(types, root)
    return Instance(roots, draw_values(draw, Tuple(roots), types))


def _draw_layout(roots: Iterable[DFPattern], draw: Draw) -> Layout:
    """A number of fields for each tuple pattern with repetitions."""
    layout: dict[TuplePattern, tuple[Field, ...]] = {}
    waiting = outer_tuples(roots)
    while waiting:
        whole = waiting.pop()
        counts = [draw.rng.choice((1, 1, 2, 2, 3, 4, 7)) for _ in whole.repetitions]
        layout[whole] = laid_out(whole, counts, lambda _: draw.chance(0.5))
        waiting += outer_tuples([pattern for pattern, copy in layout[whole] if copy is not None])
    return layout


def _from_patterns(rule: Rewrite | PythonRule, patterns: Sequence[DFPattern], draw: Draw) -> Instance | None:
    if isinstance(rule, Rewrite) and any(map(is_variadic, patterns)):
        rule = expanded(rule, Expansion(patterns, _draw_layout(patterns, draw)))
        patterns = rule.lhs
    maker = Instantiator(draw)
    roots = [maker.root(pattern) for pattern in patterns]
    if isinstance(rule, GroupRule):
        for _ in range(draw.rng.randint(1, 2)):
            maker.forget(keep=rule.shared)
            roots += [maker.root(pattern) for pattern in patterns]
    if len(set(roots)) < len(roots):
        return None
    whole, types, matched = Tuple(roots), maker.types, maker.matched
    values = draw_values(draw, whole, types)
    if draw.chance(0.15):
        whole, types, matched, values = _with_unknown_dims(draw, whole, matched, values)
    if isinstance(rule, Rewrite) and not all(_holds(rule, guard, matched, types) for guard in rule.when):
        return None
    return Instance(whole.fields, values)


def draw_values(draw: Draw, whole: Expr, types: dict[Expr, Type]) -> dict[Var, Any]:
    """Values for the free variables of a graph."""
    return {var: _value(draw, types[var]) for var in free_vars(whole)}


def _value(draw: Draw, ty: Type) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_value(draw, item) for item in ty.fields)
    return draw.array(ty, draw.special) if isinstance(ty, TensorType) else None


def _holds(rule: Rewrite, guard: Guard, matched: dict[DFPattern, Expr], types: dict[Expr, Type]) -> bool:
    given = [_referred(ref, matched, types) for ref in guard.refs]
    try:
        return bool(guard.holds(*given))
    except Exception as error:  # whatever the guard raises: it is the rule's error, not the verifier's
        told = ", ".join(map(str, given))
        raise RuleError(f"rule {rule.name}: its guard failed on {told}: {type(error).__name__}: {error}") from error


def _referred(ref: Ref, matched: dict[DFPattern, Expr], types: dict[Expr, Type]) -> Any:
    if ref.pattern not in matched:
        raise _Mismatch  # a guard on a side of an alternative that was not taken
    expr = matched[ref.pattern]
    if ref.kind == "type":
        return types[expr]
    if ref.kind == "index" and isinstance(expr, TupleGetItem):
        return expr.index
    if ref.kind == "attrs":
        attrs = expr.attrs if isinstance(expr, Call) else None
        return Attrs() if attrs is None and not isinstance(expr, Call) else attrs
    if not isinstance(expr, Constant):
        raise _Mismatch
    return expr.data.numpy()


def _with_unknown_dims(
    draw: Draw, whole: Tuple, matched: dict[DFPattern, Expr], values: dict[Var, Any]
) -> tuple[Tuple, dict[Expr, Type], dict[DFPattern, Expr], dict[Var, Any]]:
    """The same instance with some dimensions of its variables unknown, by name or altogether."""
    new: dict[Expr, Expr] = {}
    for var, value in values.items():
        ty = var.type_annotation
        if isinstance(ty, TensorType) and not isinstance(value, tuple):
            shape = [_unknown(draw, dim) if draw.chance(0.5) else dim for dim in ty.concrete_shape]
            new[var] = Var(var.name_hint, TensorType(shape, ty.dtype))
    for node in post_order(whole):
        if node not in new:
            new[node] = rebuild(node, new)
    types: dict[Expr, Type] = {}
    rebuilt = new[whole]
    extend_types(types, rebuilt)
    for node, ty in types.items():
        node._checked_type = ty
    moved = {pattern: new.get(expr, expr) for pattern, expr in matched.items()}
    assert isinstance(rebuilt, Tuple)
    return rebuilt, types, moved, {new.get(var, var): value for var, value in values.items()}  # type: ignore[misc]


def _unknown(draw: Draw, dim: int) -> AnyDim:
    return AnyDim(f"n{dim}") if draw.chance(0.7) else AnyDim()

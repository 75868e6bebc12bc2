"""Random expressions that a pattern matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import RuleError
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
from eqsat.relay.expr import Call, Constant, Expr, If, Op, Tuple, TupleGetItem, Var
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.op.draw import Draw, can_complete, complete
from eqsat.relay.op.op import make_attrs, operators
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

_LEAVES = (WildcardPattern, VarPattern, ConstantPattern)


class Mismatch(Exception):
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
        self.typing = Inferencer(self.types)
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
        """What is known of the type of an argument, as :func:`eqsat.relay.op.draw.complete` takes it."""
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
                raise Mismatch
            return self.put(pattern, Tuple([self.bind(*pair) for pair in zip(pattern.fields, ty.fields, strict=True)]))
        inner = self.inner(pattern)
        if inner is not pattern:
            self.matched[pattern] = self.bind(inner, ty)
            return self.matched[pattern]
        if isinstance(ty, TupleType):
            return self.put(pattern, Tuple([self.variable(item) for item in ty.fields]))
        if not isinstance(ty, TensorType):
            raise Mismatch
        if isinstance(pattern, ConstantPattern):
            return self.put(pattern, self.constant(pattern, ty))
        if isinstance(pattern, WildcardPattern) and self.draw.chance(0.05) and is_static(ty):
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
        raise Mismatch

    def put(self, pattern: DFPattern, expr: Expr) -> Expr:
        self.typing.run(expr)
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
            raise Mismatch
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
            raise Mismatch
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
            raise Mismatch

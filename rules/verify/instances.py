"""Instances of a rule: random typed expressions that its left side matches, with values of their variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.rule import Array, Examples, Guard, PythonRule, Ref, Rewrite, roots_of
from eqsat.egraph.variadic import Field, Layout, expanded, is_variadic, laid_out, lay_out
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern, TuplePattern
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from eqsat.relay.infer import extend_types, infer_types
from eqsat.relay.module import IRModule
from eqsat.relay.op.draw import Draw, usual_rank
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import post_order, rebuild
from eqsat.rules.verify.examples import examples_of
from eqsat.rules.verify.instantiate import Instantiator, Mismatch

Value: TypeAlias = "Array | tuple[Value, ...]"
"""What a variable holds."""


@dataclass
class Instance:
    """An expression for every pattern of a rule's left side, and values of its variables.

    Args:
        roots: what the patterns of the left side match.
        values: the values of the variables in them.
        module: the functions that they call by name.
    """

    roots: tuple[Expr, ...]
    values: dict[Var, Value]
    module: IRModule | None = None

    @property
    def size(self) -> int:
        """Elements in all inputs: what makes a counterexample small."""
        constants = [node.data for node in post_order(Tuple(self.roots)) if isinstance(node, Constant)]
        values = [array for value in self.values.values() for array in arrays_of(value)]
        return sum(array.size + array.ndim for array in (*values, *(data.numpy() for data in constants)))


def arrays_of(value: Value) -> list[Array]:
    """The arrays in a value, one by one."""
    return [array for item in value for array in arrays_of(item)] if isinstance(value, tuple) else [np.asarray(value)]


def draw_instances(rule: Rewrite | PythonRule, make: Callable[[], Draw], attempts: int) -> Iterator[Instance]:
    """Instances of the left side of ``rule`` that satisfy its guards, as far as ``attempts`` draws give any.

    Raises:
        RuleError: a pattern or operator of which no instance can be drawn.
    """
    examples = examples_of(rule)
    patterns = roots_of(rule)
    rank = _usual_rank(patterns)
    for _ in range(attempts):
        draw = make()
        if rank is not None and draw.chance(0.9):
            draw.rank = rank
        try:
            instance = _from_patterns(rule, patterns, draw) if examples is None else _from_examples(examples, draw)
        except RuleError:
            raise
        except (EqsatError, Mismatch):
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
    module = made if isinstance(made, IRModule) else None
    root = made["main"].body if isinstance(made, IRModule) else made
    roots = root if isinstance(root, tuple) else (root,)
    whole = Tuple(roots)
    return Instance(roots, draw_values(draw, whole, infer_types(whole, module)), module)


def _draw_layout(roots: Iterable[DFPattern], draw: Draw) -> Layout:
    """A number of fields for each tuple pattern with repetitions."""

    def fields_of(whole: TuplePattern) -> tuple[Field, ...]:
        counts = [draw.rng.choice((1, 1, 2, 2, 3, 4, 7)) for _ in whole.repetitions]
        return laid_out(whole, counts, lambda _: draw.chance(0.5))

    return lay_out(roots, fields_of)


def _from_patterns(rule: Rewrite | PythonRule, patterns: Sequence[DFPattern], draw: Draw) -> Instance | None:
    if isinstance(rule, Rewrite) and any(map(is_variadic, patterns)):
        rule = expanded(rule, _draw_layout(patterns, draw))
        patterns = rule.lhs
    maker = Instantiator(draw)
    roots = [maker.root(pattern) for pattern in patterns]
    if isinstance(rule, GroupRule):
        for _ in range(draw.rng.randint(1, 2)):
            maker.forget(keep=rule.shared)
            roots += [maker.root(pattern) for pattern in patterns]
    if len(set(roots)) < len(roots):
        return None
    types, matched = maker.types, maker.matched
    instance = Instance(tuple(roots), draw_values(draw, Tuple(roots), types))
    if draw.chance(0.15):
        instance, types, matched = _with_unknown_dims(draw, instance, matched)
    if isinstance(rule, Rewrite) and not all(_holds(rule, guard, matched, types) for guard in rule.when):
        return None
    return instance


def draw_values(draw: Draw, whole: Expr, types: dict[Expr, Type]) -> dict[Var, Value]:
    """Values for the free variables of a graph; dimensions of one name have one size."""
    sizes: dict[str, int] = {}
    return {var: _value(draw, types[var], sizes) for var in free_vars(whole)}


def _value(draw: Draw, ty: Type, sizes: dict[str, int]) -> Value:
    if isinstance(ty, TupleType):
        return tuple(_value(draw, item, sizes) for item in ty.fields)
    if not isinstance(ty, TensorType):
        raise Mismatch
    if is_static(ty):
        return draw.array(ty, draw.special)
    shape = [dim if isinstance(dim, int) else sizes.setdefault(str(dim), draw.rng.randint(1, 4)) for dim in ty.shape]
    return draw.array(TensorType(shape, ty.dtype), draw.special)


def _holds(rule: Rewrite, guard: Guard, matched: dict[DFPattern, Expr], types: dict[Expr, Type]) -> bool:
    given = [_referred(ref, matched, types) for ref in guard.refs]
    try:
        return bool(guard.holds(*given))
    except Exception as error:  # whatever the guard raises: it is the rule's error, not the verifier's
        told = ", ".join(map(str, given))
        raise RuleError(f"rule {rule.name}: its guard failed on {told}: {type(error).__name__}: {error}") from error


def _referred(ref: Ref, matched: dict[DFPattern, Expr], types: dict[Expr, Type]) -> object:
    """What a guard is given of a match."""
    if ref.pattern not in matched:
        raise Mismatch  # a guard on a side of an alternative that was not taken
    expr = matched[ref.pattern]
    if ref.kind == "type":
        return types[expr]
    if ref.kind == "index" and isinstance(expr, TupleGetItem):
        return expr.index
    if ref.kind == "attrs":
        attrs = expr.attrs if isinstance(expr, Call) else None
        return Attrs() if attrs is None and not isinstance(expr, Call) else attrs
    if not isinstance(expr, Constant):
        raise Mismatch
    return expr.data.numpy()


def _with_unknown_dims(
    draw: Draw, instance: Instance, matched: dict[DFPattern, Expr]
) -> tuple[Instance, dict[Expr, Type], dict[DFPattern, Expr]]:
    """The same instance with some dimensions of its variables unknown, by name or altogether."""
    new: dict[Expr, Expr] = {}
    values: dict[Var, Value] = {}
    for var, value in instance.values.items():
        ty, renewed = var.type_annotation, var
        if isinstance(ty, TensorType):
            shape = [_unknown(draw, dim) if draw.chance(0.5) else dim for dim in ty.concrete_shape]
            renewed = Var(var.name_hint, TensorType(shape, ty.dtype))
        new[var] = renewed
        values[renewed] = value
    for node in post_order(Tuple(instance.roots)):
        if node not in new:
            new[node] = rebuild(node, new)
    roots = tuple(new[root] for root in instance.roots)
    types: dict[Expr, Type] = {}
    extend_types(types, Tuple(roots))
    for node, ty in types.items():
        node._checked_type = ty
    return Instance(roots, values), types, {pattern: new.get(expr, expr) for pattern, expr in matched.items()}


def _unknown(draw: Draw, dim: int) -> AnyDim:
    return AnyDim(f"n{dim}") if draw.chance(0.7) else AnyDim()

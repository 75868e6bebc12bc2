"""The pattern language: pattern classes and the functions that build them, with Relay's names.

Patterns are compared by identity: a pattern object that is used in several places must match the same expression in all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, pairwise
from typing import Any, ClassVar, TypeVar

from eqsat.brief import DEPTH, MORE, call_text, one_line
from eqsat.errors import PatternError
from eqsat.relay.attrs import Attrs, normalize
from eqsat.relay.dataflow_pattern.explanation import PatternExplanation
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import type_of
from eqsat.relay.op.op import convert_attribute
from eqsat.relay.structural import values_equal
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.visitor import children_first

_F = TypeVar("_F", bound=Callable[..., Any])

_implementations: dict[str, Callable[..., Any]] = {}


def implements_method(function: _F) -> _F:
    """Make a function, which is built on the classes of this module, what the method of its name does; a decorator."""
    _implementations[function.__name__] = function
    return function


class DFPattern:
    """Base class of patterns.

    Each class defines what the matchers of graphs and e-graphs have in common. If a pattern matches one node and its
    sub-patterns match operands of that node, ``parts``, ``kind`` and :meth:`operands` define it completely.

    Attributes:
        parts: The names of the attributes that contain sub-patterns, in the order in which they are matched. Each
            contains a pattern, a tuple of patterns, or None.
        kind: The class of expressions that the pattern matches; None if the sub-patterns determine it.
        label: A name of the pattern for reports; it has no effect on matching.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[type[Expr] | None] = None
    label: str | None = None

    def children(self) -> tuple[DFPattern, ...]:
        """The direct sub-patterns, in traversal order."""
        found: list[DFPattern] = []
        for part in map(self.__dict__.get, self.parts):
            if isinstance(part, tuple):
                found += part
            elif part is not None:
                found.append(part)
        return tuple(found)

    def with_children(self, children: Sequence[DFPattern]) -> DFPattern:
        """Return a copy of this pattern with other sub-patterns, as many as :meth:`children` returns."""
        clone, rest = copy(self), iter(children)
        for name in self.parts:
            part = self.__dict__.get(name)
            if isinstance(part, tuple):
                setattr(clone, name, tuple([next(rest) for _ in part]))
            elif part is not None:
                setattr(clone, name, next(rest))
        return clone

    def brief(self, depth: int = DEPTH) -> str:
        """Return a short text of this pattern and its sub-patterns, down to a depth."""
        return self.label or call_text(type(self).__name__.removesuffix("Pattern").lower(), self.children(), depth)

    def __repr__(self) -> str:
        return one_line(f"{type(self).__name__}({self.brief()})")

    def same_expression(self) -> tuple[DFPattern, ...]:
        """The sub-patterns that are matched against the same expression as this pattern."""
        return self.children() if self.kind is None else ()

    def operands(self, expr: Any) -> Sequence[Expr] | None:
        """Return what the sub-patterns must match in ``expr`` of class :attr:`kind`; None if this does not match."""
        children: Sequence[Expr] = expr.children()
        return children

    def __call__(self, *args: Any) -> CallPattern:
        """Return a pattern of calls whose callee this matches; ``p(None)`` matches calls with any arguments."""
        return CallPattern(self, None if len(args) == 1 and args[0] is None else args)

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: Any) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: Any) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: Any) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: Any) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Return a pattern that also requires the given attribute values, of an operator, call or function."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """Return a pattern that also requires the type ``ttype``."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Return a pattern that also requires a tensor with the element type ``dtype``."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """Return a pattern that also requires a tensor of shape ``shape``."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """Return a pattern of this or of ``option_constructor(this)``; this alone is tried first."""
        return self | option_constructor(self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """Return a pattern of regions that start at ``parent``, end with this, and have only ``path`` nodes between."""
        return DominatorPattern(parent, path, self)

    def match(self, expr: Expr) -> bool:
        """Return whether this matches ``expr``; users outside of ``expr`` are ignored."""
        return bool(_implementations["match"](self, expr))

    def explain(self, expr: Expr) -> PatternExplanation:
        """Return why this does not match ``expr``, and where it nearly matches; see :func:`mismatches.explain`."""
        found: PatternExplanation = _implementations["explain"](self, expr)
        return found

    def partition(
        self, expr: Expr, attrs: Mapping[str, Any] | None = None, check: Callable[[Expr], Any] = lambda _: True
    ) -> Expr:
        """Return ``expr`` with every match replaced by a call of a new function; see :func:`partition`."""
        result: Expr = _implementations["partition"](self, expr, attrs, check)
        return result

    def build_call(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> DFPattern:
        """Return the pattern that the builder of an operator creates if one of its arguments is a pattern.

        Args:
            op: The operator.
            args: Patterns, and expressions, which match themselves.
            attrs: The attributes that the caller passed; other attributes may have any value.

        Raises:
            OperatorError: The operator does not have an attribute, or a value is of the wrong kind.
        """
        call = is_op(op.name)(*args)
        written = {
            name: value if isinstance(value, DFPattern) else convert_attribute(op, name, value)
            for name, value in attrs.items()
            if value is not None
        }
        return call.has_attr(written) if written else call


class ExprPattern(DFPattern):
    """Matches expressions that are structurally equal to ``expr``, with the same free variables."""

    def __init__(self, expr: Expr):
        if not isinstance(expr, Expr):
            raise PatternError(f"is_expr needs an expression, not {expr!r}")
        self.expr = expr

    def brief(self, depth: int = DEPTH) -> str:
        return self.expr.brief(depth)


class VarPattern(DFPattern):
    """Matches a local variable, with the name ``name`` unless that is empty."""

    kind = Var

    def __init__(self, name: str = ""):
        self.name = name

    def operands(self, expr: Var) -> Sequence[Expr] | None:
        return () if self.name in ("", expr.name_hint) else None


class ConstantPattern(DFPattern):
    """Matches constants; with a predicate, those for whose NumPy array ``predicate`` returns true."""

    kind = Constant

    def __init__(self, predicate: Callable[[Any], bool] | None = None):
        self.predicate = predicate

    def operands(self, expr: Constant) -> Sequence[Expr] | None:
        return () if self.predicate is None or self.predicate(expr.data.numpy()) else None


class WildcardPattern(DFPattern):
    """Matches anything; after :meth:`redirect_to`, what the other pattern matches."""

    parts = ("pattern",)
    pattern: DFPattern | None = None
    redirections = 0

    def brief(self, depth: int = DEPTH) -> str:
        return self.label or "*"

    def redirect_to(self, pattern: DFPattern) -> None:
        """Let this wildcard match what ``pattern`` matches; ``pattern`` may contain it, which makes it recursive.

        Raises:
            PatternError: ``pattern`` would match this wildcard against the same expression as itself.
        """
        if self in at_same_expression(pattern_of(pattern)):
            raise PatternError(
                "redirect_to makes a pattern that is defined by itself: its target must consume a node (a call, "
                "tuple, ...) before it comes back to this wildcard"
            )
        self.pattern = pattern
        WildcardPattern.redirections += 1


class CallPattern(DFPattern):
    """Matches a call. ``args``: patterns of all arguments, or None for any arguments.

    ``named`` is the operator when ``op`` is nothing but an operator, else None.
    """

    parts = ("op", "args")
    kind = Call

    def __init__(self, op: DFPattern, args: Sequence[Any] | None):
        self.op = pattern_of(op)
        self.args = None if args is None else tuple(pattern_of(arg) for arg in args)
        callee = op.expr if type(op) is ExprPattern else None
        self.named = callee if type(callee) is Op else None

    def brief(self, depth: int = DEPTH) -> str:
        head = self.op.brief(depth - 1) if depth > 0 or self.named is not None else MORE
        return f"{head}({MORE})" if self.args is None else call_text(head, self.args, depth)


class FunctionPattern(DFPattern):
    """Matches a function. ``params``: patterns of all parameters, or None for any parameters."""

    parts = ("params", "body")
    kind = Function

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern):
        self.params = None if params is None else tuple(pattern_of(param) for param in params)
        self.body = pattern_of(body)

    def operands(self, expr: Function) -> Sequence[Expr] | None:
        if self.params is None:
            return (expr.body,)
        return (*expr.params, expr.body) if len(self.params) == len(expr.params) else None


class TuplePattern(DFPattern):
    """Matches a tuple. ``fields``: patterns of all fields, among them :func:`many`, or None for any fields."""

    parts = ("fields",)
    kind = Tuple

    def __init__(self, fields: Sequence[DFPattern] | None):
        self.fields = None if fields is None else tuple(map(_field, fields))

    def __getitem__(self, index: int) -> DFPattern:
        if self.fields is None or not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple pattern of {len(self)} fields")
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields or ())

    def astype(self, _: str) -> DFPattern:
        raise TypeError("astype cannot be used on a tuple pattern")

    @property
    def repetitions(self) -> list[ManyPattern]:
        """The elements of ``fields`` that stand for any number of fields."""
        return [field for field in self.fields or () if isinstance(field, ManyPattern)]

    def arrangements(self, count: int) -> Iterator[tuple[int, ...]]:
        """The ways to match ``count`` fields: how many of them each of :attr:`repetitions` stands for.

        The first repetitions take as few as possible first.
        """
        several = len(self.repetitions)
        left = count - len(self) + several
        if not several and not left:
            yield ()
        elif several and left >= 0:
            # where each repetition but the last one ends, if fixed fields are left out
            for cuts in combinations_with_replacement(range(left + 1), several - 1):
                yield tuple(after - before for before, after in pairwise((0, *cuts, left)))

    def arranged(self, counts: Sequence[int]) -> tuple[DFPattern | Copy, ...]:
        """A pattern, or a copy of a repetition, for each field of an arrangement."""
        rest = iter(counts)
        found: list[DFPattern | Copy] = []
        for field in self.fields or ():
            found += [field.copy(at) for at in range(next(rest))] if isinstance(field, ManyPattern) else [field]
        return tuple(found)


class ManyPattern(DFPattern):
    """Matches any number of successive fields of a tuple, each by a copy of the patterns inside.

    The arguments are those of :func:`many`.
    """

    parts = ("some", "pattern")

    def __init__(self, pattern: DFPattern, shared: Sequence[DFPattern] = (), some: DFPattern | None = None):
        self.pattern, self.some = _field(pattern), None if some is None else _field(some)
        self.shared = tuple(shared)
        self._copies: list[Copy] = []

    @cached_property
    def own(self) -> tuple[DFPattern, ...]:
        """The patterns inside of which each field has a copy, children first."""
        found = children_first(self.children(), DFPattern.children, stop=self.shared)
        if any(isinstance(pattern, WildcardPattern) and pattern.pattern is not None for pattern in found):
            raise PatternError("many() cannot repeat a recursive pattern (redirect_to)")
        return tuple(pattern for pattern in found if not is_operator(pattern))

    def copy(self, index: int) -> Copy:
        """The patterns that match field ``index`` of those that this stands for; always the same ones."""
        while len(self._copies) <= index:
            self._copies.append(Copy(self))
        return self._copies[index]


class Copy:
    """What matches one of the fields that a :class:`ManyPattern` stands for.

    Attributes:
        many: the repetition.
        of: pattern inside the repetition -> its copy for this field.
        pattern: the copy of what each field matches.
        some: the copy of what some fields match, if there is such a pattern.
    """

    def __init__(self, many: ManyPattern):
        self.many = many
        self.of: dict[DFPattern, DFPattern] = {}
        for pattern in many.own:
            children = [self.of.get(child, child) for child in pattern.children()]
            clone = pattern.with_children(children)
            if isinstance(pattern, ManyPattern):
                shared = [self.of.get(child, child) for child in pattern.shared]
                clone = ManyPattern(children[-1], shared, children[0] if len(children) > 1 else None)
            self.of[pattern] = clone
        self.pattern = self.of.get(many.pattern, many.pattern)
        self.some = None if many.some is None else self.of.get(many.some, many.some)


class TupleGetItemPattern(DFPattern):
    """Matches field ``index`` of a tuple, any field when it is None or -1."""

    parts = ("tuple",)
    kind = TupleGetItem

    def __init__(self, tuple: DFPattern, index: int | None = None):
        self.tuple = pattern_of(tuple)
        self.index = -1 if index is None else index

    def operands(self, expr: TupleGetItem) -> Sequence[Expr] | None:
        return (expr.tuple_value,) if self.index in (-1, expr.index) else None


class IfPattern(DFPattern):
    """Matches an if."""

    parts = ("cond", "true_branch", "false_branch")
    kind = If

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond, self.true_branch, self.false_branch = map(pattern_of, (cond, true_branch, false_branch))


class LetPattern(DFPattern):
    """Matches a let; the variable is matched like any other expression."""

    parts = ("var", "value", "body")
    kind = Let

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var, self.value, self.body = map(pattern_of, (var, value, body))

    def operands(self, expr: Let) -> Sequence[Expr] | None:
        return (expr.var, expr.value, expr.body)


class AltPattern(DFPattern):
    """Matches what ``left`` matches, or otherwise what ``right`` matches."""

    parts = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left, self.right = pattern_of(left), pattern_of(right)


class AttrPattern(DFPattern):
    """Matches what ``pattern`` matches if its attributes have the values ``attrs``."""

    parts = ("pattern",)

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]):
        if not isinstance(attrs, Mapping):
            raise PatternError(f"has_attr needs a dictionary of attribute values, not {attrs!r}")
        for name, value in attrs.items():
            if _holds_none(normalize(value)):
                raise PatternError(f"has_attr: {name}=None matches nothing; ask for a value, or test it in a check")
        self.pattern = pattern_of(pattern)
        self.attrs = Attrs(attrs)


class TypedPattern(DFPattern):
    """Base class of patterns that match what ``pattern`` matches if the type satisfies a condition.

    Attributes:
        condition: A value that is equal for patterns with the same condition.
    """

    parts = ("pattern",)
    pattern: DFPattern
    condition: tuple[Any, ...]

    def accepts(self, ty: Type) -> bool:
        """Whether a type satisfies the condition."""
        raise NotImplementedError

    def accepts_type_of(self, expr: Expr) -> bool:
        """Whether the type of ``expr`` by itself satisfies the condition; an operator has none."""
        return type(expr) is not Op and self.accepts(type_of(expr))

    def fitted(self, ty: TensorType) -> Type:
        """Return the type that satisfies the condition and otherwise equals ``ty``."""
        raise NotImplementedError


class TypePattern(TypedPattern):
    """Matches what ``pattern`` matches if it has the type ``type``."""

    def __init__(self, pattern: DFPattern, type: Type):
        if not isinstance(type, Type):
            raise PatternError(f"has_type needs a type, not {type!r}")
        self.pattern, self.type = pattern_of(pattern), type
        self.condition = ("is", type)

    def accepts(self, ty: Type) -> bool:
        return values_equal(self.type, ty)

    def fitted(self, ty: TensorType) -> Type:
        return self.type


class DataTypePattern(TypedPattern):
    """Matches what ``pattern`` matches if it is a tensor with the element type ``dtype``."""

    def __init__(self, pattern: DFPattern, dtype: str):
        self.pattern, self.dtype = pattern_of(pattern), str(dtype)
        self.condition = ("dtype", self.dtype)

    def accepts(self, ty: Type) -> bool:
        return isinstance(ty, TensorType) and ty.dtype == self.dtype

    def fitted(self, ty: TensorType) -> Type:
        return TensorType(ty.shape, self.dtype)


class ShapePattern(TypedPattern):
    """Matches what ``pattern`` matches if it is a tensor of shape ``shape``."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]):
        self.pattern, self.shape = pattern_of(pattern), tuple(shape)
        self.condition = ("shape", self.shape)

    def accepts(self, ty: Type) -> bool:
        return isinstance(ty, TensorType) and values_equal(self.shape, ty.shape)

    def fitted(self, ty: TensorType) -> Type:
        return TensorType(self.shape, ty.dtype)


class DominatorPattern(DFPattern):
    """Matches a region: ``child`` at its end, ``path`` nodes, and ``parent`` where all data comes from.

    No node outside of the region may use the parent unless its result flows into the child as well.
    """

    parts = ("parent", "path", "child")

    def __init__(self, parent: DFPattern, path: DFPattern | None, child: DFPattern):
        self.parent, self.path, self.child = pattern_of(parent), _or_wildcard(path), pattern_of(child)

    def same_expression(self) -> tuple[DFPattern, ...]:
        return (self.child,)


_P = TypeVar("_P", bound=DFPattern)


def pattern_of(value: Any) -> DFPattern:
    """``value`` as a pattern: an expression stands for itself."""
    if isinstance(value, ManyPattern):
        raise PatternError("many() stands for fields of a tuple: write it in the list that is_tuple() gets")
    if isinstance(value, DFPattern):
        return value
    if isinstance(value, Expr):
        return ExprPattern(value)
    hint = " (numbers match by is_expr(relay.const(...)) or is_constant())" if isinstance(value, (int, float)) else ""
    raise PatternError(f"{value!r} is not a pattern{hint}")


def _field(value: Any) -> DFPattern:
    """``value`` as a pattern of fields of a tuple."""
    return value if isinstance(value, ManyPattern) else pattern_of(value)


def _or_wildcard(value: DFPattern | None) -> DFPattern:
    return wildcard() if value is None else pattern_of(value)


def _labelled(pattern: _P, label: str | None) -> _P:
    if label is not None:
        pattern.label = label
    return pattern


def _holds_none(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_none(item) for item in value.values())
    return value is None or (isinstance(value, tuple) and any(_holds_none(item) for item in value))


def at_same_expression(pattern: DFPattern) -> list[DFPattern]:
    """``pattern`` and all patterns that matching it tries against the same expression."""
    return _all_below(pattern, DFPattern.same_expression)


@lru_cache(maxsize=1 << 14)
def subpatterns(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """``pattern`` and all patterns in it, each once, in the order in which they are written."""
    return tuple(_all_below(pattern, DFPattern.children))


def _all_below(pattern: DFPattern, below: Callable[[DFPattern], Sequence[DFPattern]]) -> list[DFPattern]:
    """``pattern`` and what is below it, each once, in order; ``below`` gives parts."""
    found: dict[DFPattern, None] = {}
    stack = [pattern]
    while stack:
        top = stack.pop()
        if top not in found:
            found[top] = None
            stack.extend(reversed(below(top)))
    return list(found)


def is_operator(pattern: DFPattern) -> bool:
    """Whether ``pattern`` is a bare operator, which can only be bound in one way."""
    return type(pattern) is ExprPattern and type(pattern.expr) is Op


is_expr = ExprPattern
is_tuple = TuplePattern
is_if = IfPattern
is_let = LetPattern
dominates = DominatorPattern


def is_op(op_name: str) -> ExprPattern:
    """Return a pattern of the operator with a name; raise OperatorError if there is none."""
    return ExprPattern(Op.get(op_name))


def is_var(name: str = "", *, label: str | None = None) -> VarPattern:
    """Return a pattern of local variables, with any name if ``name`` is empty."""
    return _labelled(VarPattern(name), label)


def is_constant(*, label: str | None = None, predicate: Callable[[Any], bool] | None = None) -> ConstantPattern:
    """Return a pattern of constants; with a predicate, those for whose NumPy array ``predicate`` returns true."""
    return _labelled(ConstantPattern(predicate), label)


def wildcard(*, label: str | None = None) -> WildcardPattern:
    """Return a pattern that matches anything."""
    return _labelled(WildcardPattern(), label)


def many(field: DFPattern, *, shared: Sequence[DFPattern] = (), some: DFPattern | None = None) -> ManyPattern:
    """Return a pattern of any number of fields of a tuple, for :func:`is_tuple`: ``is_tuple([x, many(y), z])``.

    Args:
        field: The pattern of each field. Each field is matched by a copy of it, so its sub-patterns may match other
            expressions in each field.
        shared: The sub-patterns of ``field`` that must match the same expression in all fields.
        some: A pattern that at least one field must match; it may stand for fields that do not match ``field``.
    """
    return ManyPattern(field, shared, some)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Return a pattern of the projection to field ``index`` of a tuple, or to any field."""
    return TupleGetItemPattern(tuple_value, index)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Return a pattern of expressions with the type ``ttype`` that match ``pattern``, if given."""
    return TypePattern(_or_wildcard(pattern), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return a pattern of tensors with the element type ``dtype`` that match ``pattern``, if given."""
    return DataTypePattern(_or_wildcard(pattern), dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """Return a pattern of tensors of shape ``shape`` that match ``pattern``, if given."""
    return ShapePattern(_or_wildcard(pattern), shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Return a pattern of expressions with the given attribute values that match ``pattern``, if given."""
    return AttrPattern(_or_wildcard(pattern), attrs)

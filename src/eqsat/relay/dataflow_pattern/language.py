"""The pattern language: pattern classes and the functions that build them, under Relay's names.

Patterns are compared by identity: one pattern object used in several places must match one and the same
expression in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from eqsat.errors import PatternError
from eqsat.relay.attrs import Attrs, normalize
from eqsat.relay.expr import Expr, Op
from eqsat.relay.ty import Type


class DFPattern:
    """Base class of patterns.

    ``label`` is a name that reports show for the pattern; it plays no part in matching.
    """

    label: str | None = None

    def children(self) -> tuple[DFPattern, ...]:
        """The direct sub-patterns, in traversal order."""
        return ()

    def __call__(self, *args: Any) -> CallPattern:
        """A call of what this matches; ``p(None)`` matches calls with any arguments."""
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
        """This, on an operator, call or function with the given attribute values."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """This, of type ``ttype``."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This, a tensor of element type ``dtype``."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """This, a tensor of shape ``shape``."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """This, or what ``option_constructor`` makes of it; this alone is tried first."""
        return self | option_constructor(self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This as the end of a region that starts at ``parent`` and has only ``path`` nodes between."""
        return DominatorPattern(parent, path, self)

    def match(self, expr: Expr) -> bool:
        """Whether this matches ``expr``; users of nodes outside of ``expr`` do not count."""
        return match(self, expr)

    def partition(
        self, expr: Expr, attrs: Mapping[str, Any] | None = None, check: Callable[[Expr], Any] = lambda _: True
    ) -> Expr:
        """``expr`` with every match made a call of a new function; see :func:`partition`."""
        from eqsat.relay.dataflow_pattern.partitioner import partition

        return partition(self, expr, attrs, check)

    def build_call(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> DFPattern:
        """What an operator's builder gives when one of its arguments is a pattern.

        Args:
            op: the operator.
            args: patterns and expressions, which match themselves.
            attrs: the attributes the caller wrote; the others match anything.
        """
        call = is_op(op.name)(*args)
        fields = {field.name: field for field in op.fields}
        written = {
            name: value if isinstance(value, DFPattern) else fields[name](value)
            for name, value in attrs.items()
            if value is not None and name in fields
        }
        return call.has_attr(written) if written else call


class ExprPattern(DFPattern):
    """Matches what is structurally equal to ``expr``, free variables being themselves."""

    def __init__(self, expr: Expr):
        if not isinstance(expr, Expr):
            raise PatternError(f"is_expr needs an expression, not {expr!r}")
        self.expr = expr


class VarPattern(DFPattern):
    """Matches a local variable; only those of name ``name`` when it is not empty."""

    def __init__(self, name: str = ""):
        self.name = name


class ConstantPattern(DFPattern):
    """Matches any constant, or those whose NumPy array ``predicate`` holds of."""

    def __init__(self, predicate: Callable[[Any], bool] | None = None):
        self.predicate = predicate


class WildcardPattern(DFPattern):
    """Matches anything; after :meth:`redirect_to`, what the target matches."""

    pattern: DFPattern | None = None
    redirections = 0

    def redirect_to(self, pattern: DFPattern) -> None:
        """From now on match what ``pattern`` does. ``pattern`` may contain this wildcard: a recursive pattern.

        Raises:
            PatternError: ``pattern`` would match this wildcard against the very expression it starts with.
        """
        if self in at_same_expression(_pattern(pattern)):
            raise PatternError(
                "redirect_to makes a pattern that is defined by itself: its target must consume a node (a call, "
                "tuple, ...) before it comes back to this wildcard"
            )
        self.pattern = pattern
        WildcardPattern.redirections += 1

    def children(self) -> tuple[DFPattern, ...]:
        return () if self.pattern is None else (self.pattern,)


class CallPattern(DFPattern):
    """Matches a call. ``args``: patterns of all arguments, or None for any arguments.

    ``named`` is the operator when ``op`` is nothing but an operator, else None.
    """

    def __init__(self, op: DFPattern, args: Sequence[Any] | None):
        self.op = _pattern(op)
        self.args = None if args is None else tuple(_pattern(arg) for arg in args)
        callee = op.expr if type(op) is ExprPattern else None
        self.named = callee if type(callee) is Op else None

    def children(self) -> tuple[DFPattern, ...]:
        return (self.op, *(self.args or ()))


class FunctionPattern(DFPattern):
    """Matches a function. ``params``: patterns of all parameters, or None for any parameters."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern):
        self.params = None if params is None else tuple(_pattern(param) for param in params)
        self.body = _pattern(body)

    def children(self) -> tuple[DFPattern, ...]:
        return (*(self.params or ()), self.body)


class TuplePattern(DFPattern):
    """Matches a tuple. ``fields``: patterns of all fields, or None for any fields."""

    def __init__(self, fields: Sequence[DFPattern] | None):
        self.fields = None if fields is None else tuple(_pattern(field) for field in fields)

    def children(self) -> tuple[DFPattern, ...]:
        return self.fields or ()

    def __getitem__(self, index: int) -> DFPattern:
        if self.fields is None or not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple pattern of {len(self)} fields")
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields or ())

    def astype(self, _: str) -> DFPattern:
        raise TypeError("astype cannot be used on a tuple pattern")


class TupleGetItemPattern(DFPattern):
    """Matches field ``index`` of a tuple, any field when it is None or -1."""

    def __init__(self, tuple: DFPattern, index: int | None = None):
        self.tuple = _pattern(tuple)
        self.index = -1 if index is None else index

    def children(self) -> tuple[DFPattern, ...]:
        return (self.tuple,)


class IfPattern(DFPattern):
    """Matches an if."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern):
        self.cond, self.true_branch, self.false_branch = map(_pattern, (cond, true_branch, false_branch))

    def children(self) -> tuple[DFPattern, ...]:
        return (self.cond, self.true_branch, self.false_branch)


class LetPattern(DFPattern):
    """Matches a let; the variable is matched like any other expression."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern):
        self.var, self.value, self.body = map(_pattern, (var, value, body))

    def children(self) -> tuple[DFPattern, ...]:
        return (self.var, self.value, self.body)


class AltPattern(DFPattern):
    """Matches what ``left`` does, or else what ``right`` does."""

    def __init__(self, left: DFPattern, right: DFPattern):
        self.left, self.right = _pattern(left), _pattern(right)

    def children(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)


class AttrPattern(DFPattern):
    """Matches what ``pattern`` does, if its attributes have the values ``attrs``."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]):
        if not isinstance(attrs, Mapping):
            raise PatternError(f"has_attr needs a dictionary of attribute values, not {attrs!r}")
        for name, value in attrs.items():
            if _holds_none(normalize(value)):
                raise PatternError(f"has_attr: {name}=None matches nothing; ask for a value, or test it in a check")
        self.pattern = _pattern(pattern)
        self.attrs = Attrs(attrs)

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


class TypePattern(DFPattern):
    """Matches what ``pattern`` does, if it is of type ``type``."""

    def __init__(self, pattern: DFPattern, type: Type):
        if not isinstance(type, Type):
            raise PatternError(f"has_type needs a type, not {type!r}")
        self.pattern, self.type = _pattern(pattern), type

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


class DataTypePattern(DFPattern):
    """Matches what ``pattern`` does, if it is a tensor of element type ``dtype``."""

    def __init__(self, pattern: DFPattern, dtype: str):
        self.pattern, self.dtype = _pattern(pattern), str(dtype)

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


class ShapePattern(DFPattern):
    """Matches what ``pattern`` does, if it is a tensor of shape ``shape``."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]):
        self.pattern, self.shape = _pattern(pattern), tuple(shape)

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


class DominatorPattern(DFPattern):
    """Matches a region: ``child`` at its end, ``path`` nodes, and ``parent`` where all data comes from.

    No node outside of the region may use the parent unless its result flows into the child as well.
    """

    def __init__(self, parent: DFPattern, path: DFPattern | None, child: DFPattern):
        self.parent, self.path, self.child = _pattern(parent), _or_wildcard(path), _pattern(child)

    def children(self) -> tuple[DFPattern, ...]:
        return (self.parent, self.path, self.child)


_P = TypeVar("_P", bound=DFPattern)


def _pattern(value: Any) -> DFPattern:
    """``value`` as a pattern: an expression stands for itself."""
    if isinstance(value, DFPattern):
        return value
    if isinstance(value, Expr):
        return ExprPattern(value)
    hint = " (numbers match by is_expr(relay.const(...)) or is_constant())" if isinstance(value, (int, float)) else ""
    raise PatternError(f"{value!r} is not a pattern{hint}")


def _or_wildcard(value: DFPattern | None) -> DFPattern:
    return wildcard() if value is None else _pattern(value)


def _labelled(pattern: _P, label: str | None) -> _P:
    if label is not None:
        pattern.label = label
    return pattern


def _holds_none(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_none(item) for item in value.values())
    return value is None or (isinstance(value, tuple) and any(_holds_none(item) for item in value))


def same_expression_children(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """The sub-patterns that are matched against the same expression as ``pattern``, the first tried last."""
    if isinstance(pattern, (AltPattern, AttrPattern, TypePattern, DataTypePattern, ShapePattern, WildcardPattern)):
        return pattern.children()[::-1]
    return (pattern.child,) if isinstance(pattern, DominatorPattern) else ()


def at_same_expression(pattern: DFPattern) -> list[DFPattern]:
    """``pattern`` and all patterns that matching it tries against the same expression."""
    seen: dict[DFPattern, None] = {}
    stack = [pattern]
    while stack:
        top = stack.pop()
        if top not in seen:
            seen[top] = None
            stack.extend(same_expression_children(top))
    return list(seen)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Whether ``pattern`` matches ``expr``."""
    from eqsat.relay.dataflow_pattern.graph import DataflowGraph
    from eqsat.relay.dataflow_pattern.matcher import Matcher

    if not isinstance(expr, Expr):
        raise PatternError(f"a pattern matches expressions, not {expr!r}")
    return Matcher(_pattern(pattern), DataflowGraph(expr)).match(expr)


def is_expr(expr: Expr) -> ExprPattern:
    """Matches what is structurally equal to ``expr``."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Matches an operator; raises OperatorError when there is none of that name."""
    return ExprPattern(Op.get(op_name))


def is_var(name: str = "", *, label: str | None = None) -> VarPattern:
    """Matches a local variable, of any name when ``name`` is empty."""
    return _labelled(VarPattern(name), label)


def is_constant(*, label: str | None = None, predicate: Callable[[Any], bool] | None = None) -> ConstantPattern:
    """Matches any constant, or those whose NumPy array ``predicate`` holds of."""
    return _labelled(ConstantPattern(predicate), label)


def wildcard(*, label: str | None = None) -> WildcardPattern:
    """Matches anything."""
    return _labelled(WildcardPattern(), label)


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """Matches a tuple of the given fields, or any tuple for None."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Matches field ``index``, or any field, of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Matches an if."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Matches a let."""
    return LetPattern(var, value, body)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Matches what is of type ``ttype`` and matches ``pattern``, if given."""
    return TypePattern(_or_wildcard(pattern), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Matches a tensor of element type ``dtype`` that matches ``pattern``, if given."""
    return DataTypePattern(_or_wildcard(pattern), dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """Matches a tensor of shape ``shape`` that matches ``pattern``, if given."""
    return ShapePattern(_or_wildcard(pattern), shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Matches what has the given attribute values and matches ``pattern``, if given."""
    return AttrPattern(_or_wildcard(pattern), attrs)


def dominates(parent: DFPattern, path: DFPattern | None, child: DFPattern) -> DominatorPattern:
    """Matches a region that ends at ``child``; see :class:`DominatorPattern`."""
    return DominatorPattern(parent, path, child)

"""Forms of patterns: what Relay's matcher takes for the same, and what of a pattern a query is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from eqsat.egraph.symbols import SAMPLED, SymbolHead
from eqsat.egraph.vocabulary import Test
from eqsat.errors import PatternError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    ManyPattern,
    TupleGetItemPattern,
    TuplePattern,
    TypedPattern,
    VarPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.attributes import has_attributes
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from eqsat.relay.visitor import post_order

T = TypeVar("T")

Edge: TypeAlias = tuple[SymbolHead, SymbolHead]
"""Heads of an e-node and of an e-node in a class below it."""

_REASSOCIATED: frozenset[SymbolHead] = frozenset(("call", Op.get(name)) for name in ("multiply", "divide"))
"""Operators of which Relay's matcher takes either one for the outer one."""


def method_for(pattern: DFPattern, methods: Mapping[type[DFPattern], T]) -> T | None:
    """That of the pattern's class, or of the nearest base class that has one."""
    return next((methods[cls] for cls in type(pattern).__mro__ if cls in methods), None)


def untyped(pattern: DFPattern) -> DFPattern:
    """What is inside of type, dtype and shape patterns."""
    while isinstance(pattern, TypedPattern):
        pattern = pattern.pattern
    return pattern


def called_operators(callee: DFPattern, present: Callable[[], Iterable[Op]]) -> list[Op] | None:
    """The operators that a pattern in callee position matches, None where it can match none.

    Args:
        callee: the pattern.
        present: those that are called in the e-graph: what a wildcard stands for.
    """
    if isinstance(callee, ExprPattern) and isinstance(callee.expr, Op):
        return [callee.expr]
    found: dict[Op, None] = {}
    stack = [callee]
    while stack:
        one = stack.pop()
        if isinstance(one, AltPattern):
            stack += (one.right, one.left)
        elif isinstance(one, ExprPattern) and isinstance(one.expr, Op):
            found[one.expr] = None
        elif isinstance(one, WildcardPattern):
            found |= dict.fromkeys(present())
        elif isinstance(one, AttrPattern) and not may_be_function(one):
            inside = called_operators(one.pattern, present)
            if inside is None:
                return None
            found |= {op: None for op in inside if has_attributes(op, one.attrs)}
        elif not may_be_function(one):
            return None
    return list(found)


@lru_cache(maxsize=1 << 12)
def may_be_function(callee: DFPattern) -> bool:
    """Whether a pattern in callee position may match a function."""
    if isinstance(callee, AltPattern):
        return may_be_function(callee.left) or may_be_function(callee.right)
    return isinstance(untyped(callee), (FunctionPattern, WildcardPattern)) or (
        isinstance(callee, AttrPattern) and isinstance(untyped(callee.pattern), FunctionPattern)
    )


def _binary(pattern: DFPattern, name: str) -> tuple[CallPattern, DFPattern, DFPattern] | None:
    """A call pattern of the named operator and its two argument patterns, None when it is no such pattern."""
    if not isinstance(pattern, CallPattern) or pattern.named is None or len(pattern.args or ()) != 2:
        return None
    if pattern.named.name != name:
        return None
    left, right = pattern.args or ()
    return pattern, left, right


@lru_cache(maxsize=1 << 12)
def reassociations(pattern: CallPattern) -> tuple[CallPattern, ...]:
    """Relay's two re-associations: (a*b)/c as b*(a/c) and a*(b/c), and a*(b/c) as (b*a)/c."""
    found = []
    if (quotient := _binary(pattern, "divide")) and (product := _binary(quotient[1], "multiply")):
        call, *factors = product
        for first, second in (factors, factors[::-1]):
            found.append(CallPattern(call.op, [second, CallPattern(pattern.op, [first, quotient[2]])]))
    if product := _binary(pattern, "multiply"):
        for inner, other in (product[1:], product[:0:-1]):
            if quotient := _binary(inner, "divide"):
                call, numerator, divisor = quotient
                found.append(CallPattern(call.op, [CallPattern(pattern.op, [numerator, other]), divisor]))
    return tuple(found)


def pattern_of_expr(expr: Expr) -> DFPattern:
    """A compound expression as the pattern that matches exactly it."""
    made: dict[Expr, DFPattern] = {}
    for node in post_order(expr):
        if isinstance(node, Call) and isinstance(node.op, Op):
            call: DFPattern = CallPattern(made[node.op], [made[arg] for arg in node.args])
            made[node] = AttrPattern(call, node.attrs) if node.attrs else call
        elif isinstance(node, Tuple):
            made[node] = TuplePattern([made[item] for item in node.fields])
        elif isinstance(node, TupleGetItem):
            made[node] = TupleGetItemPattern(made[node.tuple_value], node.index)
        else:
            made[node] = ExprPattern(node)
    return made[expr]


def type_test(pattern: TypedPattern) -> Test:
    """What a pattern asks of a type."""
    return Test("type", pattern.condition, pattern.accepts)


def value_test(holds: Callable[[Any], bool]) -> Test:
    """Whether ``holds`` is true of a constant's array."""

    def is_so(constant: Constant) -> bool:
        data = constant.data
        return not (asks_each and data.nbytes >= SAMPLED and not holds(data.few)) and holds(data.numpy())

    asks_each = getattr(holds, "asks_each_element", False)
    return Test("constant", holds, is_so)


def identity_test(var: Var) -> Test:
    """Whether a variable is ``var``."""
    return Test("var", ("same", var.vid), lambda other: bool(other.vid is var.vid))


def attrs_test(op: Op, wanted: Attrs) -> Test:
    """Whether the attributes of a call of ``op`` are as wanted."""

    def holds(attrs: Attrs | None) -> bool:
        try:
            return has_attributes(Call(op, (), attrs), wanted)
        except PatternError:  # not comparable: an error on a graph, no match among many
            return False

    return Test("call", ("attrs", op, wanted.key), holds)


class NodeForm(NamedTuple):
    """The e-nodes that a pattern matches, where these are of one kind.

    Attributes:
        kind: of their symbols.
        below: what matches their children; None for any.
        test: what their atoms satisfy; None for nothing.
    """

    kind: str
    below: tuple[DFPattern, ...] | None = ()
    test: Test | None = None


def node_form(pattern: DFPattern) -> NodeForm | None:
    """The e-nodes that ``pattern`` matches; None where that takes more than their kind to say."""
    form = method_for(pattern, _NODE_FORMS)
    return None if form is None else form(pattern)


def function_form(pattern: DFPattern) -> NodeForm:
    """A function matches as a whole, by Relay's matcher: what is inside belongs to another region."""
    return NodeForm("function", None, Test("function", pattern, pattern.match))


def _variable_form(pattern: VarPattern) -> NodeForm:
    test = Test("var", ("named", pattern.name), lambda var: bool(var.name_hint == pattern.name))
    return NodeForm("var", (), test if pattern.name else None)


def _projection_form(pattern: TupleGetItemPattern) -> NodeForm:
    test = Test("project", pattern.index, lambda field: bool(field == pattern.index))
    return NodeForm("project", (pattern.tuple,), test if pattern.index >= 0 else None)


_NODE_FORMS: dict[type[DFPattern], Callable[[Any], NodeForm]] = {
    VarPattern: _variable_form,
    TuplePattern: lambda pattern: NodeForm("tuple", pattern.fields),
    TupleGetItemPattern: _projection_form,
    IfPattern: lambda pattern: NodeForm("if", pattern.children()),
    FunctionPattern: function_form,
}


@lru_cache(maxsize=1 << 14)
def needed_heads(pattern: DFPattern) -> frozenset[SymbolHead]:
    """Heads that e-nodes have wherever ``pattern`` matches."""
    return frozenset(head for _, head in _heads_below(pattern))


@lru_cache(maxsize=1 << 14)
def needed_edges(pattern: DFPattern) -> frozenset[Edge]:
    """Heads of e-nodes, and of e-nodes in classes below them, that there are wherever ``pattern`` matches."""
    edges = [(above, head) for above, head in _heads_below(pattern) if above is not None]
    return frozenset(edge for edge in edges if not _REASSOCIATED.issuperset(edge))


def _heads_below(pattern: DFPattern) -> Iterator[tuple[SymbolHead | None, SymbolHead]]:
    """The heads that a pattern asks for, each with that of which it asks for a child, if there is one."""
    stack: list[tuple[SymbolHead | None, DFPattern]] = [(None, pattern)]
    while stack:
        above, one = stack.pop()
        form = node_form(one)
        if isinstance(one, (TypedPattern, AttrPattern)):
            stack.append((above, one.pattern))
        elif isinstance(one, DominatorPattern):
            stack.append((None, one.child))
        elif isinstance(one, CallPattern):
            called: SymbolHead | None = None if one.named is None else ("call", one.named)
            if called is not None:
                yield above, called
            stack += [(called, arg) for arg in one.args or ()]
        elif form is not None:
            head: SymbolHead = (form.kind, None)
            yield above, head
            below = form.below or ()
            for field in below:
                if not isinstance(field, ManyPattern):
                    stack.append((head, field))
                elif field.some is not None:
                    stack.append((head, field.some))
                elif len(below) == 1:  # among others it may stand for no field
                    stack.append((head, field.pattern))

"""What must be in an e-graph for a pattern to match at all, told from the pattern alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from eqsat.egraph.forms import reassociations, untyped
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    IfPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
)
from eqsat.relay.expr import Constant, Op

Head: TypeAlias = tuple[str, Op | None]
"""Kind and operator of a symbol."""

Need: TypeAlias = Head | tuple[Head, Head]
"""An e-node of a head, or one above a class that holds one of another head."""


@lru_cache(maxsize=1 << 14)
def needs(pattern: DFPattern) -> frozenset[Need]:
    """What there is wherever ``pattern`` matches."""
    found: dict[Need, None] = {}
    stack = [pattern]
    while stack:
        one = _inside(stack.pop())
        head, below = _head(one), _below(one)
        if head is not None:
            found[head] = None
            found |= {(head, lower): None for lower in map(_head, map(_inside, below)) if lower is not None}
        elif isinstance(one, CallPattern) and one.named is not None:
            found["call", one.named] = None  # one of the operators of its forms: all forms have all of them
        stack += below
    return frozenset(found)


def _inside(pattern: DFPattern) -> DFPattern:
    """What a pattern's tests of type and attributes are on."""
    while isinstance(pattern := untyped(pattern), AttrPattern):
        pattern = pattern.pattern
    return pattern


def _head(pattern: DFPattern) -> Head | None:
    """The head of an e-node that is surely in a class that ``pattern`` matches."""
    if isinstance(pattern, CallPattern) and pattern.named is not None and not reassociations(pattern):
        return "call", pattern.named
    if isinstance(pattern, ConstantPattern) and pattern.predicate is not None:
        return "constant", None
    if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant):
        return "constant", None
    return _HEADS.get(type(pattern))


_HEADS: dict[type[DFPattern], Head] = {
    TuplePattern: ("tuple", None),
    TupleGetItemPattern: ("project", None),
    IfPattern: ("if", None),
    VarPattern: ("var", None),
}


def _below(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """Patterns that all match, below, wherever ``pattern`` does."""
    if isinstance(pattern, CallPattern):
        return tuple(pattern.args or ())
    if isinstance(pattern, TuplePattern):
        return tuple(pattern.fields or ())
    if isinstance(pattern, TupleGetItemPattern):
        return (pattern.tuple,)
    if isinstance(pattern, IfPattern):
        return (pattern.cond, pattern.true_branch, pattern.false_branch)
    return (pattern.child,) if isinstance(pattern, DominatorPattern) else ()

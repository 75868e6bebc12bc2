"""What must be in an e-graph for a pattern to match at all, told from the pattern alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from eqsat.egraph.forms import node_form, reassociations, untyped
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    ManyPattern,
)
from eqsat.relay.expr import Constant, Op

SymbolHead: TypeAlias = tuple[str, Op | None]
"""Kind and operator of a symbol."""

Need: TypeAlias = SymbolHead | tuple[SymbolHead, SymbolHead]
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


def _head(pattern: DFPattern) -> SymbolHead | None:
    """The head of an e-node that is surely in a class that ``pattern`` matches."""
    if isinstance(pattern, CallPattern) and pattern.named is not None and not reassociations(pattern):
        return "call", pattern.named
    if isinstance(pattern, ConstantPattern) and pattern.predicate is not None:
        return "constant", None
    if isinstance(pattern, ExprPattern) and isinstance(pattern.expr, Constant):
        return "constant", None
    form = node_form(pattern)
    return None if form is None else (form.kind, None)


def _below(pattern: DFPattern) -> tuple[DFPattern, ...]:
    """Patterns that all match, below, wherever ``pattern`` does."""
    if isinstance(pattern, CallPattern):
        return tuple(pattern.args or ())
    if isinstance(pattern, DominatorPattern):
        return (pattern.child,)
    form = node_form(pattern)
    below = () if form is None else form.below or ()
    return tuple([part for one in below for part in _surely(one, len(below) == 1)])


def _surely(field: DFPattern, is_only: bool) -> tuple[DFPattern, ...]:
    """What surely matches one of the children that ``field`` stands for: a repetition may stand for none."""
    if not isinstance(field, ManyPattern):
        return (field,)
    if field.some is not None:
        return (field.some,)
    return (field.pattern,) if is_only else ()

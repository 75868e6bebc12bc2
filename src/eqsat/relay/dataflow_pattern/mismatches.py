"""Why a pattern does not match: the places where it nearly matches, and the differences there.

A pattern is compared with a graph at each of its nodes. If a sub-pattern does not fit, the difference is recorded, and
the sub-patterns around it are still compared. The nearest place is the one at which the fewest sub-patterns do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from eqsat.brief import one_line
from eqsat.errors import PatternError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.dataflow_pattern.attributes import has_attributes
from eqsat.relay.dataflow_pattern.explanation import Mismatch, PatternExplanation, Place, where
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    Copy,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypedPattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    implements_method,
    is_operator,
    pattern_of,
    subpatterns,
)
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var, expression_hint
from eqsat.relay.infer import type_of
from eqsat.relay.structural import structural_equal
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.visitor import children_first, post_order

NEAREST = 3
"""Number of places in an explanation."""


@implements_method
def explain(pattern: DFPattern, expr: Expr) -> PatternExplanation:
    """Return why a pattern does not match an expression, and where inside it nearly matches.

    Args:
        pattern: The pattern.
        expr: The expression. Its types are inferred if the pattern requires them.

    Raises:
        PatternError: ``expr`` is not an expression.
        TypeCheckError: The pattern requires a type, and the expression is not well typed.
    """
    if not isinstance(expr, Expr):
        raise PatternError(f"a pattern matches expressions, not {expr!r}{expression_hint(expr)}")
    laid = Laid(pattern_of(pattern), DataflowGraph(expr))
    root = laid.place(expr)
    nearer = [place for place in laid.places(post_order(expr)) if place.missing < root.missing]
    return PatternExplanation(root, tuple(nearer[:NEAREST]))


_Pair: TypeAlias = tuple[DFPattern, Expr]


class _Fit(NamedTuple):
    """How a pattern fits an expression: numbers as in :class:`Place`, and the pairs below that were compared."""

    missing: int
    fitting: int
    own: Mismatch | None = None
    below: tuple[_Pair, ...] = ()

    @property
    def rank(self) -> tuple[int, int]:
        return (self.missing, -self.fitting)


class Laid:
    """A pattern that is laid over nodes of a graph.

    Args:
        pattern: The pattern.
        graph: The graph.
        types: Finds the type of a node.
    """

    def __init__(self, pattern: DFPattern, graph: DataflowGraph, types: Callable[[Expr], Type] = type_of):
        self.pattern = pattern
        self.graph = graph
        self.types = types
        self._fits: dict[_Pair, _Fit] = {}
        self._sizes: dict[DFPattern, int] = {}

    def places(self, exprs: Iterable[Expr]) -> list[Place]:
        """The places of some nodes at which anything of the pattern fits, the nearest first."""
        found = [self.place(expr) for expr in exprs if not isinstance(expr, (Op, Constant))]
        return sorted([each for each in found if each.fitting], key=lambda each: (each.missing, -each.fitting))

    def place(self, expr: Expr) -> Place:
        """The pattern laid over one node."""
        fit = self._fit(expr)
        pairs = self._chosen((self.pattern, expr))
        mismatches = [own for pair in pairs if (own := self._fits[pair].own) is not None]
        if not mismatches:
            mismatches = list(self._conflicts(pairs))
        if not mismatches and not self.is_matched(expr):
            mismatches = [Mismatch(self.pattern, expr, "all of it together", "each part of it by itself")]
        return Place(expr, tuple(mismatches), max(fit.missing, len(mismatches)), fit.fitting)

    def is_matched(self, expr: Expr) -> bool:
        """Whether the pattern matches at a node."""
        return Matcher(self.pattern, self.graph).match(expr)

    def bound(self, expr: Expr) -> dict[DFPattern, Expr]:
        """What each sub-pattern was laid over at a node."""
        self._fit(expr)
        return dict(reversed(self._chosen((self.pattern, expr))))

    # ---- fits

    def _fit(self, expr: Expr) -> _Fit:
        root, fits = (self.pattern, expr), self._fits
        for pair in children_first([root], lambda pair: () if pair in fits else self._below(*pair)):
            if pair not in fits:
                fits[pair] = self._laid(*pair)
        return fits[root]

    def _chosen(self, root: _Pair) -> list[_Pair]:
        """The pairs that were compared, outer ones first."""
        return children_first([root], lambda pair: self._fits[pair].below)[::-1]

    def _below(self, pattern: DFPattern, expr: Expr) -> list[_Pair]:
        return [pair for pairs in self._choices(pattern, expr) for pair in pairs]

    def _choices(self, pattern: DFPattern, expr: Expr) -> list[list[_Pair]]:
        """The ways in which the parts of a pattern may be laid over the parts of an expression."""
        if isinstance(pattern, AltPattern):
            return [[(pattern.left, expr)], [(pattern.right, expr)]]
        if isinstance(pattern, DominatorPattern):
            return [[(pattern.child, expr)]]
        if isinstance(pattern, (AttrPattern, TypedPattern)):
            return [[(pattern.pattern, expr)]]
        if isinstance(pattern, WildcardPattern):
            return [[]] if pattern.pattern is None else [[(pattern.pattern, expr)]]
        if isinstance(pattern, CallPattern):
            return self._of_call(pattern, expr)
        if isinstance(pattern, TuplePattern):
            return [self._of_tuple(pattern, expr)]
        operands = pattern.operands(expr) if pattern.kind is not None and isinstance(expr, pattern.kind) else None
        return [[] if operands is None else list(zip(pattern.children(), operands, strict=True))]

    def _of_call(self, pattern: CallPattern, expr: Expr) -> list[list[_Pair]]:
        if not isinstance(expr, Call):
            return [[]]
        head = [] if pattern.named is not None else [(pattern.op, expr.op)]
        if pattern.args is None or len(pattern.args) != len(expr.args):
            return [head]
        straight = [*head, *zip(pattern.args, expr.args, strict=True)]
        if pattern.named is None or pattern.named.name not in SWAPPED:
            return [straight]
        return [straight, [*head, *zip(pattern.args[::-1], expr.args, strict=True)]]

    def _of_tuple(self, pattern: TuplePattern, expr: Expr) -> list[_Pair]:
        counts = next(pattern.arrangements(len(expr.fields)), None) if isinstance(expr, Tuple) else None
        if pattern.fields is None or counts is None or not isinstance(expr, Tuple):
            return []
        fields = [each.pattern if isinstance(each, Copy) else each for each in pattern.arranged(counts)]
        return list(zip(fields, expr.fields, strict=True))

    def _laid(self, pattern: DFPattern, expr: Expr) -> _Fit:
        ways = [self._sum(pairs) for pairs in self._choices(pattern, expr)]
        fit = min(ways, key=lambda way: way.rank)
        if isinstance(pattern, (AltPattern, WildcardPattern)):
            return fit
        wanted, seen, lost = self._difference(pattern, expr, fit) or ("", "", 0)
        if not lost:
            return _Fit(fit.missing, fit.fitting + 1, None, fit.below)
        return _Fit(fit.missing + lost, fit.fitting, Mismatch(pattern, expr, wanted, seen), fit.below)

    def _sum(self, pairs: Sequence[_Pair]) -> _Fit:
        fits = [self._fits[pair] for pair in pairs]
        return _Fit(sum(fit.missing for fit in fits), sum(fit.fitting for fit in fits), None, tuple(pairs))

    def _difference(self, pattern: DFPattern, expr: Expr, fit: _Fit) -> tuple[str, str, int] | None:
        """What a pattern asks of a node beside what its parts do: wanted, seen, and the sub-patterns that are lost."""
        if isinstance(pattern, AttrPattern):
            return self._attributes(pattern, expr)
        if isinstance(pattern, TypedPattern):
            return self._type(pattern, expr)
        if isinstance(pattern, DominatorPattern):
            is_one = fit.missing > 0 or Matcher(pattern, self.graph).match(expr)
            return None if is_one else (f"a region from {pattern.parent.brief(1)}", "none", self._size(pattern.parent))
        if isinstance(pattern, CallPattern):
            return self._call(pattern, expr)
        if isinstance(pattern, ExprPattern):
            found = pattern.expr is expr or (type(pattern.expr) is not Op and structural_equal(pattern.expr, expr))
            return None if found else (pattern.brief(1), _told(expr), 1)
        if isinstance(pattern, ConstantPattern) and isinstance(expr, Constant):
            return None if pattern.operands(expr) is not None else ("a constant of another value", _told(expr), 1)
        if isinstance(pattern, TuplePattern) and isinstance(expr, Tuple):
            lost = pattern.fields is not None and not fit.below and (bool(pattern.fields) or bool(expr.fields))
            return (f"{len(pattern)} fields", f"{len(expr.fields)} fields", self._size(pattern)) if lost else None
        if pattern.kind is not None and isinstance(expr, pattern.kind) and pattern.operands(expr) is not None:
            return None
        return (_kind(pattern), _told(expr), self._size(pattern))

    def _call(self, pattern: CallPattern, expr: Expr) -> tuple[str, str, int] | None:
        name = "a call" if pattern.named is None else pattern.named.name
        if not isinstance(expr, Call):
            return (name, _told(expr), self._size(pattern))
        if pattern.named is not None and expr.op is not pattern.named:
            # another operator over the same operands is nearer than one over others
            lost = 1 if pattern.args is None or len(pattern.args) == len(expr.args) else self._size(pattern)
            return (name, _told(expr), lost)
        if pattern.args is not None and len(pattern.args) != len(expr.args):
            return (f"{name} of {len(pattern.args)} arguments", f"one of {len(expr.args)}", self._size(pattern))
        return None

    def _attributes(self, pattern: AttrPattern, expr: Expr) -> tuple[str, str, int] | None:
        inner = self._fits[pattern.pattern, expr].own
        if inner is not None:  # of another operator other things are set
            return None
        held = expr.attr_map if isinstance(expr, Op) else getattr(expr, "attrs", None) or {}
        wanted, seen = [], []
        for name, value in pattern.attrs.items():
            try:
                if has_attributes(expr, Attrs({name: value})):
                    continue
            except PatternError as why:
                return (f"{name}={value!r}", str(why), 1)
            wanted.append(f"{name}={value!r}")
            seen.append(f"{name}={held[name]!r}" if name in held else f"no {name}")
        return (", ".join(wanted), ", ".join(seen), 1) if wanted else None

    def _type(self, pattern: TypedPattern, expr: Expr) -> tuple[str, str, int] | None:
        if isinstance(expr, Op):
            return ("a value", "an operator", 1)
        ty = self.types(expr)
        if pattern.accepts(ty):
            return None
        if isinstance(pattern, ShapePattern):
            return (
                f"shape {_shape(pattern.shape)}",
                f"{_shape(ty.shape)}" if isinstance(ty, TensorType) else f"{ty}",
                1,
            )
        if isinstance(pattern, DataTypePattern):
            return (f"dtype {pattern.dtype}", ty.dtype if isinstance(ty, TensorType) else f"{ty}", 1)
        return (f"type {pattern.type}" if isinstance(pattern, TypePattern) else "a tensor of another type", f"{ty}", 1)

    def _conflicts(self, pairs: Sequence[_Pair]) -> Iterator[Mismatch]:
        """Patterns that stand in several places, and are laid over different expressions there."""
        known: dict[DFPattern, Expr] = {}
        for pattern, expr in pairs:
            first = known.setdefault(pattern, expr)
            if first is not expr and not is_operator(pattern):
                wanted = f"for {pattern.brief(1)}, which stands in several places, {_told(first)}{where(first)}"
                yield Mismatch(pattern, expr, wanted, _told(expr))

    def _size(self, pattern: DFPattern) -> int:
        """How many sub-patterns do not fit where a pattern does not: wildcards and operators do not count."""
        if pattern not in self._sizes:
            counted = [each for each in subpatterns(pattern) if not isinstance(each, WildcardPattern)]
            self._sizes[pattern] = max(1, sum(not is_operator(each) for each in counted))
        return self._sizes[pattern]


def _told(expr: Expr) -> str:
    """A node in a few words."""
    if isinstance(expr, Op):
        return expr.name
    if isinstance(expr, Call):
        return expr.op.name if isinstance(expr.op, Op) else "a call of a function"
    if isinstance(expr, Constant):
        return f"the constant {one_line(expr.brief(1), 40)}"
    if isinstance(expr, Var):
        return f"the variable %{expr.name_hint}"
    return f"field {expr.index} of a tuple" if isinstance(expr, TupleGetItem) else f"a {type(expr).__name__.lower()}"


def _kind(pattern: DFPattern) -> str:
    """What a pattern of one node asks for."""
    if isinstance(pattern, VarPattern):
        return f"the variable %{pattern.name}" if pattern.name else "a variable"
    if isinstance(pattern, TupleGetItemPattern):
        return "a field of a tuple" if pattern.index == -1 else f"field {pattern.index} of a tuple"
    return f"a {type(pattern).__name__.removesuffix('Pattern').lower()}"


def _shape(dims: Sequence[Any]) -> str:
    return f"({', '.join(map(str, dims))})"

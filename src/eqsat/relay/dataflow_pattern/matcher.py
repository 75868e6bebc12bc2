"""The matcher: a parsing machine that runs a pattern against an expression.

Relay's language is a parsing expression grammar over graphs: choices (``|``, operand orders,
re-associations, parent or path) are ordered, and a choice that succeeded is never taken back. The machine
keeps what is left to match as a linked list of goals and the open choices on a stack, so that neither deep
graphs nor deep patterns use Python's stack. A goal is ``(action, x, y, rest)``; an action is a method that
gets ``x``, ``y`` and ``rest`` and returns the goals to go on with, or ``FAIL``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from eqsat.errors import PatternError
from eqsat.relay.dataflow_pattern.analysis import SWAPPED, analyse
from eqsat.relay.dataflow_pattern.attributes import has_attributes
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import (
    AltPattern,
    AttrPattern,
    CallPattern,
    Copy,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    TuplePattern,
    TypedPattern,
    WildcardPattern,
    implements_method,
    pattern_of,
)
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, Var, expression_hint
from eqsat.relay.structural import structural_equal

Goals: TypeAlias = Any  # (action, x, y, rest) or None at the end; mypy has no recursive tuples of this kind
FAIL: Any = object()

ROUTES = 4096
"""Relay visits (and lists in ``node_map``) a node on a dominator's path once per route to it, which grows
exponentially over stacked diamonds. After so many visits, a node known to be right is not visited again."""

NodeMap: TypeAlias = dict[DFPattern, list[Expr]]


class Matcher:
    """Matches ``pattern`` at nodes of ``graph``. After a match, ``bound`` says what each sub-pattern matched.

    A subclass may know more of expressions than that they are what they are: :meth:`same`, :meth:`as_constant`.
    """

    def __init__(self, pattern: DFPattern, graph: DataflowGraph):
        self.pattern = pattern
        self.graph = graph
        self.bound: NodeMap = {}
        self._trail: list[DFPattern] = []  # patterns in the order in which they succeeded
        self._choices: list[tuple[Goals, int, Any]] = []
        self._binding = True  # whether bound patterns must match what they are bound to
        self._failed: set[tuple[DFPattern, Expr, bool]] = set()
        self.self_contained = analyse(pattern).self_contained

    def match(self, expr: Expr) -> bool:
        """Whether the pattern matches at ``expr``; sets ``bound``."""
        self.bound = {}
        self._trail = []
        self._choices = []
        self._binding = True
        goals: Goals = (_visit, self.pattern, expr, None)
        while goals is not None:
            action, x, y, rest = goals
            goals = action(self, x, y, rest)
            while goals is FAIL:
                if not self._choices:
                    return False
                goals = self._next_choice()
        return True

    def same(self, one: Expr | None, other: Expr) -> bool:
        """Whether a pattern that is bound to ``one`` matches ``other``."""
        return one is other

    def as_constant(self, expr: Expr) -> Expr:
        """What patterns of constants are shown in the place of ``expr``."""
        return expr

    def _next_choice(self) -> Goals:
        """Undo what was bound since the last open choice and give its other alternative."""
        goals, mark, key = self._choices.pop()
        if type(key) is _Region:
            key.abandon(self)
        bound, trail = self.bound, self._trail
        for pattern in trail[mark:]:
            bound.pop(pattern, None)
        del trail[mark:]
        if goals is FAIL:
            if type(key) is tuple:
                self._failed.add(key)
        else:
            self._choices.append((FAIL, mark, key))
        return goals

    def choose(self, first: Goals, second: Goals, key: Any = None) -> Goals:
        """Go on with ``first``, or if that fails with ``second``; both end by one ``_commit`` or ``_pop_choice``."""
        self._choices.append((second, len(self._trail), key))
        return first

    def bound_to(self, pattern: DFPattern) -> Expr | None:
        """What ``pattern`` is bound to already."""
        bound = self.bound.get(pattern)
        if bound is None:
            return None
        if len(bound) != 1:
            raise PatternError(
                f"a {type(pattern).__name__} matched {len(bound)} expressions (in a recursive pattern or on a "
                "dominator's path) and is used once more elsewhere: use another pattern object there"
            )
        return bound[0]

    def failure_key(self, pattern: DFPattern, expr: Expr) -> tuple[DFPattern, Expr, bool] | None:
        """Under what to remember that ``pattern`` fails at ``expr``, None when that is not to be remembered."""
        if pattern is self.pattern or pattern not in self.self_contained:
            return None
        return (pattern, expr, self._binding)


def _visit(m: Matcher, pattern: DFPattern, expr: Expr, rest: Goals) -> Goals:
    if m._binding and pattern in m.bound:
        return rest if m.same(m.bound_to(pattern), expr) else FAIL
    return _action_of(type(pattern))(m, pattern, expr, rest)


def _done(m: Matcher, pattern: DFPattern, expr: Expr, rest: Goals) -> Goals:
    """``pattern`` matched: bind it."""
    if pattern in m.bound:
        m.bound[pattern].append(expr)
    else:
        m.bound[pattern] = [expr]
    m._trail.append(pattern)
    return rest


def _commit(m: Matcher, pattern: DFPattern, expr: Expr, rest: Goals) -> Goals:
    """One of two alternatives of ``pattern`` matched."""
    m._choices.pop()
    return _done(m, pattern, expr, rest)


def _pairwise(patterns: Sequence[DFPattern], exprs: Sequence[Expr], rest: Goals) -> Goals:
    for pattern, expr in zip(reversed(patterns), reversed(exprs), strict=True):
        rest = (_visit, pattern, expr, rest)
    return rest


def _node(m: Matcher, pattern: DFPattern, expr: Expr, rest: Goals) -> Goals:
    """A pattern of one node whose sub-patterns match operands of the node."""
    if pattern.kind is Constant:
        expr = m.as_constant(expr)
    if pattern.kind is None or not isinstance(expr, pattern.kind):
        return FAIL
    operands = pattern.operands(expr)
    if operands is None:
        return FAIL
    return _pairwise(pattern.children(), operands, (_done, pattern, expr, rest))


def _expr(m: Matcher, pattern: ExprPattern, expr: Expr, rest: Goals) -> Goals:
    wanted = pattern.expr
    if type(wanted) is Constant:
        expr = m.as_constant(expr)
    if type(wanted) is Op or type(wanted) is not type(expr):
        found = wanted is expr
    else:
        found = structural_equal(wanted, expr)
    return _done(m, pattern, expr, rest) if found else FAIL


def _wildcard(m: Matcher, pattern: WildcardPattern, expr: Expr, rest: Goals) -> Goals:
    if pattern.pattern is None:
        return _done(m, pattern, expr, rest)
    return (_visit, pattern.pattern, expr, (_done, pattern, expr, rest))


def _alternatives(m: Matcher, pattern: AltPattern, expr: Expr, rest: Goals) -> Goals:
    key = m.failure_key(pattern, expr)
    if key in m._failed:
        return FAIL
    rest = (_commit, pattern, expr, rest)
    return m.choose((_visit, pattern.left, expr, rest), (_visit, pattern.right, expr, rest), key)


def _call(m: Matcher, pattern: CallPattern, expr: Expr, rest: Goals) -> Goals:
    if not isinstance(expr, Call):
        return FAIL
    if pattern.named is None:
        return (_visit, pattern.op, expr.op, (_arguments, pattern, expr, rest))
    if expr.op is not pattern.named:
        return _reassociate(m, pattern, expr, rest)
    if not (m._binding and m.bound_to(pattern.op) is expr.op):
        _done(m, pattern.op, expr.op, None)
    return _arguments(m, pattern, expr, rest)


def _arguments(m: Matcher, pattern: CallPattern, expr: Call, rest: Goals) -> Goals:
    wanted = pattern.args
    if wanted is None:
        return _done(m, pattern, expr, rest)
    if len(wanted) != len(expr.args):
        return FAIL
    if pattern.named is None or pattern.named.name not in SWAPPED:
        return _pairwise(wanted, expr.args, (_done, pattern, expr, rest))
    key = m.failure_key(pattern, expr)
    if key in m._failed:
        return FAIL
    rest = (_commit, pattern, expr, rest)
    return m.choose(_pairwise(wanted, expr.args, rest), _pairwise(wanted[::-1], expr.args, rest), key)


def _reassociate(m: Matcher, pattern: CallPattern, expr: Call, rest: Goals) -> Goals:
    """``(a * b) / c`` matches ``a * (b / c)``, and the other way round; called when the operators differ."""
    assert pattern.named is not None
    if pattern.named.name == "divide":
        product = _operand(pattern, 0)
        if not (_is_call_of(product, "multiply") and _calls(expr, "multiply") and _uses(expr, "divide")):
            return FAIL
        factors = (_operand(product, 0), _operand(product, 1))
        quotients = [CallPattern(pattern.op, (factor, _operand(pattern, 1))) for factor in factors]
        first, second = (CallPattern(product.op, (factors[1 - i], quotients[i])) for i in (0, 1))
        rest = (_commit, pattern, expr, rest)
        return m.choose((_visit, first, expr, rest), (_visit, second, expr, rest))
    if pattern.named.name == "multiply":
        for i in (0, 1):
            quotient = _operand(pattern, i)
            if _is_call_of(quotient, "divide") and _calls(expr, "divide") and _uses(expr, "multiply"):
                numerator = CallPattern(pattern.op, (_operand(quotient, 0), _operand(pattern, 1 - i)))
                turned = CallPattern(quotient.op, (numerator, _operand(quotient, 1)))
                return (_visit, turned, expr, (_done, pattern, expr, rest))
    return FAIL


def _operand(pattern: Any, index: int) -> Any:
    if pattern.args is None or index >= len(pattern.args):
        given = "any" if pattern.args is None else len(pattern.args)
        raise PatternError(
            f"a pattern is_op({pattern.named.name!r}) with {given} arguments met a call of another operator: write "
            f"both arguments, as {pattern.named.name} also matches by re-association"
        )
    return pattern.args[index]


def _is_call_of(pattern: DFPattern, name: str) -> bool:
    return isinstance(pattern, CallPattern) and pattern.named is not None and pattern.named.name == name


def _calls(expr: Expr, name: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == name


def _uses(call: Call, name: str) -> bool:
    return any(_calls(arg, name) for arg in call.args)


def _tuple(m: Matcher, pattern: TuplePattern, expr: Expr, rest: Goals) -> Goals:
    if not isinstance(expr, Tuple):
        return FAIL
    if pattern.fields is None:
        return _done(m, pattern, expr, rest)
    arrangements = pattern.arrangements(len(expr.fields))
    return _arrange(m, pattern, (expr, arrangements), rest)


def _arrange(m: Matcher, pattern: TuplePattern, matching: Any, rest: Goals) -> Goals:
    """Try the next arrangement of the pattern's fields, and where it fails those after it."""
    expr, arrangements = matching
    counts = next(arrangements, None)
    if counts is None:
        return FAIL
    if not counts:
        return _pairwise(pattern.children(), expr.fields, (_done, pattern, expr, rest))
    goals: Goals = (_gather, pattern, (expr, counts), rest)
    for field, value in zip(reversed(pattern.arranged(counts)), reversed(expr.fields), strict=True):
        goals = (_visit_copy if isinstance(field, Copy) else _visit, field, value, goals)
    return m.choose(goals, (_pop_choice, None, None, (_arrange, pattern, matching, rest)))


def _visit_copy(m: Matcher, field: Copy, expr: Expr, rest: Goals) -> Goals:
    if field.some is None:
        return (_visit, field.pattern, expr, rest)
    rest = (_pop_choice, None, None, rest)
    return m.choose((_visit, field.some, expr, rest), (_visit, field.pattern, expr, rest))


def _gather(m: Matcher, pattern: TuplePattern, matching: Any, rest: Goals) -> Goals:
    """All fields matched: bind each pattern that is repeated to what its copies matched."""
    expr, counts = matching
    arranged = zip(pattern.arranged(counts), expr.fields, strict=True)
    matched = [(field.many, field, value) for field, value in arranged if isinstance(field, Copy)]
    for many in pattern.repetitions:
        copies = [field for of, field, _ in matched if of is many]
        if many.some is not None and not any(copy.some in m.bound for copy in copies):
            return FAIL
        found = {inner: [node for copy in copies for node in m.bound.get(copy.of[inner], ())] for inner in many.own}
        found[many] = [value for of, _, value in matched if of is many]
        found = {inner: nodes for inner, nodes in found.items() if nodes}
        m.bound.update(found)
        m._trail += found
    return _commit(m, pattern, expr, rest)


def _attr(m: Matcher, pattern: AttrPattern, expr: Expr, rest: Goals) -> Goals:
    return (_visit, pattern.pattern, expr, (_check_attr, pattern, expr, rest))


def _check_attr(m: Matcher, pattern: AttrPattern, expr: Expr, rest: Goals) -> Goals:
    return _done(m, pattern, expr, rest) if has_attributes(expr, pattern.attrs) else FAIL


def _typed(m: Matcher, pattern: TypedPattern, expr: Expr, rest: Goals) -> Goals:
    if not pattern.accepts_type_of(expr):
        return FAIL
    return (_visit, pattern.pattern, expr, (_done, pattern, expr, rest))


class _Region:
    """The region that a dominator pattern is matching: what is known of its path nodes.

    ``right``: all that lies between them and the parent is path. ``open``: entered and not left yet.
    """

    def __init__(self, pattern: DominatorPattern, remember: bool):
        self.pattern = pattern
        self.remember = remember
        self.visits = 0
        self.right: set[Expr] = set()
        self.open: list[Expr] = []

    def abandon(self, m: Matcher) -> None:
        """The region failed. Where no parent had been met yet, it would fail from the open nodes again."""
        m._binding = True
        if self.remember and self.pattern.parent not in m.bound:
            m._failed.update((self.pattern, node, False) for node in self.open)


def _dominator(m: Matcher, pattern: DominatorPattern, expr: Expr, rest: Goals) -> Goals:
    return (_visit, pattern.child, expr, (_enter_region, pattern, expr, rest))


def _enter_region(m: Matcher, pattern: DominatorPattern, expr: Expr, rest: Goals) -> Goals:
    region = _Region(pattern, m.self_contained.issuperset((pattern, pattern.parent, pattern.path)))
    m._choices.append((FAIL, len(m._trail), region))
    return _spread(m, region, expr, (_leave_region, region, expr, rest))


def _spread(m: Matcher, region: _Region, expr: Expr, rest: Goals) -> Goals:
    """Every input of ``expr`` that is not a leaf must be the parent, or path on the way to it."""
    if (region.pattern, expr, False) in m._failed:
        return FAIL
    inputs: Iterable[Expr] = m.graph.inputs(expr)
    if type(expr) is Call:
        inputs = [node for node in inputs if node is not expr.op and type(node) not in (Constant, Var)]
    branches = list(inputs)
    if not branches:
        return FAIL
    region.open.append(expr)
    rest = (_close, region, expr, rest)
    for node in reversed(branches):
        rest = (_branch, region, node, rest)
    return rest


def _branch(m: Matcher, region: _Region, node: Expr, rest: Goals) -> Goals:
    m._binding = True
    parent = region.pattern.parent
    if parent in m.bound:
        return rest if m.bound_to(parent) is node else _path(m, region, node, rest)
    otherwise = (_pop_choice, None, None, (_path, region, node, rest))
    return m.choose((_visit, parent, node, (_pop_choice, None, None, rest)), otherwise)


def _pop_choice(m: Matcher, _: None, __: None, rest: Goals) -> Goals:
    m._choices.pop()
    return rest


def _path(m: Matcher, region: _Region, node: Expr, rest: Goals) -> Goals:
    if region.visits >= ROUTES and node in region.right:
        return rest
    region.visits += 1
    m._binding = False
    return (_visit, region.pattern.path, node, (_spread, region, node, rest))


def _close(m: Matcher, region: _Region, expr: Expr, rest: Goals) -> Goals:
    region.open.pop()
    region.right.add(expr)
    return rest


def _leave_region(m: Matcher, region: _Region, expr: Expr, rest: Goals) -> Goals:
    m._choices.pop()
    m._binding = True
    parent = m.bound_to(region.pattern.parent)
    if parent is None or not m.graph.dominates(expr, parent):
        return FAIL
    return _done(m, region.pattern, expr, rest)


_ACTIONS: dict[type[DFPattern], Callable[..., Goals]] = {
    AltPattern: _alternatives,
    AttrPattern: _attr,
    CallPattern: _call,
    DominatorPattern: _dominator,
    ExprPattern: _expr,
    TuplePattern: _tuple,
    TypedPattern: _typed,
    WildcardPattern: _wildcard,
}


def _action_of(cls: type[DFPattern]) -> Callable[..., Goals]:
    """The action that visits patterns of a class: that of the nearest base class that has one."""
    if cls not in _ACTIONS:
        _ACTIONS[cls] = next((_ACTIONS[base] for base in cls.__mro__ if base in _ACTIONS), _node)
    return _ACTIONS[cls]


@implements_method
def match(pattern: DFPattern, expr: Expr) -> bool:
    """Return whether ``pattern`` matches ``expr``; users outside of ``expr`` are ignored."""
    if not isinstance(expr, Expr):
        raise PatternError(f"a pattern matches expressions, not {expr!r}{expression_hint(expr)}")
    return Matcher(pattern_of(pattern), DataflowGraph(expr)).match(expr)

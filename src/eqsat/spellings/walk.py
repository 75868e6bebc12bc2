"""Variants of a graph: random walks through equal graphs, which apply one rule at one place in each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

from eqsat.brief import listed, one_line
from eqsat.egraph.as_callback import asks_e_graph
from eqsat.egraph.lower import region_children
from eqsat.egraph.rule import PythonRule, Rewrite, Rule, flatten
from eqsat.egraph.schedule import Schedule
from eqsat.egraph.variadic import expanded, is_variadic, laid_out, lay_out, outer_tuples
from eqsat.errors import ArgumentError, RuleError
from eqsat.orders.rewriter import Graphs
from eqsat.pipeline.options import Rules
from eqsat.pipeline.saturate import is_open
from eqsat.relay.dataflow_pattern import AltPattern, AttrPattern, CallPattern, DFPattern, ExprPattern, TypedPattern
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Call, Constant, Expr, Function, Let, Op, Tuple, Var, expression_hint
from eqsat.relay.infer import infer_module, infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order, rebuild
from eqsat.spellings.backwards import Backwards, Forwards, is_typed

Graph = TypeVar("Graph")
Direction: TypeAlias = Forwards | Backwards
Accepts: TypeAlias = Callable[[Expr], bool]
"""A function that returns whether a graph may contain the result of a rule."""
Walked: TypeAlias = tuple[list[Expr], tuple[str, ...]]
"""The bodies of a graph that a walk ended at, and the rules that led to it."""

COUNT = 50
"""Default number of variants."""

STEPS = 20
"""Default maximum number of rule applications for one variant."""

PLACES = 6
"""Number of places at which a rule is tried in one step."""

REPEATED = 20
"""Number of successive walks without a new graph after which the search ends."""

FIELDS = (2, 3)
"""Numbers of fields for which rules over any number of fields are run backwards."""

ONE_USE = 0.2
"""Probability that only one of several users of a value gets the replacement."""

ANYWHERE = 0.25
"""Probability that a rule which applies anywhere, such as a product with one, is tried before other rules."""


@dataclass(frozen=True)
class Variant(Generic[Graph]):
    """A graph that is equal to a given one.

    Attributes:
        graph: The graph: an expression, function, module or model, as the given one.
        rules: Names of the rules that led to it, in order. For a rule that was applied from right to left, the name is
            followed by ``backwards``.
    """

    graph: Graph
    rules: tuple[str, ...]

    def __repr__(self) -> str:
        return one_line(f"Variant({self.graph!r}, by {listed(self.rules)})")


def variants(
    source: Expr | IRModule,
    count: int = COUNT,
    seed: int = 0,
    rules: Rules | None = None,
    steps: int = STEPS,
) -> list[Variant[Any]]:
    """Return graphs that are equal to a given one, created by applying rules at random places.

    The rules are applied from left to right and from right to left.

    Args:
        source: An expression, function or module. Functions that a compiler or a composite claims stay unchanged.
        count: The number of graphs, all of them different from each other and from the given one. If not that many are
            found, fewer are returned.
        seed: The seed of the random choices; the same seed gives the same graphs.
        rules: Rules and rule sets, by default ``eqsat.rules.default``.
        steps: The maximum number of rule applications for one graph. The actual number is drawn between 1 and this one.

    Raises:
        ArgumentError: ``count`` or ``steps`` is below 1, or ``source`` is not a graph.
        RuleError: A rule is ill-formed.
        TypeCheckError: The graph is not well typed.
    """
    bodies, made = _parts(source)
    known = Graphs()
    known.find(Tuple(bodies))

    def new(parts: list[Expr]) -> Any | None:
        whole = Tuple(parts)
        return made(parts) if known.find(whole) is whole else None

    return gather(walks(bodies, seed, rules, steps), count, new)


def _parts(source: Any) -> tuple[list[Expr], Callable[[Sequence[Expr]], Any]]:
    """Return the typed bodies of a graph that rules may change, and a function that replaces the bodies."""
    if isinstance(source, IRModule):
        module = infer_module(source)
        functions = {variable: function for variable, function in module.functions.items() if is_open(function)}

        def module_of(bodies: Sequence[Expr]) -> IRModule:
            made = module.copy()
            for (variable, function), body in zip(functions.items(), bodies, strict=True):
                made[variable] = function_of(function, body)
            return made

        return [function.body for function in functions.values()], module_of
    if not isinstance(source, Expr):
        raise ArgumentError(f"variants takes an expression or IRModule, not {source!r}{expression_hint(source)}")
    typed = infer_type(source)
    if not isinstance(typed, Function):
        return [typed], lambda bodies: bodies[0]
    return ([typed.body], lambda bodies: function_of(typed, bodies[0])) if is_open(typed) else ([], lambda _: typed)


def function_of(function: Function, body: Expr) -> Function:
    """Return a function with another body."""
    return Function(function.params, body, function.ret_type, function.type_params, function.attrs)


def gather(walked: Iterator[Walked], count: int, made: Callable[[list[Expr]], Graph | None]) -> list[Variant[Graph]]:
    """The first variants of walks.

    Args:
        walked: The walks.
        count: How many variants.
        made: Makes a graph of bodies, or None where that would be known already, or no graph of its kind.

    Raises:
        ArgumentError: ``count`` is below 1.
    """
    _check_positive("count", count)
    found: list[Variant[Graph]] = []
    in_vain = 0
    for bodies, rules in walked:
        graph = made(bodies)
        if graph is None:
            in_vain += 1
        else:
            in_vain = 0
            found.append(Variant(graph, rules))
        if len(found) == count or in_vain == REPEATED:
            break
    return found


def walks(
    bodies: Sequence[Expr],
    seed: int = 0,
    rules: Rules | None = None,
    steps: int = STEPS,
    accepts: Accepts = lambda expr: True,
) -> Iterator[Walked]:
    """Walk from a graph again and again, without end.

    Args:
        bodies: The typed bodies of its functions.
        seed, rules, steps: As for :func:`variants`.
        accepts: Whether what a rule made may be in a graph.

    Raises:
        ArgumentError: ``steps`` is below 1.
        RuleError: A rule is ill-formed.
    """
    _check_positive("steps", steps)
    directions = directions_of(rules)
    number = 0
    while True:
        random = Random(f"{seed} {number}")
        yield _walk(list(bodies), directions, random.randint(1, steps), accepts, random)
        number += 1


def _check_positive(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ArgumentError(f"{name}={number!r}: give a whole number of at least 1")


def _walk(bodies: list[Expr], directions: Sequence[Direction], steps: int, accepts: Accepts, random: Random) -> Walked:
    names: list[str] = []
    for _ in range(steps if bodies else 0):
        place = random.randrange(len(bodies))
        found = _step(bodies[place], directions, accepts, random)
        if found is not None:
            bodies[place], name = found
            names.append(name)
    return bodies, tuple(names)


def _step(body: Expr, directions: Sequence[Direction], accepts: Accepts, random: Random) -> tuple[Expr, str] | None:
    """Apply one rule at one place."""
    graph = DataflowGraph(body)
    order = post_order(body, children=region_children)
    has_let = any(isinstance(node, Let) for node in order)
    tensors: list[Expr] = []
    calls: dict[str, list[Expr]] = {}
    for node in order:
        if not is_typed(node._checked_type) or isinstance(node, (Constant, Let)) or (has_let and isinstance(node, Var)):
            continue
        if isinstance(node._checked_type, TensorType):
            tensors.append(node)
        if isinstance(node, Call) and isinstance(node.op, Op):
            calls.setdefault(node.op.name, []).append(node)
    special: list[Direction] = []
    general: list[Direction] = []
    for direction in random.sample(directions, len(directions)):
        (general if operators_of(direction.pattern) is None else special).append(direction)
    for direction in general + special if random.random() < ANYWHERE else special + general:
        heads = operators_of(direction.pattern)
        places = tensors if heads is None else [node for name in heads for node in calls.get(name, ())]
        for node in random.sample(places, min(PLACES, len(places))):
            made = direction.apply(node, graph, random)
            if made is not None and accepts(made):
                return _replaced(body, order, node, made, random), direction.name
    return None


def _replaced(body: Expr, order: Sequence[Expr], old: Expr, made: Expr, random: Random) -> Expr:
    """The graph with ``made`` in place of ``old``, everywhere or for one user."""
    if made.span is None and not isinstance(made, (Var, Constant)):
        made.span = old.span
    users = [node for node in order if old in region_children(node)]
    only = random.choice(users) if len(users) > 1 and random.random() < ONE_USE else None
    new: dict[Expr, Expr] = {} if only is not None else {old: made}
    for node in order:
        if node is only:
            new[node] = rebuild(node, {**new, old: made})
        elif node not in new:
            new[node] = rebuild(node, new)
    return new[body]


# ---- rules and their directions


def directions_of(rules: Rules | None) -> list[Direction]:
    """What can be done at one place by rules, from left to right and from right to left.

    Rules that join several places take no part, nor do those whose sides do not say enough.
    """
    if rules is None:
        from eqsat.rules import default as rules  # all the rules take a while to load
    found: list[Direction] = []
    for rule in flatten(rules.rules if isinstance(rules, Schedule) else rules):
        for single in _single(rule):
            found.append(Forwards(single))
            for fixed in _fixed(single):
                try:
                    found.append(Backwards(fixed))
                except RuleError:
                    continue
    return found


def _single(rule: Rule) -> list[Rewrite | PythonRule]:
    """The rule if it has one root; of several roots, those of its equations that hold without the others."""
    if isinstance(rule, PythonRule):
        return [rule]
    if not isinstance(rule, Rewrite) or asks_e_graph(rule):
        return []
    if len(rule.lhs) == 1:
        return [rule]
    if rule.when or len(rule.rhs) != len(rule.lhs):
        return []
    alone: list[Rewrite | PythonRule] = []
    for left, right in zip(rule.lhs, rule.rhs, strict=True):
        own = set(subpatterns(left))
        if left is not right and all(part in own for part in subpatterns(right) if not part.children()):
            alone.append(replace(rule, lhs=(left,), rhs=(right,), distinct=(), non_constant=(), bases=()))
    return alone


def _fixed(rule: Rewrite | PythonRule) -> list[Rewrite]:
    """Rules of fixed numbers of fields in the place of a rule."""
    if not isinstance(rule, Rewrite):
        return []
    if not is_variadic(rule.lhs[0]):
        return [rule]
    found = []
    for number in FIELDS:
        fields = [(whole, laid_out(whole, [number] * len(whole.repetitions))) for whole in outer_tuples(rule.lhs)]
        found.append(expanded(rule, lay_out(rule.lhs, dict(fields).get)))
    return found


@lru_cache(maxsize=1 << 12)
def operators_of(pattern: DFPattern) -> tuple[str, ...] | None:
    """The names of the operators of which a pattern can match calls, None for a pattern that matches other things."""
    while isinstance(pattern, (AttrPattern, TypedPattern)):
        pattern = pattern.pattern
    if isinstance(pattern, AltPattern):
        left, right = operators_of(pattern.left), operators_of(pattern.right)
        return None if left is None or right is None else tuple(dict.fromkeys(left + right))
    if not isinstance(pattern, CallPattern):
        return None
    heads, names = [pattern.op], []
    while heads:
        head = heads.pop()
        if isinstance(head, AltPattern):
            heads += (head.right, head.left)
        elif isinstance(head, ExprPattern) and isinstance(head.expr, Op):
            names.append(head.expr.name)
        else:
            return None
    return tuple(names)

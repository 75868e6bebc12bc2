"""Saturation of a graph or module: one e-graph for each function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from eqsat.collector import paused_gc
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import Lowered, is_opaque
from eqsat.egraph.report import Limits, Report
from eqsat.egraph.rule import Rule
from eqsat.egraph.runner import OnIteration, Runner
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.typecheck import check_types
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.errors import ArgumentError
from eqsat.pipeline.options import Options, Rules, SaturateKeywords, takes
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_module_types, infer_types, unknown_sizes
from eqsat.relay.module import IRModule
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

CLAIMS = ("Compiler", "Composite", "Primitive", "Extern", "SkipOptimization")
"""Attributes that mark functions which rules leave as they are."""


@dataclass(frozen=True)
class Body:
    """A function body (or bare expression) that is saturated by itself.

    Attributes:
        name: The function's name in its module; None for a bare expression, function or function literal.
        function: The function; None if a bare expression was given.
        nested: Whether it is a function literal inside the body that follows it (or one further on).
        expr: The expression.
        types: Type of each node of it.
    """

    name: str | None
    function: Function | None
    nested: bool
    expr: Expr
    types: dict[Expr, Type]


@dataclass
class Region:
    """One saturated function body (or bare expression).

    Attributes:
        name: The function's name in its module; None for a bare expression, function or function literal.
        function: The function; None if a bare expression was given.
        nested: Whether it is a function literal inside the region that follows it (or one further on).
        snapshot: The e-graph at the end of the run.
        lowered: Where the nodes of the given graph are in the e-graph.
        rules: The rules that acted.
        vocabulary: What the integers in the snapshot stand for, and what the rules asked of them.
        journal: What the rules equated; None unless the run is to be explained.
    """

    name: str | None
    function: Function | None
    nested: bool
    snapshot: Snapshot
    lowered: Lowered
    rules: tuple[Rule, ...]
    vocabulary: Vocabulary
    journal: Journal | None

    @property
    def root(self) -> int:
        """The e-class of the region's result."""
        return int(self.snapshot.handle_class[self.lowered.root])


@dataclass
class Saturation:
    """A graph and all that the rules found equal to its parts.

    Attributes:
        source: What was given: an expression, function or module.
        regions: One for each function that was saturated, function literals before what they are in.
        report: What happened.
    """

    source: Expr | IRModule
    regions: list[Region]
    report: Report

    @property
    def stop_reason(self) -> str:
        """``saturated``, ``iterations``, ``nodes``, ``seconds``, ``memory`` or ``interrupted``."""
        return self.report.stop_reason

    @property
    def node_count(self) -> int:
        """Number of e-nodes of all regions."""
        return sum(region.snapshot.node_count for region in self.regions)

    @property
    def class_count(self) -> int:
        """Number of e-classes of all regions."""
        return sum(region.snapshot.class_count for region in self.regions)


@takes(SaturateKeywords)
@paused_gc()
def saturate(
    source: Expr | IRModule,
    rules: Rules | None = None,
    limits: Limits | None = None,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[SaturateKeywords],
) -> Saturation:
    """Apply all rules, in no order, until nothing new follows or a limit is reached.

    Args:
        source: An expression, function or module. Functions with one of the attributes :data:`CLAIMS` are
            left as they are.
        rules: A rule set, any iterable of rules, rule sets and ``DFPatternCallback`` objects, or a
            :class:`Schedule` of them; by default ``eqsat.rules.default``.
        limits: When to stop. The time limit holds for the whole call, the others for each function.
        on_iteration: Called with the report after every iteration.
        keywords: ``on_error``, ``explain``, or all of it as ``options``: see :class:`Options`.

    Raises:
        TypeCheckError: The graph's types do not check.
        RuleError: A rule is ill-formed, fails, or would join classes of different types.
        LimitError: A limit is not positive.
        ArgumentError: An option has a wrong value.
    """
    options = Options.of(keywords, rules=rules, limits=limits)
    start = time.perf_counter()
    return saturate_bodies(source, bodies_of(source), options, on_iteration, start)


def saturate_bodies(
    source: Expr | IRModule,
    bodies: Iterable[Body],
    options: Options,
    on_iteration: OnIteration | None,
    start: float,
) -> Saturation:
    """Saturate the bodies of a graph, one after the other, within one time limit.

    Args:
        source: The graph.
        bodies: What :func:`bodies_of` found in it.
        options: How.
        on_iteration: Called with the report after every iteration.
        start: When the call began, by ``time.perf_counter()``.
    """
    report = Report()
    regions = []
    schedule = options.schedule
    for body in bodies:
        limits = options.after(time.perf_counter() - start).limits
        make = partial(Runner, body.expr, body.types, schedule, limits)
        runner = make(on_iteration, options.explain, options.on_error)
        snapshot = _run(runner, make)
        known = (runner.lowered, schedule.rules, runner.vocabulary, runner.journal)
        regions.append(Region(body.name, body.function, body.nested, snapshot, *known))
        report.merge(runner.report)
    return Saturation(source, regions, report)


def _run(runner: Runner, again: Callable[[], Runner]) -> Snapshot:
    """Run a runner to its end and read the e-graph back.

    Args:
        runner: The runner.
        again: Makes the same runner anew, to find the rule that joined classes of different types.
    """
    runner.run()
    start = time.perf_counter()
    snapshot = runner.snapshot()
    check_types(snapshot, again)
    runner.report.add_seconds("snapshot", time.perf_counter() - start)
    return snapshot


def bodies_of(source: Expr | IRModule) -> list[Body]:
    """All that rules may look into, typed: function literals before what they are in.

    Raises:
        TypeCheckError: The types do not check.
        ArgumentError: It is no graph.
    """
    bodies = []
    for name, function, root, types in _roots(source):
        bodies += [Body(None, nested, True, nested.body, types) for nested in _open_functions(root)]
        bodies.append(Body(name, function, False, root if function is None else function.body, types))
    return bodies


def _roots(source: Any) -> list[tuple[str | None, Function | None, Expr, dict[Expr, Type]]]:
    """The outermost functions of a graph: name, function, the root, and the types of its nodes."""
    if isinstance(source, IRModule):
        typed, types = infer_module_types(source)
        functions = [(variable.name_hint, function) for variable, function in typed.functions.items()]
        return [(name, function, function, types[name]) for name, function in functions if is_open(function)]
    if isinstance(source, Function) and not is_open(source):
        return []
    if isinstance(source, Expr):
        function = source if isinstance(source, Function) else None
        return [(None, function, source, infer_types(source, names=unknown_sizes()))]
    raise ArgumentError(f"saturate takes an expression, function or IRModule, not {source!r}")


def _open_functions(root: Expr) -> list[Function]:
    """The function literals inside ``root`` that rules may look into, inner ones first."""
    nodes = post_order(
        root, children=lambda node: () if node is not root and not _is_open_node(node) else node.children()
    )
    return [node for node in nodes if isinstance(node, Function) and node is not root and is_open(node)]


def _is_open_node(node: Expr) -> bool:
    return not is_opaque(node) or (isinstance(node, Function) and is_open(node))


def is_open(function: Function) -> bool:
    """Whether rules may look into a function, which has none of the attributes :data:`CLAIMS`."""
    return not any(function.attrs.get(key) for key in CLAIMS)

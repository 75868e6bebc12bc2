"""Saturation of a graph or module, with one e-graph for each function."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from typing import Any, Unpack

from eqsat.brief import one_line
from eqsat.collector import paused_gc
from eqsat.composites.rules import composites_among
from eqsat.cost import CostFunction
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import Lowered, is_opaque, region_children
from eqsat.egraph.report import Limits, Report
from eqsat.egraph.rule import Rule, picklable
from eqsat.egraph.runner import OnIteration, Runner
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.trace import Traced
from eqsat.egraph.typecheck import check_types
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.errors import ArgumentError
from eqsat.immutable import Immutable
from eqsat.markup import Markup
from eqsat.memory import giving_back
from eqsat.notebook import page, table
from eqsat.pipeline.options import Options, Rules, SaturateKeywords, takes
from eqsat.pipeline.outcome import WhyNot
from eqsat.relay.expr import Expr, Function, expression_hint
from eqsat.relay.infer import infer_module_types, infer_types, unknown_sizes
from eqsat.relay.module import IRModule
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order

_log = logging.getLogger(__name__)

CLAIMS = ("Compiler", "Composite", "Primitive", "Extern", "SkipOptimization")
"""Attributes of functions that a compiler or composite claims; rules leave such functions unchanged."""


@dataclass(frozen=True)
class Body:
    """A function body or a bare expression, which is saturated separately.

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

    def __repr__(self) -> str:
        return one_line(f"{type(self).__name__}({self.title})")

    @property
    def title(self) -> str:
        """The name of the function, or a description of the expression."""
        return f"@{self.name}" if self.name is not None else self.expr.brief(1)

    @cached_property
    def children(self) -> dict[Expr, tuple[Expr, ...]]:
        """Node -> its operands in this body, inputs first; nodes in other bodies are left out."""
        return {node: region_children(node) for node in post_order(self.expr, children=region_children)}


@dataclass(frozen=True)
class Region(Body, Immutable):
    """A saturated body.

    Attributes:
        snapshot: The e-graph at the end of the run.
        lowered: Where the nodes of the given graph are in the e-graph.
        rules: The rules that acted.
        vocabulary: The meanings of the integers in the snapshot, and the answers that rules got about them.
        journal: The equations that rules found; None unless the run is to be explained.
        traced: The matches of the rules and their results; None unless they were recorded.
    """

    snapshot: Snapshot
    lowered: Lowered
    rules: tuple[Rule, ...]
    vocabulary: Vocabulary
    journal: Journal | None
    traced: Traced | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state, without the trace and rules that cannot be pickled; extraction needs neither."""
        composites = composites_among(self.rules)
        others = [rule for rule in self.rules if rule not in composites]
        return {**vars(self), "rules": (*picklable(others), *composites), "traced": None}

    def __repr__(self) -> str:
        return one_line(f"Region({self.title}: {self.snapshot!r})")

    @property
    def root(self) -> int:
        """The e-class of the region's result."""
        return int(self.snapshot.handle_class[self.lowered.root])


@dataclass
class Saturation:
    """A graph, and e-graphs of everything that the rules proved equal to its parts.

    Attributes:
        source: The given expression, function or module.
        regions: One region for each saturated function; function literals come before the region that contains them.
        report: What happened during the saturation.
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

    def why_not(self, rule: str | Rule, node: Expr | None = None, cost_model: CostFunction | None = None) -> WhyNot:
        """Return the outcome of a rule: see :func:`eqsat.pipeline.why_not.why_not`."""
        found: WhyNot = import_module("eqsat.pipeline.why_not").why_not(self, rule, node, cost_model)
        return found  # it saturates and extracts itself, so that its module is above this one

    def __repr__(self) -> str:
        sizes = f"{self.node_count} e-nodes in {self.class_count} e-classes"
        return f"Saturation({sizes}, stopped: {self.stop_reason} after {len(self.report.iterations)} iterations)"

    def _repr_html_(self) -> str:
        rows = [(each.title, each.snapshot.node_count, each.snapshot.class_count) for each in self.regions]
        regions = table(("graph", "e-nodes", "e-classes"), rows)
        return page(self, repr(self), regions, Markup(self.report._repr_html_()))


@takes(SaturateKeywords)
@paused_gc()
def saturate(
    source: Expr | IRModule,
    rules: Rules | None = None,
    limits: Limits | None = None,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[SaturateKeywords],
) -> Saturation:
    """Apply all rules, in no particular order, until they add nothing or a limit is reached.

    Args:
        source: An expression, function or module. Functions with one of the attributes :data:`CLAIMS` stay unchanged.
        rules: A rule set, an iterable of rules, rule sets and ``DFPatternCallback`` objects, or a :class:`Schedule` of
            them; by default ``eqsat.rules.default``.
        limits: When to stop. The time limit applies to the whole call, the other limits to each function.
        on_iteration: A function that is called with the report after every iteration.
        keywords: ``on_error``, ``explain``, or all options as ``options``: see :class:`Options`.

    Raises:
        TypeCheckError: The graph is not well typed.
        RuleError: A rule is ill-formed, fails, or would make e-classes of different types equal.
        LimitError: A limit is not positive.
        ArgumentError: An option has a wrong value.
    """
    options = Options.of(keywords, rules=rules, limits=limits)
    start = time.perf_counter()
    return saturate_bodies(source, bodies_of(source), options, on_iteration, start)


@giving_back()
def saturate_bodies(
    source: Expr | IRModule,
    bodies: Iterable[Body],
    options: Options,
    on_iteration: OnIteration | None,
    start: float,
    has_inputs: bool = True,
    goal: tuple[Expr, Expr] | None = None,
    traces: bool = False,
) -> Saturation:
    """Do what :func:`saturate` does, with the bodies that :func:`bodies_of` found.

    Args:
        start: When the time of the call started, by ``time.perf_counter()``.
        has_inputs: Whether the variables of ``source`` are inputs of a program, and not values that another graph
            computes.
        goal: Two nodes; the saturation ends when they are known to be equal.
        traces: Whether to record by which matches of rules e-nodes were created.
    """
    report = Report()
    regions = []
    schedule = options.schedule
    for body in bodies:
        limits = options.after(time.perf_counter() - start).limits
        again = partial(Runner, root=body.expr, types=body.types, schedule=schedule, limits=limits)
        is_program = has_inputs and not body.nested and body.name in (None, "main")
        with closing(EGraph()) as egraph:
            runner = again(
                egraph,
                on_iteration=on_iteration,
                explain=options.explain,
                on_error=options.on_error,
                has_inputs=is_program,
                goal=goal,
                traces=traces,
            )
            runner.run()
            ended = time.perf_counter()
            snapshot, traced = runner.traced()
        check_types(snapshot, again)
        runner.report.add_seconds("snapshot", time.perf_counter() - ended)
        known = (snapshot, runner.lowered, schedule.rules, runner.egraph.vocabulary, runner.journal, traced)
        regions.append(Region(body.name, body.function, body.nested, body.expr, body.types, *known))
        report.merge(runner.report)
        _log.info(
            "saturated %s: %d e-nodes in %d e-classes after %d iterations and %.2f s, stopped: %s",
            body.title,
            snapshot.node_count,
            snapshot.class_count,
            len(runner.report.iterations),
            sum(runner.report.phases.values()),
            runner.report.stop_reason,
        )
    return Saturation(source, regions, report)


def bodies_of(source: Expr | IRModule) -> list[Body]:
    """Return all bodies that rules may change, with types; function literals come before the body that contains them.

    Raises:
        TypeCheckError: The types do not check.
        ArgumentError: It is not a graph.
    """
    roots: list[tuple[str | None, Expr, dict[Expr, Type]]] = []
    if isinstance(source, IRModule):
        typed, types = infer_module_types(source)
        functions = [(variable.name_hint, function) for variable, function in typed.functions.items()]
        roots = [(name, function, types[name]) for name, function in functions if is_open(function)]
    elif not isinstance(source, Expr):
        given = f"{source!r}{expression_hint(source)}"
        raise ArgumentError(f"saturate takes an expression, function or IRModule, not {given}")
    elif not isinstance(source, Function) or is_open(source):
        roots = [(None, source, infer_types(source, names=unknown_sizes()))]
    bodies = []
    for name, root, known in roots:
        bodies += [Body(None, nested, True, nested.body, known) for nested in _open_functions(root)]
        function = root if isinstance(root, Function) else None
        bodies.append(Body(name, function, False, root if function is None else function.body, known))
    return bodies


def _open_functions(root: Expr) -> list[Function]:
    """Return the function literals inside ``root`` that rules may change, inner ones first."""

    def inside(node: Expr) -> Sequence[Expr]:
        closed = is_opaque(node) and not (isinstance(node, Function) and is_open(node))
        return () if closed and node is not root else node.children()

    nodes = post_order(root, children=inside)
    return [node for node in nodes if isinstance(node, Function) and node is not root and is_open(node)]


def is_open(function: Function) -> bool:
    """Return whether rules may change a function, which is so unless it has one of the attributes :data:`CLAIMS`."""
    return not any(function.attrs.get(key) for key in CLAIMS)

"""Saturation of a graph or module: one e-graph for each function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from eqsat.egraph.report import Limits, Report
from eqsat.egraph.rule import Rule, flatten
from eqsat.egraph.runner import Runner
from eqsat.egraph.snapshot import Snapshot, take_snapshot
from eqsat.egraph.typecheck import check_types
from eqsat.errors import ArgumentError
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_module, infer_types
from eqsat.relay.module import IRModule


@dataclass
class Region:
    """One saturated function body (or bare expression).

    Args:
        name: the function's name in its module, None for a bare expression or function.
        function: the function, None when a bare expression was given.
        runner: the engine and what was lowered into it.
        snapshot: the e-graph at the end.
    """

    name: str | None
    function: Function | None
    runner: Runner
    snapshot: Snapshot

    @property
    def root(self) -> int:
        """Class of the region's result."""
        return int(self.snapshot.handle_class[self.runner.lowered.root])


@dataclass
class Saturation:
    """A graph and all that the rules found equal to its parts.

    Args:
        source: what was given: an expression, function or module.
        regions: one for each function that was saturated.
        report: what happened.
    """

    source: Expr | IRModule
    regions: list[Region]
    report: Report

    @property
    def stop_reason(self) -> str:
        """``saturated``, ``iterations``, ``nodes``, ``seconds`` or ``interrupted``."""
        return self.report.stop_reason

    @property
    def node_count(self) -> int:
        """E-nodes in all."""
        return sum(region.snapshot.node_count for region in self.regions)

    @property
    def class_count(self) -> int:
        """E-classes in all."""
        return sum(region.snapshot.class_count for region in self.regions)


def saturate(
    source: Expr | IRModule,
    rules: Iterable[Any] | None = None,
    limits: Limits | None = None,
    on_iteration: Callable[[Report], None] | None = None,
) -> Saturation:
    """Apply all rules, in no order, until nothing new follows or a limit is reached.

    Args:
        source: an expression, function or module. Functions with an attribute ``Compiler``, ``Composite``
            or ``Primitive`` are left as they are.
        rules: a rule set, or any iterable of rules, rule sets and ``DFPatternCallback`` objects; by
            default ``eqsat.rules.default``.
        limits: when to stop; the time and node limits hold for each function.
        on_iteration: called with the report after every iteration.

    Raises:
        TypeCheckError: the graph's types do not check.
        RuleError: a rule is ill-formed, fails, or would join classes of different types.
        LimitError: a limit that is not positive.
    """
    chosen = _rules(rules)
    limits = limits or Limits()
    report = Report()
    regions = []
    for name, function, body, module in _bodies(source):
        region, done = _saturate_region(name, function, body, module, chosen, limits, on_iteration)
        regions.append(region)
        report.merge(done)
        if report.stop_reason == "interrupted":
            break
    return Saturation(source, regions, report)


def _saturate_region(
    name: str | None,
    function: Function | None,
    body: Expr,
    module: IRModule | None,
    rules: list[Rule],
    limits: Limits,
    on_iteration: Callable[[Report], None] | None,
) -> tuple[Region, Report]:
    types = infer_types(body, module)
    runner = Runner(body, types, rules, limits, on_iteration)
    runner.run()
    start = time.perf_counter()
    snapshot = take_snapshot(runner.egraph)
    check_types(snapshot, lambda: Runner(body, infer_types(body, module), rules, limits))
    runner.report.add_seconds("snapshot", time.perf_counter() - start)
    return Region(name, function, runner, snapshot), runner.report


def _rules(rules: Iterable[Any] | None) -> list[Rule]:
    if rules is None:
        from eqsat.rules import default

        rules = default
    return flatten(rules)


def _bodies(source: Any) -> list[tuple[str | None, Function | None, Expr, IRModule | None]]:
    if isinstance(source, IRModule):
        typed = infer_module(source)
        return [
            (variable.name_hint, function, function.body, typed)
            for variable, function in typed.functions.items()
            if is_open(function)
        ]
    if isinstance(source, Function):
        if not is_open(source):
            return []
        return [(None, source, source.body, None)]
    if isinstance(source, Expr):
        return [(None, None, source, None)]
    raise ArgumentError(f"saturate takes an expression, function or IRModule, not {source!r}")


def is_open(function: Function) -> bool:
    """Whether rules may look into a function: nobody has claimed its body as one unit."""
    return not any(key in function.attrs for key in ("Compiler", "Composite", "Primitive"))

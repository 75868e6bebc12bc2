"""Saturation and extraction in one call. Repeated layers are left out of the saturation if that suffices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from eqsat.collector import paused_gc
from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.report import Report
from eqsat.egraph.rule import ComposeChains, FoldConstants, Injectivity, Rewrite, Rule, refs_of
from eqsat.egraph.runner import OnIteration
from eqsat.extraction.costs import as_tuple
from eqsat.layers.expand import expand
from eqsat.layers.find import LayeredGraph
from eqsat.layers.proof import have_few_tops
from eqsat.layers.truncate import Truncated, Unit, find_units
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules, takes
from eqsat.pipeline.saturate import Body, Saturation, bodies_of, saturate_bodies
from eqsat.registry import register_func
from eqsat.relay.dataflow_pattern import DominatorPattern
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Expr
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import Pass, PassInfo

Source = TypeVar("Source", Expr, IRModule)

_WORTH = 2 / 3
"""Largest fraction of the nodes that a shortened function may keep; with more, the attempt does not pay off."""


@takes(OptimizeKeywords)
def optimize(
    source: Source,
    rules: Rules | None = None,
    **keywords: Unpack[OptimizeKeywords],
) -> Source:
    """Return the cheapest graph that the rules lead to: :func:`eqsat.saturate` and :func:`eqsat.extract` in one call.

    Args:
        source: An expression, function or module. The result is of the same kind.
        rules: The rules to apply, as for :func:`eqsat.saturate`; by default ``eqsat.rules.default``.
        keywords: Further options, or all of them as ``options``: see :class:`Options`.

    Raises:
        EqsatError: As for :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    options = Options.of(keywords, rules=rules)
    extraction = optimize_with_report(source, options=options)
    result: Any = extraction.module if isinstance(source, IRModule) else extraction.expr
    return result  # type: ignore[no-any-return]


@takes(OptimizeKeywords)
def EqualitySaturation(
    rules: Rules | None = None,
    **keywords: Unpack[OptimizeKeywords],
) -> Pass:
    """Return a pass that replaces every function of a module by the cheapest equal one; it also infers types.

    Functions that a compiler or a composite claims stay unchanged. Arguments and errors are those of :func:`optimize`.
    """
    options = Options.of(keywords, rules=rules)
    info = PassInfo(0, "EqualitySaturation")
    return Pass(lambda mod, context: infer_module(optimize(mod, options=options)), info)


register_func("relay.transform.EqualitySaturation", EqualitySaturation)


@takes(OptimizeKeywords)
@paused_gc()
def optimize_with_report(
    source: Expr | IRModule,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    has_inputs: bool = True,
    **keywords: Unpack[OptimizeKeywords],
) -> Extraction:
    """Return ``extract(saturate(source, ...), ...)``; repeated layers are left out of the saturation if that suffices.

    If the result is to be explained, the whole graph is saturated.

    Args:
        source: An expression, function or module.
        rules, keywords: As for :func:`optimize`.
        on_iteration: A function that is called with the report after every iteration of a saturation.
        has_inputs: Whether the variables of ``source`` are inputs of a program, and not values that another graph
            computes.

    Raises:
        EqsatError: As for :func:`optimize`.
    """
    options = Options.of(keywords, rules=rules)
    return Saturated(source, options, on_iteration, has_inputs).extract(options)


class Saturated:
    """A graph with everything that the rules proved equal to its parts; several graphs can be chosen from it.

    Args:
        source, on_iteration, has_inputs: As for :func:`optimize_with_report`.
        options: The options of the saturation.
        traces: Whether the spans of the chosen nodes say how they came about:
            :class:`eqsat.pipeline.provenance.Derived`.
    """

    def __init__(
        self,
        source: Expr | IRModule,
        options: Options,
        on_iteration: OnIteration | None = None,
        has_inputs: bool = True,
        traces: bool = False,
    ):
        start = time.perf_counter()
        self.source, self.options = source, options
        self._on_iteration, self._has_inputs, self._traces = on_iteration, has_inputs, traces
        self._bodies = bodies_of(source)
        short = _truncated(self._bodies, options)
        self._few = None if short is None else _saturated(short, options, on_iteration, start, has_inputs, traces)
        self._whole: Saturation | None = None
        self._seconds = time.perf_counter() - start

    def extract(self, options: Options) -> Extraction:
        """Choose a graph.

        Args:
            options: The options of the extraction; options of saturation in them have no effect.
        """
        start = time.perf_counter() - self._seconds
        copied, choosing = None, 0.0
        if self._few is not None:
            short, saturation, units = self._few
            # the proof for layers with several tops finds the cheapest graph itself
            is_found = options.method == "auto" and any(len(unit.tops) > 1 for unit in units)
            chosen = extract(saturation, options=replace(options, method="dag") if is_found else options)
            left = options.after(time.perf_counter() - start)
            copied = expand(short, saturation.regions[0], units, chosen, left)
            choosing = chosen.report.phases["extract"]
        seconds = time.perf_counter() - start
        if copied is not None and copied.optimal:
            copied.report.add_seconds("layers", seconds - sum(copied.report.phases.values()))
            return copied
        if self._whole is None:
            self._whole = saturate_bodies(
                self.source,
                self._bodies,
                self.options,
                self._on_iteration,
                start,
                self._has_inputs,
                traces=self._traces,
            )
        whole = extract(self._whole, options=options.after(0.0, choosing))
        best = whole if copied is None or not _is_cheaper(copied, whole) else copied
        best.report.add_seconds("layers", seconds)
        return best


def _is_cheaper(copied: Extraction, whole: Extraction) -> bool:
    """Whether copies of a layer cost less than what was found in the time that the whole graph had."""
    return whole.problems[-1].problem.is_less(as_tuple(copied.cost), as_tuple(whole.cost))


def _truncated(bodies: Sequence[Body], options: Options) -> Truncated | None:
    """Return a function without most of its layers; None if it would not represent the whole, or saves little."""
    if len(bodies) != 1 or bodies[0].function is None or bodies[0].name is not None or options.explain:
        return None
    schedule = options.schedule
    if any(phase.iterations is not None for phase in schedule.phases):
        return None
    graph = LayeredGraph(bodies[0])
    chains = graph.chains()
    if not chains or not all(map(_sees_near, schedule.rules)):
        return None
    short = Truncated(bodies[0], chains, graph.result_tuples)
    return short if short.share < _WORTH else None


def _sees_near(rule: Rule) -> bool:
    """Return whether a rule depends only on the e-graph, near the nodes that it matches, or near an operand of all."""
    if isinstance(rule, (ComposeChains, FoldConstants, Injectivity)):
        return True
    if isinstance(rule, GroupRule):
        return bool(rule.shared)
    return (
        isinstance(rule, Rewrite)
        and all(ref.kind != "uses" for ref in refs_of(rule))
        and not any(isinstance(part, DominatorPattern) for root in rule.lhs for part in subpatterns(root))
    )


def _composed(report: Report, options: Options) -> bool:
    """Return whether chains were composed: one may lead through several layers, and go by the values between them."""
    composing = [rule.name for rule in options.schedule.rules if isinstance(rule, ComposeChains)]
    return any(report.rule(name).matches for name in composing)


def _saturated(
    short: Truncated,
    options: Options,
    on_iteration: OnIteration | None,
    start: float,
    has_inputs: bool,
    traces: bool,
) -> tuple[Truncated, Saturation, Sequence[Unit]] | None:
    """Saturate a shortened function, and find the missing layers; None if they may not be copies, or are not proved.

    The call began at ``start``, by ``time.perf_counter()``.
    """
    now = time.perf_counter()
    few = replace(options, limits=short.limits(options.after(now - start).limits))
    saturation = saturate_bodies(short.body.expr, [short.body], few, on_iteration, now, has_inputs, traces=traces)
    (region,) = saturation.regions
    is_local = saturation.stop_reason == "saturated" and not _composed(saturation.report, options)
    units = find_units(short, region) if is_local else None
    return None if units is None or not have_few_tops(units) else (short, saturation, units)

"""Saturate and extract in one call; of repeated layers only a few are saturated where that suffices."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from eqsat.collector import paused_gc
from eqsat.egraph.rule import FoldConstants, Rewrite, Rule, refs_of
from eqsat.egraph.runner import OnIteration
from eqsat.layers.expand import expand
from eqsat.layers.find import LayeredGraph
from eqsat.layers.truncate import Truncated, Unit, find_units
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules, takes
from eqsat.pipeline.saturate import Body, Region, bodies_of, saturate_bodies
from eqsat.relay.dataflow_pattern import DominatorPattern
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Expr, Function
from eqsat.relay.module import IRModule

Source = TypeVar("Source", Expr, IRModule)

_WORTH = 2 / 3
"""Fraction of the nodes that a shortened function may keep: with more the attempt does not pay."""


@takes(OptimizeKeywords)
def optimize(
    source: Source,
    rules: Rules | None = None,
    **keywords: Unpack[OptimizeKeywords],
) -> Source:
    """Saturate and extract in one call; the same kind of thing comes back as was given.

    Args:
        source: An expression, function or module.
        rules: What acts, as for :func:`eqsat.saturate`; by default ``eqsat.rules.default``.
        keywords: Further options, or all of them as ``options``: see :class:`Options`.

    Raises:
        EqsatError: As for these two.
    """
    options = Options.of(keywords, rules=rules)
    extraction = optimize_with_report(source, options=options)
    result: Any = extraction.module if isinstance(source, IRModule) else extraction.expr
    return result  # type: ignore[no-any-return]


@takes(OptimizeKeywords)
@paused_gc()
def optimize_with_report(
    source: Expr | IRModule,
    rules: Rules | None = None,
    *,
    on_iteration: OnIteration | None = None,
    **keywords: Unpack[OptimizeKeywords],
) -> Extraction:
    """What ``extract(saturate(source, ...), ...)`` gives; of repeated layers only a few are saturated if that suffices.

    To be explained, a graph is saturated whole.

    Args:
        source: An expression, function or module.
        rules, keywords: As for :func:`optimize`.
        on_iteration: Called with the report after every iteration of a saturation.

    Raises:
        EqsatError: As for :func:`optimize`.
    """
    options = Options.of(keywords, rules=rules)
    start = time.perf_counter()
    bodies = bodies_of(source)
    short = _truncated(source, bodies, options)
    few = None if short is None else _of_few(short, options, on_iteration, start)
    whole = None if short is None or few is None else expand(short, *few, options.after(time.perf_counter() - start))
    seconds = time.perf_counter() - start
    if whole is None:
        choosing = 0.0 if few is None else few[-1].report.phases["extract"]
        saturation = saturate_bodies(source, bodies, options, on_iteration, start)
        whole = extract(saturation, options=options.after(0.0, choosing))
    else:
        seconds -= sum(whole.report.phases.values())
    whole.report.add_seconds("layers", seconds)
    return whole


def _truncated(source: Expr | IRModule, bodies: list[Body], options: Options) -> Truncated | None:
    """A function without most of its layers, None if that tells nothing of the whole or saves little."""
    if not isinstance(source, Function) or options.explain or len(bodies) != 1:
        return None
    schedule = options.schedule
    if any(phase.iterations is not None for phase in schedule.phases):
        return None
    graph = LayeredGraph(source.body, bodies[0].types)
    chains = graph.chains()
    if not chains or not all(map(_sees_near, schedule.rules)):
        return None
    short = Truncated(source, chains, graph.result_tuples())
    return short if short.share < _WORTH else None


def _sees_near(rule: Rule) -> bool:
    """Whether a rule looks at nothing outside the e-graph or far from what it matches."""
    if isinstance(rule, FoldConstants):
        return True
    return (
        isinstance(rule, Rewrite)
        and all(ref.kind != "uses" for ref in refs_of(rule))
        and not any(isinstance(part, DominatorPattern) for root in rule.lhs for part in subpatterns(root))
    )


def _of_few(
    short: Truncated, options: Options, on_iteration: OnIteration | None, start: float
) -> tuple[Region, list[Unit], Extraction] | None:
    """The shortened function saturated, its layers and what was chosen of it; None where that tells nothing.

    Args:
        short: The shortened function.
        options: How to optimize the whole.
        on_iteration: Called with the report after every iteration.
        start: When the call began, by ``time.perf_counter()``.
    """
    bodies, now = bodies_of(short.function), time.perf_counter()
    few = replace(options, limits=short.limits(options.after(now - start).limits))
    saturation = saturate_bodies(short.function, bodies, few, on_iteration, now)
    if saturation.stop_reason != "saturated":
        return None
    (region,) = saturation.regions
    units = find_units(short, region)
    return None if units is None else (region, units, extract(saturation, options=options))

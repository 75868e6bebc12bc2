"""Saturate and extract in one call; of repeated layers only a few are saturated where that suffices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, TypeVar

from eqsat.collector import paused_gc
from eqsat.cost import CostFunction, OpCount
from eqsat.egraph.check import subpatterns
from eqsat.egraph.report import Limits, Report
from eqsat.egraph.rule import FoldConstants, Rewrite, Rule, refs_of
from eqsat.egraph.schedule import Schedule
from eqsat.layers.expand import expand
from eqsat.layers.find import find_layers
from eqsat.layers.truncate import Truncated, find_units
from eqsat.pipeline.extract import Extraction, extract
from eqsat.pipeline.saturate import is_open, saturate, schedule_of
from eqsat.relay.dataflow_pattern import DominatorPattern
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_types
from eqsat.relay.module import IRModule

Source = TypeVar("Source", Expr, IRModule)

_WORTH = 2 / 3
"""Share of the graph that is saturated, below which it pays."""


def optimize(
    source: Source,
    rules: Iterable[Any] | Schedule | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
) -> Source:
    """Saturate and extract in one call; the same kind of thing comes back as was given.

    Args and errors: as :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    extraction = optimize_with_report(source, rules, limits, cost_model, method)
    result: Any = extraction.module if isinstance(source, IRModule) else extraction.expr
    return result  # type: ignore[no-any-return]


@paused_gc()
def optimize_with_report(
    source: Expr | IRModule,
    rules: Iterable[Any] | Schedule | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
    on_iteration: Callable[[Report], None] | None = None,
    explain: bool = False,
) -> Extraction:
    """What ``extract(saturate(source, ...), ...)`` gives; of repeated layers only a few are saturated if that suffices.

    Args and errors: as :func:`eqsat.saturate` and :func:`eqsat.extract`. To be explained, a graph is saturated whole.
    """
    schedule = schedule_of(rules)
    model = cost_model if cost_model is not None else OpCount()
    start = time.perf_counter()
    short = _truncated(source, schedule) if isinstance(source, Function) and not explain else None
    if short is not None:
        whole = _from_few(short, schedule, short.limits(limits or Limits()), model, method, on_iteration)
        if whole is not None:
            seconds = time.perf_counter() - start - sum(whole.report.phases.values())
            whole.report.add_seconds("layers", seconds)
            return whole
    seconds = time.perf_counter() - start
    found = extract(saturate(source, schedule, limits, on_iteration, explain), model, method)
    found.report.add_seconds("layers", seconds)
    return found


def _truncated(source: Function, schedule: Schedule) -> Truncated | None:
    """The function without most of its layers, None if that tells nothing of the whole or saves little."""
    if not is_open(source) or any(phase.iterations is not None for phase in schedule.phases):
        return None
    chains = find_layers(source.body, infer_types(source, names=(f"#{index}" for index in count())))
    if not chains or not all(map(_sees_near, schedule.rules)):
        return None
    short = Truncated(source, chains)
    return short if short.share < _WORTH else None


def _sees_near(rule: Rule) -> bool:
    """Whether all that a rule sees is in the e-graph and near what it matches."""
    if isinstance(rule, FoldConstants):
        return True
    return (
        isinstance(rule, Rewrite)
        and all(ref.kind != "uses" for ref in refs_of(rule))
        and not any(isinstance(part, DominatorPattern) for root in rule.lhs for part in subpatterns(root))
    )


def _from_few(
    short: Truncated,
    schedule: Schedule,
    limits: Limits,
    model: CostFunction,
    method: str,
    on_iteration: Callable[[Report], None] | None,
) -> Extraction | None:
    """The extraction of the whole function from a saturation of the shortened one, None where it does not tell it."""
    saturation = saturate(short.function, schedule, limits, on_iteration)
    if saturation.stop_reason != "saturated":
        return None
    (region,) = saturation.regions
    units = find_units(short, region)
    if units is None:
        return None
    chosen = extract(saturation, model, method)
    return expand(short, region, units, chosen, model)

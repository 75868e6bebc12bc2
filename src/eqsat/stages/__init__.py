"""Stages: saturation and extraction joined into one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from eqsat.egraph.report import Limits
from eqsat.egraph.schedule import Backoff, Phase, Schedule
from eqsat.extraction import CostFunction
from eqsat.relay import transform
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule
from eqsat.stages.composites import composite_rules
from eqsat.stages.equality_saturation import EqualitySaturation
from eqsat.stages.extraction import Extraction, extract
from eqsat.stages.orders import OrderComparison, compare_orders
from eqsat.stages.saturation import Saturation, saturate
from eqsat.stages.stretched import optimized

Source = TypeVar("Source", Expr, IRModule)


def optimize(
    source: Source,
    rules: Iterable[Any] | Schedule | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
) -> Source:
    """Saturate and extract in one call, see :func:`optimized`: the same kind of thing comes back as was given.

    Args and errors: as :func:`saturate` and :func:`extract`.
    """
    extraction = optimized(source, rules, limits, cost_model, method)
    result: Any = extraction.module if isinstance(source, IRModule) else extraction.expr
    return result  # type: ignore[no-any-return]


# The pass stands among Relay's, though it is made of layers above them.
vars(transform)["EqualitySaturation"] = EqualitySaturation

__all__ = [
    "Backoff",
    "EqualitySaturation",
    "Extraction",
    "Limits",
    "OrderComparison",
    "Phase",
    "Saturation",
    "Schedule",
    "compare_orders",
    "composite_rules",
    "extract",
    "optimize",
    "optimized",
    "saturate",
]

"""EqualitySaturation: saturation and extraction as a pass over modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.egraph.report import Limits
from eqsat.egraph.schedule import Schedule
from eqsat.extraction import CostFunction
from eqsat.relay.infer import infer_module
from eqsat.relay.transform.base import Pass, PassInfo
from eqsat.stages.extraction import extract
from eqsat.stages.saturation import saturate


def EqualitySaturation(
    rules: Iterable[Any] | Schedule | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
) -> Pass:
    """Replace every function of a module by the cheapest equal one that the rules lead to; types are inferred.

    Functions that a compiler or composite has claimed stay as they are. Arguments and errors: as
    :func:`eqsat.saturate` and :func:`eqsat.extract`.
    """
    return Pass(
        lambda mod, context: infer_module(extract(saturate(mod, rules, limits), cost_model, method).module),
        PassInfo(0, "EqualitySaturation"),
    )

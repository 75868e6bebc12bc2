"""EqualitySaturation: saturation and extraction as a pass over modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.cost import CostFunction
from eqsat.egraph.report import Limits
from eqsat.egraph.schedule import Schedule
from eqsat.pipeline.extract import extract
from eqsat.pipeline.saturate import saturate
from eqsat.relay.infer import infer_module
from eqsat.relay.transform.base import Pass, PassInfo, register_pass


@register_pass
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

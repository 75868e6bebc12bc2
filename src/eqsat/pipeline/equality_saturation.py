"""EqualitySaturation: saturation and extraction as a pass over modules."""

from __future__ import annotations

from typing import Unpack

from eqsat.pipeline.extract import extract
from eqsat.pipeline.options import OptimizeKeywords, Options, Rules, takes
from eqsat.pipeline.saturate import saturate
from eqsat.relay.infer import infer_module
from eqsat.relay.transform.base import Pass, PassInfo, register_pass


@register_pass
@takes(OptimizeKeywords)
def EqualitySaturation(
    rules: Rules | None = None,
    **keywords: Unpack[OptimizeKeywords],
) -> Pass:
    """Replace every function of a module by the cheapest equal one that the rules lead to; types are inferred.

    Functions that a compiler or composite has claimed stay as they are. Arguments and errors: as
    :func:`eqsat.optimize`.
    """
    options = Options.of(keywords, rules=rules)
    return Pass(
        lambda mod, context: infer_module(extract(saturate(mod, options=options), options=options).module),
        PassInfo(0, "EqualitySaturation"),
    )

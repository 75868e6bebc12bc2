"""Which rule is to blame when an optimized or partitioned model differs: do it again with ever fewer rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar, Unpack

import onnx_ir as ir

from eqsat.egraph.schedule import Schedule
from eqsat.errors import EqsatError
from eqsat.onnx.files import Given
from eqsat.onnx.optimize import acting_rules, run
from eqsat.onnx.partition import partition
from eqsat.onnx.upgrade import at_opset
from eqsat.onnx.verify import differing, verify
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.options import ModelKeywords, Options, Rules, takes
from eqsat.rules import default

Suspect = TypeVar("Suspect")


@takes(ModelKeywords)
def blame(
    model: Given,
    rules: Rules | None = None,
    *,
    runs: int = 3,
    tolerance: float | None = None,
    target: str | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Sequence[Mapping[str, Any]] = (),
    **keywords: Unpack[ModelKeywords],
) -> list[str] | None:
    """Names of the rules without any one of which the optimized, or partitioned, model would not differ.

    Args:
        model: The model as it was, in any form that :func:`eqsat.onnx.load` takes.
        rules: What acted, as for :func:`eqsat.onnx.run`.
        runs, dims, inputs: On what models are compared, as for :func:`eqsat.onnx.verify`.
        tolerance: The relative difference beyond which they differ, by default what rounding explains.
        target: What it was partitioned for, None if it was optimized.
        keywords: How it was optimized, as for :func:`eqsat.onnx.run`.

    Returns:
        One name, or the smallest set found of rules that only together do it; empty when the model differs with
        no rule at all; None when it does not differ with those rules alone that changed something.
    """
    options = Options.of(keywords, rules=rules)
    given = at_opset(model, options.opset)
    acting = acting_rules(given, options) if target is None or options.rules is not None else default
    every, options = Schedule.of(acting).rules, replace(options, contrib=False)

    def made(names: Sequence[str]) -> tuple[ir.Model, Extraction | None]:
        chosen = replace(options, rules=[rule for rule in every if rule.name in names])
        if target is not None:
            parts = partition(given, target, options=chosen)
            return parts.after, parts.extraction
        done = run(given, options=chosen)
        return done.after, done.extraction

    def differs(names: Sequence[str]) -> bool:
        try:
            return bool(differing(verify(given, made(names)[0], runs, dims=dims, inputs=inputs, mistakes=0), tolerance))
        except EqsatError:  # another way to go wrong than the one looked for
            return False

    known = [rule.name for rule in every]
    _, extraction = made(known)
    acted = [] if extraction is None else extraction.report.rules.values()
    suspects = [rule.name for rule in acted if rule.updates and rule.name in known]
    if differs([]):
        return []
    return smallest(suspects, differs) if differs(suspects) else None


def smallest(suspects: Sequence[Suspect], guilty: Callable[[Sequence[Suspect]], bool]) -> list[Suspect]:
    """Guilty suspects of which none can be left out: one if there is one.

    Zeller and Hildebrandt's delta debugging: parts are tried by themselves and left out, halves first.

    Args:
        suspects: all of them together are guilty.
        guilty: whether some are, in the order of ``suspects``.
    """
    left, parts = list(suspects), 2
    while len(left) > 1:
        cuts = [len(left) * part // parts for part in range(parts + 1)]
        pieces = [left[start:end] for start, end in pairwise(cuts)]
        rests = [left[:start] + left[end:] for start, end in pairwise(cuts)] if parts > 2 else []
        fewer = next(filter(guilty, [*pieces, *rests]), None)
        if fewer is not None:
            parts = 2 if fewer in pieces else max(parts - 1, 2)
            left = fewer
        elif parts == len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return left

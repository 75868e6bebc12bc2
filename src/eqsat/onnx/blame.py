"""Which rule is to blame when an optimized or partitioned model differs: do it again with ever fewer rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import onnx_ir as ir

from eqsat.cost import CostFunction
from eqsat.egraph.report import Limits, Report
from eqsat.egraph.rule import flatten
from eqsat.errors import EqsatError
from eqsat.onnx.optimize import rules_for, run
from eqsat.onnx.partition import partition
from eqsat.onnx.verify import differing, verify
from eqsat.rules import default

Suspect = TypeVar("Suspect")


def blame(
    model: ir.Model,
    rules: Iterable[Any] | None = None,
    limits: Limits | None = None,
    cost_model: CostFunction | None = None,
    method: str = "auto",
    runs: int = 3,
    tolerance: float = 1e-3,
    target: str | None = None,
) -> list[str] | None:
    """Names of the rules without any one of which the optimized, or partitioned, model would not differ.

    Args:
        model: the model as it was.
        rules, limits, cost_model, method: what was asked for, as :func:`eqsat.onnx.run`.
        runs: on how many random inputs models are compared.
        tolerance: the relative difference beyond which they differ.
        target: what it was partitioned for, None if it was optimized.

    Returns:
        One name, or the smallest set found of rules that only together do it; empty when the model differs with
        no rule at all; None when it does not differ with those rules alone that changed something.
    """
    if rules is None:
        rules = rules_for(model) if target is None else default
    every = flatten(rules)

    def made(names: Sequence[str]) -> tuple[ir.Model, Report]:
        chosen = [rule for rule in every if rule.name in names]
        if target is not None:
            parts = partition(model, target, chosen, limits, cost_model, method)
            return parts.after, parts.report
        done = run(model, chosen, limits, cost_model, method)
        return done.after, done.extraction.report

    def differs(names: Sequence[str]) -> bool:
        try:
            return bool(differing(verify(model, made(names)[0], runs), tolerance))
        except EqsatError:  # another way to go wrong than the one looked for
            return False

    known = [rule.name for rule in every]
    _, report = made(known)
    suspects = [rule.name for rule in report.rules.values() if rule.updates and rule.name in known]
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

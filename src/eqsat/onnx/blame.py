"""Which rule is to blame when an optimized or partitioned model is wrong: do it again with ever fewer rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, Unpack

import onnx_ir as ir

from eqsat.egraph.schedule import Schedule
from eqsat.errors import ArgumentError, EqsatError
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

    def made(options: Options) -> tuple[ir.Model, Extraction | None]:
        if target is None:
            return _optimized(given, options)
        parts = partition(given, target, options=options)
        return parts.after, parts.extraction

    def differs(after: ir.Model) -> bool:
        try:
            found = verify(given, after, runs, dims=dims, inputs=inputs, mistakes=0)
        except EqsatError:  # another way to go wrong than the one looked for
            return False
        return bool(differing(found, tolerance))

    acting = acting_rules(given, options) if target is None or options.rules is not None else default
    return _culprits(replace(options, rules=acting, contrib=False), made, differs)


@takes(ModelKeywords)
def bisect(
    model: Given, passes: Callable[[ir.Model], bool], rules: Rules | None = None, **keywords: Unpack[ModelKeywords]
) -> list[str] | None:
    """Names of the rules without any one of which the optimized model would pass a check.

    Args:
        model: The model as it was, in any form that :func:`eqsat.onnx.load` takes.
        passes: The check: whether a model is as it should be.
        rules, keywords: How it is optimized, as for :func:`eqsat.onnx.run`.

    Returns:
        As :func:`blame`: empty where the check also fails on what no rule changed, and None where it passes.

    Raises:
        ArgumentError: The check is no function, or fails on the model as it was, or not each time on one that is made
            in the same way.
        EqsatError: As for :func:`eqsat.onnx.run`.
    """
    if not callable(passes):
        raise ArgumentError(f"passes={passes!r}: give a function that takes a model and returns whether it is right")
    options = Options.of(keywords, rules=rules)
    given = at_opset(model, options.opset)
    if not passes(given):
        raise ArgumentError("the check fails on the model as it was: no rule is to blame")
    options = replace(options, rules=acting_rules(given, options), contrib=False)
    failed = False

    def fails(after: ir.Model) -> bool:
        nonlocal failed
        found = not passes(after)
        failed = failed or found
        return found

    guilty = _culprits(options, partial(_optimized, given), fails)
    if guilty is None and failed:
        raise ArgumentError(
            "the check fails on the optimized model, but not when it is made again: it gives no certain answer"
        )
    return guilty


def _optimized(given: ir.Model, options: Options) -> tuple[ir.Model, Extraction | None]:
    done = run(given, options=options)
    return done.after, done.extraction


def _culprits(
    options: Options,
    made: Callable[[Options], tuple[ir.Model, Extraction | None]],
    fails: Callable[[ir.Model], bool],
) -> list[str] | None:
    """The smallest set found of rules with which alone a model fails; as :func:`blame` returns it."""
    every = Schedule.of(options.rules).rules
    first, extraction = made(options)
    suspects = [] if extraction is None else [each.name for each in extraction.report.rules.values() if each.updates]

    def guilty(names: Sequence[str]) -> bool:
        wanted = set(names)
        chosen = replace(options, rules=[rule for rule in every if rule.name in wanted])
        try:
            after, _ = made(chosen)
        except EqsatError:  # another way to go wrong than the one looked for
            return False
        return fails(after)

    if guilty([]):
        return []
    names = [rule.name for rule in every]
    known = [name for name in suspects if name in names]
    if guilty(known):
        return smallest(known, guilty)
    # what others made may have ended a run before its time
    return smallest(names, guilty) if fails(first) and guilty(names) else None


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

"""Finding the rule to blame for a wrong model: it is made again and again with fewer rules."""

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
from eqsat.onnx.partitioning import partition
from eqsat.onnx.upgrade import at_opset
from eqsat.onnx.verification import differing, verify
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
    """Return the names of the rules that make the optimized or partitioned model differ from the given one.

    Args:
        model: The given model, in any form that :func:`eqsat.onnx.load` takes.
        rules: The rules to apply, as for :func:`eqsat.onnx.run`.
        runs, dims, inputs: How the models are compared, as for :func:`eqsat.onnx.verify`.
        tolerance: The relative difference beyond which the models differ. By default, it is derived from the effect of
            rounding.
        target: The target that the model was partitioned for; None if the model was optimized.
        keywords: How the model was optimized, as for :func:`eqsat.onnx.run`.

    Returns:
        One name, or the smallest set found of rules that only together cause the difference. The list is empty if the
        model differs without any rule. The result is None if the model does not differ when only the rules that changed
        something are applied.
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
    """Return the names of the rules that are needed to make the optimized model fail a check.

    Args:
        model: The given model, in any form that :func:`eqsat.onnx.load` takes.
        passes: The check: a function that receives a model and returns whether it is correct.
        rules, keywords: How the model is optimized, as for :func:`eqsat.onnx.run`.

    Returns:
        As for :func:`blame`: one name, or the smallest set found; empty if the check also fails without any rule; None
        if it passes on the optimized model.

    Raises:
        ArgumentError: The check is not a function, fails on the given model, or gives different answers for models that
            were made in the same way.
        EqsatError: As for :func:`eqsat.onnx.run`.
    """
    if not callable(passes):
        raise ArgumentError(f"passes={passes!r}: give a function that takes a model and returns whether it is correct")
    options = Options.of(keywords, rules=rules)
    given = at_opset(model, options.opset)
    if not passes(given):
        raise ArgumentError("the check fails on the given model: no rule is to blame")
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
            "the check fails on the optimized model, but not when the model is made again: its answers are not "
            "reproducible"
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
    """Return a guilty subset of the suspects from which none can be left out; one suspect, if one suffices.

    This is Zeller and Hildebrandt's delta debugging: parts are tried alone and left out, halves first.

    Args:
        suspects: The suspects, which are guilty together.
        guilty: A function that returns whether some of them, in their order, are guilty.
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

"""Comparison of a new model with the given one, for the commands that write models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from eqsat.cli.arrays import read_arrays
from eqsat.cli.console import Line
from eqsat.cli.options import Verification
from eqsat.errors import ModelError
from eqsat.extraction.costs import Cost, as_tuple, figure
from eqsat.pipeline.options import Options

UNPROVED = 3
"""The exit code if a requested comparison proves nothing about some output."""


def verified(reference: Any, made: Any, verification: Verification, why: Callable[[], str]) -> dict[str, Any]:
    """Compare a new model with the given one; return the findings as plain data, empty if no comparison is requested.

    Args:
        reference: The given model, or its file.
        made: The new model.
        verification: How to compare.
        why: A function that returns the end of the error message: what caused the difference.

    Raises:
        ModelError: An output differs by more than is allowed.
    """
    from eqsat import onnx

    if not verification.wanted:
        return {"differences": []}
    found = onnx.verify(reference, made, max(verification.runs, 1), **_keywords(verification))
    if not verification.keep_differing:
        for difference in onnx.differing(found, verification.tolerance):
            limit = (
                f"{figure(difference.excess, 3)} times the difference that rounding explains"
                if verification.tolerance is None
                else f"more than {verification.tolerance:g}"
            )
            raise ModelError(
                f"output {difference.output!r} differs by {figure(difference.relative, 3)} of its largest value, "
                f"{limit}: nothing is written{why()}"
            )
    mistakes = found.sensitivity
    return {
        "differences": [
            {"output": each.output, "absolute": finite(each.absolute), "relative": finite(each.relative)}
            for each in found
        ],
        "verified": {
            "inputs": found.inputs,
            "kinds": found.kinds,
            "seed": found.seed,
            "seconds": found.seconds,
            "most_seconds": found.most_seconds,
            "mistakes": {**asdict(mistakes), "noticed": mistakes.noticed},
            "proves_nothing": found.silent,
        },
    }


def _keywords(verification: Verification) -> dict[str, Any]:
    return {"dims": verification.dims, "inputs": [read_arrays(path) for path in verification.inputs]}


def to_blame(model: Any, options: Options, verification: Verification, target: str | None = None) -> str:
    """Return the end of an error message: the rules that caused the difference.

    Args:
        model, options: The given model, and how the new one was made.
        verification: How they were compared.
        target: The target that the model was partitioned for; None if it was optimized.
    """
    from eqsat import onnx

    runs, tolerance = max(verification.runs, 1), verification.tolerance
    comparing = _keywords(verification)
    names = onnx.blame(model, runs=runs, tolerance=tolerance, target=target, options=options, **comparing)
    if names is None:
        return ""
    if not names:
        return "; no rule is to blame, because it also differs without any rule"
    told = ", ".join(map(repr, names))
    return f"; rule {told} is to blame" if len(names) == 1 else f"; rules {told} together are to blame"


def measured(reference: Any, made: Any, verification: Verification) -> dict[str, Any]:
    """Return the latency of two models in onnxruntime as plain data."""
    from eqsat import onnx

    return {"latency": [asdict(each) for each in onnx.bench(reference, made, **_keywords(verification))]}


def exit_code(facts: dict[str, Any]) -> int:
    """Return the exit code of a command that wrote a model: whether a requested comparison proves something."""
    return UNPROVED if facts.get("verified", {}).get("proves_nothing") else 0


def show_verified(facts: dict[str, Any], line: Line) -> None:
    """Print the result of a comparison, and the inputs on which it was made."""

    for difference in facts["differences"]:
        line(
            f"output {difference['output']}: largest difference {told_number(difference['absolute'])}, "
            f"relative {told_number(difference['relative'])}"
        )
    for head, text in told_verified(facts):
        line(f"{head} {text}")


def told_verified(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield lines, as heads and texts, about comparisons, proofs and latencies."""
    if "proved" in facts:
        yield "proved:", facts["proved"]["told"]
        for each in facts["proved"]["uncovered"]:
            yield "not proved:", each
    if "verified" in facts:
        yield from _how(facts["verified"])
    for each in facts.get("latency", []):
        times = f"{milliseconds(each['before'])} -> {milliseconds(each['after'])}"
        yield (
            f"latency, optimizer of onnxruntime {'on' if each['optimizer'] else 'off'}:",
            f"{times}, {each['after'] / each['before']:.2f} times (medians of {each['runs']} runs in turn on "
            f"{_listed(each['inputs'])})",
        )


def _how(how: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in how["kinds"].items())
    seconds = f"{how['seconds']:.1f} s, of {how['most_seconds']:g} s that its optional part may take"
    yield "verified on", f"{_listed(how['inputs'])}: {kinds}; seed {how['seed']}; {seconds}"
    mistakes = how["mistakes"]
    if mistakes["tried"]:
        share = f"{mistakes['noticed']} of {mistakes['tried']}"
        yield "noticed", f"{share} mistakes, each a wrong weight in another region of the result"
    if mistakes["problem"]:
        yield "not all mistakes were tried:", mistakes["problem"]
    for output, reason in how["proves_nothing"].items():
        what = f"output {output} proves nothing:" if output else "nothing is proved:"
        yield what, f"{reason}; give other sizes (--dim NAME=SIZE) or inputs (--inputs FILE.npz)"


def _listed(inputs: dict[str, str]) -> str:
    return ", ".join(f"{name} {told}" for name, told in inputs.items()) or "no inputs"


def told_number(number: float | None) -> str:
    """Return a difference as text with three digits."""
    return "unbounded" if number is None else figure(number, 3)


def finite(cost: Cost) -> Cost | None:
    """Return a cost that JSON can represent; None if a number is not finite."""
    return cost if all(map(math.isfinite, as_tuple(cost))) else None


def milliseconds(seconds: float) -> str:
    """Return a time as text in milliseconds."""
    return f"{figure(1000 * seconds, 3)} ms"

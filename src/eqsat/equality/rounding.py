"""The effect of rounding: the bound beyond which results are different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.equality.joining import Joined
from eqsat.equality.samples import Sample
from eqsat.equality.widened import Evaluation, Noise
from eqsat.relay.expr import Expr
from eqsat.relay.values import Value

NOISES = 3
"""Number of computations of the results with noise."""

FACTOR = 16
"""Multiple of the largest change caused by noise that rounding still explains."""


def results(joined: Joined, evaluation: Evaluation, samples: Sequence[Sample], noise: Noise | None = None) -> Any:
    """Return the values of both graphs on each input."""
    found: dict[Expr, list[Value | None]] = {}
    roots = set(joined.roots)
    for node, values in evaluation.run(joined.nodes, samples, noise):
        if node in roots:
            found[node] = list(values)
    return found


def leaves(value: Value | None) -> list[np.ndarray[Any, Any]] | None:
    """Return the arrays in a value; None if the value is not known or not an array."""
    if isinstance(value, tuple):
        parts = [leaves(each) for each in value]
        return None if any(part is None for part in parts) else [array for part in parts for array in part or ()]
    return [value] if isinstance(value, np.ndarray) else None


def apart(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> float:
    """Return the largest difference of two elements; infinite if only one of them is a number."""
    if left.shape != right.shape:
        return float("inf")
    with np.errstate(all="ignore"):
        one, other = left.astype(np.float64), right.astype(np.float64)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        away = np.where(same, 0.0, np.abs(one - other))
    return float(np.max(np.where(np.isnan(away), np.inf, away), initial=0.0))


def bounds(
    joined: Joined, evaluation: Evaluation, sample: Sample, exact: Mapping[Expr, list[Value | None]], index: int
) -> list[float]:
    """Return, for each array of the results, the largest difference that rounding may cause on one input."""
    found: list[float] | None = None
    for seed in range(NOISES):
        moved = results(joined, evaluation, [sample], Noise(seed))
        for root in joined.roots:
            before, after = leaves(exact[root][index]), leaves(moved[root][0])
            if before is None or after is None:
                continue
            away = [apart(one, other) for one, other in zip(before, after, strict=True)]
            found = away if found is None else list(map(max, found, away))
    return [FACTOR * each for each in found or []]

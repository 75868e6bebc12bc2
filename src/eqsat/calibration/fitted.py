"""What kernels take whose sizes were not measured, by those of the same operators that were.

A kernel takes a time of its own, some for each floating-point operation, and some for each byte: three rates for each
family of kernels, none below 0, such that relative errors are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

_ENOUGH = 5
"""Kernels from which on a family has rates of its own."""

Rates = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """A kernel that was measured: its floating-point operations, bytes and seconds."""

    flops: float
    bytes: float
    seconds: float


class Fitted:
    """Rates of families, and of all kernels together for families of which few were measured.

    Args:
        samples: What was measured, by family.
    """

    def __init__(self, samples: Mapping[str, Sequence[Sample]]):
        self._samples = {
            family: kept for family, each in samples.items() if len(kept := [one for one in each if one.seconds > 0])
        }
        self._all = [one for each in self._samples.values() for one in each]
        self._rates = {family: _rates(each) for family, each in self._samples.items() if len(each) >= _ENOUGH}
        self._of_all = _rates(self._all) if len(self._all) >= _ENOUGH else None

    def seconds(self, family: str, flops: float, moved: float) -> float | None:
        """Return an estimate of the seconds of a kernel; None where too few were measured."""
        rates = self._rates.get(family, self._of_all)
        return None if rates is None else float(rates @ (1.0, flops, moved))

    def errors(self) -> dict[str, float]:
        """Return the mean relative error of each family with rates of its own, each kernel by those of the others."""
        found = {}
        for family in self._rates:
            each = self._samples[family]
            rates = [_rates([*each[:place], *each[place + 1 :]]) for place in range(len(each))]
            found[family] = fmean(_error(by, one) for by, one in zip(rates, each, strict=True))
        return found


def _error(rates: Rates, sample: Sample) -> float:
    return abs(float(rates @ (1.0, sample.flops, sample.bytes)) / sample.seconds - 1.0)


def _rates(samples: Sequence[Sample]) -> Rates:
    """The rates with the least sum of squares of relative errors: those of the best choice of them to be above 0."""
    told = np.asarray([(1.0, one.flops, one.bytes) for one in samples])
    relative = told / np.asarray([[one.seconds] for one in samples])
    scale = np.maximum(np.abs(relative).max(axis=0), np.finfo(np.float64).tiny)
    best, least = np.zeros(3), np.inf
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):
            columns = list(chosen)
            found = np.linalg.lstsq(relative[:, columns] / scale[columns], np.ones(len(relative)), rcond=None)[0]
            left = float(np.sum((relative[:, columns] / scale[columns] @ found - 1.0) ** 2))
            if (found >= 0).all() and left < least * (1 - 1e-9):
                best, least = np.zeros(3), left
                best[columns] = found / scale[columns]
    return best

"""Costs under several objectives, which are compared in order."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Cost: TypeAlias = float | tuple[float, ...]
"""A cost as callers see it: one number, or one for each objective where there are several."""

Term: TypeAlias = Any
"""A cost to add up: a float where there is one objective, `Costs` where there are several."""


def as_tuple(cost: Cost) -> tuple[float, ...]:
    """One number for each objective, also where there is one only; JSON gives several back as a list."""
    return tuple(cost) if isinstance(cost, (tuple, list)) else (cost,)


def figure(number: float, digits: int = 6) -> str:
    """A number to some digits; those before the point are all there, never ``1e+06``."""
    return f"{number:.0f}" if math.isfinite(number) and abs(number) >= 10 ** (digits - 1) else f"{number:.{digits}g}"


def figures(cost: Cost) -> str:
    """A cost as text: its numbers in the order in which they are compared."""
    return ", then ".join(map(figure, as_tuple(cost)))


def as_cost(costs: tuple[float, ...]) -> Cost:
    """The cost that callers see, given one number for each objective."""
    return costs if len(costs) > 1 else costs[0]


def total(costs: Iterable[Cost]) -> Cost:
    """The sum of costs, objective by objective; 0 of none."""
    return as_cost(tuple(map(math.fsum, zip(*map(as_tuple, costs), strict=True))) or (0.0,))


class Costs(tuple[float, ...]):
    """One number for each objective; the sum of two adds them objective by objective."""

    __slots__ = ()

    def __add__(self, other: tuple[float, ...]) -> Costs:  # type: ignore[override]
        return Costs(map(operator.add, self, other))

    def __sub__(self, other: tuple[float, ...]) -> Costs:
        return Costs(map(operator.sub, self, other))

    def covers(self, other: tuple[float, ...], tolerances: Sequence[float]) -> bool:
        """Whether a choice at the other costs cannot be needed for an optimum, given the same choice at these.

        These costs are no larger under each objective, up to one under which they are smaller by more than its
        tolerance. (Costs that are larger by less than the tolerance might count as equal in the sum.)
        """
        for mine, theirs, tolerance in zip(self, other, tolerances, strict=True):
            if mine < theirs - tolerance:
                return True
            if mine > theirs:
                return False
        return True

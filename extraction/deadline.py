"""A point in time to stop at."""

from __future__ import annotations

import math
import time


class Deadline:
    """So many seconds from a start (`time.perf_counter()`); infinitely many never pass."""

    def __init__(self, seconds: float, started: float | None = None) -> None:
        self.started = time.perf_counter() if started is None else started
        self.clock = self.started + seconds

    def passed(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() >= self.clock

    def left(self) -> float:
        """The seconds left."""
        return max(0.0, self.clock - time.perf_counter())

    def within(self, seconds: float) -> Deadline:
        """The earlier of this and so many seconds from now."""
        return Deadline(min(seconds, self.left()))


NEVER = Deadline(math.inf)

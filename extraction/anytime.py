"""Extraction within a time budget, and the table of all extractors by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from eqsat.errors import ExtractionError

from .branch_and_cut import exact, prove
from .contract import contracted
from .deadline import Deadline
from .greedy import dag, tree
from .local_search import PATIENCE, local
from .problem import Ints, Problem
from .solution import Result


def auto(problem: Problem, *, seconds: float = 5.0, seed: int = 0, incumbent: ArrayLike | None = None) -> Result:
    """Greedy at once, then local search, then a proof, on what time is left.

    The result is never dearer than `tree`, `dag` or the incumbent. Without a clock that strikes it depends on the seed
    alone. Ctrl-C returns the best so far.
    """

    def solve(small: Problem, deadline: Deadline, known: Ints | None) -> Result:
        return prove(small, "auto", deadline, seed, known, patience=PATIENCE, share=0.4)

    return contracted(problem, seconds, incumbent, solve)


Extractor = Callable[..., Result]

EXTRACTORS: dict[str, Extractor] = {"tree": tree, "dag": dag, "local": local, "exact": exact, "auto": auto}


def extract(problem: Problem, method: str = "auto", **limits: Any) -> Result:
    """Extract by the method of that name; `limits` are `seconds`, `seed` and `incumbent`."""
    if method not in EXTRACTORS:
        raise ExtractionError(f"there is no extraction method {method!r}; there are {', '.join(EXTRACTORS)}")
    seconds = limits.get("seconds", math.inf)
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ExtractionError(f"seconds must be a positive number, not {seconds!r}")
    return EXTRACTORS[method](problem, **limits)

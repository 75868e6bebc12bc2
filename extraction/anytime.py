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
    """Extract greedily, then improve by local search, then prove optimality, in the time given.

    The result is never dearer than those of `tree` and `dag` or the incumbent. If the time does not run out, it
    depends on the seed alone. Ctrl-C returns the best result so far.

    Args:
        problem: The problem.
        seconds: Wall time allowed.
        seed: Seed of the random choices.
        incumbent: A choice that the result is no worse than; int (C,), -1 for classes without a node.

    Raises:
        ExtractionError: The incumbent is not an extraction.
    """

    def solve(small: Problem, deadline: Deadline, known: Ints | None) -> Result:
        return prove(small, "auto", deadline, seed, known, patience=PATIENCE, share=0.4)

    return contracted(problem, seconds, incumbent, solve)


Extractor = Callable[..., Result]

EXTRACTORS: dict[str, Extractor] = {"tree": tree, "dag": dag, "local": local, "exact": exact, "auto": auto}


def extract(problem: Problem, method: str = "auto", **limits: Any) -> Result:
    """Extract by the method of that name.

    Args:
        problem: The problem.
        method: A name in `EXTRACTORS`.
        limits: The arguments `seconds`, `seed` and `incumbent` of the extractor.

    Raises:
        ExtractionError: There is no such method, `seconds` is not a positive number, or the incumbent is not an
            extraction.
    """
    if method not in EXTRACTORS:
        raise ExtractionError(f"there is no extraction method {method!r}; there are {', '.join(EXTRACTORS)}")
    seconds = limits.get("seconds", math.inf)
    if not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ExtractionError(f"seconds must be a positive number, not {seconds!r}")
    return EXTRACTORS[method](problem, **limits)

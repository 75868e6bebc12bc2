"""Extraction of the cheapest graph of an e-graph, and the cost models of :mod:`eqsat.cost`."""

import math
from collections.abc import Callable
from typing import Any

from eqsat.cost import (
    Bytes,
    CostFunction,
    CostModel,
    CostNode,
    Device,
    Flops,
    Measured,
    OpCount,
    Roofline,
    Storage,
    ties_of,
)
from eqsat.errors import ExtractionError

from .branch_and_cut import auto, exact
from .greedy import dag, tree
from .gym import read_gym, write_gym
from .local_search import local
from .problem import Problem
from .solution import Result, dag_cost
from .ties import nearer

__all__ = [
    "EXTRACTORS",
    "Bytes",
    "CostFunction",
    "CostModel",
    "CostNode",
    "Device",
    "Flops",
    "Measured",
    "OpCount",
    "Problem",
    "Result",
    "Roofline",
    "Storage",
    "auto",
    "dag",
    "dag_cost",
    "exact",
    "extract",
    "local",
    "nearer",
    "read_gym",
    "ties_of",
    "tree",
    "write_gym",
]

EXTRACTORS: dict[str, Callable[..., Result]] = {"tree": tree, "dag": dag, "local": local, "exact": exact, "auto": auto}


def extract(problem: Problem, method: str = "auto", **limits: Any) -> Result:
    """Solve an extraction problem by the method with the given name.

    Args:
        problem: The problem.
        method: A name in `EXTRACTORS`.
        limits: `seconds`, the wall time allowed; `seed`, the seed of the random choices; and `incumbent`, a choice that
            the result is no worse than: the node of each class, -1 for classes without a node; int (C,).

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

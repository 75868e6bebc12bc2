"""A second opinion from OR-tools' CP-SAT, where that is installed: it proves some graphs that HiGHS does not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .components import components
from .problem import Problem
from .solution import walk

_STARTING = 2.0  # seconds that the process may take beyond its limit


def available() -> bool:
    """Whether OR-tools is installed."""
    return find_spec("ortools") is not None


def solve(
    problem: Problem, start: Sequence[int], seconds: float, seed: int, limits: Sequence[float] = ()
) -> tuple[float, list[int]]:
    """Solve in a process of its own, which does not outlive an exception here.

    Args:
        problem, seed: The problem, and the seed of the solver.
        start: The choice to start from; a node for each class, -1 for none.
        seconds: Wall time allowed.
        limits: The largest costs allowed under the first objectives; the objective after these is minimised.

    Returns:
        A lower bound and a choice; the choice is empty if none was found. If the process fails, (-inf, []).
    """
    arrays, component = io.BytesIO(), components(problem)
    np.savez(
        arrays,
        node_class=problem.node_class,
        child_offsets=problem.child_offsets,
        child=problem.child,
        cost=problem.objectives[len(limits)],
        limited=np.reshape(problem.objectives[: len(limits)], (len(limits), problem.num_nodes)),
        limits=limits,
        roots=problem.roots,
        component=component,
        start=start,
        level=levels(problem, start, component),
        seconds=seconds,
        seed=seed & 0x7FFFFFFF,
    )
    worker = Path(__file__).with_name("cp_sat_worker.py")
    try:
        run = subprocess.run(
            [sys.executable, str(worker)],
            input=arrays.getvalue(),
            capture_output=True,
            timeout=seconds + _STARTING,
            check=True,
        )
        found = json.loads(run.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return -np.inf, []
    return float(found["bound"]), found.get("choice", [])


def levels(problem: Problem, start: Sequence[int], component: Sequence[int]) -> list[int]:
    """A level for each class that a choice uses, which lies above those of its children."""
    level, decided = [0] * problem.num_classes, Counter[int]()
    for index in walk(problem, start):
        level[index] = decided[component[index]]
        decided[component[index]] += 1
    return level

"""Extraction in CP-SAT, run as a program: arrays (npz) on standard input, a JSON object on standard output.

OR-tools and highspy bring different builds of HiGHS, which do not go together in one process. So this file imports
nothing of ours.

Input: `node_class` (N,), `child_offsets` (N + 1,), `child`, `cost` (N,), `roots`, `component` (C,) of each class,
`start` (C,) node of each class or -1, `level` (C,) of each class there, above its children's in its component,
`seconds`, `seed`; `limited` (L, N), other costs that must not exceed `limits` (L,) in all. Output: `bound` and, where
one was found, `choice` (C,).
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections import Counter
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

_RESOLUTION = 2.0**40  # integer steps in the largest cost; rounded down, so that bounds hold


def solve(data: dict[str, Any]) -> dict[str, Any]:
    """Solve with the levels t of classes in a cycle: a chosen node's class lies above its children in it."""
    cost, component = data["cost"], data["component"].tolist()
    owner, roots, start = data["node_class"].tolist(), set(data["roots"].tolist()), data["start"].tolist()
    kids = [set(part.tolist()) for part in np.split(data["child"], data["child_offsets"][1:-1])]
    scale = _scale(cost)
    model, size = cp_model.CpModel(), Counter(component)
    x = [model.new_bool_var("") for _ in owner]
    y = [model.new_bool_var("") for _ in component]
    level = {c: model.new_int_var(0, size[k] - 1, "") for c, k in enumerate(component) if size[k] > 1}
    nodes: list[list[Any]] = [[] for _ in component]
    users: list[list[Any]] = [[] for _ in component]
    for node, index in enumerate(owner):
        nodes[index].append(x[node])
        for kid in kids[node]:
            users[kid].append(x[node])
            model.add_implication(x[node], y[kid])
            if kid == index:
                model.add(x[node] == 0)
            elif component[kid] == component[index]:
                model.add(level[kid] + 1 <= level[index]).only_enforce_if(x[node])
    for index, chosen in enumerate(y):
        model.add(sum(nodes[index]) == chosen)
        if index in roots:
            model.add(chosen == 1)
        elif min(cost.min(), data["limited"].min(initial=0.0)) < 0:
            model.add_bool_or([*users[index], chosen.negated()])
    for node, index in enumerate(owner):
        model.add_hint(x[node], start[index] == node)
    for index, chosen in enumerate(y):
        model.add_hint(chosen, start[index] >= 0)
    for index, variable in level.items():
        model.add_hint(variable, int(data["level"][index]))
    model.minimize(_sum(cost * scale, x))
    for other, limit in zip(data["limited"], data["limits"].tolist(), strict=True):
        model.add(_sum(other * _scale(other), x) <= math.ceil(limit * _scale(other)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = float(data["seconds"])
    solver.parameters.num_workers = 8
    solver.parameters.random_seed = int(data["seed"])
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {"bound": -math.inf}  # what the solver then gives as its bound may be the 0 it begins with
    choice = [-1] * len(component)
    for node, index in enumerate(owner):
        if solver.boolean_value(x[node]):
            choice[index] = node
    return {"bound": solver.best_objective_bound / scale, "choice": choice}


def _scale(cost: Any) -> float:
    return _RESOLUTION / (float(np.abs(cost).max()) or 1.0)


def _sum(cost: Any, x: list[Any]) -> Any:
    return sum(int(price) * chosen for price, chosen in zip(np.floor(cost), x, strict=True))


if __name__ == "__main__":
    print(json.dumps(solve(dict(np.load(io.BytesIO(sys.stdin.buffer.read()))))))

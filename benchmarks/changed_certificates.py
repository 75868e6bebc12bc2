"""Certificates with one thing changed each, none of which may check."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any


def changed_certificates(
    data: dict[str, Any], choices: random.Random, most: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Certificates with one thing changed, each with what it is.

    Args:
        data: The certificate as JSON holds it.
        choices: Draws.
        most: Steps, constants and terms that are changed, each by itself.
    """

    def some(parts: list[Any]) -> list[tuple[int, Any]]:
        return choices.sample(list(enumerate(parts)), min(most, len(parts)))

    for side in ("before", "after"):
        other = deepcopy(data)
        other[side] = other[side][1:] + ("0" if other[side][0] != "0" else "1")
        yield f"digest {side}", other
    for name in data["rules"]:
        other = deepcopy(data)
        other["rules"][name] = other["rules"][name][::-1]
        yield f"version of {name}", other
    base = min(min([*left, *right]) for _, left, right, *_ in [*data["steps"], (0, [0], [0])])
    for index, (rule, left, right, *_) in some(data["steps"]):
        names = [name for name in [*data["rules"], "commute", "layer-norm-nothing"] if name != rule]
        changes: dict[str, tuple[int, Any]] = {
            "rule": (0, choices.choice(names)),
            "right side": (2, [base if term != base else base + 1 for term in right]),
            "left side": (1, [base if term != base else base + 1 for term in left]),
            "number of left sides": (1, [*left, left[0]]),
        }
        for what, (place, value) in changes.items():
            other = deepcopy(data)
            other["steps"][index][place] = value
            yield f"{what} of step {index}", other
    for index, told in some(data["constants"]):
        other = deepcopy(data)
        last = int(told["bytes"][-3], 16) ^ 1
        other["constants"][index]["bytes"] = f"{told['bytes'][:-3]}{last:x}{told['bytes'][-2:]}"
        yield f"constant {index}", other
    for index, entry in some(data["terms"]):
        changes = {}
        if entry[0] == "call":
            changes["operator"] = (1, "nn.relu" if entry[1] != "nn.relu" else "tanh")
            changes["attributes"] = (2, {"nonsense": 1})
        if entry[0] in ("call", "tuple", "project"):
            changes["children"] = (-1, [*entry[-1], entry[-1][0]])
        for what, (place, value) in changes.items():
            other = deepcopy(data)
            other["terms"][index][place] = value
            yield f"{what} of term {index}", other

"""No set of rules makes a network worse: extraction may always leave it as it was."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from eqsat import rules
from eqsat.onnx import run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from filled_models import fill_weights, light_model
from real_models import magika_model

LIGHT = ("densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")


@cache
def network(name: str) -> ir.Model:
    if name == "magika":
        return ir.from_proto(onnx.load(magika_model()))
    return ir.from_proto(fill_weights(onnx.load(light_model(name))))


@cache
def least(name: str, chosen: str) -> tuple[float, int]:
    """The cost of a network under a set of rules, and the number of nodes that are written."""
    done: Any = run(network(name), (rules.sets[chosen],) if chosen else ())
    return done.extraction.cost, sum(node.op_type != "Constant" for node in done.after.graph)


def check(name: str, chosen: str) -> None:
    cost, nodes = least(name, chosen)
    assert cost <= least(name, "")[0]
    assert nodes <= least(name, "")[1]


@pytest.mark.parametrize("chosen", rules.sets)
def test_no_set_of_rules_makes_a_small_network_worse(chosen: str) -> None:
    check("squeezenet", chosen)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(name for name in LIGHT if name != "squeezenet"), "magika"])
@pytest.mark.parametrize("chosen", rules.sets)
def test_no_set_of_rules_makes_a_network_worse(chosen: str, name: str) -> None:
    check(name, chosen)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_all_rules_together_are_no_worse_than_any_set_of_them(name: str) -> None:
    names = {rule.name for rule in rules.default}
    parts = [chosen for chosen, some in rules.sets.items() if {rule.name for rule in some} <= names]
    assert all(least(name, "default")[0] <= least(name, chosen)[0] for chosen in parts)

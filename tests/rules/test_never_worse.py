"""No set of rules makes a network worse: extraction may always leave it as it was."""

from __future__ import annotations

import sys
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

LIGHT = {"inception_v1": 60, "shufflenet": 60, "squeezenet": 0}
"""Networks, and how many nodes are taken of those that are long: what follows repeats these, or ends as the others."""


def network(name: str) -> ir.Model:
    if name == "magika":
        return ir.from_proto(onnx.load(magika_model()))
    model = fill_weights(onnx.load(light_model(name)))
    return ir.from_proto(beginning(model, LIGHT[name]) if LIGHT[name] else model)


def beginning(model: onnx.ModelProto, count: int) -> onnx.ModelProto:
    """The first nodes of a model; what others would use are its outputs."""
    graph = model.graph
    del graph.node[count:], graph.output[:]
    used = {name for node in graph.node for name in node.input}
    ends = [name for node in graph.node for name in node.output if name not in used]
    graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, ends))
    return model


def least(model: ir.Model, chosen: str) -> tuple[float, int]:
    """The cost of a network under a set of rules, and the number of nodes that are written."""
    done: Any = run(model, (rules.sets[chosen],) if chosen else ())
    return done.extraction.cost, sum(node.op_type != "Constant" for node in done.after.graph)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LIGHT, "magika"])
def test_no_set_of_rules_makes_a_network_worse_nor_is_better_than_all_of_them(name: str) -> None:
    model = network(name)
    cost, nodes = least(model, "")
    found = {chosen: least(model, chosen) for chosen in rules.sets}
    assert {chosen: each for chosen, each in found.items() if each[0] > cost or each[1] > nodes} == {}
    names = {rule.name for rule in rules.default}
    parts = [chosen for chosen, some in rules.sets.items() if {rule.name for rule in some} <= names]
    assert {chosen: found[chosen] for chosen in parts if found[chosen][0] < found["default"][0]} == {}

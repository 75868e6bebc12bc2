"""Cost models on a saturated graph of a convolution, scaled and added to itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.errors import ExtractionError
from eqsat.extraction import Bytes, CostNode, Flops, Measured, OpCount, Roofline, Storage, local
from eqsat.pipeline.problem import region_problem
from eqsat.relay.interpreter import evaluate

X = relay.var("x", shape=(1, 4, 8, 8))
RNG = np.random.default_rng(0)
WEIGHT = relay.const(RNG.uniform(0.1, 1.0, (4, 4, 3, 3)).astype("float32"))
SCALE = relay.const(RNG.uniform(0.1, 1.0, (4, 1, 1)).astype("float32"))
SCALED = relay.nn.relu(relay.multiply(relay.nn.conv2d(X, WEIGHT, padding=(1, 1)), SCALE))
GRAPH = relay.add(SCALED, SCALED)


@pytest.fixture(scope="module")
def saturation() -> Any:
    return eqsat.saturate(GRAPH, rules=rules.default, limits=eqsat.Limits(iterations=5, nodes=20_000, seconds=20.0))


@pytest.mark.parametrize(
    "model",
    [
        OpCount(),
        Bytes(),
        Flops(),
        Roofline("cpu"),
        Roofline("gpu"),
        Roofline("npu"),
        Storage(),
        Roofline("gpu") + 1e-12 * Storage(),
        OpCount() * (lambda node: 2.0),
        lambda node: float(len(node.op)),
    ],
    ids=["operators", "bytes", "flops", "cpu", "gpu", "npu", "storage", "sum", "product", "callable"],
)
def test_every_model_gives_an_equal_graph_no_dearer_than_the_input(saturation: Any, model: Any) -> None:
    best = eqsat.extract(saturation, cost_model=model)
    assert best.optimal
    assert best.cost <= best.input_cost
    x = RNG.uniform(-1.0, 1.0, (1, 4, 8, 8)).astype("float32")
    np.testing.assert_allclose(evaluate(best.expr, {X: x}), evaluate(GRAPH, {X: x}), rtol=1e-4, atol=1e-5)


def test_scaling_the_weights_costs_nothing_at_run_time_but_room_in_the_file_is_charged(saturation: Any) -> None:
    folded = eqsat.extract(saturation, cost_model=OpCount())
    assert (folded.input_cost, folded.cost) == (4.0, 2.0)  # convolution and relu are left
    stored = eqsat.extract(saturation, cost_model=Storage())
    assert stored.cost >= 4 * 4 * 4 * 9  # bytes of the weights


def test_measured_costs_are_asked_once_for_each_operator_and_type(
    saturation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "costs.json"
    first = eqsat.extract(saturation, cost_model=Measured(cache))
    assert 0 < first.cost <= first.input_cost
    keys = [*json.loads(cache.read_text())]
    assert any(key.startswith("nn.conv2d(Tensor[(1, 4, 8, 8)") for key in keys)
    monkeypatch.setattr("eqsat.cost.measured._measure", lambda node: pytest.fail("measured again"))
    assert eqsat.extract(saturation, cost_model=Measured(cache)).cost == first.cost


def test_a_cost_of_the_whole_choice_is_a_matter_for_local(saturation: Any) -> None:
    region = saturation.regions[-1]
    problem = region_problem(region, OpCount()).problem

    def squared(choice: np.ndarray) -> float:
        return float(problem.objectives[0][choice[choice >= 0]].sum()) ** 2

    assert local(problem, objective=squared, seconds=5.0).cost == 4.0


def test_a_model_that_fails_is_an_error_that_names_the_operator(saturation: Any) -> None:
    def fail(node: CostNode) -> float:
        return 1 / 0 if node.op == "nn.conv2d" else 1.0

    with pytest.raises(ExtractionError, match=r"cost model.* nn\.conv2d.*: ZeroDivisionError"):
        eqsat.extract(saturation, cost_model=fail)
    with pytest.raises(ExtractionError, match=r"cost model.* returns.* nan"):
        eqsat.extract(saturation, cost_model=lambda node: float("nan"))

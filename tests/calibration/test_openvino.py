"""Kernels and models are timed in OpenVINO, where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from eqsat import cli, relay
from eqsat.calibration import Machine, Profile, Setup, Timing, fastest, kernel_of, measure, measuring, profile
from eqsat.calibration.gathered import gathered
from eqsat.calibration.kernels import Kernel, written_model
from eqsat.calibration.medley import measure_change, medley_model, small_kernels
from eqsat.calibration.race import Run, race
from eqsat.cost.kernels import cost_nodes, kernel_node
from eqsat.errors import ModelError, ProfileError
from eqsat.pipeline.options import Options
from eqsat.relay.expr import Expr
from eqsat.relay.infer import infer_types

openvino = pytest.importorskip("openvino")

SETUP = Setup(threads=1, runtime="openvino")
X = relay.var("x", shape=(4, 8))
IMAGE = relay.var("x", shape=(1, 16, 8, 8))
CONVOLVED = relay.nn.conv2d(IMAGE, relay.const(np.ones((16, 16, 3, 3), "float32")), kernel_size=(3, 3), padding=(1, 1))


def ones(*shape: int) -> Expr:
    return relay.const(np.ones(shape, "float32"))


def kernel(expr: Expr) -> Kernel:
    for node, ty in infer_types(expr).items():
        node._checked_type = ty
    several = len([line for line in cost_nodes(expr, infer_types(expr)).values() if line.runs]) > 1
    found = kernel_of(kernel_node("kernel", expr) if several else cost_nodes(expr, infer_types(expr))[expr])
    assert found is not None
    return found


def executed(expr: Expr, copies: int, folder: Path) -> list[str]:
    """The kinds of what OpenVINO runs of a model of copies, but for what gathers results."""
    path = str(folder / "model.onnx")
    onnx.save(gathered([written_model(kernel(expr))] * copies), path)
    nodes = openvino.Core().compile_model(path, "CPU").get_runtime_model().get_ordered_ops()
    kinds = [node.get_rt_info()["layerType"].astype(str) for node in nodes]
    around = {"Input", "Split", "Const", "StridedSlice", "Reshape", "Concatenation", "Output", "Reorder", "Transpose"}
    return [kind for kind in kinds if kind not in around]


@pytest.mark.parametrize(
    ("expr", "kind"),
    [
        (relay.tanh(X), "Subgraph"),
        (relay.nn.softmax(X), "Softmax"),
        (relay.nn.matmul(X, ones(8, 16)), "FullyConnected"),
        (relay.nn.relu(relay.nn.matmul(X, ones(8, 16))), "FullyConnected"),
        (relay.tanh(relay.exp(X)), "Subgraph"),
        (relay.nn.gelu(X), "Subgraph"),
        (relay.nn.relu(relay.add(relay.nn.dense(X, ones(16, 8)), ones(16))), "FullyConnected"),
        (relay.tanh(CONVOLVED), "Convolution"),
        (relay.nn.conv2d(IMAGE, ones(16, 16, 3, 3), kernel_size=(3, 3), channels=16), "Convolution"),
    ],
)
def test_every_copy_of_a_kernel_runs_and_nothing_else(expr: Expr, kind: str, tmp_path: Path) -> None:
    assert executed(expr, 3, tmp_path) == [kind] * 3


def test_kernels_are_timed() -> None:
    small, large = kernel(relay.nn.softmax(X)), kernel(relay.nn.softmax(relay.var("x", shape=(512, 1024))))
    parts = kernel(relay.split(X, 2, axis=1).astuple())
    found, reference = measure([small, large, parts], SETUP)
    assert reference is not None
    assert reference > 0
    timings = [found[each.key] for each in (small, large, parts)]
    assert all(isinstance(each, Timing) and 0 <= each.seconds < 1 for each in timings)
    assert isinstance(timings[0], Timing)
    assert isinstance(timings[1], Timing)
    assert timings[1].seconds > 10 * timings[0].seconds


def test_each_kernel_of_a_medley_runs(tmp_path: Path) -> None:
    model = medley_model(small_kernels(), "openvino")
    onnx.save(model, tmp_path / "medley.onnx")
    nodes = openvino.Core().compile_model(str(tmp_path / "medley.onnx"), "CPU").get_runtime_model().get_ops()
    assert [node.get_rt_info()["layerType"].astype(str) for node in nodes].count("Softmax") == 4
    change, reference = measure_change(SETUP, None)
    assert change >= 0.0 < reference


def test_a_kernel_that_the_runtime_does_not_have_is_skipped_with_its_reason() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "other": 1]> g (float[2] x) => (float[2] y) { y = other.None (x) }'
    )
    folder = Path(profile.cache_folder())
    folder.mkdir()
    ((why,), _) = measuring.time_models([model], SETUP, folder)
    assert isinstance(why, str)
    assert "other" in why


def test_profiles_are_of_one_runtime(tmp_path: Path) -> None:
    file, model, out = tmp_path / "p.json", tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[4, 8] x) => (float[4, 8] y) { r = Relu (x) y = Relu (r) }'
    onnx.save(onnx.parser.parse_model(text), model)
    how = ("--runtime", "openvino", "--threads", 1)
    facts = json.loads(command("calibrate", model, *how, "--json", "-o", file).stdout)
    assert facts["machine"] == str(Machine.here("openvino"))
    assert facts["new"] == len(Profile.load(file).entries) >= 2
    assert Profile.load(file).setup == SETUP
    measured = json.loads(command("optimize", model, out, "--cost", "measured", *how, "--json").stdout)
    assert measured["nodes"]["before"] == 2
    assert measured["kernels"]["estimated"] == 0
    assert json.loads(command("optimize", model, out, "--cost", file, *how, "--json").stdout)["cost"]["after"] > 0
    refused = command("optimize", model, out, "--cost", file).exception
    assert isinstance(refused, ProfileError)
    assert "is of openvino, and models are written for onnxruntime" in str(refused)
    assert command("optimize", model, out, "--cost", file, "--foreign").exit_code == 0


def test_the_fastest_candidate_runs_in_it(tmp_path: Path) -> None:
    model, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 8] x) => (float[n, 8] y)
        { r = Relu (x) s = Relu (r) t = Neg (s) u = Neg (t) y = Tanh (u) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    found = fastest(model, dims={"n": 4}, seconds=0.1, options=Options(runtime="openvino"))
    assert found.setup == Setup(runtime="openvino")
    assert found.candidates[0].nodes == 5
    assert all(each.predicted > 0 and each.measured is not None for each in found.candidates)
    told = command("optimize", model, out, "--runtime", "openvino", "--measure", "--dim", "n=4", "--json").stdout
    assert json.loads(told)["candidates"]["level"] == "all"
    assert len(onnx.load(out).graph.node) <= 5


def test_models_that_do_not_run_are_told() -> None:
    good, bad = [
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17, "other": 1]> g (float[2] x) => (float[2] y) {{ y = {op} (x) }}'
        )
        for op in ("Neg", "other.None")
    ]
    found = race([good, good, bad], {"x": np.ones(2, np.float32)}, SETUP, 0.05)
    assert [type(each) for each in found.runs] == [Run, Run, str]
    with pytest.raises(ModelError, match="the model as it was does not run in openvino"):
        race([bad, good], {"x": np.ones(2, np.float32)}, SETUP, 0.05)


def command(*args: object) -> Result:
    return CliRunner().invoke(cli.cli, [str(arg) for arg in args])

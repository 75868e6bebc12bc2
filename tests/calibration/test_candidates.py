"""Candidates run whole against the model that was given, and the fastest is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import eqsat.onnx
from eqsat import cli
from eqsat.calibration import Setup, fastest
from eqsat.calibration.candidates import _choice
from eqsat.calibration.race import LIMIT, Race, Run, race
from eqsat.errors import ArgumentError, ModelError
from eqsat.pipeline.options import Options

SETUP = Setup(threads=1, level="off")


def network(body: str, ends: str = "(float[n, 8] x) => (float[n, 8] y)") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {ends} {{ {body} }}')


SMALL = "a = Relu (x) b = Relu (a) c = Neg (b) d = Neg (c) y = Tanh (d)"


def test_the_fastest_is_returned_and_all_are_told(tmp_path: Path) -> None:
    found = fastest(network(SMALL), setup=SETUP, dims={"n": 4}, seconds=0.1)
    given, *others = found.candidates
    assert given.name == "the model as it was"
    assert given.nodes == 5
    assert others[0].name == "what was asked for"
    assert others[0].nodes == 2
    assert found.inputs == {"x": "float32[4, 8]"}
    assert all(each.predicted > 0 and each.measured is not None for each in found.candidates)
    assert found.known.unknown == 0
    assert eqsat.onnx.verify(network(SMALL), found.done.after)[0].relative == 0.0


def test_candidates_without_kernels_run_beside_operators_of_the_runtime() -> None:
    body = "s = Sigmoid (x) a = Mul (x, s) y = MatMul (a, w)"
    model = network(body, "(float[n, 8] x, float[8, 8] w) => (float[n, 8] y)")
    options = Options(runtime="onnxruntime", contrib=True)
    found = fastest(model, setup=Setup(1, "off"), dims={"n": 4}, seconds=0.1, options=options)
    assert found.candidates[1].name == "what was asked for"
    assert found.candidates[1].nodes == 2  # QuickGelu is one


def test_a_model_is_not_written_slower_than_it_was() -> None:
    def chosen(asked: float, other: float | None, noise: float, predicted: float = 2.0) -> str:
        runs: list[Run | str] = [Run(1.0, 1.0, 0.0), Run(asked, asked, 0.0)]
        runs.append("it fails" if other is None else Run(other, other, 0.0))
        return ("given", "asked", "other")[_choice(Race(runs, noise), [1.0, 1.0, predicted])]

    assert chosen(0.9, 0.8, 0.01) == "other"
    assert chosen(0.9, None, 0.01) == "asked"
    assert chosen(1.005, 1.2, 0.01) == "asked"
    assert chosen(1.05, 1.2, 0.01) == "given"
    # with much noise nothing is chosen by it, but by what is predicted
    assert chosen(0.9, 0.5, LIMIT + 0.01) == "asked"
    assert chosen(0.5, 0.9, LIMIT + 0.01, predicted=0.5) == "other"
    assert chosen(0.5, None, LIMIT + 0.01, predicted=0.5) == "asked"
    assert chosen(1.5, 0.5, LIMIT + 0.01) == "given"


def test_models_that_do_not_run_are_told() -> None:
    good, bad = network("y = Neg (x)"), network("y = Sin (x)", "(float16[n, 8] x) => (float16[n, 8] y)")
    feed = {"x": np.ones((2, 8), np.float32)}
    found = race([good, good, bad], feed, SETUP, 0.05)
    assert [type(each) for each in found.runs] == [Run, Run, str]
    assert found.noise > 0
    with pytest.raises(ModelError, match="the model as it was does not run in onnxruntime"):
        race([bad, good], feed, SETUP, 0.05)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no input has a dynamic dimension 'm'"):
        fastest(network(SMALL), setup=SETUP, dims={"m": 4}, seconds=0.1)


def test_texts_are_fed_too() -> None:
    model = network("y = Identity (x)", "(string[n] x) => (string[n] y)")
    found = race([model, model], {"x": np.asarray(["a", "bc"], object)}, SETUP, 0.05)
    assert all(isinstance(each, Run) for each in found.runs)


def test_the_command_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out, proof = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "proof.json"
    onnx.save(network(SMALL), source)
    monkeypatch.setattr("eqsat.calibration.candidates._choice", lambda *_: 0)  # all others are slower
    args = ["--measure", "--threads", "1", "--dim", "n=4", "--verify", "1", "--certificate", str(proof)]
    done = CliRunner().invoke(cli.cli, ["optimize", str(source), str(out), *args, "--json"])
    assert done.exception is None, done.exception
    facts = json.loads(done.stdout)
    (chosen,) = [each for each in facts["candidates"]["measured"] if each["chosen"]]
    assert chosen["name"] == "the model as it was"
    assert chosen["nodes"] == facts["nodes"]["after"] == len(onnx.load(out).graph.node) == 5
    assert facts["cost"]["unit"] == "seconds in the runtime"
    assert facts["candidates"]["level"] == "off"
    assert CliRunner().invoke(cli.cli, ["check", str(source), str(out), str(proof)]).exit_code == 0


def test_ranks_that_are_told_wrong_do_not_matter() -> None:
    model = network("y = Neg (x)", "(float[n, 8] x) => (float[m] y)")
    found = race([model, model], {"x": np.ones((2, 8), np.float32)}, SETUP, 0.05)
    assert all(isinstance(each, Run) for each in found.runs)


def test_ranks_that_are_told_wrong_and_known_when_a_model_runs_do_not_matter() -> None:
    model = network("y = Reshape (x, s)", "(float[n, 8] x, int64[k] s) => (float[a, b] y)")
    feed = {"x": np.ones((2, 8), np.float32), "s": np.array([4, 2, 2], np.int64)}
    assert all(isinstance(run, Run) for run in race([model, model], feed, SETUP, 0.05).runs)


def test_what_ran_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fastest(network("y = Neg (x)"), setup=SETUP, dims={"n": 4}, seconds=0.05, options=Options(rules=[]))
    monkeypatch.setattr("eqsat.calibration.fastest", lambda *_, **__: found)
    onnx.save(network("y = Neg (x)"), tmp_path / "in.onnx")
    files = [str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx")]
    told = CliRunner().invoke(cli.cli, ["optimize", *files, "--measure", "--threads", "1"]).stdout
    assert "ran in turn on x float32[4, 8]; 1 threads, optimizer off" in told
    assert "the model as it was" in told
    assert "what was asked for" in told

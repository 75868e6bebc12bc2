"""What `--verify` and `--bench` print, and the exit codes that scripts go by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import parser

from eqsat.cli import cli
from eqsat.errors import FileError, ModelError
from eqsat.relay import nn
from eqsat.rules import RuleSet, rewrite, sets, variables

SPEAKING = "(float[N,height] x) => (float[N,height] y) { a = Relu (x) y = Relu (a) }"
DUMB = "(float[N,height] x) => (float[N,height] y) { a = Abs (x) n = Neg (a) b = Relu (n) y = Relu (b) }"


def run(*args: Any) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def written(path: Path, graph: str) -> Path:
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\ng {graph}'), path)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return written(tmp_path / "in.onnx", SPEAKING)


@pytest.fixture
def dumb(tmp_path: Path) -> Path:
    return written(tmp_path / "dumb.onnx", DUMB)


def test_what_was_run_is_printed(source: Path, tmp_path: Path) -> None:
    ran = run("optimize", source, tmp_path / "out.onnx", "--verify", 2, "--dim", "height=7", "--dim", "N=3")
    assert ran.exit_code == 0, ran.output
    assert "verified on x float32[3, 7]: 2 normal, 2 waves, 2 unit, 2 large, 2 small; seed 0; " in ran.output
    assert "of 10 s that its optional part may take" in ran.output


def test_the_share_of_mistakes_that_are_noticed_is_printed(tmp_path: Path) -> None:
    graph = """(float[N,2] x) => (float[N,2] y)
        <float[2] w = {1.0, 2.0}, float[2] v = {3.0, 4.0}> { a = Mul (x, w) y = Add (a, v) }"""
    ran = run("optimize", written(tmp_path / "in.onnx", graph), tmp_path / "out.onnx", "--verify", 1)
    assert "noticed 4 of 4 mistakes, each a wrong weight in another region of the result" in ran.output


@pytest.mark.parametrize("command", [["optimize"], ["partition", "--target", "dnnl"]], ids=" ".join)
def test_the_exit_code_is_3_when_nothing_is_proved(command: list[str], dumb: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    ran = run(*command, dumb, target, "--verify", 1)
    assert ran.exit_code == 3, ran.output
    assert "output y proves nothing: it is 0.0 everywhere; give other sizes" in ran.output
    assert target.exists()
    assert run(*command, dumb, target).exit_code == 0, "nothing was asked"


def test_folders_and_variants_have_the_same_exit_code(dumb: Path, tmp_path: Path) -> None:
    ran = run("optimize-all", tmp_path, tmp_path / "out", "--verify", 1, "--workers", 1, "--json")
    assert ran.exit_code == 3, ran.output
    (row,) = json.loads(ran.stdout)
    assert row["facts"]["verified"]["proves_nothing"] == {"y": "it is 0.0 everywhere"}
    ran = run("variants", dumb, "--count", 2, "--verify", 1, "--out", tmp_path / "variants")
    assert ran.exit_code == 3, ran.output
    assert "output y proves nothing" in ran.output


def test_inputs_may_be_given(source: Path, tmp_path: Path) -> None:
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, x=np.ones((1, 5), "f4"))
    command = ("optimize", source, tmp_path / "out.onnx", "--json", "--inputs")
    facts = json.loads(run(*command, arrays).stdout)
    assert facts["verified"]["kinds"] == {"given": 1}
    assert facts["verified"]["inputs"] == {"x": "float32[1, 5]"}
    ran = run(*command, source)
    assert isinstance(ran.exception, FileError)
    assert "is not a file of arrays: write one with numpy.savez" in str(ran.exception)
    assert "cannot read" in str(run(*command, tmp_path / "none.npz").exception)


@pytest.mark.parametrize("told", ["height", "=3", "height=", "height=tall", "height=-1"])
def test_a_size_without_name_or_number_is_refused(told: str, source: Path, tmp_path: Path) -> None:
    ran = run("optimize", source, tmp_path / "out.onnx", "--verify", 1, "--dim", told)
    assert ran.exit_code == 2
    assert "is not NAME=SIZE, as in height=320" in ran.output


def test_what_rounding_does_not_explain_is_not_written(source: Path, tmp_path: Path) -> None:
    (x,) = variables("x")
    sets["mine"] = RuleSet("mine", [rewrite("forget", nn.relu(x), x)])
    try:
        ran = run("optimize", source, tmp_path / "out.onnx", "--verify", 1, "--rules", "mine")
    finally:
        del sets["mine"]
    assert isinstance(ran.exception, ModelError)
    assert "times the difference that rounding explains: nothing is written; rule 'forget' is to blame" in str(
        ran.exception
    )


def test_latency_is_printed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.onnx.latency._ROUNDS", (2, 3))
    ran = run("optimize", source, tmp_path / "out.onnx", "--bench", "--dim", "N=4")
    assert ran.exit_code == 0, ran.output
    for optimizer in ("off", "on"):
        assert f"latency, optimizer of onnxruntime {optimizer}: " in ran.output
    assert "(medians of 3 runs in turn on x float32[4, 16])" in ran.output

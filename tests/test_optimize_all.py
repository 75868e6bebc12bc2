"""`eqsat optimize-all`, and `--report` of `eqsat optimize` and `eqsat compare`, as a user meets them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from eqsat.cli import cli
from eqsat.errors import ArgumentError


def model(path: Path, reluses: int) -> None:
    """A chain of as many ReLUs, all but one of which do nothing."""
    nodes = [helper.make_node("Relu", [f"v{index}"], [f"v{index + 1}"]) for index in range(reluses)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("v0", f"v{reluses}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "more").mkdir(parents=True)
    model(folder / "two.onnx", 2)
    model(folder / "more" / "three.onnx", 3)
    return folder


def run(*args: Any) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def test_every_model_of_a_folder_is_optimized(models: Path, tmp_path: Path) -> None:
    result = run("optimize-all", models, tmp_path / "out", "--verify", 1, "--workers", 1)
    assert result.exit_code == 0, result.output
    assert "2 models: 2 done, 0 skipped, 0 failed" in result.output
    assert len(onnx.load(tmp_path / "out" / "more" / "three.onnx").graph.node) == 1
    again = run("optimize-all", models, tmp_path / "out", "--verify", 1, "--workers", 1)
    assert "2 models: 0 done, 2 skipped, 0 failed" in again.output


def test_a_broken_model_is_told_and_the_exit_code_says_so(models: Path, tmp_path: Path) -> None:
    (models / "torn.onnx").write_bytes((models / "two.onnx").read_bytes()[:40])
    result = run("optimize-all", models, tmp_path / "out", "--workers", 1, "--json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(Path(row["source"]).name, row["status"]) for row in rows] == [
        ("three.onnx", "done"),
        ("torn.onnx", "failed"),
        ("two.onnx", "done"),
    ]
    assert rows[0]["facts"]["nodes"] == {"before": 3, "after": 1}
    assert result.stderr.count("torn.onnx is not an ONNX model") == 1
    assert not (tmp_path / "out" / "torn.onnx").exists()


def test_a_folder_without_models_is_no_failure(tmp_path: Path) -> None:
    result = run("optimize-all", tmp_path, tmp_path / "out")
    assert (result.exit_code, result.output.strip()) == (0, "0 models: 0 done, 0 skipped, 0 failed")


def test_a_report_page_is_written_when_asked_for(models: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("optimize", models / "two.onnx", tmp_path / "out.onnx", "--verify", 1, "--report", page, "--explain")
    assert result.exit_code == 0, result.output
    assert "made by input: 1 operators" in result.output
    assert "step 1 x relu-twice: nn.relu -> nothing  (at v2)" in result.output
    told = page.read_text()
    assert "<title>two.onnx" in told
    assert "ONNX nodes</dt><dd>2 → 1" in told
    assert "From the given graph to the result" in told
    assert "Output v2</dt><dd>differs by 0 of its largest value" in told


def test_the_report_page_shows_what_was_compared_and_what_that_proves(tmp_path: Path) -> None:
    source, page = tmp_path / "in.onnx", tmp_path / "report.html"
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])]
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("Sub", ["x", "x"], ["<z>"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y", "<z>")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), source)
    result = run("optimize", source, tmp_path / "out.onnx", "--verify", 2, "--bench", "--report", page)
    assert result.exit_code == 3, result.output
    told = page.read_text()
    kinds = "2 normal, 2 waves, 2 unit, 2 large, 2 small"
    assert f"<dt>Verified on</dt><dd>x float32[2, 3]: {kinds}; seed 0; " in told
    assert "<dt>Noticed</dt><dd>1 of 1 mistakes, each a wrong weight" in told
    assert "<dt>Output &lt;z&gt; proves nothing</dt><dd>it is 0.0 everywhere; give other sizes" in told
    assert "<dt>Latency, optimizer of onnxruntime off</dt><dd>" in told


def test_a_report_page_of_a_comparison_shows_the_orders(models: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("compare", models / "two.onnx", "--rules", "activations", "--orders", 1, "--report", page)
    assert result.exit_code == 0, result.output
    assert "Orders of rewriting" in page.read_text()


def test_a_summary_page_has_every_model_with_what_was_made_of_it_or_why_not(models: Path, tmp_path: Path) -> None:
    (models / "<torn>.onnx").write_bytes((models / "two.onnx").read_bytes()[:40])
    page = tmp_path / "models.html"
    for status in ("done", "skipped"):
        result = run("optimize-all", models, tmp_path / "out", "--workers", 1, "--report", page)
        assert result.exit_code == 1, result.output
        told = page.read_text()
        counts = {"done": 0, "skipped": 0} | {status: 2}
        assert f"<dd>3: {counts['done']} done, {counts['skipped']} skipped, 1 failed</dd>" in told
        assert "<dd>5 → 2, Constants left out</dd>" in told
        assert f"<td>two.onnx</td><td>{status}</td>" in told
        assert "<td>&lt;torn&gt;.onnx</td><td>" in told
        assert "is not an ONNX model, or is truncated" in told
        assert "<torn>" not in told


def test_a_summary_page_is_not_written_over_a_model(models: Path, tmp_path: Path) -> None:
    result = run("optimize-all", models, tmp_path / "out", "--workers", 1, "--report", models / "two.onnx")
    assert isinstance(result.exception, ArgumentError)
    assert "would be overwritten" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_costs_of_several_numbers_are_told_of_models_that_were_done_before(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_costs.py").write_text("def two(node):\n    return (1.0, 2.0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    command = ("optimize-all", models, tmp_path / "out", "--workers", 1, "--cost", "two_costs:two")
    first, again = (run(*command, "--report", tmp_path / "models.html") for _ in range(2))
    assert [first.exit_code, again.exit_code] == [0, 0], again.output
    assert "3, then 6 -> 2, then 4" in first.output
    assert "3, then 6 -> 2, then 4" in again.output


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
def test_a_model_that_takes_more_memory_than_it_may_has_failed(models: Path, tmp_path: Path) -> None:
    result = run("optimize-all", models, tmp_path / "out", "--workers", 1, "--model-memory", 20, "--json")
    rows = json.loads(result.stdout)
    assert [row["error"] for row in rows] == ["it took more than 20 MB of memory, and was ended"] * 2
    assert not list((tmp_path / "out").rglob("*.onnx"))

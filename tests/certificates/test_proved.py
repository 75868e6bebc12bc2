"""How much of an optimized model is proved, node by node, and how much can only be sampled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx_ir
import pytest
from click.testing import CliRunner

from eqsat import onnx
from eqsat.cli import cli
from eqsat.errors import ArgumentError
from eqsat.onnx.files import from_proto
from tests.onnx_frontend.models import parsed

MODEL = Path(__file__).parents[1] / "data" / "spellings" / "vit.sdpa.script.onnx"


def proved(proto: Any) -> onnx.Proved:
    return onnx.proved(onnx.run(from_proto(proto), explain=True))


def test_nodes_count_by_what_the_steps_keep_that_concern_no_operand() -> None:
    proto = parsed(
        "(float[4] x) => (float[4] z) <float[1] two = {2.0}, float[1] three = {3.0}>"
        " { a = Sigmoid(x) b = Mul(a, two) c = Mul(b, three) d = Tanh(c) e = Relu(d) z = Relu(e) }"
    )
    found = proved(proto)
    assert found.nodes == {"exact": 3, "rounding": 1, "finite": 0, "sampled": 0}
    assert str(found) == (
        "4 of 4 nodes follow from the given model by rules: 3 keep every bit of what they compute, 1 all but rounding"
    )
    assert not found.uncovered


def test_nodes_of_the_given_model_keep_every_bit() -> None:
    found = proved(parsed("(float[4] x) => (float[4] z) { a = Exp(x) z = NobodyKnows(a) }"))
    assert found.nodes == {"exact": 2, "rounding": 0, "finite": 0, "sampled": 0}


def test_nodes_in_bodies_count_as_what_they_are_in() -> None:
    then = "t () => (float[2] a) { z = Relu(x) a = Relu(z) }"
    found = proved(
        parsed(
            f"(bool c, float[2] x) => (float[2] y) {{ v = If (c) <then_branch = {then},"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> w = Relu(v) y = Relu(w) }"
        )
    )
    assert found.nodes == {"exact": 4, "rounding": 0, "finite": 0, "sampled": 0}
    assert not found.uncovered


def test_what_no_step_leads_to_is_only_sampled() -> None:
    then = "t () => (float[2] a) { r = RandomNormalLike(x) z = Relu(r) a = Relu(z) }"
    found = proved(
        parsed(
            f"(bool c, float[2] x) => (float[2] y) {{ v = If (c) <then_branch = {then},"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> w = Relu(v) y = Relu(w) }"
        )
    )
    assert found.nodes["sampled"] >= 3
    assert found.sampled["If"] == 1
    assert "only sampled: " in str(found)


def test_a_run_that_kept_nothing_proves_nothing() -> None:
    with pytest.raises(ArgumentError, match="explain=True"):
        onnx.proved(onnx.run(from_proto(parsed("(float[2] x) => (float[2] y) { y = Relu(x) }"))))


def test_optimize_tells_how_much_is_proved_where_it_verifies(tmp_path: Path) -> None:
    arguments = ["optimize", str(MODEL), str(tmp_path / "out.onnx"), "--verify", "1", "--json"]
    result = CliRunner().invoke(cli, [*arguments, "--report", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    counts = facts["proved"]["nodes"]
    assert sum(counts.values()) == facts["nodes"]["after"]
    assert counts["exact"] > 5
    assert counts["rounding"] > 5
    assert not counts["sampled"]
    assert "nodes follow from the given model by rules" in (tmp_path / "page.html").read_text()
    assert len(onnx_ir.load(tmp_path / "out.onnx").graph)

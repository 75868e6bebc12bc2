"""Why a rule does nothing to an ONNX model: the library and the command."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

from eqsat.cli import cli
from eqsat.errors import ModelError, RuleError
from eqsat.onnx import why_not
from eqsat.onnx.files import from_proto
from eqsat.rules import default

from .models import parsed

MODEL = from_proto(
    parsed(
        """(float[2, 4] x) => (float[2, 4] y) <float two = {2.0}>
        { a = Relu(x) b = Tanh(a) c = Relu(b) d = Relu(c) y = Mul(d, two) }""",
        17,
    )
)


def test_the_place_is_told_by_the_names_of_the_model() -> None:
    found = why_not(MODEL, "multiply-one")
    assert found.outcome == "unmatched"
    assert "(y): a constant of another value is wanted, the constant 2.0 is there" in str(found)


def test_the_answer_is_restricted_to_a_node() -> None:
    assert why_not(MODEL, "relu-twice").outcome == "chosen"
    found = why_not(MODEL, "relu-twice", "a")
    assert found.outcome == "unmatched"
    assert "nn.relu is wanted, the variable %x is there" in str(found)


def test_a_rule_that_does_not_act_is_tried_all_the_same() -> None:
    found = why_not(MODEL, "relu-twice", rules=default.without("relu-twice"))
    assert found.outcome == "acted" or "by itself it matches the given graph" in str(found)


def test_what_the_opset_has_no_single_operator_for_is_told() -> None:
    gelu = parsed(
        """(float[2, 4] x) => (float[2, 4] y) <float root = {1.4142135}, float one = {1.0}, float half = {0.5}>
        { a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half) }""",
        17,
    )
    assert why_not(from_proto(gelu), "gelu").outcome == "declined"
    assert why_not(from_proto(gelu), "gelu", opset=20).outcome == "chosen"


def test_unknown_names_are_told_with_those_like_them() -> None:
    with pytest.raises(RuleError, match="there is no rule 'relu-twise'; near to it are relu-twice"):
        why_not(MODEL, "relu-twise")
    with pytest.raises(ModelError, match="the model has no node or value 'bb'"):
        why_not(MODEL, "relu-twice", "bb")


def test_the_command_tells_it(tmp_path: Path) -> None:
    path = tmp_path / "in.onnx"
    onnx.save(parsed("(float[4] x) => (float[4] y) { a = Tanh(x) y = Relu(a) }"), path)
    told = CliRunner().invoke(cli, ["why-not", str(path), "relu-twice"])
    assert told.exit_code == 0
    assert told.output.splitlines()[0] == "relu-twice: its left side matches nowhere"
    told = CliRunner().invoke(cli, ["why-not", str(path), "relu-twice", "y", "--json"])
    assert json.loads(told.output)["outcome"] == "unmatched"

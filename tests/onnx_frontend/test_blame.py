"""A model that differs is traced to the rule that made it differ."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat import cli, relay
from eqsat.onnx import blame
from eqsat.onnx.blame import smallest
from eqsat.onnx.files import from_proto
from eqsat.rules import RuleSet, Soundness, default, rewrite, sets, variables

from .models import parsed

(x,) = variables("x")
relu, tanh = relay.nn.relu, relay.tanh

GRAPH = """(float[4] x) => (float[4] y) <float zero = {0.0}>
    { a = Add (x, zero) b = Tanh (a) c = Relu (b) d = Relu (c) e = Exp (d) y = Neg (e) }"""
UNSOUND = rewrite("forget-tanh", relu(tanh(x)), relu(x))


@given(st.sets(st.integers(0, 29), min_size=1, max_size=4), st.integers(30, 40))
def test_no_suspect_too_many_is_found(culprits: set[int], count: int) -> None:
    assert smallest(range(count), lambda some: culprits <= set(some)) == sorted(culprits)


def test_one_culprit_is_found_by_halving() -> None:
    tried = []

    def guilty(some: list[int]) -> bool:
        tried.append(some)
        return 700 in some

    assert smallest(range(1024), guilty) == [700]
    assert len(tried) <= 2 * 10


def test_an_unsound_rule_is_named() -> None:
    assert blame(from_proto(parsed(GRAPH)), [default, UNSOUND]) == ["forget-tanh"]


def test_rules_that_only_together_are_unsound_are_named_together() -> None:
    """The first makes nothing cheaper, the second finds nothing without it."""
    swap = rewrite("tanh-is-two-cosines", tanh(x), relay.cos(relay.cos(x)))
    drop = rewrite("forget-two-cosines", relay.cos(relay.cos(x)), x)
    assert blame(from_proto(parsed(GRAPH)), [default, swap, drop]) == ["tanh-is-two-cosines", "forget-two-cosines"]


def test_no_rule_is_blamed_for_what_is_equal() -> None:
    assert blame(from_proto(parsed(GRAPH)), [default]) is None


def test_rules_that_a_model_is_not_optimized_by_are_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that quantize by what they compute get exact rules only."""
    rounding = rewrite("forget-tanh", relu(tanh(x)), relu(x), soundness=Soundness.ROUNDING)
    for module in ("optimize", "blame"):
        monkeypatch.setattr(sys.modules[f"eqsat.onnx.{module}"], "default", RuleSet("default", [rounding]))
    monkeypatch.setattr(sys.modules["eqsat.onnx.optimize"], "WITHOUT_ATTENTION", RuleSet("default", [rounding]))
    plain = "(float[4] x) => (float[4] y) { a = Tanh (x) y = Relu (a) }"
    quantized = """(float[4] x) => (float[4] y, uint8[4] q)
        { a = Tanh (x) y = Relu (a) q, scale, point = DynamicQuantizeLinear (y) }"""
    assert blame(from_proto(parsed(plain))) == ["forget-tanh"]
    assert blame(from_proto(parsed(quantized))) is None


def test_an_unsound_rule_beside_a_pattern_table_is_named() -> None:
    assert blame(from_proto(parsed(GRAPH)), [default, UNSOUND], target="dnnl") == ["forget-tanh"]


@pytest.mark.parametrize("command", [["optimize"], ["partition", "--target", "dnnl"]], ids=" ".join)
def test_the_command_line_names_it(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(parsed(GRAPH), source)
    monkeypatch.setitem(sets, "mine", RuleSet("mine", [UNSOUND]))
    arguments = [*command, str(source), str(target), "--verify", "1", "--rules", "default", "--rules", "mine"]
    monkeypatch.setattr("sys.argv", ["eqsat", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("nothing is written; rule 'forget-tanh' is to blame\n")
    assert not target.exists()

"""A model that differs is traced to the rule that made it differ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from eqsat import cli, relay
from eqsat.errors import ArgumentError
from eqsat.onnx import bisect, blame
from eqsat.onnx.culprits import smallest
from eqsat.onnx.files import from_proto
from eqsat.relay.dataflow_pattern import is_op
from eqsat.rules import RuleSet, Soundness, default, rewrite, sets, variables

from .models import benchmark_module, parsed

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
    for module in ("optimize", "culprits"):
        monkeypatch.setattr(sys.modules[f"eqsat.onnx.{module}"], "default", RuleSet("default", [rounding]))
    for name in ("WITHOUT_ATTENTION", "WITHOUT_GELU"):
        monkeypatch.setattr(sys.modules["eqsat.onnx.optimize"], name, RuleSet("default", [rounding]))
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


# ---- checks of one's own

NAMES = ("Tanh", "Exp", "Sigmoid", "Softplus", "Erf", "Sin", "Cos", "Floor", "Ceil", "Sqrt")
OPERATORS = ("tanh", "exp", "sigmoid", "nn.softplus", "erf", "sin", "cos", "floor", "ceil", "sqrt")
CHAIN = (
    "(float[4] x) => (float[4] y) { a0 = Neg(x) "
    + " ".join([f"a{at + 1} = {name}(a{at})" for at, name in enumerate(NAMES)])
    + f" y = Neg(a{len(NAMES)}) }}"
)


@pytest.mark.parametrize(("name", "operator"), list(zip(NAMES, OPERATORS, strict=True)))
def test_the_bad_rule_is_found_by_a_check_of_ones_own(name: str, operator: str) -> None:
    bad = rewrite(f"forget-{operator}", is_op(operator)(x), x)
    good = [
        rewrite(f"twice-{each}", is_op(each)(is_op("negative")(is_op("negative")(x))), is_op(each)(x))
        for each in OPERATORS
    ]

    def passes(model: Any) -> bool:
        return name in [node.op_type for node in model.graph]

    assert bisect(from_proto(parsed(CHAIN)), passes, [*good, default.only("negate-twice"), bad]) == [bad.name]


def test_a_check_that_passes_blames_nobody() -> None:
    assert bisect(from_proto(parsed(GRAPH)), lambda _: True) is None


def test_a_check_that_fails_before_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the check fails on the given model"):
        bisect(from_proto(parsed(GRAPH)), lambda _: False)


def test_a_check_that_fails_on_what_is_written_without_rules_blames_none() -> None:
    given = from_proto(parsed(GRAPH))
    assert bisect(given, lambda model: model is given) == []


def test_bisect_runs_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, check = tmp_path / "in.onnx", tmp_path / "check.py"
    onnx.save(parsed(GRAPH), model)
    check.write_text("import onnx, sys\nsys.exit('Relu' not in [n.op_type for n in onnx.load(sys.argv[1]).graph.node])")
    (tmp_path / "forgetful.py").write_text(
        "from eqsat import relay, rules\n"
        "(x,) = rules.variables('x')\n"
        "forgetful = rules.RuleSet('forgetful', [rules.rewrite('forget-relu', relay.nn.relu(x), x)])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = ["bisect", str(model), "--check", f"{sys.executable} {check}", "--rules", "forgetful:forgetful"]
    told = CliRunner().invoke(cli.cli, command)
    assert told.exit_code == 0, told.output
    assert told.output.startswith("forget-relu: with it the check fails (")
    assert "x forget-relu: nn.relu -> nothing" in told.output


def test_a_command_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    model = tmp_path / "in.onnx"
    onnx.save(parsed(GRAPH), model)
    told = CliRunner().invoke(cli.cli, ["bisect", str(model), "--check", "no-such-command-here"])
    assert isinstance(told.exception, ArgumentError)
    assert "cannot run --check" in str(told.exception)


def told(tmp_path: Path, *arguments: str) -> Any:
    """What the command says of the model, with a rule that forgets the Relu nodes."""
    model = tmp_path / "in.onnx"
    onnx.save(parsed(GRAPH), model)
    return CliRunner().invoke(cli.cli, ["bisect", str(model), *arguments])


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "check.py"
    path.write_text(text)
    return f"{sys.executable} {path}"


def test_a_number_is_a_tolerance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = default.only("relu-twice")
    monkeypatch.setitem(sets, "mine", RuleSet("mine", [good, UNSOUND]))
    monkeypatch.setitem(sets, "good", RuleSet("good", [good]))
    assert told(tmp_path, "--check", "0.001", "--rules", "mine").output.startswith("forget-tanh: with it the check")
    assert told(tmp_path, "--check", "0.001", "--rules", "good").output.startswith("the check passes on the optimized")
    assert "or a number that is not negative" in str(told(tmp_path, "--check", "-1").exception)


def test_a_check_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    found = told(tmp_path, "--check", script(tmp_path, "import time\ntime.sleep(60)"), "--check-seconds", "0.2")
    assert isinstance(found.exception, ArgumentError)
    assert "took more than 0.2 seconds on a model and was stopped" in str(found.exception)


def test_a_check_that_hangs_on_an_optimized_model_only_is_told(tmp_path: Path) -> None:
    hangs = "import sys, time\ntime.sleep(60 * (b'eqsat.rules' in open(sys.argv[1], 'rb').read()))"
    found = told(tmp_path, "--check", script(tmp_path, hangs), "--check-seconds", "2")
    assert "took more than 2 seconds on a model" in str(found.exception)


def test_a_check_without_a_certain_answer_is_told() -> None:
    answers = iter([True, True, True, False])  # given, without rules, with those that acted, the optimized model
    with pytest.raises(ArgumentError, match="but not when the model is made again: its answers are not reproducible"):
        bisect(from_proto(parsed(GRAPH)), lambda _: next(answers, True))


def test_what_the_check_raises_is_told() -> None:
    def passes(model: Any) -> bool:
        raise ArgumentError("there is no such file")

    with pytest.raises(ArgumentError, match="there is no such file"):
        bisect(from_proto(parsed(GRAPH)), passes)


def test_a_command_that_is_none_is_told(tmp_path: Path) -> None:
    assert "is not a command" in str(told(tmp_path, "--check", "python 'open").exception)
    assert "--check is empty" in str(told(tmp_path, "--check", "").exception)


# ---- bad rules that are made of shipped ones

PLANTED = benchmark_module("planted")


def test_bad_rules_of_several_kinds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PLANTED, "LEFT_SIDES", 2)
    found = list(PLANTED.trials(3, seed=1))
    assert [trial for trial in found if not trial.is_found] == []
    assert len({trial.planted.kind for trial in found}) >= 2

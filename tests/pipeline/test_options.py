"""One record of options for every function, and what each option promises."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx.parser
import pytest
from click.testing import CliRunner, Result

import eqsat
from eqsat import cli, relay, rules
from eqsat import onnx as models
from eqsat.egraph.report import Report
from eqsat.errors import ArgumentError, EqsatError, LimitError, RuleError
from eqsat.extraction import Bytes
from eqsat.layers.optimize import optimize_with_report
from eqsat.onnx.files import from_proto
from eqsat.pipeline.extract import Extraction
from eqsat.relay.expr import Function
from eqsat.relay.structural import structural_equal
from eqsat.rules import rewrite, type_of, variables, when

from .test_layers import chain, steps


def parsed(graph: str) -> Any:
    """The model of a graph in ONNX's text."""
    return from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}'))


(x,) = variables("x")
relu, tanh = relay.nn.relu, relay.tanh
VAR = relay.var("v", shape=(4,))
TWICE = relu(relu(VAR))
HALVED = rewrite("relu-twice", relu(relu(x)), relu(x))
BROKEN = rewrite("broken", relu(x), x, when(lambda ty: ty.shape[7], type_of(x)))
MODEL = parsed("(float[4] x) => (float[4] y) { a = Relu (x) b = Relu (a) y = Neg (b) }")


def nodes_of(model: Any) -> int:
    return len(model.graph)


# ---- one record serves every function

DOORS: dict[str, Callable[..., Any]] = {
    "saturate": lambda **given: eqsat.extract(eqsat.saturate(TWICE, **given)).expr,
    "extract": lambda **given: eqsat.extract(eqsat.saturate(TWICE, [HALVED]), **given).expr,
    "optimize": lambda **given: eqsat.optimize(TWICE, **given),
    "optimize_with_report": lambda **given: optimize_with_report(TWICE, **given).expr,
    "compare_orders": lambda **given: eqsat.compare_orders(TWICE, **given).extraction.expr,
    "EqualitySaturation": lambda **given: (
        relay.transform.EqualitySaturation(**given)(eqsat.IRModule.from_expr(TWICE))["main"].body
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_function_takes_all_options_at_once(door: str) -> None:
    options = eqsat.Options(rules=[HALVED], method="dag", limits=eqsat.Limits(iterations=5), on_error="skip")
    found = DOORS[door](options=options)
    assert isinstance(found, relay.Call)
    assert found.op.name == "nn.relu"
    assert isinstance(found.args[0], relay.Var)


def test_models_take_all_options_at_once() -> None:
    options = eqsat.Options(rules=[HALVED], cost_model=Bytes(), opset=21)
    for made in (
        models.optimize(MODEL, options=options),
        models.run(MODEL, options=options).after,
        models.partition(MODEL, "dnnl", options=options).after,
    ):
        assert nodes_of(made) == 2
        assert made.opset_imports[""] == 21
    assert models.blame(MODEL, options=options) is None


def test_keywords_change_what_options_say() -> None:
    options = eqsat.Options(rules=[HALVED])
    assert structural_equal(eqsat.optimize(TWICE, options=options), relu(VAR))
    assert structural_equal(eqsat.optimize(TWICE, rules=[], options=options), TWICE)
    assert eqsat.saturate(TWICE, options=options, limits=eqsat.Limits(iterations=1)).stop_reason == "iterations"


def test_rules_may_be_read_only_once() -> None:
    options = eqsat.Options(rules=(each for each in [HALVED]))
    for _ in range(2):
        assert structural_equal(eqsat.optimize(TWICE, options=options), relu(VAR))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"limits": 3}, ArgumentError, r"limits=3: give eqsat\.Limits"),
        ({"cost_model": "opcount"}, ArgumentError, "cost_model='opcount': give a function"),
        ({"method": "magic"}, ArgumentError, "method is 'tree' or .*, not 'magic'"),
        ({"seconds": 0}, LimitError, "seconds=0: give a number above 0"),
        ({"seconds": float("nan")}, LimitError, "seconds=nan"),
        ({"on_error": "ignore"}, ArgumentError, "on_error is 'raise' or 'skip', not 'ignore'"),
        ({"explain": 1}, ArgumentError, "explain=1: give True or False"),
        ({"runtime": "tvm"}, ArgumentError, "runtime is 'none' or .*, not 'tvm'"),
        ({"opset": "17"}, ArgumentError, "opset='17': give a number"),
        ({"options": {}}, ArgumentError, r"options=\{\}: give eqsat\.Options"),
        ({"metod": "dag"}, ArgumentError, "metod"),
    ],
)
def test_bad_values_are_named(wrong: dict[str, Any], error: type[EqsatError], message: str) -> None:
    with pytest.raises(error, match=message):
        models.optimize(MODEL, **wrong)


def test_an_option_of_another_step_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"saturate: .*'cost_model'"):
        eqsat.saturate(TWICE, cost_model=Bytes())  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"extract: .*'rules'"):
        eqsat.extract(eqsat.saturate(TWICE, []), rules=[])  # type: ignore[call-arg]


@pytest.mark.parametrize("function", [models.optimize, models.run, eqsat.optimize, models.partition])
def test_signatures_list_every_option(function: Callable[..., Any]) -> None:
    shown = inspect.signature(function).parameters
    model_only = set() if function is not eqsat.optimize else {"contrib", "opset", "provenance"}
    assert set(inspect.signature(eqsat.Options).parameters) - model_only <= set(shown)
    assert not [each for each in shown.values() if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    assert shown["method"].default == eqsat.Options().method


# ---- what options promise


def test_extraction_leaves_the_saturation_as_it_was() -> None:
    saturation = eqsat.saturate(TWICE, [HALVED])
    before = saturation.report.to_json()
    first, second = eqsat.extract(saturation), eqsat.extract(saturation, Bytes())
    assert saturation.report.to_json() == before
    for each in (first, second):
        told = each.report.to_json()
        assert {"extract", "build"} <= told["phases"].keys()
        assert {name: told["phases"][name] for name in before["phases"]} == before["phases"]
        assert (told["rules"], told["iterations"]) == (before["rules"], before["iterations"])


class Clock:
    """A clock that goes on by itself a little, and by ten seconds whenever it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = 0.0
        self.told = 0
        monkeypatch.setattr(time, "perf_counter", self.read)

    def read(self) -> float:
        self.now += 1e-6
        return self.now

    def slow(self, *_: object) -> bool:
        self.now += 10.0
        self.told += 1
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_time_limit_holds_for_all_functions_of_a_module(clock: Clock) -> None:
    """Each function's rule takes ten seconds: with 25, the third is the last that begins."""
    slow = rewrite("slow", relu(x), tanh(x), when(clock.slow, type_of(x)))
    module = eqsat.IRModule()
    for number in range(6):
        var = relay.var("v", shape=(4 + number,))
        module[f"f{number}"] = Function([var], relu(var))
    saturation = eqsat.saturate(module, [slow], eqsat.Limits(seconds=25.0))
    assert clock.told == 3
    assert saturation.stop_reason == "seconds"


def test_the_time_limit_holds_for_layers_and_the_attempt_after_them(clock: Clock) -> None:
    """The few layers that are tried take all the time there is: the whole is not saturated any more."""
    function = chain(lambda value, number: steps(value))
    slow = rewrite("slow", tanh(x), relu(x), when(clock.slow, type_of(x)))
    result = optimize_with_report(function, [slow], limits=eqsat.Limits(seconds=9.0))
    assert clock.told == 1
    assert result.report.stop_reason == "seconds"


def test_the_time_limit_holds_for_bodies_of_a_model(clock: Clock) -> None:
    branches = parsed(
        """(float[4] x, bool c) => (float[4] y) { y = If (c) <
            then_branch = t () => (float[4] a) { a = Relu (x) },
            else_branch = e () => (float[4] b) { p = Relu (x) b = Neg (p) }> }"""
    )
    slow = rewrite("slow", relu(x), tanh(x), when(clock.slow, type_of(x)))
    models.optimize(branches, rules=[slow], limits=eqsat.Limits(seconds=5.0))
    assert clock.told == 1


def test_the_choice_has_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one function does not use is left for those after it."""
    given: list[float] = []
    extract = eqsat.extraction.extract

    def noted(problem: Any, method: str, **limits: Any) -> Any:
        given.append(limits["seconds"])
        return extract(problem, method, **limits)

    monkeypatch.setattr(eqsat.extraction, "extract", noted)
    module = eqsat.IRModule()
    for name in "ab":
        module[name] = Function([VAR], TWICE)
    eqsat.extract(eqsat.saturate(module, [HALVED]), seconds=8.0)
    first, second = given
    assert first == 4.0
    assert 4.0 < second < 8.0


@pytest.mark.parametrize("function", [models.optimize, models.run, eqsat.optimize, optimize_with_report])
def test_failing_rules_end_the_run_or_not(function: Callable[..., Any]) -> None:
    given = TWICE if function in (eqsat.optimize, optimize_with_report) else MODEL
    with pytest.raises(RuleError, match="broken: its Python part failed"):
        function(given, rules=[BROKEN, HALVED])
    assert function(given, rules=[BROKEN, HALVED], on_error="skip") is not None
    if function is optimize_with_report:
        report: Report = function(given, rules=[BROKEN, HALVED], on_error="skip").report
        assert {failure.rule for failure in report.failures} == {"broken"}


def test_explanations_are_reached_through_options() -> None:
    done: Extraction = optimize_with_report(TWICE, options=eqsat.Options(rules=[HALVED], explain=True))
    assert [step.rule for step in done.explanation.steps()] == ["relu-twice"]


# ---- the command line


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "in.onnx"
    models.save(MODEL, path)
    return path


def run(*args: Any) -> Result:
    return CliRunner().invoke(cli.cli, [str(arg) for arg in args])


COMMANDS = ["optimize", "optimize-all", "partition", "compare"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_shared_options(command: str) -> None:
    shown = run(command, "--help").output
    for option in (
        "--rules",
        "--cost",
        "--runtime",
        "--extract ",
        "--iterations",
        "--nodes",
        "--seconds",
        "--extract-seconds",
        "--on-error",
        "--explain",
        "--opset",
    ):
        assert option in shown


def test_commands_end_at_failing_rules_or_not(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.sets, "broken", rules.RuleSet("broken", [BROKEN]))
    out = tmp_path / "out.onnx"
    failed = run("optimize", model, out, "--rules", "broken")
    assert isinstance(failed.exception, RuleError)
    done = run("optimize", model, out, "--rules", "broken", "--on-error", "skip")
    assert done.exit_code == 0, done.output
    assert out.exists()


def test_the_runtime_is_reported(model: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "out.onnx", tmp_path / "page.html"
    assert "runtime none" in run("optimize", model, out, "--report", page).output
    assert "<dt>Runtime</dt><dd>none</dd>" in page.read_text()
    told = run("optimize", model, out, "--runtime", "onnxruntime", "--json").stdout
    assert json.loads(told)["runtime"] == "onnxruntime"


def test_a_comparison_is_explained(model: Path) -> None:
    told = json.loads(run("compare", model, "--orders", 1, "--explain", "--json").stdout)
    assert [change["rule"] for change in told["changes"]] == ["relu-twice"]
    assert told["made_by"]


def test_a_partition_is_explained_and_written_over_newer_operators(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = run("partition", model, out, "--target", "dnnl", "--explain", "--opset", 21, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["changes"]
    assert models.load(out).opset_imports[""] == 21

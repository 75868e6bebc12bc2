"""What the documents show is true: programs run and print what is shown, commands exist, links lead somewhere.

The programs of CONTRIBUTING.md run in ``test_contributing.py``, on trees to which its changes are applied.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from eqsat.calibration import profile
from eqsat.cli import cli, load_command
from eqsat.cli.examples import EXAMPLES
from eqsat.egraph.rule import PythonRule, Rewrite
from eqsat.relay.dataflow_pattern import DFPatternCallback
from eqsat.relay.expr import Op
from eqsat.rules.verify import verify

ROOT = Path(__file__).parent.parent
TORCH = ROOT / "docs" / "torch.md"
"""Its programs run in ``tests/torch/test_document.py``, where PyTorch is installed."""
PROGRAMS = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - {TORCH})]
DOCUMENTS = [*PROGRAMS, TORCH, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def blocks(document: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", document.read_text(encoding="utf-8"), re.S | re.M)


def programs(document: Path) -> Iterator[tuple[str, str | None]]:
    """The Python programs in order, each with what it prints, where a block of text right after it says so."""
    found = [*blocks(document), ("", "")]
    for (language, text), (following, output) in pairwise(found):
        if language == "python":
            yield text, output if following == "text" else None


def rules_among(values: list[Any]) -> list[Any]:
    """The rules among the values that a program gave names to, in lists of them, and of callbacks that it defines."""
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    classes = [part for part in parts if isinstance(part, type) and part.__module__ == "document"]
    callbacks = [each() for each in classes if issubclass(each, DFPatternCallback)]
    return [*callbacks, *(part for part in parts if isinstance(part, (Rewrite, PythonRule)))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_measurements: None) -> Path:
    """A working folder, from which modules are imported, with the files that the documents name."""
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [given], [result]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "models").mkdir()
    gym = {"nodes": {"0": {"op": "a", "children": [], "eclass": "0", "cost": 2.0}}, "root_eclasses": ["0"]}
    (tmp_path / "graph.json").write_text(json.dumps(gym))
    monkeypatch.chdir(tmp_path)
    # single runs of small kernels may seem to take no time: each takes this more, so that fewer of them cost less
    monkeypatch.setattr(profile, "measure_change", lambda setup, reference, spent: (1e-7, reference))
    monkeypatch.setattr(Op, "_registry", dict(Op._registry))  # programs add operators
    return tmp_path


@pytest.mark.parametrize("document", PROGRAMS, ids=lambda document: document.name)
@pytest.mark.usefixtures("folder")
def test_the_programs_run_and_print_what_is_shown(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "document"}
    for program, output in programs(document):
        before = dict(names)
        exec(compile(program, str(document), "exec"), names)
        printed = capsys.readouterr().out
        assert output is None or printed == output, program
        new = [value for name, value in names.items() if before.get(name) is not value]
        for verdict in verify(rules_among(new), instances=10):
            assert verdict.ok, (verdict.rule, verdict.soundness, verdict.status, verdict.detail)
    if is_tutorial(document):
        check_commands(document)


def is_tutorial(document: Path) -> bool:
    """Whether the programs of a document write the files of its commands."""
    return document.parent.name == "tutorial"


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if not is_tutorial(each)], ids=lambda each: each.name)
@pytest.mark.usefixtures("folder")
def test_the_commands_run(document: Path) -> None:
    check_commands(document)


def check_commands(document: Path) -> None:
    """Run the commands of a document."""
    lines = [line for language, text in blocks(document) if language == "sh" for line in text.splitlines()]
    for line in lines:
        name, *arguments = shlex.split(line, comments=True) or [""]
        if name == "eqsat":
            ran = CliRunner().invoke(cli, arguments)
            assert ran.exit_code == 0, (line, ran.output, ran.exception)


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands by name, those of groups too."""
    for name in list(cli.commands):
        load_command(name)
        command = cli.commands[name]
        inner = command.commands if isinstance(command, click.Group) else None
        yield from [(name, command)] if inner is None else [(f"{name} {each}", inner[each]) for each in inner]


def test_the_help_of_every_command_ends_with_examples_and_all_tell_json() -> None:
    found = dict(commands())
    assert {*found} == {*EXAMPLES}
    for name, command in found.items():
        told = CliRunner().invoke(command, ["--help"]).output
        assert told.split("Examples:\n")[1].split("\n") == [*(f"    {line}" for line in EXAMPLES[name]), ""], name
        assert "--json" in told


@pytest.mark.usefixtures("folder")
def test_the_examples_of_the_help_run() -> None:
    for line in [line for lines in EXAMPLES.values() for line in lines]:
        ran = CliRunner().invoke(cli, shlex.split(line)[1:])
        assert ran.exit_code == 0, (line, ran.output, ran.exception)


def test_extras_are_told_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    told = (ROOT / "README.md").read_text(encoding="utf-8").partition("Its extras are ")[2].partition(".")[0]
    assert set(re.findall(r"`([\w-]+)`", told)) == set(extras)
    assert {*re.findall(r"pip install '\.\[([\w-]+)\]'", (ROOT / "README.md").read_text(encoding="utf-8"))} <= {*extras}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_the_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_readme_shows_programs_and_their_output() -> None:
    assert [output is not None for _, output in programs(ROOT / "README.md")] == [True]


def test_the_map_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "src" / "eqsat").glob("*/__init__.py")}
    named = re.findall(r"`eqsat\.(\w+)`", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert packages <= {*named}


def test_the_readme_shows_what_was_measured_last() -> None:
    table = runpy.run_path(str(ROOT / "benchmarks" / "peers_table.py"))
    assert f"{table['summary']()}\n\n{table['told']()}\n" in (ROOT / "README.md").read_text(encoding="utf-8")

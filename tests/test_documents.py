"""What the documents show is true: programs run and print what is shown, commands exist, links lead somewhere.

The programs of CONTRIBUTING.md run in ``test_contributing.py``, on trees to which its changes are applied.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from onnx import TensorProto, helper

from eqsat.cli import cli
from eqsat.relay.expr import Op

ROOT = Path(__file__).parent.parent
PROGRAMS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCUMENTS = [*PROGRAMS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def blocks(document: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", document.read_text(encoding="utf-8"), re.S | re.M)


def programs(document: Path) -> Iterator[tuple[str, str | None]]:
    """The Python programs in order, each with what it prints, where a block of text right after it says so."""
    found = [*blocks(document), ("", "")]
    for (language, text), (following, output) in pairwise(found):
        if language == "python":
            yield text, output if following == "text" else None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that the documents name."""
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [given], [result]))
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "models").mkdir()
    (tmp_path / "graph.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Op, "_registry", dict(Op._registry))  # programs add operators
    return tmp_path


@pytest.mark.parametrize("document", PROGRAMS, ids=lambda document: document.name)
@pytest.mark.usefixtures("folder")
def test_the_programs_run_and_print_what_is_shown(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "document"}
    for program, output in programs(document):
        exec(compile(program, str(document), "exec"), names)
        printed = capsys.readouterr().out
        assert output is None or printed == output, program


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
@pytest.mark.usefixtures("folder")
def test_the_commands_exist_with_their_options(document: Path) -> None:
    lines = [line for language, text in blocks(document) if language == "sh" for line in text.splitlines()]
    for line in lines:
        name, *arguments = shlex.split(line, comments=True) or [""]
        command: click.Command = cli
        while name == "eqsat" and isinstance(command, click.Group):
            _, found, arguments = command.resolve_command(click.Context(command), arguments)
            assert found is not None, line
            command = found
        if name == "eqsat":
            command.make_context(command.name, arguments)


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

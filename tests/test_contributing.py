"""The changes in CONTRIBUTING.md apply to the tree as it is, do what they say, and touch as few files as promised."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECTIONS = {
    title: dict(re.findall(r"^```(diff|python|text)\n(.*?)^```$", body, re.S | re.M))
    for title, body in re.findall(
        r"^## (Add .*?)\n(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S | re.M
    )
}
VERIFY = """
import sys
from eqsat import rules
from eqsat.egraph.rule import Rewrite
from eqsat.rules.verify import verify
shipped = {rule.name: rule for each in rules.sets.values() for rule in each}
own = {value.name: value for value in list(vars().values()) if isinstance(value, Rewrite)}
print(*[(verdict.rule, verdict.status) for verdict in verify([{**shipped, **own}[name] for name in sys.argv[1:]], 30)])
"""
"""Put rules through the verifier by name, be they in a file or the program's own."""

MOST_FILES = {"Add an operator": 2, "Add a rule": 1, "Add a pattern class": 4, "Add an expression class": 6}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources, compiled ones too, with the links from the package to the folders at the top level."""
    for name in ("src", "rules", "extraction", "tests"):
        unwanted = shutil.ignore_patterns("*.egg-info", "data")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=unwanted)
    return tmp_path


def test_there_is_an_example_of_everything_that_is_meant_to_be_extended() -> None:
    things = ["operator", "rule", "cost model", "runtime", "pattern class", "expression class", "front end"]
    assert [title.split(" ", 2)[2] for title in SECTIONS] == things


def apply(diff: str, tree: Path) -> None:
    outside_of_git = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tree, env=outside_of_git, check=True)


def run(program: str, tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=False)


def written_rules(parts: dict[str, str]) -> list[str]:
    """The names of the rules that are written in a section."""
    added = "".join(re.findall(r"^\+.*\n", parts["diff"], re.M))
    return re.findall(r'rewrite\(\s*"([^"]+)"', added + parts["python"])


@pytest.mark.parametrize("title", SECTIONS)
def test_the_change_applies_and_works_and_the_verifier_finds_nothing_wrong_with_rules(title: str, tree: Path) -> None:
    parts, names = SECTIONS[title], written_rules(SECTIONS[title])
    apply(parts["diff"], tree)
    ran = run(parts["python"] + VERIFY if names else parts["python"], tree, *names)
    verdicts = " ".join(str((name, "sound")) for name in names)
    assert (ran.stdout, ran.returncode) == (parts["text"] + f"{verdicts}\n" * bool(names), 0), ran.stderr


@pytest.mark.parametrize("title", MOST_FILES)
def test_the_change_touches_few_files(title: str) -> None:
    files = re.findall(r"^\+\+\+ b/(\S+)$", SECTIONS[title]["diff"], re.M)
    assert len(files) <= MOST_FILES[title]

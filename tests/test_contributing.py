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
MOST_FILES = {"Add an operator": 2, "Add a rule": 1, "Add a pattern class": 4, "Add an expression class": 6}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources, with the links from the package to the folders at the top level."""
    for name in ("src", "rules", "extraction", "tests"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "data")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=unwanted)
    return tmp_path


def test_there_is_an_example_of_everything_that_is_meant_to_be_extended() -> None:
    things = ["operator", "rule", "cost model", "runtime", "pattern class", "expression class", "front end"]
    assert [title.split(" ", 2)[2] for title in SECTIONS] == things


@pytest.mark.parametrize("title", SECTIONS)
def test_the_change_applies_and_works(title: str, tree: Path) -> None:
    parts = SECTIONS[title]
    outside_of_git = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    subprocess.run(["git", "apply", "-"], input=parts["diff"], text=True, cwd=tree, env=outside_of_git, check=True)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    program = [sys.executable, "-c", parts["python"]]
    ran = subprocess.run(program, env=environment, cwd=tree, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == (parts["text"], 0), ran.stderr


@pytest.mark.parametrize("title", MOST_FILES)
def test_the_change_touches_few_files(title: str) -> None:
    files = re.findall(r"^\+\+\+ b/(\S+)$", SECTIONS[title]["diff"], re.M)
    assert len(files) <= MOST_FILES[title]

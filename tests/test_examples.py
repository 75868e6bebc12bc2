"""The programs of examples/ run, and say what they are meant to show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

ROOT = Path(__file__).parent.parent
SHOWN = {
    "compare_rewrite_orders": r"input cost \d+, saturation \d+; of 2 runs",
    "minimize_traffic": r"bytes written before",
    "optimize_a_model": r"95 nodes before, \d\d after",
    "prove_a_rule": r"pool-before-relu: sound on \d+ instances, proved for (any rank|all \w+)",
    "serve_an_accelerator": r"16 x mine.conv2d_bias_relu",
}
"""Name of a program -> what it prints, among other things."""
LESS = {"minimize_traffic", "prove_a_rule"}
"""Programs that print how much is moved before and after, which is less."""


def run(name: str) -> str:
    """What a program prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout


def test_each_program_is_run_here() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*SHOWN}


@pytest.mark.parametrize("name", SHOWN)
def test_the_program_runs(name: str) -> None:
    printed = run(name)
    assert re.search(SHOWN[name], printed)
    if name in LESS:
        before, after = map(float, re.findall(r"([\d.e+]+)(?: bytes)?(?: written)? (?:before|after)", printed))
        assert after < before


def test_the_cells_of_the_notebook_run_and_show_their_values() -> None:
    notebook = json.loads((ROOT / "examples" / "look_at_a_result.ipynb").read_text(encoding="utf-8"))
    shell, shown = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}})), []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            ran = shell.run_cell("".join(cell["source"]))
            ran.raise_error()
            if ran.result is not None:
                formats, _ = shell.display_formatter.format(ran.result)
                shown.append("text/html" in formats or "image/svg+xml" in formats)
    assert shown == [True, True, True]

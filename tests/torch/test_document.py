"""The programs of docs/torch.md run and print what is shown."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

DOCUMENT = Path(__file__).parents[2] / "docs" / "torch.md"


@pytest.mark.filterwarnings("ignore")
def test_the_programs_run_and_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.S | re.M)
    names: dict[str, Any] = {"__name__": "document"}
    for (language, program), (following, output) in pairwise([*blocks, ("", "")]):
        if language == "python":
            exec(compile(program, str(DOCUMENT), "exec", dont_inherit=True), names)
            printed = capsys.readouterr().out
            assert following != "text" or printed == output, program

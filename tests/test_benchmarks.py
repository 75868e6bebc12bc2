"""Benchmarks are programs that still run: each loads all that it names, down to single rules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_it_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    if name.startswith("torch_"):
        pytest.importorskip("torch")
    module = importlib.import_module(name)
    assert Path(str(module.__file__)).parent == FOLDER
    sys.modules.pop(name)

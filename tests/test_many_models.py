"""Many models on a cluster whose workers are killed: each has one result or one reason, and nothing is done twice."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def many_models(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("many_models")
    monkeypatch.setattr(module, "MODEL_SECONDS", 6)
    expected = module.EXPECTED | {"never_returns.onnx": "it took more than 6 seconds, and was ended"}
    monkeypatch.setattr(module, "EXPECTED", expected)
    return module


@pytest.mark.slow
def test_models_survive_what_happens_to_workers(many_models: Any, tmp_path: Path) -> None:
    many_models.write_models(tmp_path / "models", 16)
    assert many_models.survive(tmp_path / "models", tmp_path / "out", workers=2, between=5.0) == []


def test_a_model_without_a_row_and_one_with_two_are_told(many_models: Any, tmp_path: Path) -> None:
    """The check itself notices what it looks for."""
    models, out = tmp_path / "models", tmp_path / "out"
    many_models.write_models(models, 5)
    first, second = (str(path) for path in sorted(models.glob("part*/*.onnx")))
    rows = [{"source": first, "status": "done", "error": ""}] * 2
    wrong = many_models.mistakes(models, out, rows)
    assert f"{Path(first).relative_to(models)} has 2 rows" in wrong
    assert f"{Path(second).relative_to(models)} has 0 rows" in wrong
    assert f"{Path(first).relative_to(models)} is done: " in wrong


def test_a_model_that_failed_for_a_reason_of_its_own_is_told(many_models: Any, tmp_path: Path) -> None:
    many_models.write_models(tmp_path, 4)
    (ordinary,) = tmp_path.glob("part*/*.onnx")

    def told(error: str) -> bool:
        rows = [{"source": str(ordinary), "status": "failed", "error": error}]
        wrong = many_models.mistakes(tmp_path, tmp_path / "out", rows)
        return f"{ordinary.relative_to(tmp_path)} failed for another reason: {error}" in wrong

    assert told("KeyError: 'x'")
    assert told(many_models.EXPECTED["takes_all_memory.onnx"])
    assert not told(many_models.EXPECTED["never_returns.onnx"])
    assert not told(f"{many_models.KILLED}: try again")

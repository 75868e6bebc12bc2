"""Fusions of four kinds are found in each of four ways to write them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from torch_fusions import found_by_rules, fusions  # noqa: E402


@pytest.mark.parametrize("index", range(4))
def test_one_pair_of_functions_finds_every_spelling(index: int) -> None:
    assert found_by_rules(fusions()[index]) == [True] * 4

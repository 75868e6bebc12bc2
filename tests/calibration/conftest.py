"""Measurements of tests are short: how long kernels and models take is no matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqsat.calibration import measuring, profile


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Few runs, and a cache of the test's own."""
    monkeypatch.setattr(measuring, "ROUNDS", (3, 3))
    monkeypatch.setattr(measuring, "MOST_WHOLE", 9)
    monkeypatch.setattr(profile, "measure_change", lambda setup, reference, spent: (1e-7, reference))
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"

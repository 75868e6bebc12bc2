"""What tests of several parts use."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("any machine", max_examples=50, deadline=None)  # a slow processor is no failure
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    """Interrupts interrupt, here and in programs that tests start, even where the suite is started without."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector would walk all of it often, a tenth of the suite."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 100)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is measured does not go to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQSAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has no folder, and names none for what is kept."""

    def home() -> Path:
        raise RuntimeError("could not determine the home directory")

    for name in ("EQSAT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)


@pytest.fixture
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few kernels are measured, and all kernels and models for a moment: how long they take is no matter then."""
    from eqsat import calibration
    from eqsat.calibration import copies, measuring

    for module, name, few in ((measuring, "ROUNDS", (1, 1)), (measuring, "MOST_WHOLE", 3), (copies, "_COPIES", 1)):
        monkeypatch.setattr(module, name, few)
    kernels = calibration.usual_kernels()[::20]
    monkeypatch.setattr(calibration, "usual_kernels", lambda: kernels)
    monkeypatch.setattr(calibration, "fastest", partial(calibration.fastest, seconds=0.1))


@pytest.fixture
def count_calls() -> Callable[[Callable[[], Any]], int]:
    """Counts the Python functions called while something runs: work that no busy machine can make more."""

    def count(work: Callable[[], Any]) -> int:
        calls = 0

        def tick(frame: Any, event: str, arg: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(tick)
        try:
            work()
        finally:
            sys.setprofile(None)
        return calls

    return count

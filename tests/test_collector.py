"""The cyclic collector pauses while graphs are made, and what was made meanwhile is old afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from eqsat import collector
from eqsat.collector import paused_gc


class Knot:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A count of its own, and a collector that is enabled."""
    monkeypatch.setattr(collector, "_aged", collector._Aged())
    gc.enable()
    gc.collect()
    yield
    gc.unfreeze()


def test_what_was_made_in_a_pause_is_not_walked_after_it() -> None:
    walked: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        walked.append(info["generation"])

    gc.callbacks.append(note)
    try:
        with paused_gc():
            made = [[place] for place in range(20_000)]
        assert not walked
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(note)
    assert made[0] in gc.get_objects(generation=2)


def test_what_refers_to_itself_is_freed_once_there_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_MANY", 5_000)
    freed, made = [], []
    for _ in range(3):
        with paused_gc():
            knot = weakref.ref(Knot())
            made += [[place] for place in range(3_000)]
        freed.append(knot() is None)
    assert freed == [False, False, True]


def test_frozen_objects_of_the_caller_stay_so() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with paused_gc():
        pass
    assert gc.get_freeze_count() >= count > 0


def test_inside_a_pause_nothing_ends_it() -> None:
    with paused_gc():
        with paused_gc():
            pass
        assert not gc.isenabled()

"""The garbage collector, kept out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1 << 25
"""Bytes from which it is worth to look for what refers to itself, which takes a third of a second."""

_MANY = 1 << 20
"""Objects from which it is worth to do so, whatever they hold."""


def collect(held: int) -> None:
    """Free what was dropped and refers to itself, if it holds many bytes."""
    if held >= _LARGE:
        gc.collect()


_FROZEN = gc.get_freeze_count()
"""Objects that Python itself froze: some hundreds from version 3.12 on."""


@contextmanager
def paused_gc() -> Iterator[None]:
    """Run without the cyclic collector: many small acyclic objects are made, which it would walk in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _aged.take()
            gc.enable()


class _Aged:
    """Objects that were made while the collector was paused.

    The collector would walk all of them as soon as it is enabled, a third of the time that a small model takes. They
    become old objects instead. Once there are many of these, all are walked after the next pause.
    """

    def __init__(self) -> None:
        self.count = 0

    def take(self) -> None:
        """Make all objects old, or walk them now."""
        if gc.get_freeze_count() > _FROZEN:  # the caller's own frozen objects would not stay so
            return
        made = gc.get_count()[0]
        if self.count < _MANY:  # before these: a program that runs once walks none
            gc.freeze()
            gc.unfreeze()
            self.count += made
        else:
            gc.collect()
            self.count = 0


_aged = _Aged()

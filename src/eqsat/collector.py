"""The garbage collector, kept out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1 << 25
"""Bytes from which it is worth to look for what refers to itself, which takes a third of a second."""


def collect(held: int) -> None:
    """Free what was dropped and refers to itself, if it holds many bytes."""
    if held >= _LARGE:
        gc.collect()


@contextmanager
def paused_gc() -> Iterator[None]:
    """Run without the cyclic collector: many small acyclic objects are made, which it would walk in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

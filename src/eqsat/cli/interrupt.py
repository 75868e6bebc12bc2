"""Ctrl-C ends a command, whatever it is doing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(SystemExit):
    """Ctrl-C. It is no KeyboardInterrupt: at those saturation and extraction stop early, and what they have is used."""


@contextmanager
def ending_at_interrupts() -> Iterator[None]:
    """Ctrl-C raises :class:`Interrupted`, until the block ends."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(*_: Any) -> None:
    raise Interrupted

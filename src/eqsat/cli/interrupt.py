"""Handling of Ctrl-C, which ends a command at any time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(SystemExit):
    """Raised at Ctrl-C. It is not a KeyboardInterrupt, after which saturation and extraction return what they have."""


@contextmanager
def ending_at_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise :class:`Interrupted` until the block ends."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(*_: Any) -> None:
    raise Interrupted

"""Let Ctrl-C end a command, whatever it is doing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(SystemExit):
    """Raised at Ctrl-C. It is no KeyboardInterrupt, at which saturation and extraction stop and keep what they have."""


@contextmanager
def ending_at_interrupts() -> Iterator[None]:
    """Have Ctrl-C raise :class:`Interrupted` until the block ends."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(*_: Any) -> None:
    raise Interrupted

"""What is printed to standard streams: names in models are data, whatever characters they have.

On a terminal control characters are commands, so those of names are shown as escapes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import rich.console
import rich.markup
from rich.segment import Segment

from eqsat.brief import visible

WIDE = 100_000
"""Columns of what is no terminal: no table in a file or a pipe is cut."""


class Console(rich.console.Console):
    """A console that sends no control characters but its own; only a terminal's width bounds what is printed there."""

    def __init__(self, stderr: bool = False):
        on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
        super().__init__(stderr=stderr, width=None if on_terminal else WIDE)

    def render(self, *args: Any, **keywords: Any) -> Iterable[Segment]:
        """Give the segments of what is printed, with escapes for control characters in their text."""
        for segment in super().render(*args, **keywords):
            safe = segment.control or segment.text == "\n" or segment.text.isprintable()
            yield segment if safe else Segment("\n".join(map(visible, segment.text.split("\n"))), segment.style)


def escape(name: str) -> str:
    """Return a name for :meth:`Console.print`: in one line, its brackets no markup."""
    return rich.markup.escape(visible(name))

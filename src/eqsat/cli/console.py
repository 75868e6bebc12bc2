"""Printing to standard streams, where names in models are data whatever characters they contain.

On a terminal, control characters act as commands, so they are shown as escapes in names.
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
"""Width of files and pipes in columns, so that no table in them is cut."""


class Console(rich.console.Console):
    """A console that escapes control characters in its text; lines are limited only by the width of a terminal."""

    def __init__(self, stderr: bool = False):
        on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
        super().__init__(stderr=stderr, width=None if on_terminal else WIDE, emoji=False)

    def render(self, *args: Any, **keywords: Any) -> Iterable[Segment]:
        """Yield the printed segments, with escapes for control characters in their text."""
        for segment in super().render(*args, **keywords):
            safe = segment.control or segment.text == "\n" or segment.text.isprintable()
            yield segment if safe else Segment("\n".join(map(visible, segment.text.split("\n"))), segment.style)


def escape(name: str) -> str:
    """Return a name for :meth:`Console.print`: on one line, with brackets that are not markup."""
    return rich.markup.escape(visible(name))

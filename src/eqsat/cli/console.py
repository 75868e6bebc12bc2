"""Lines and tables on standard streams, where names in models are data whatever characters they contain.

On a terminal, control characters act as commands, so they are shown as escapes. All of it is plain text: a library that
lays text out takes longer to load than most commands take for a small model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from eqsat.brief import visible

Line: TypeAlias = Callable[[str], None]
"""A function that prints a line."""


def line_on(stderr: bool = False) -> Line:
    """Return a function that prints a line on standard output, or on standard error."""
    return partial(_print, stderr)


def _print(stderr: bool, text: str) -> None:
    print(visible(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def table(line: Line, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table.

    Args:
        line: The function that prints its lines.
        header: The names of the columns.
        rows: The cells of each row.
    """
    cells = [list(map(visible, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line(" " + "  ".join(map(str.ljust, row, widths)).rstrip())

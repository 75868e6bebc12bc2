"""Standard streams, and what is printed to them: names in models are data, whatever characters they have.

On a terminal control characters are commands, so those of names are shown as escapes.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

import rich.console
import rich.markup
from rich.segment import Segment

from eqsat.errors import ModelError
from eqsat.relay.literal import visible

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


def read_standard_input() -> bytes:
    """Read all of standard input.

    Raises:
        ModelError: It is closed, or cannot be read.
    """
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise ModelError(f"cannot read standard input: {error.strerror or error}") from None


def keep_libraries_quiet() -> None:
    """Have onnx_ir not comment on malformed models, with names as they are: we tell in one line."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)


def buffer_output() -> None:
    """Have output buffered even where PYTHONUNBUFFERED is set: without, a full disk cuts it short and says nothing."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=sys.stdout.encoding)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names that the encoding does not have


def write_no_more() -> None:
    """Drop what standard output still holds: it would fail again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

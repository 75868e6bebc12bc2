"""Standard streams, and what libraries say on them."""

from __future__ import annotations

import io
import logging
import os
import sys

from eqsat.errors import ModelError


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

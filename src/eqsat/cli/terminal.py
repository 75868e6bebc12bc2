"""Standard streams, and messages of libraries on them."""

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
    """Silence onnx_ir's messages about malformed models, whose names are not escaped; errors of eqsat replace them."""
    logging.getLogger("onnx_ir").setLevel(logging.CRITICAL)


def buffer_output() -> None:
    """Buffer output even if PYTHONUNBUFFERED is set; without a buffer, a full disk truncates it without an error."""
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=sys.stdout.encoding)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names that the encoding does not have


def write_no_more() -> None:
    """Discard buffered standard output, which would fail again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

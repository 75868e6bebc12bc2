"""The memory that the process holds."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 1 << 25
"""Bytes from which it is worth to look for free memory, which takes some milliseconds."""


def resident_bytes(process: int | None = None) -> int:
    """Memory that this process holds now (at its peak, where the system does not tell), or another, by its id (Linux).

    One that has ended holds none.
    """
    try:
        with open(f"/proc/{process or 'self'}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        if process is not None:
            return 0
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@contextmanager
def giving_back() -> Iterator[None]:
    """Give what was taken and freed back to the system: glibc keeps it, as it lies between what is still in use."""
    before = resident_bytes()
    try:
        yield
    finally:
        if sys.platform == "linux" and resident_bytes() - before >= _LARGE:
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
            if trim is not None:
                trim(0)

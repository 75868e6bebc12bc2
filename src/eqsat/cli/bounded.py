"""A job in a process of its own, which is ended where it takes too much time or memory."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from eqsat.cli.job import Job, Outcome, Work, attempt
from eqsat.errors import ArgumentError
from eqsat.memory import resident_bytes
from eqsat_command.memory import end_with_parent

ENDED = "its process ended: it crashed, or the system was out of memory"


@dataclass(frozen=True)
class Bounds:
    """What a job may take.

    Args:
        seconds: Time, None for any.
        megabytes: Memory of its process, None for any.

    Raises:
        ArgumentError: A bound is not above 0, or the system does not tell what memory another process has.
    """

    seconds: float | None = None
    megabytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise ArgumentError(f"{name}={value}: give a number above 0")
        if self.megabytes is not None and sys.platform != "linux":
            raise ArgumentError("memory is bounded on Linux only: leave its bound out")


def attempt_within(bounds: Bounds, job: Job, work: Work, options: Mapping[str, Any]) -> Outcome:
    """As :func:`attempt`, in a process of its own that is ended where it goes beyond ``bounds``."""
    start = time.perf_counter()
    command = [sys.executable, "-c", _SERVE, *sys.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            answer, broken = _answer(process, pickle.dumps((bounds.seconds, job, work, options)), bounds, start)
        finally:
            process.kill()
    taken = time.perf_counter() - start
    if bounds.seconds is not None and process.returncode == _TOO_LONG and taken >= bounds.seconds:
        broken = broken or _took(f"{bounds.seconds:g} seconds")
    with suppress(EOFError, pickle.UnpicklingError):
        if not broken:
            outcome: Outcome = pickle.loads(answer)
            return outcome
    return Outcome(job, "failed", broken or ENDED, seconds=taken)


def _answer(process: subprocess.Popen[bytes], request: bytes, bounds: Bounds, start: float) -> tuple[bytes, str]:
    """What a process answers to a request; and which bound it broke, if it did not end by itself."""
    given: bytes | None = request
    while True:
        try:
            return process.communicate(given, timeout=_BETWEEN_LOOKS)[0], ""
        except subprocess.TimeoutExpired:
            given = None
        if bounds.megabytes is not None and resident_bytes(process.pid) > bounds.megabytes * 1_000_000:
            return b"", _took(f"{bounds.megabytes} MB of memory")
        if bounds.seconds is not None and time.perf_counter() - start > bounds.seconds + _STARTING:
            return b"", _took(f"{bounds.seconds:g} seconds")


def _took(bound: str) -> str:
    return f"it took more than {bound}, and was ended"


_SERVE = "import sys; sys.path[:] = sys.argv[1:]; from eqsat.cli.bounded import serve; serve()"
"""What the process runs, which is given where to look for modules."""

_TOO_LONG = 1
"""What a process that took too long ends with: the exit code of :mod:`faulthandler`."""

_STARTING = 60.0
"""Seconds that the process may take to start, on a machine that is busy."""

_BETWEEN_LOOKS = 0.05
"""Seconds from one look at a process's memory to the next."""


def serve() -> None:
    """Do the job that standard input says, and write its outcome to standard output, if anybody reads that."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for it is told, too, and ends it
    seconds, job, work, options = pickle.load(sys.stdin.buffer)
    with open(os.devnull, "w") as nowhere, suppress(BrokenPipeError), answers:
        if seconds is not None:
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # even where no Python code is run
        pickle.dump(attempt(job, work, options), answers)

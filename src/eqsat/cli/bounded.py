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
from concurrent.futures import ThreadPoolExecutor, wait
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
    """As :func:`attempt`, in a process of its own that is ended where it goes beyond ``bounds``.

    A process that kept within them does the next job, too, unless it still holds half of the memory.
    """
    start = time.perf_counter()
    process = _idle_process()
    try:
        outcome, broken = _asked(process, (bounds.seconds, job, work, options), bounds, start)
    except BaseException:
        _end(process)
        raise
    if outcome is not None and not _holds(process.pid, bounds, 0.5):
        _idle.append(process)
        return outcome
    _end(process)
    taken = time.perf_counter() - start
    if outcome is None and process.returncode == _TOO_LONG and bounds.seconds is not None and taken >= bounds.seconds:
        broken = broken or _took(f"{bounds.seconds:g} seconds")
    return outcome or Outcome(job, "failed", broken or ENDED, seconds=taken)


def _asked(process: Any, request: Any, bounds: Bounds, start: float) -> tuple[Outcome | None, str]:
    """What a process answers to a request, None if it ended before; and for which bound it was ended, if for any."""
    broken = ""
    with ThreadPoolExecutor(1) as reader:
        try:
            answer = reader.submit(pickle.load, process.stdout)
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            while not wait([answer], _BETWEEN_LOOKS).done:
                if _holds(process.pid, bounds, 1.0):
                    broken = _took(f"{bounds.megabytes} MB of memory")
                elif bounds.seconds is not None and time.perf_counter() - start > bounds.seconds + _STARTING:
                    broken = _took(f"{bounds.seconds:g} seconds")
                if broken:
                    process.kill()
            return answer.result(), ""
        except (EOFError, pickle.UnpicklingError, BrokenPipeError):
            return None, broken
        except BaseException:
            process.kill()  # so that the reader ends
            raise


def _holds(process: int, bounds: Bounds, share: float) -> bool:
    """Whether a process holds more than a share of the memory that it may."""
    return bounds.megabytes is not None and resident_bytes(process) > share * bounds.megabytes * _MEGABYTE


def _end(process: Any) -> None:
    with suppress(BrokenPipeError), process:  # which closes pipes
        process.kill()


_idle: list[Any] = []
"""Processes that wait for a job."""


def _idle_process() -> Any:
    while _idle:
        process = _idle.pop()
        if process.poll() is None:
            return process
    return subprocess.Popen([sys.executable, "-c", _SERVE, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _took(bound: str) -> str:
    return f"it took more than {bound}, and was ended"


_SERVE = "import sys; sys.path[:] = sys.argv[1:]; from eqsat.cli.bounded import serve; serve()"
"""What the process runs, which is given where to look for modules."""

_TOO_LONG = 1
"""What a process that took too long ends with: the exit code of :mod:`faulthandler`."""

_STARTING = 60.0
"""Seconds that the process may take to start, on a machine that is busy."""

_MEGABYTE = 1_000_000

_BETWEEN_LOOKS = 0.05
"""Seconds from one look at a process's memory to the next."""


def serve() -> None:
    """Do the jobs that standard input says, and write their outcomes to standard output, as long as somebody asks."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for it is told, too, and ends it
    with open(os.devnull, "w") as nowhere, suppress(EOFError, BrokenPipeError), answers:
        while True:
            seconds, job, work, options = pickle.load(sys.stdin.buffer)
            if seconds is not None:
                faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # even where no Python code is run
            outcome = attempt(job, work, options)
            faulthandler.cancel_dump_traceback_later()
            pickle.dump(outcome, answers)
            answers.flush()

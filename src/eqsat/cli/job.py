"""A file to make from another, and the record of how it was made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eqsat.errors import EqsatError
from eqsat.files import replacing

Facts = dict[str, Any]
Work = Callable[[Path, Path, Mapping[str, Any]], Facts]
"""Makes a target from a source and options. It is sent to other processes, so it must be a function of a module."""


@dataclass(frozen=True)
class Job:
    """A file to make from another; both paths are absolute."""

    source: Path
    target: Path

    @property
    def record(self) -> Path:
        """The file that says how the target was made."""
        return self.target.with_name(self.target.name + ".json")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Attributes:
        job: The job.
        status: ``done``, ``skipped`` if it was done before, or ``failed``.
        error: Why it failed.
        facts: What the work returned, now or when it was done.
        seconds: Time that it took now, in seconds.
    """

    job: Job
    status: str
    error: str = ""
    facts: Facts = field(default_factory=dict)
    seconds: float = 0.0


def attempt(job: Job, work: Work, options: Mapping[str, Any]) -> Outcome:
    """Do one job; a failure is part of the outcome.

    A job that is done already is skipped: a cluster gives a job to another worker where the first one was lost after it
    had written the result.
    """
    start = time.perf_counter()
    if (done := facts_when_done(job, options)) is not None:
        return Outcome(job, "skipped", facts=done)
    try:
        job.target.parent.mkdir(parents=True, exist_ok=True)
        facts = work(job.source, job.target, options)
        with replacing(job.record) as written:
            written.write_text(json.dumps({**_made_by(options), "facts": facts}, indent=1), encoding="utf-8")
    except Exception as error:
        return Outcome(job, "failed", told(error), seconds=time.perf_counter() - start)
    return Outcome(job, "done", facts=facts, seconds=time.perf_counter() - start)


def _made_by(options: Mapping[str, Any]) -> Facts:
    """What a record says of how its target was made, as JSON gives it back."""
    made: Facts = json.loads(json.dumps({"version": version("eqsat"), "options": dict(options)}))
    return made


def facts_when_done(job: Job, options: Mapping[str, Any]) -> Facts | None:
    """The recorded facts of a job that need not be done again; None if it must be done."""
    with suppress(OSError, ValueError):
        record = json.loads(job.record.read_text(encoding="utf-8"))
        same = isinstance(record, dict) and all(record.get(key) == value for key, value in _made_by(options).items())
        if same and job.target.stat().st_mtime_ns > job.source.stat().st_mtime_ns:
            facts = record["facts"] if isinstance(record.get("facts"), dict) else {}
            return dict(facts)
    return None


def told(error: BaseException) -> str:
    """An error in one line; its kind too, unless it is one that tells all by itself."""
    expected = isinstance(error, (EqsatError, OSError))
    return " ".join((str(error) if expected else f"{type(error).__name__}: {error}").split())

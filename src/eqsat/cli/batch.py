"""Process many files, each by itself, in local processes or on a Dask cluster.

A record beside each result says how it was made. A result that is newer than its source and was made in the same way
is not made again. A failure, even one that ends its process, does not affect the other files.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from eqsat.errors import ArgumentError, EqsatError, FileError
from eqsat.files import replacing

Facts = dict[str, Any]
Work = Callable[[Path, Path, Mapping[str, Any]], Facts]
"""Makes a target from a source and options. It is sent to other processes, so it must be a function of a module."""

CONNECT_SECONDS = 10
"""Time to wait for a scheduler to answer, in seconds."""


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


def find_jobs(folder: Path, out: Path, suffix: str) -> list[Job]:
    """The jobs of a folder: one for each file in it and below whose name ends in ``suffix``.

    Results have the relative paths of their sources.

    Raises:
        FileError: There is no such folder, or ``out`` is a file.
        ArgumentError: ``out`` is the same folder: sources are never written to.
    """
    folder, out = folder.resolve(), out.resolve()
    if not folder.is_dir():
        raise FileError(f"{folder} is no folder")
    if out.exists() and not out.is_dir():
        raise FileError(f"{out} is no folder")
    if folder == out:
        raise ArgumentError(f"{out}: results would replace what they are made from; name another folder")
    sources = sorted(path for path in folder.rglob(f"*{suffix}") if path.is_file() and out not in path.parents)
    return [Job(source, out / source.relative_to(folder)) for source in sources]


def run_jobs(
    jobs: Iterable[Job],
    work: Work,
    options: Mapping[str, Any],
    workers: int = 1,
    scheduler: str | None = None,
    seconds: float | None = None,
) -> Iterator[Outcome]:
    """Do the jobs that are not done yet, and give the outcome of each as soon as it is known.

    Args:
        jobs: The jobs.
        work: Does one job; a function of a module, which returns plain data.
        options: Plain data for ``work``. Jobs that were done with other options are done again.
        workers: Number of local processes.
        scheduler: Address of a Dask scheduler whose workers see the same files, to use instead of local processes.
        seconds: Time after which a job has failed, None for no limit.

    Raises:
        ArgumentError: There are fewer workers than one or no seconds, ``distributed`` is not installed, or no scheduler
            answers.
    """
    if workers < 1:
        raise ArgumentError(f"workers={workers}: give a number above 0")
    if seconds is not None and not seconds > 0:
        raise ArgumentError(f"seconds={seconds}: give a number above 0")
    todo = []
    for job in jobs:
        facts = facts_when_done(job, options)
        if facts is None:
            todo.append(job)
        else:
            yield Outcome(job, "skipped", facts=facts)
    if not todo:
        return
    gc.collect()  # an engine may be dropped by the thread only that made it: before there are others
    with _processes(min(workers, len(todo))) if scheduler is None else _cluster(scheduler) as (submit, as_completed):
        how = (attempt,) if seconds is None else (attempt_in_time, seconds)
        jobs_of = {submit(*how, job, work, dict(options)): job for job in todo}
        for future in as_completed([*jobs_of]):
            yield _outcome(future, jobs_of[future])


def attempt(job: Job, work: Work, options: Mapping[str, Any]) -> Outcome:
    """Do one job; a failure is part of the outcome."""
    start = time.perf_counter()
    try:
        job.target.parent.mkdir(parents=True, exist_ok=True)
        facts = work(job.source, job.target, options)
        with replacing(job.record) as written:
            written.write_text(json.dumps({**_made_by(options), "facts": facts}, indent=1), encoding="utf-8")
    except Exception as error:
        return Outcome(job, "failed", _told(error), seconds=time.perf_counter() - start)
    return Outcome(job, "done", facts=facts, seconds=time.perf_counter() - start)


def attempt_in_time(seconds: float, job: Job, work: Work, options: Mapping[str, Any]) -> Outcome:
    """As :func:`attempt`, in a process of its own that ends after so many seconds, whatever it is doing."""
    start = time.perf_counter()
    command = [sys.executable, "-c", _SERVE, *sys.path]
    request = pickle.dumps((seconds, job, work, options))
    try:
        done = subprocess.run(command, input=request, stdout=subprocess.PIPE, timeout=seconds + _STARTING)
        outcome: Outcome = pickle.loads(done.stdout)
        return outcome
    except subprocess.TimeoutExpired:
        code = _TOO_LONG
    except (EOFError, pickle.UnpicklingError):
        code = done.returncode
    taken = time.perf_counter() - start
    is_too_long = code == _TOO_LONG and taken >= seconds
    told = f"it took more than {seconds:g} seconds, and was ended" if is_too_long else _ENDED
    return Outcome(job, "failed", told, seconds=taken)


_SERVE = "import sys; sys.path[:] = sys.argv[1:]; from eqsat.cli.batch import serve; serve()"
"""What the process runs, which is given where to look for modules."""

_TOO_LONG = 1
"""What a process that took too long ends with: the exit code of :mod:`faulthandler`."""

_STARTING = 60.0
"""Seconds that the process may take to start, on a machine that is busy."""


def serve() -> None:
    """Do the job that standard input says, and write its outcome to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for it is told, too, and ends it
    seconds, job, work, options = pickle.load(sys.stdin.buffer)
    with open(os.devnull, "w") as nowhere, answers:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # even where no Python code is run
        pickle.dump(attempt(job, work, options), answers)


_ENDED = "its process ended: it crashed, or the system was out of memory"


def _told(error: BaseException) -> str:
    """An error in one line; its kind too, unless it is one that tells all by itself."""
    expected = isinstance(error, (EqsatError, OSError))
    return " ".join((str(error) if expected else f"{type(error).__name__}: {error}").split())


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


def _outcome(future: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = future.result()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BrokenExecutor:
        return Outcome(job, "failed", _ENDED)
    except BaseException as error:
        if type(error).__name__ == "KilledWorker":  # a class of distributed, which need not be installed
            return Outcome(
                job,
                "failed",
                f"every worker that did it ended, the last was {_place(error)}: "
                "they crashed, hung, or were out of memory",
            )
        return Outcome(job, "failed", _told(error))
    return outcome


def _place(error: Any) -> str:
    return str(getattr(error.last_worker, "address", error.last_worker))


Workers = tuple[Callable[..., Any], Callable[[list[Any]], Iterable[Any]]]
"""Submits a call and gives its future; gives futures as they are completed."""


@contextmanager
def _processes(count: int) -> Iterator[Workers]:
    """Local processes. If one of them ends, only its own job fails, and another process takes its place."""
    idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
    for _ in range(count):
        idle.put(_process())

    def call(function: Callable[..., Outcome], *args: Any) -> Outcome:
        process = idle.get()
        try:
            return process.submit(function, *args).result()
        except BrokenExecutor:
            process.shutdown()
            process = _process()
            raise
        finally:
            idle.put(process)

    threads = ThreadPoolExecutor(count)
    try:
        yield lambda *args: threads.submit(call, *args), as_completed
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
        while not idle.empty():
            idle.get().shutdown()


def _process() -> ProcessPoolExecutor:
    """One process, which starts with its first job. It is spawned, since a fork would share the engine's threads."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


@contextmanager
def _cluster(address: str) -> Iterator[Workers]:
    """The workers of a Dask scheduler; certificates for TLS are those of Dask's configuration."""
    try:
        import distributed
    except ImportError:
        raise ArgumentError("a scheduler needs the package distributed: pip install distributed") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except TypeError as error:
        raise ArgumentError(
            f"{address} asks for certificates: set distributed.comm.tls.ca-file, distributed.comm.tls.client.cert and "
            f"distributed.comm.tls.client.key in Dask's configuration ({error})"
        ) from None
    except (OSError, ValueError) as error:
        raise ArgumentError(f"no Dask scheduler answers at {address}: {error}") from None
    with closing(client):
        yield partial(client.submit, pure=False), distributed.as_completed


def default_workers() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

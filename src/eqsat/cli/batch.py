"""Process many files, each by itself, in local processes or on a Dask cluster.

A record beside each result says how it was made. A result that is newer than its source and was made in the same way
is not made again. A failure, even one that ends its process, does not affect the other files.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from eqsat.cli.bounded import ENDED, Bounds, attempt_within
from eqsat.cli.job import Job, Outcome, Work, attempt, facts_when_done, told
from eqsat.errors import ArgumentError, FileError
from eqsat.files import files_below

CONNECT_SECONDS = 10
"""Time to wait for a scheduler to answer, in seconds."""

NO_WORKERS_SECONDS = 60.0
"""Time to wait for workers of a cluster that has none, in seconds, unless Dask's configuration says another."""

_LOOK_SECONDS = 0.1
"""Time between two looks at what is done."""


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
    sources = [path for path in files_below(folder, suffix) if out not in path.parents]
    return [Job(source, out / source.relative_to(folder)) for source in sources]


def run_jobs(
    jobs: Iterable[Job],
    work: Work,
    options: Mapping[str, Any],
    workers: int = 1,
    scheduler: str | None = None,
    bounds: Bounds | None = None,
) -> Iterator[Outcome]:
    """Do the jobs that are not done yet, and give the outcome of each as soon as it is known.

    Args:
        jobs: The jobs.
        work: Does one job; a function of a module, which returns plain data.
        options: Plain data for ``work``. Jobs that were done with other options are done again.
        workers: Number of local processes.
        scheduler: Address of a Dask scheduler whose workers see the same files, to use instead of local processes.
        bounds: What a job may take, each in a process of its own; None for anything.

    Raises:
        ArgumentError: There are fewer workers than one, ``distributed`` is not installed, no scheduler answers, or its
            cluster stays without workers.
    """
    if workers < 1:
        raise ArgumentError(f"workers={workers}: give a number above 0")
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
        how = (attempt,) if bounds is None else (attempt_within, bounds)
        jobs_of = {submit(*how, job, work, dict(options)): job for job in todo}
        for future in as_completed([*jobs_of]):
            yield _outcome(future, jobs_of[future])


def _outcome(future: Any, job: Job) -> Outcome:
    try:
        outcome: Outcome = future.result()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BrokenExecutor:
        return Outcome(job, "failed", ENDED)
    except BaseException as error:
        if type(error).__name__ == "KilledWorker":  # a class of distributed, which need not be installed
            return Outcome(
                job,
                "failed",
                f"every worker that did it ended, the last was {_place(error)}: "
                "they crashed, hung, or were out of memory",
            )
        return Outcome(job, "failed", told(error))
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
        yield partial(client.submit, _as_here, sys.path, pure=False), partial(_completed, client, address)


def _completed(client: Any, address: str, futures: list[Any]) -> Iterator[Any]:
    """Give futures of a cluster as they are completed.

    Raises:
        ArgumentError: The cluster stays without workers.
    """
    import dask
    from distributed import as_completed

    told = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    most = NO_WORKERS_SECONDS if told is None else dask.utils.parse_timedelta(told)
    completed, last = as_completed(futures), time.monotonic()
    while not completed.is_empty():
        done = completed.next_batch(block=False)
        yield from done
        if done or _has_workers(client):
            last = time.monotonic()
        elif time.monotonic() - last > most:
            raise ArgumentError(
                f"the Dask cluster at {address} has had no workers for {most:g} s: start some, such as with"
                f" 'dask worker {address}'; if they take longer to start, set distributed.scheduler.no-workers-timeout"
                " in Dask's configuration"
            )
        if not done:
            time.sleep(_LOOK_SECONDS)


def _has_workers(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except (OSError, RuntimeError):  # the scheduler is lost, which the futures say
        return True


def _as_here(folders: Iterable[str], function: Callable[..., Outcome], *args: Any) -> Outcome:
    """Call a function where modules are also looked for in other folders, those of who asked for it."""
    sys.path += [folder for folder in folders if folder not in sys.path]
    return function(*args)


def default_workers() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

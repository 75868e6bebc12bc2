"""Many files at once: results, failures, taking up where a run was cut short, and a cluster."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest

from eqsat.cli import batch
from eqsat.cli.batch import find_jobs, run_jobs
from eqsat.cli.bounded import Bounds, attempt_within
from eqsat.cli.job import attempt, facts_when_done
from eqsat.errors import ArgumentError, FileError

WORK = '''
import os
import signal
import time

def shout(source, target, options):
    """Write the source in capitals; some words go wrong."""
    text = source.read_text()
    if text == "crash":
        os._exit(3)
    if text == "raise":
        raise ValueError("an odd word")
    if text == "swell":
        held = [bytes(10_000_000)]
        while True:
            held.append(held[0] + b".")
            time.sleep(0.02)
    if text == "tell":
        target.with_suffix(".begun").write_text(str(os.getpid()))
    if text == "process":
        text = str(os.getpid())
    if text in ("loop", "tell"):
        print("on the way")
        while True:
            time.sleep(0.01)
    if text in ("kill", "stop") and not target.with_suffix(".begun").exists():
        target.with_suffix(".begun").touch()
        os.kill(os.getpid(), signal.SIGKILL if text == "kill" else signal.SIGSTOP)
    target.write_text(text.upper() * options["times"])
    return {"letters": len(text)}
'''


@pytest.fixture
def shout(module_folder: Path) -> Any:
    """Work in a module that other processes can import."""
    import shouting_work

    return shouting_work.shout


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("one")
    (folder / "deep" / "b.txt").write_text("two")
    (folder / "c.other").write_text("not meant")
    return folder, tmp_path / "out"


def test_every_file_has_its_result_at_its_place(shout: Any, folders: tuple[Path, Path]) -> None:
    outcomes = list(run_jobs(find_jobs(*folders, ".txt"), shout, {"times": 2}))
    assert {outcome.job.source.name: outcome.facts for outcome in outcomes} == {
        "a.txt": {"letters": 3},
        "b.txt": {"letters": 3},
    }
    assert (folders[1] / "deep" / "b.txt").read_text() == "TWOTWO"
    assert not (folders[1] / "c.other").exists()


def test_what_goes_wrong_takes_only_its_own_file_with_it(shout: Any, folders: tuple[Path, Path]) -> None:
    for word in ("crash", "raise"):
        (folders[0] / f"{word}.txt").write_text(word)
    outcomes = {each.job.source.name: each for each in run_jobs(find_jobs(*folders, ".txt"), shout, {"times": 1}, 2)}
    assert {name: each.status for name, each in outcomes.items()} == {
        "a.txt": "done",
        "b.txt": "done",
        "crash.txt": "failed",
        "raise.txt": "failed",
    }
    assert outcomes["raise.txt"].error == "ValueError: an odd word"
    assert "its process ended" in outcomes["crash.txt"].error


def test_what_takes_too_long_is_ended_and_the_others_go_on(shout: Any, folders: tuple[Path, Path]) -> None:
    for word in ("loop", "crash", "raise"):
        (folders[0] / f"{word}.txt").write_text(word)
    jobs = find_jobs(*folders, ".txt")
    outcomes = {each.job.source.stem: each for each in run_jobs(jobs, shout, {"times": 1}, 2, bounds=Bounds(2))}
    assert {name: each.error for name, each in outcomes.items()} == {
        "a": "",
        "b": "",
        "crash": "its process ended: it crashed, or the system was out of memory",
        "loop": "it took more than 2 seconds, and was ended",
        "raise": "ValueError: an odd word",
    }
    assert (folders[1] / "a.txt").read_text() == "ONE"
    assert outcomes["a"].facts == {"letters": 3}
    assert 2 <= outcomes["loop"].seconds < 60
    for name in ("seconds", "megabytes"):
        with pytest.raises(ArgumentError, match=f"{name}=0: give a number above 0"):
            Bounds(**{name: 0})


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")
def test_what_takes_too_much_memory_is_ended_and_the_others_go_on(shout: Any, folders: tuple[Path, Path]) -> None:
    (folders[0] / "swell.txt").write_text("swell")
    jobs = find_jobs(*folders, ".txt")
    outcomes = {each.job.source.stem: each for each in run_jobs(jobs, shout, {"times": 1}, 2, bounds=Bounds(60, 300))}
    assert {name: each.error for name, each in outcomes.items()} == {
        "a": "",
        "b": "",
        "swell": "it took more than 300 MB of memory, and was ended",
    }


def test_a_process_does_one_job_after_the_other_until_one_ends_it(shout: Any, tmp_path: Path) -> None:
    for number, word in enumerate(["process", "raise", "process", "crash", "process"]):
        (tmp_path / f"{number}.txt").write_text(word)
    outcomes = [
        attempt_within(Bounds(60), job, shout, {"times": 1}) for job in find_jobs(tmp_path, tmp_path / "out", ".txt")
    ]
    first, second, third = [each.job.target.read_text() for each in outcomes if each.status == "done"]
    assert first == second != third


def test_an_answer_that_nobody_reads_is_no_error(shout: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word")
    (job,) = find_jobs(tmp_path, tmp_path / "out", ".txt")
    command = [sys.executable, "-c", "from eqsat.cli.bounded import serve; serve()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write(pickle.dumps((None, job, shout, {"times": 1})))
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert job.target.read_text() == "WORD"


@pytest.mark.skipif(sys.platform != "linux", reason="the system ends it on Linux")
def test_what_a_process_was_doing_ends_with_who_waits_for_it(shout: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tell")
    (job,) = find_jobs(tmp_path, tmp_path / "out", ".txt")
    wait = "import pickle, sys; from eqsat.cli.bounded import *; attempt_within(*pickle.load(sys.stdin.buffer))"
    command = [sys.executable, "-c", wait]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(pickle.dumps((Bounds(60), job, shout, {})))
        process.stdin.close()
        begun = job.target.with_suffix(".begun")
        wait_until(lambda: begun.exists() and begun.read_text() != "")
        process.kill()
    wait_until(lambda: not Path("/proc", begun.read_text()).exists())
    assert not job.target.exists()


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when something is so; within a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_takes_too_long_ends_by_itself_should_nobody_wait_for_it(shout: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("loop")
    (job,) = find_jobs(tmp_path, tmp_path / "out", ".txt")
    command = [sys.executable, "-c", "from eqsat.cli.bounded import serve; serve()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        answer, _ = process.communicate(pickle.dumps((0.5, job, shout, {})), timeout=60)
    assert (answer, process.returncode) == (b"", 1)


def test_what_is_done_is_not_done_again(shout: Any, folders: tuple[Path, Path]) -> None:
    jobs = find_jobs(*folders, ".txt")
    for job in jobs:
        attempt(job, shout, {"times": 1})
    again = list(run_jobs(jobs, shout, {"times": 1}))
    assert {outcome.status for outcome in again} == {"skipped"}
    assert [outcome.facts for outcome in again] == [{"letters": 3}] * 2


def test_a_worker_that_is_given_a_job_of_a_lost_one_does_not_do_it_again(
    shout: Any, folders: tuple[Path, Path]
) -> None:
    """The lost one had written the result, and had not told the scheduler."""
    job, options = find_jobs(*folders, ".txt")[0], {"times": 1}
    attempt(job, shout, options)
    written = job.target.stat().st_mtime_ns
    again = attempt(job, shout, options)
    assert (again.status, again.facts) == ("skipped", {"letters": 3})
    assert job.target.stat().st_mtime_ns == written


def test_other_options_newer_sources_and_lost_results_are_done_again(shout: Any, folders: tuple[Path, Path]) -> None:
    job, options = find_jobs(*folders, ".txt")[0], {"times": 2}
    assert facts_when_done(job, options) is None
    assert attempt(job, shout, options).status == "done"
    assert facts_when_done(job, options) == {"letters": 3}
    assert facts_when_done(job, {"times": 1}) is None
    assert facts_when_done(job, {"times": 2, "more": 1}) is None
    later = job.target.stat().st_mtime + 10
    os.utime(job.source, (later, later))
    assert facts_when_done(job, options) is None
    os.utime(job.source, (0, 0))
    assert facts_when_done(job, options) is not None
    for torn in ("", "[]", '{"options"', json.dumps({"options": options})):
        job.record.write_text(torn)
        assert facts_when_done(job, options) is None
    attempt(job, shout, options)
    job.target.unlink()
    assert facts_when_done(job, options) is None


def test_a_failure_leaves_no_record_and_is_tried_again(shout: Any, folders: tuple[Path, Path]) -> None:
    job, options = find_jobs(*folders, ".txt")[0], {"times": 1}
    job.source.write_text("raise")
    assert attempt(job, shout, options).status == "failed"
    assert facts_when_done(job, options) is None
    job.source.write_text("mended")
    assert attempt(job, shout, options).status == "done"


def test_results_inside_the_folder_are_no_sources(shout: Any, folders: tuple[Path, Path]) -> None:
    inside = folders[0] / "out"
    for job in find_jobs(folders[0], inside, ".txt"):
        attempt(job, shout, {"times": 1})
    assert [job.source.name for job in find_jobs(folders[0], inside, ".txt")] == ["a.txt", "b.txt"]


def test_folders_that_cannot_be_used_are_errors_of_ours(folders: tuple[Path, Path]) -> None:
    with pytest.raises(FileError, match="is no folder"):
        find_jobs(folders[0] / "missing", folders[1], ".txt")
    with pytest.raises(ArgumentError, match="name another folder"):
        find_jobs(folders[0], folders[0] / "deep" / "..", ".txt")


def test_no_jobs_start_nothing(shout: Any) -> None:
    assert list(run_jobs([], shout, {}, scheduler="tcp://127.0.0.1:1")) == []


def test_less_than_one_process_is_an_error(shout: Any, folders: tuple[Path, Path]) -> None:
    with pytest.raises(ArgumentError, match="workers=0"):
        list(run_jobs(find_jobs(*folders, ".txt"), shout, {}, workers=0))


CLUSTER = {
    "distributed.scheduler.worker-ttl": "10s",  # a busy machine delays what tells that a worker lives
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.memory.terminate": 0.9,
    # so long after a worker was lost the cluster gives up another one that starts at that very moment
    "distributed.deploy.lost-worker-timeout": "10 minutes",
}


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the module of the work, which workers can import."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "shouting_work.py").write_text(WORK)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))
        yield folder


@pytest.fixture(scope="module")
def cluster(module_folder: Path) -> Iterator[distributed.LocalCluster]:
    """A scheduler that looks for workers that hang twice a second, and a worker that may hold little."""
    with (
        dask.config.set(CLUSTER),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit="600MB",
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        looking = cluster.scheduler.periodic_callbacks["worker-ttl"]

        def look_often() -> None:
            looking.stop()
            looking.callback_time = 500
            looking.start()

        cluster.loop.add_callback(look_often)
        yield cluster


@pytest.fixture
def scheduler(cluster: distributed.LocalCluster) -> str:
    address: str = cluster.scheduler_address
    return address


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_does_the_same(shout: Any, folders: tuple[Path, Path], scheduler: str) -> None:
    (folders[0] / "raise.txt").write_text("raise")
    jobs = find_jobs(*folders, ".txt")
    first, again = (
        {each.job.source.name: each.status for each in run_jobs(jobs, shout, {"times": 1}, 1, scheduler)}
        for _ in range(2)
    )
    assert first == {"a.txt": "done", "b.txt": "done", "raise.txt": "failed"}
    assert again == {"a.txt": "skipped", "b.txt": "skipped", "raise.txt": "failed"}
    assert (folders[1] / "a.txt").read_text() == "ONE"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("word", "expected"),
    [("kill", {"done"}), pytest.param("stop", {"done", "skipped"}, marks=pytest.mark.slow)],
    ids=["kill", "stop"],
)
def test_what_a_worker_was_doing_when_it_ended_or_hung_is_done_again(
    shout: Any, tmp_path: Path, cluster: distributed.LocalCluster, word: str, expected: set[str]
) -> None:
    """A worker that hung and goes on may have done it before the next one looks."""

    def pass_time() -> None:
        """A worker that hangs seems to have done so for long: it would be ended after ten seconds."""
        wait_until((tmp_path / "out" / "a.begun").exists)
        for worker in cluster.scheduler.workers.values():
            worker.last_seen = 0.0

    (tmp_path / "a.txt").write_text(word)
    with ThreadPoolExecutor(1) as beside:
        passed = beside.submit(pass_time if word == "stop" else lambda: None)
        jobs = find_jobs(tmp_path, tmp_path / "out", ".txt")
        (outcome,) = run_jobs(jobs, shout, {"times": 1}, 1, cluster.scheduler_address)
        passed.result()
    assert outcome.status in expected, outcome.error
    assert outcome.job.target.read_text() == word.upper()


@pytest.mark.filterwarnings("ignore")
def test_what_takes_too_long_on_a_cluster_is_ended_and_the_worker_goes_on(
    shout: Any, folders: tuple[Path, Path], scheduler: str
) -> None:
    (folders[0] / "loop.txt").write_text("loop")
    jobs = find_jobs(*folders, ".txt")
    outcomes = {
        each.job.source.stem: each.error for each in run_jobs(jobs, shout, {"times": 1}, 1, scheduler, Bounds(2))
    }
    assert outcomes == {"a": "", "b": "", "loop": "it took more than 2 seconds, and was ended"}


@pytest.mark.filterwarnings("ignore")
def test_what_takes_more_memory_than_workers_have_fails_and_the_cluster_goes_on(
    shout: Any, tmp_path: Path, scheduler: str
) -> None:
    for word in ("swell", "sound"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "a.txt").write_text(word)
    swollen, sound = (
        next(run_jobs(find_jobs(tmp_path / word, tmp_path / "out", ".txt"), shout, {"times": 1}, 1, scheduler))
        for word in ("swell", "sound")
    )
    assert "every worker that did it ended" in swollen.error
    assert "out of memory" in swollen.error
    assert (swollen.status, sound.status) == ("failed", "done")


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_with_tls_admits_those_with_a_certificate(
    shout: Any, folders: tuple[Path, Path], module_folder: Path
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = (str(module_folder / name) for name in ("key.pem", "cert.pem"))
    request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    pairs = {
        f"tls_{who}_{what}": file
        for who in ("scheduler", "worker", "client")
        for what, file in (("cert", certificate), ("key", key))
    }
    security = distributed.Security(tls_ca_file=certificate, require_encryption=True, **pairs)
    tls = {"ca-file": certificate, "client.cert": certificate, "client.key": key}
    jobs = find_jobs(*folders, ".txt")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        host="tls://127.0.0.1",
        dashboard_address=None,
        security=security,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with pytest.raises(ArgumentError, match=r"asks for certificates: set distributed\.comm\.tls"):
            list(run_jobs(jobs, shout, {"times": 1}, 1, address))
        with pytest.raises(ArgumentError, match="no Dask scheduler answers"):
            list(run_jobs(jobs, shout, {"times": 1}, 1, address.replace("tls", "tcp")))
        with dask.config.set({f"distributed.comm.tls.{name}": file for name, file in tls.items()}):
            assert {each.status for each in run_jobs(jobs, shout, {"times": 1}, 1, address)} == {"done"}


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_workers_is_an_error_of_ours_after_a_time(
    shout: Any, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        run = partial(run_jobs, find_jobs(*folders, ".txt"), shout, {"times": 1}, scheduler=address)
        with monkeypatch.context() as patch:
            patch.setattr(batch, "NO_WORKERS_SECONDS", 0.3)
            with pytest.raises(ArgumentError, match=rf"at {address} has had no workers for 0.3 s: start some"):
                list(run())
        with (
            dask.config.set({"distributed.scheduler.no-workers-timeout": "200 ms"}),
            pytest.raises(ArgumentError, match=r"has had no workers for 0.2 s.*set distributed\.scheduler\.no-w"),
        ):
            list(run())


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_does_not_answer_is_an_error_of_ours(
    shout: Any, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "CONNECT_SECONDS", 0.2)
    with pytest.raises(ArgumentError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        list(run_jobs(find_jobs(*folders, ".txt"), shout, {"times": 1}, scheduler="tcp://127.0.0.1:1"))
    with pytest.raises(ArgumentError, match="no Dask scheduler"):
        list(run_jobs(find_jobs(*folders, ".txt"), shout, {"times": 1}, scheduler="nonsense://"))

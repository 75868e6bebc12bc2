"""`eqsat optimize-all` over many generated models on a Dask cluster whose workers are killed at random.

    python benchmarks/many_models.py [--count 1000] [--workers N] [--seconds-between-kills 15] [--folder DIR]

Among the models are one at which a rule never returns, one at which a rule takes all memory, and one that is cut off.
The command is interrupted after a while and run again, so that it is taken up where it was cut short. Each model must
have exactly one result or one reason, and what was done before must not be done again.

Then some of the models are optimized by 1, 2, … local processes, up to the number of cores: models for each second, and
whether the files that are written are the same.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import onnx
from model_writer import ModelWriter
from onnx import TensorProto

from eqsat import relay
from eqsat.files import files_below
from eqsat.rules import RuleSet, rule, variables

WIDTH = 8
"""Channels of all values."""

NEVER_RETURNS, TAKES_ALL_MEMORY = 5, 6
"""First sizes of the inputs of the models at which a rule goes wrong."""

MODEL_SECONDS, MODEL_MEGABYTES = 10, 1000
"""Bounds of each model."""

(x,) = variables("x")


def _wait_for_ever() -> None:
    threading.Event().wait()


def _take_all_memory() -> None:
    held = []
    while True:
        held.append(b"." * 50_000_000)


@rule("trouble", relay.erf(x))
def trouble(x: Any) -> Any:
    """Goes wrong at values of some sizes; elsewhere it equates a value with itself."""
    first = int(x.checked_type.shape[0])
    {NEVER_RETURNS: _wait_for_ever, TAKES_ALL_MEMORY: _take_all_memory}.get(first, lambda: None)()
    return relay.erf(x)


TROUBLE = RuleSet("trouble", [trouble])


# ---- models


class Network(ModelWriter):
    """A network of random layers, many of which do what rules find to be less."""

    def __init__(self, seed: int, layers: int, rows: int = 4):
        super().__init__(seed)
        self.rows = rows
        last = self.input("x", TensorProto.FLOAT, rows, WIDTH)
        for _ in range(layers):
            last = self.random.choice(LAYERS)(self, last)
        self.last = self.node("Erf", last)

    def finished(self) -> onnx.ModelProto:
        """The network as a model."""
        return self.model(self.last, self.rows, WIDTH)


def _dense(network: Network, value: str) -> str:
    product = network.node("MatMul", value, network.weight(WIDTH, WIDTH))
    return network.node("Relu", network.node("Add", product, network.weight(WIDTH)))


def _siblings(network: Network, value: str) -> str:
    left, right = (network.node("MatMul", value, network.weight(WIDTH, WIDTH)) for _ in range(2))
    return network.node("Add", network.node("Sigmoid", left), right)


def _scaled(network: Network, value: str) -> str:
    scaled = network.node("Mul", value, network.weight(WIDTH))
    return network.node("Sub", scaled, network.weight(WIDTH))


def _turned(network: Network, value: str) -> str:
    there = network.node("Transpose", network.node("Relu", network.node("Identity", value)), perm=[1, 0])
    return network.node("Transpose", network.node("Relu", there), perm=[1, 0])


def _residual(network: Network, value: str) -> str:
    return network.node("Add", value, _dense(network, _dense(network, value)))


LAYERS = [_dense, _siblings, _scaled, _turned, _residual]


def write_models(folder: Path, count: int, seed: int = 0) -> None:
    """Write ``count`` models into a folder; the last three of them are trouble."""
    draws = random.Random(seed)
    for number in range(count - 3):
        place = folder / f"part{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        onnx.save(Network(number, draws.randint(1, 8)).finished(), place / f"network{number}.onnx")
    onnx.save(Network(0, 2, NEVER_RETURNS).finished(), folder / "never_returns.onnx")
    onnx.save(Network(0, 2, TAKES_ALL_MEMORY).finished(), folder / "takes_all_memory.onnx")
    (folder / "cut_off.onnx").write_bytes(Network(0, 2).finished().SerializeToString()[:100])


EXPECTED = {
    "never_returns.onnx": f"it took more than {MODEL_SECONDS} seconds, and was ended",
    "takes_all_memory.onnx": f"it took more than {MODEL_MEGABYTES} MB of memory, and was ended",
    "cut_off.onnx": "is not an ONNX model",
}
"""Why models fail."""

KILLED = "every worker that did it ended"
"""Why any model may fail, or because it does not end in time on a busy machine."""


# ---- runs


def command(models: Path, out: Path, *options: Any) -> list[str]:
    """The command that optimizes all models."""
    bounds = ("--model-seconds", MODEL_SECONDS, "--model-memory", MODEL_MEGABYTES)
    rules = ("--rules", "default", "--rules", "many_models:TROUBLE")
    program = [sys.executable, "-c", "from eqsat_command import main; main()", "optimize-all"]
    return [*program, *map(str, (models, out, "--json", *rules, *bounds, *options))]


def run(models: Path, out: Path, *options: Any, interrupt_at: int = 0) -> list[dict[str, Any]]:
    """Run the command in this file's folder, where it finds its rules; the rows that it prints.

    It prints none if it is interrupted, which it is when so many models are done.
    """
    process = subprocess.Popen(
        command(models, out, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent,
        text=True,
    )
    with process:
        if interrupt_at:
            while process.poll() is None and len(done(out)) < interrupt_at:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
        printed = process.communicate()[0]
    rows: list[dict[str, Any]] = json.loads(printed) if printed else []
    return rows


def done(out: Path) -> dict[str, int]:
    """When each result in a folder was written that has a record, in nanoseconds."""
    records = [path for path in files_below(out, ".onnx.json") if path.with_suffix("").exists()]
    return {str(path.with_suffix("").relative_to(out)): path.with_suffix("").stat().st_mtime_ns for path in records}


def mistakes(models: Path, out: Path, rows: list[dict[str, Any]]) -> list[str]:
    """What is wrong with a run: models without exactly one result or one reason, and reasons that are not theirs."""
    names = [str(path.relative_to(models)) for path in models.rglob("*.onnx")]
    told = Counter(str(Path(row["source"]).relative_to(models)) for row in rows)
    wrong = [f"{name} has {told[name]} rows" for name in names if told[name] != 1]
    written = done(out)
    for row in rows:
        name = str(Path(row["source"]).relative_to(models))
        is_failed = row["status"] == "failed"
        if is_failed == (name in written) or is_failed == (not row["error"]):
            wrong.append(f"{name} is {row['status']}: {row['error']}")
        reasons = [KILLED, EXPECTED["never_returns.onnx"], EXPECTED.get(name, KILLED)]
        if (is_failed or name in EXPECTED) and not any(reason in row["error"] for reason in reasons):
            wrong.append(f"{name} failed for another reason: {row['error']}")
    return wrong


class Cluster:
    """A Dask scheduler here, and workers that are processes of their own.

    Workers are started here and not by Dask's local cluster, which replaces no worker that ends while it starts.

    Args:
        workers: How many there are.
        folder: Where they keep their files.
    """

    def __init__(self, workers: int, folder: str):
        import distributed

        self._scheduler = distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=logging.CRITICAL
        )
        self.address: str = self._scheduler.scheduler_address
        self._folder = folder
        self._workers = [self._started() for _ in range(workers)]

    def _started(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "distributed.cli.dask_worker", self.address]
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", self._folder]
        return subprocess.Popen([*program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self, number: int) -> None:
        """Kill a worker, and start another one."""
        self._workers[number].kill()
        self._workers[number].wait()
        self._workers[number] = self._started()

    def close(self) -> None:
        """End all."""
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._scheduler.close()


@contextmanager
def killing(cluster: Cluster, workers: int, between: float, out: Path, seed: int = 0) -> Iterator[list[int]]:
    """Kill a worker at random every so many seconds; the numbers of those that were killed.

    None is killed before something was written to ``out`` since the last: on a busy machine workers take long to start.
    """
    killed: list[int] = []
    over = threading.Event()
    draws = random.Random(seed)

    def kill() -> None:
        before = -1
        while not over.wait(draws.uniform(0.5, 1.5) * between):
            if (now := len(done(out))) > before:
                before = now
                killed.append(draws.randrange(workers))
                cluster.kill(killed[-1])

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _run_and_tell(models: Path, out: Path, options: tuple[Any, ...]) -> list[dict[str, Any]]:
    rows = run(models, out, *options)
    print(f"run again: {dict(sorted(Counter(row['status'] for row in rows).items()))}", flush=True)
    return rows


def survive(models: Path, out: Path, workers: int, between: float) -> list[str]:
    """Run on a cluster whose workers are killed, interrupt it, and run it again; print what came of it.

    Returns:
        What is wrong, which should be nothing.
    """
    count = len([*models.rglob("*.onnx")])
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Cluster(workers, folder)) as cluster,
        killing(cluster, workers, between, out) as killed,
    ):
        options = ("--scheduler", cluster.address)
        run(models, out, *options, interrupt_at=count // 3)
        time.sleep(1)  # what workers had begun is done
        first = done(out)
        print(f"{count} models on {workers} workers: interrupted when {len(first)} were done", flush=True)
        rows, last = _run_and_tell(models, out, options), _run_and_tell(models, out, options)
        wrong = [*mistakes(models, out, rows), *mistakes(models, out, last)]
    taken = time.perf_counter() - start
    counts, again = (Counter(row["status"] for row in each) for each in (rows, last))
    written = done(out)
    wrong += [f"{name} was done before, and again" for name in first if first[name] != written[name]]
    if again["done"] > counts["failed"] - len(EXPECTED):
        wrong.append(f"{again['done']} models were done again")
    print(f"{len(killed)} workers were killed in {taken:.0f} s")
    for row in last:
        if row["status"] == "failed":
            print(f"  {Path(row['source']).name}: {row['error']}")
    return wrong


def rates(models: Path, out: Path, cores: int) -> list[str]:
    """Print throughput by number of local processes, which no other load should share; what is wrong."""
    written: list[dict[str, bytes]] = []
    print(f"{'processes':>9}{'seconds':>10}{'models a second':>17}{'times':>8}")
    alone = 0.0
    for workers in range(1, cores + 1):
        folder = out / str(workers)
        start = time.perf_counter()
        rows = run(models, folder, "--workers", workers)
        rate = len(rows) / (time.perf_counter() - start)
        alone = alone or rate
        print(f"{workers:9}{len(rows) / rate:10.1f}{rate:17.2f}{rate / alone:8.2f}", flush=True)
        written.append({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.onnx")})
    same = all(each == written[0] for each in written)
    print("the same results" if same else "DIFFERENT results")
    return [] if same else ["results differ"]


def main() -> None:
    """Run everything; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=cores)
    parser.add_argument("--seconds-between-kills", type=float, default=15.0)
    parser.add_argument("--rates", type=int, default=60, help="models whose throughput is measured")
    parser.add_argument("--folder", type=Path, help="where models and results stay, for a run that goes on with them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.folder or Path(folder)
        models, few = kept / "models", Path(folder, "few")
        if not models.exists():
            write_models(models, options.count)
        wrong = survive(models, kept / "out", options.workers, options.seconds_between_kills)
        write_models(few, options.rates)
        for name in EXPECTED:
            (few / name).unlink()
        wrong += rates(few, Path(folder, "few_out"), cores)
    for each in wrong:
        print(f"WRONG: {each}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()

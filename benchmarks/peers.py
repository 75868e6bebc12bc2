"""eqsat beside other ONNX optimizers: nodes, time of the whole command, latency and correctness, in one run.

    python benchmarks/peers.py [--peers PYTHON] [--runs N] [MODEL.onnx ...]

``--peers`` is a Python that has onnxsim, onnxslim, onnxoptimizer, onnxscript and onnxruntime (those that it lacks are
left out). Without models: the onnx package's networks with seeded random weights, and magika's. Nodes are without
constants, those of subgraphs included. Latency is that of onnxruntime on one thread as a multiple of the given model's,
with its own optimizer off and on, runs interleaved. A result that differs by more than 1e-3 of an output's largest
value, does not load, or is not there is marked wrong and left out of the means.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import onnx
import onnxruntime
from filled_models import fill_weights, light_model
from real_models import magika_model

from eqsat.errors import EqsatError
from eqsat.onnx import load, verify
from eqsat.onnx.verify import runnable_inputs

_ORT = """
import onnxruntime as o
options = o.SessionOptions()
options.graph_optimization_level = o.GraphOptimizationLevel.ORT_ENABLE_{level}
options.optimized_model_filepath = target
o.InferenceSession(source, options, providers=["CPUExecutionProvider"])
"""
TOOLS = {
    "onnxoptimizer": "import onnx, onnxoptimizer as o; onnx.save(o.optimize(onnx.load(source)), target)",
    "onnxsim": "import onnx, onnxsim as o; onnx.save(o.simplify(onnx.load(source))[0], target)",
    "onnxslim": "import onnxslim as o; o.slim(source, target)",
    "onnxscript": "import onnx, onnxscript.optimizer as o; onnx.save(o.optimize(onnx.load(source)), target)",
    "ort-basic": _ORT.format(level="BASIC"),
}
"""What each peer runs, from ``source`` to ``target``."""

TOLERANCE = 1e-3
LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "zfnet512",
)


@dataclass
class Outcome:
    """What one tool made of one model.

    Args:
        nodes: without constants.
        seconds: of CPU, of the whole command.
        problem: why the result is wrong, empty when it is right.
        off, on: latency relative to the given model, with onnxruntime's optimizer off and on.
    """

    nodes: int = 0
    seconds: float = 0.0
    problem: str = ""
    off: float = 1.0
    on: float = 1.0


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--peers", default=sys.executable, show_default=True, help="A Python that has the other tools.")
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Of each model for latency.")
def main(models: tuple[Path, ...], peers: str, runs: int) -> None:
    commands = {"eqsat": [str(Path(sys.executable).with_name("eqsat")), "optimize"]}
    for name, program in TOOLS.items():
        if _has(peers, name):
            commands[name] = [peers, "-c", f"import sys; source, target = sys.argv[1:]\n{program}"]
    table: dict[str, list[tuple[int, Outcome]]] = {name: [] for name in commands}
    with TemporaryDirectory() as folder:
        for path in models or _default_models(Path(folder)):
            before = _nodes(path)
            click.echo(f"\n{path.name}: {before} nodes")
            outcomes = {name: _run(command, path, Path(folder) / f"{name}.onnx") for name, command in commands.items()}
            _measure(path, {name: Path(folder) / f"{name}.onnx" for name in outcomes}, outcomes, runs)
            for name, outcome in outcomes.items():
                table[name].append((before, outcome))
                click.echo(_line(name, outcome))
    click.echo("\ngeometric means over right results; CPU seconds in total")
    for name, rows in table.items():
        click.echo(_summary(name, rows))


def _has(python: str, tool: str) -> bool:
    module = "onnxruntime" if tool.startswith("ort") else tool
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode


def _default_models(folder: Path) -> list[Path]:
    paths = []
    for name in LIGHT:
        if light_model(name).exists():
            paths.append(folder / f"{name}_filled.onnx")
            onnx.save(fill_weights(onnx.load(light_model(name))), paths[-1])
    return [*paths, magika_model()]


def _nodes(path: Path) -> int:
    return sum(node.op_type != "Constant" for node in load(path).graph.all_nodes())


def _run(command: Sequence[str], source: Path, target: Path) -> Outcome:
    """Run one tool on one model and check what it wrote."""
    target.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, str(source), str(target)], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = Outcome(seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    if done.returncode or not target.exists():
        outcome.problem = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1][:100]
        return outcome
    outcome.nodes = _nodes(target)
    try:
        worst = max((difference.relative for difference in verify(source, target, runs=1)), default=0.0)
    except EqsatError as error:
        outcome.problem = str(error)[:100]
    else:
        outcome.problem = f"differs by {worst:.3g}" if not worst <= TOLERANCE else ""
    return outcome


def _measure(source: Path, targets: dict[str, Path], outcomes: dict[str, Outcome], runs: int) -> None:
    """Latencies, in rounds in which every model runs once."""
    right = {name: path for name, path in targets.items() if not outcomes[name].problem}
    levels = onnxruntime.GraphOptimizationLevel
    for field, level in (("off", levels.ORT_DISABLE_ALL), ("on", levels.ORT_ENABLE_ALL)):
        sessions = {name: _session(path, level) for name, path in {"": source, **right}.items()}
        feed = _feed(source, sessions[""])
        seconds: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(runs + 1):
            for name, session in sessions.items():
                given = {value.name for value in session.get_inputs()}
                start = time.perf_counter()
                session.run(None, {key: value for key, value in feed.items() if key in given})
                seconds[name].append(time.perf_counter() - start)
        for name in right:
            setattr(outcomes[name], field, median(seconds[name][1:]) / median(seconds[""][1:]))


def _session(path: Path, level: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _feed(source: Path, session: Any) -> Any:
    feed, _ = next(runnable_inputs(load(source), session, np.random.default_rng(0)))
    return feed


def _line(name: str, outcome: Outcome) -> str:
    figures = f"{name:<14} {outcome.nodes:>6} nodes {outcome.seconds:7.2f} s of CPU"
    if outcome.problem:
        return f"{figures}  WRONG: {outcome.problem}"
    return f"{figures}  latency {outcome.off:.3f} off, {outcome.on:.3f} on"


def _summary(name: str, rows: list[tuple[int, Outcome]]) -> str:
    right = [(before, outcome) for before, outcome in rows if not outcome.problem]
    nodes = _mean([outcome.nodes / before for before, outcome in right])
    off, on = _mean([outcome.off for _, outcome in right]), _mean([outcome.on for _, outcome in right])
    seconds = sum(outcome.seconds for _, outcome in rows)
    wrong = len(rows) - len(right)
    return f"{name:<14} nodes {nodes:.3f}  latency {off:.3f} off, {on:.3f} on  {seconds:7.2f} s  {wrong} wrong"


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")


if __name__ == "__main__":
    main()

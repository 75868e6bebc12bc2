"""Timing of kernels, in groups that run in turn in a process of their own.

What else the machine does shall not show: of the runs of a kernel the time is that of the lowest quartile, and of one
thread it is the processor's time. Other kernels run between two runs of one, so its weights are no more at hand than
they are in a model.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import onnx
from onnx import helper

from eqsat.calibration.kernels import DOMAINS, IR_VERSION, Kernel, kernel_model, weight_bytes, with_output
from eqsat.cost import CostNode
from eqsat.cost.models import byte_count, flops
from eqsat.errors import EqsatError, ModelError
from eqsat.files import scratch_folder

SECONDS = 30.0
"""Seconds for which a process may be silent before it is ended."""

ROUNDS = (7, 40)
"""Fewest and most runs of each kernel."""

GROUP_SECONDS = 1.0
"""Seconds for which a group of kernels runs in turn, though each at least the fewest times."""

_GROUP = 48
"""Kernels that run in turn."""

_GROUP_BYTES = 1 << 29
"""Bytes of the weights of a group."""

_COPIES = 32
"""Most copies of a kernel in one model."""

_COPY_BYTES = 1 << 26
"""Bytes of the weights of all copies; larger ones are shared."""

_WORTH = 2e-4
"""Seconds that a model should run, so that the call of the runtime does not show."""

_LAUNCH, _FLOPS, _BYTES = 1e-6, 1e12, 2e11
"""Of a fast processor: seconds of any kernel, and operations and bytes in a second."""

_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Setup:
    """How the runtime runs.

    Attributes:
        threads: Threads of an operator; 0 for as many as onnxruntime takes by itself.
        level: What its optimizer does: ``off``, ``basic``, ``extended`` or ``all``.
    """

    threads: int = 0
    level: str = "all"


@dataclass(frozen=True)
class Timing:
    """What was measured of a kernel.

    Attributes:
        seconds: The lowest quartile of its runs, what the call of the runtime takes left out.
        spread: By what part of it the median is more.
    """

    seconds: float
    spread: float


def measure(
    kernels: Iterable[Kernel], setup: Setup, on_group: Callable[[int], None] | None = None
) -> dict[str, Timing | str]:
    """Time kernels.

    Args:
        kernels: What to time.
        setup: How the runtime runs.
        on_group: Called after each group with the number of kernels that are done.

    Returns:
        Timings by key; of a kernel that fails or hangs, why.

    Raises:
        ModelError: onnxruntime is missing or does not start.
    """
    found: dict[str, Timing | str] = {}
    for group in _groups({kernel.key: kernel for kernel in kernels}.values(), found):
        with scratch_folder() as folder:
            times = time_models([_EMPTY, *[model for _, _, model in group]], setup, folder)
        overhead = times[0]
        if isinstance(overhead, str):
            raise ModelError(f"onnxruntime cannot be measured: {overhead}")
        for (key, copies, _), runs in zip(group, times[1:], strict=True):
            found[key] = runs if isinstance(runs, str) else _timing(runs, overhead, copies)
        if on_group is not None:
            on_group(len(found))
    return found


def _groups(
    kernels: Iterable[Kernel], failed: dict[str, Timing | str]
) -> Iterator[list[tuple[str, int, onnx.ModelProto]]]:
    """Yield kernels as models; what cannot be one goes to ``failed``."""
    group: list[tuple[str, int, onnx.ModelProto]] = []
    held = 0
    for kernel in kernels:
        copies = max(1, min(math.ceil(_WORTH / _least_seconds(kernel.seen)), _COPIES))
        try:
            model = kernel_model(kernel, copies, _COPY_BYTES)
        except EqsatError as error:
            failed[kernel.key] = str(error)
            continue
        weights = weight_bytes(model)
        if group and (len(group) >= _GROUP or held + weights > _GROUP_BYTES):
            yield group
            group, held = [], 0
        group.append((kernel.key, copies, model))
        held += weights
    if group:
        yield group


def _least_seconds(node: CostNode) -> float:
    """Seconds that a kernel takes at least: what it computes and writes, on a fast processor."""
    return _LAUNCH + max(flops(node) / _FLOPS, byte_count(node.type) / _BYTES)


def quartile(runs: Sequence[float]) -> float:
    """Return the lowest quartile."""
    return sorted(runs)[len(runs) // 4]


def _timing(runs: Sequence[float], overhead: Sequence[float], copies: int) -> Timing:
    low, middle = quartile(runs), sorted(runs)[len(runs) // 2]
    seconds = max(low - quartile(overhead), 0.0) / copies
    return Timing(seconds, (middle - low) / low if low else 0.0)


def time_models(models: Sequence[onnx.ModelProto], setup: Setup, folder: Path) -> list[list[float] | str]:
    """Return the seconds of the runs of each model, which run in turn, or why it has none.

    Args:
        models: Models without open sizes; their inputs are made up.
        setup: How the runtime runs.
        folder: Where they are written to.
    """
    paths = [folder / f"{index}.onnx" for index in range(len(models))]
    for path, model in zip([*paths, folder / _EMPTY_NAME], [*models, _EMPTY], strict=True):
        onnx.save(model, path)
    failed: dict[int, str] = {}
    while True:
        left = [index for index in range(len(models)) if index not in failed]
        seconds, at, why = _run([paths[index] for index in left], setup, folder / _EMPTY_NAME)
        failed |= {left[index]: reason for index, reason in why.items()}
        if seconds is not None:
            break
        if at is None:
            return ["the process that measures does not start, or ends"] * len(models)
        failed.setdefault(left[at], "it hangs, or ends the process")
    times: list[list[float] | str] = [failed.get(index, "") for index in range(len(models))]
    for index, runs in zip(left, seconds, strict=True):
        if runs:
            times[index] = runs
    return times


def _run(
    paths: Sequence[Path], setup: Setup, empty: Path
) -> tuple[list[list[float]] | None, int | None, Mapping[int, str]]:
    """Have a process time models.

    Returns:
        The seconds of their runs, None where the process ended before; the model that it was at; and why models failed.
    """
    request = {
        "threads": setup.threads,
        "level": setup.level,
        "rounds": ROUNDS,
        "seconds": GROUP_SECONDS,
        "models": [str(path) for path in paths],
        "empty": str(empty),
    }
    process = subprocess.Popen(
        [sys.executable, "-P", str(_WORKER)],  # not to import modules from its folder
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    failed: dict[int, str] = {}
    at: int | None = None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        while (said := _line(process)) is not None:
            if "seconds" in said:
                return said["seconds"], at, failed
            if "failed" in said:
                failed[said["failed"]] = said["why"]
            elif said["at"] >= 0:
                at = said["at"]
    except OSError:  # it does not read what is written
        pass
    finally:
        process.kill()
        process.communicate()
    return None, at, failed


def _line(process: subprocess.Popen[str]) -> Any:
    """What the process says next; None if it ends or is silent for too long."""
    assert process.stdout is not None
    timer = Timer(SECONDS, process.kill)
    timer.daemon = True
    timer.start()
    try:
        line = process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None
    finally:
        timer.cancel()


def _empty() -> onnx.ModelProto:
    """A model that computes nothing: what it takes is the call of the runtime."""
    graph = helper.make_graph([], "empty", [], [])
    opsets = [helper.make_opsetid(domain, version) for domain, version in DOMAINS.items()]
    return with_output(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION))


_EMPTY = _empty()
_EMPTY_NAME = "empty.onnx"

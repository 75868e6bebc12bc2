"""Timing of kernels, in groups that run in turn in a process of their own.

What else the machine does shall not show. Before and after each run of a kernel a reference runs, a small network that
is always the same, and the time of the kernel is told by that of the reference: where the processor is half as fast for
a while, both take twice as long. Of one thread the time is the processor's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import helper

from eqsat.calibration.copies import NEEDED_ONLY, weight_bytes, with_output
from eqsat.calibration.engines.process import answers
from eqsat.calibration.gathered import gathered
from eqsat.calibration.kernels import DOMAINS, IR_VERSION
from eqsat.cost.runtimes import LEVELS, NO_RUNTIME
from eqsat.errors import ArgumentError, EqsatError, ModelError
from eqsat.files import scratch_folder

ROUNDS = (7, 40)
"""Fewest and most runs of each kernel."""

GROUP_SECONDS = 1.0
"""Seconds for which a group of kernels runs in turn, though each at least the fewest times."""

MOST_WHOLE = 400
"""Most runs of whole models."""

_GROUP = 48
"""Kernels that run in turn."""

_MANY_COPIES = 32
"""Copies of nothing by which it is seen what each takes."""

_GROUP_BYTES = 1 << 29
"""Bytes of the weights of a group."""


@dataclass(frozen=True)
class Setup:
    """How the runtime runs.

    Attributes:
        threads: Threads of an operator; 0 for as many as the runtime takes by itself.
        level: What its optimizer does, one of the levels of the runtime: ``off``, ``basic``, ``extended`` or ``all`` of
            onnxruntime, and ``all`` of OpenVINO.
        runtime: Which one it is, ``onnxruntime`` or ``openvino``.

    Raises:
        ArgumentError: There is no such runtime, or it has no such level.
    """

    threads: int = 0
    level: str = "all"
    runtime: str = "onnxruntime"

    def __post_init__(self) -> None:
        if self.runtime not in LEVELS:
            raise ArgumentError(f"nothing is measured in runtime {self.runtime!r}; known are {', '.join(LEVELS)}")
        if self.level not in LEVELS[self.runtime]:
            known = " or ".join(LEVELS[self.runtime])
            raise ArgumentError(f"{self.runtime} has no level {self.level!r}: it is {known}")

    @staticmethod
    def of(runtime: str, threads: int = 0, level: str | None = None) -> Setup:
        """Return how models run that are written for a runtime.

        Args:
            runtime: The runtime; for ``none`` it is onnxruntime without its optimizer.
            threads: As above.
            level: As above; None for the highest.

        Raises:
            ArgumentError: As above.
        """
        if runtime == NO_RUNTIME:
            return Setup(threads, level or "off")
        return Setup(threads, level or LEVELS.get(runtime, ("all",))[-1], runtime)

    @property
    def kernels(self) -> str:
        """The runtime whose kernels models have that run like this."""
        return NO_RUNTIME if self.level == "off" else self.runtime


@dataclass(frozen=True)
class Timing:
    """What was measured of a kernel.

    Attributes:
        seconds: The median of its runs, what the call of the runtime takes left out.
        spread: By what part of it the middle half of the runs differ.
    """

    seconds: float
    spread: float


@dataclass
class Spent:
    """Seconds of the processor that measurements took.

    Attributes:
        writing: For models of kernels.
        loading: Until the runtime has loaded them and they have run once.
        running: For their runs.
        reference: For runs of the reference.
    """

    writing: float = 0.0
    loading: float = 0.0
    running: float = 0.0
    reference: float = 0.0

    def add(self, each: Mapping[str, float]) -> None:
        """Add what a process took."""
        self.loading += each["loading"]
        self.running += each["running"]
        self.reference += each["reference"]


class Measurable(Protocol):
    """A kernel.

    Attributes:
        key: Equal for equal kernels.
        family: Its operators.
    """

    @property
    def key(self) -> str: ...

    @property
    def family(self) -> str: ...

    @property
    def flops(self) -> float:
        """Its floating-point operations."""

    @property
    def bytes(self) -> float:
        """The bytes that it reads and writes."""

    def copies(self, runtime: str) -> tuple[onnx.ModelProto, int]:
        """Return a model that computes it as often as it takes to be seen in a runtime, and how often that is.

        Raises:
            ModelError: It cannot be written.
        """


def measure(
    kernels: Iterable[Measurable],
    setup: Setup,
    reference: float | None = None,
    on_group: Callable[[int], None] | None = None,
    spent: Spent | None = None,
    seconds: float | None = None,
) -> tuple[dict[str, Timing | str], float | None]:
    """Time kernels.

    Args:
        kernels: What to time.
        setup: How the runtime runs.
        reference: Seconds that the reference takes to be told by; None for what it takes here and now.
        on_group: Called after each group with the number of kernels that are done.
        spent: To what the seconds are added that this takes.
        seconds: After how many seconds no more kernels are begun; None to time all.

    Returns:
        Timings by key, of a kernel that fails or hangs why; and the seconds of the reference.

    Raises:
        ModelError: The runtime is missing or does not start.
    """
    found: dict[str, Timing | str] = {}
    spent = Spent() if spent is None else spent
    begun, end = time.process_time(), None if seconds is None else time.perf_counter() + seconds
    for group in _groups({kernel.key: kernel for kernel in kernels}.values(), setup.runtime, found):
        left = None if end is None else end - time.perf_counter()
        if left is not None and left <= 0.0:
            break
        with scratch_folder() as folder:
            empty = empty_models(setup.runtime)
            models = [*empty, *[model for _, _, model in group]]
            times, reference = time_models(models, setup, folder, reference, spent, left)
        if why := [each for each in times[: len(empty)] if isinstance(each, str)]:
            raise ModelError(f"{setup.runtime} cannot be measured: {why[0]}")
        overhead = Overhead.of(times[: len(empty)])
        for (key, copies, _), runs in zip(group, times[len(empty) :], strict=True):
            if runs == NOT_BEGUN:
                continue
            found[key] = runs if isinstance(runs, str) else _timing(runs, overhead.seconds(copies), copies)
        if on_group is not None:
            on_group(len(found))
    spent.writing += time.process_time() - begun
    return found, reference


def _groups(
    kernels: Iterable[Measurable], runtime: str, failed: dict[str, Timing | str]
) -> Iterator[list[tuple[str, int, onnx.ModelProto]]]:
    """Yield kernels as models; what cannot be one goes to ``failed``."""
    group: list[tuple[str, int, onnx.ModelProto]] = []
    held = 0
    for kernel in kernels:
        try:
            model, copies = kernel.copies(runtime)
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


def _timing(runs: Sequence[float], overhead: float, copies: int) -> Timing:
    low, middle, high = np.quantile(runs, [0.25, 0.5, 0.75]).tolist()
    return Timing(max(middle - overhead, 0.0) / copies, (high - low) / middle if middle else 0.0)


NOT_BEGUN = "there was no time for it"
"""Why a model has no runs that was not begun."""

Times = list[list[float] | str]
"""Seconds of the runs of each model, or why it has none."""


def time_models(
    models: Sequence[onnx.ModelProto],
    setup: Setup,
    folder: Path,
    reference: float | None = None,
    spent: Spent | None = None,
    loading: float | None = None,
) -> tuple[Times, float]:
    """As :func:`time_files`, of kernels as models without open sizes, which are written to ``folder``."""
    paths = [folder / f"{index}.onnx" for index in range(len(models))]
    for path, model in zip(paths, models, strict=True):
        onnx.save(model, path)
    return time_files(paths, setup, folder, reference, spent=spent, loading=loading)


def save_feed(feed: Mapping[str, Any], folder: Path) -> Path:
    """Write what models take to a file of arrays, texts as such a file holds them, and return its path."""
    arrays = {name: np.asarray(array) for name, array in feed.items()}
    plain: dict[str, Any] = {
        name: each.astype(str) if each.dtype.kind == "O" else each for name, each in arrays.items()
    }
    np.savez(folder / "feeds.npz", **plain)
    return folder / "feeds.npz"


def time_files(
    paths: Sequence[Path],
    setup: Setup,
    folder: Path,
    reference: float | None = None,
    feeds: Path | None = None,
    seconds: float = GROUP_SECONDS,
    spent: Spent | None = None,
    loading: float | None = None,
    fewest: int = ROUNDS[0],
) -> tuple[Times, float]:
    """Return how long the models in files run, which run in turn, and what the reference takes.

    Args:
        paths: The files.
        setup: How the runtime runs.
        folder: Where what is needed beside them is written to.
        reference: Seconds that the reference takes to be told by; None for what it takes here and now.
        feeds: The file of the arrays that they take, None where they are kernels: their inputs are made up then.
        seconds: For how long they run in turn, though each at least the fewest times.
        spent: To what the seconds are added that this takes.
        loading: After how many seconds no more models are loaded; None to load all.
        fewest: How many times each runs at least.
    """
    onnx.save(_REFERENCE, folder / _REFERENCE_NAME)
    rounds = (fewest, ROUNDS[1] if feeds is None else MOST_WHOLE)
    request = {
        "runtime": setup.runtime,
        "threads": setup.threads,
        "level": setup.level,
        "rounds": rounds,
        "seconds": seconds,
        "loading": loading,
        "reference": str(folder / _REFERENCE_NAME),
        "feeds": None if feeds is None else str(feeds),
    }
    failed: dict[int, str] = {}
    while True:
        left = [index for index in range(len(paths)) if index not in failed]
        found, at, why = _run({**request, "models": [str(paths[index]) for index in left]})
        failed |= {left[index]: reason for index, reason in why.items()}
        if found is not None:
            break
        if at is None:
            return ["the process that measures does not start, or ends"] * len(paths), reference or 0.0
        failed.setdefault(left[at], "it hangs, or ends the process")
    runs, beside = found["seconds"], found["reference"]
    if spent is not None:
        spent.add(found["spent"])
    if reference is None:
        reference = float(np.quantile([each for row in beside for each in row] or [0.0], 0.25))
    times: Times = [failed.get(index, NOT_BEGUN) for index in range(len(paths))]
    for index, row, by in zip(left, runs, beside, strict=True):
        if row:
            times[index] = [each * reference / other for each, other in zip(row, by, strict=True)]
    return times, reference


def _run(
    request: Mapping[str, Any],
) -> tuple[Mapping[str, Any] | None, int | None, Mapping[int, str]]:
    """Have a process time models.

    Returns:
        What the process found, None where it ended before; the model that it was at; and why models failed.
    """
    failed: dict[int, str] = {}
    at: int | None = None
    for said in answers("worker", request):
        if "seconds" in said:
            return said, at, failed
        if "failed" in said:
            failed[said["failed"]] = said["why"]
        elif said["at"] >= 0:
            at = said["at"]
    return None, at, failed


def _empty() -> onnx.ModelProto:
    """What it takes is the call of the runtime."""
    return with_output(_model([], "empty", [], []))


def _model(nodes: Any, name: str, inputs: Any, outputs: Any, weights: Any = None) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    opsets = [helper.make_opsetid(domain, version) for domain, version in DOMAINS.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


EMPTY = _empty()
"""A model that computes nothing."""


def empty_models(runtime: str) -> list[onnx.ModelProto]:
    """Return models that compute nothing: one, or where copies take a time beside the kernels, of one and of many."""
    if runtime not in NEEDED_ONLY:
        return [EMPTY]
    given, same = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8]) for name in "xy")
    nothing = _model([helper.make_node("Identity", ["x"], ["y"])], "nothing", [given], [same])
    return [gathered([nothing] * count) for count in (1, _MANY_COPIES)]


@dataclass(frozen=True)
class Overhead:
    """What a model takes beside its kernels.

    Attributes:
        call: Seconds of the model.
        copy: Seconds of each copy.
    """

    call: float
    copy: float

    @staticmethod
    def of(times: Sequence[Sequence[float] | str]) -> Overhead:
        """Return what is seen of the models that compute nothing."""
        first, *others = [median(each) for each in times if not isinstance(each, str)]
        copy = max(others[0] - first, 0.0) / (_MANY_COPIES - 1) if others else 0.0
        return Overhead(first - copy if others else first, copy)

    def seconds(self, copies: int) -> float:
        """Return what a model takes of so many copies."""
        return self.call + copies * self.copy


def _reference() -> onnx.ModelProto:
    """Products of matrices and what mostly is between them, of sizes that caches hold."""
    given = np.random.default_rng(0).uniform(-0.1, 0.1, (2, 64, 64)).astype(np.float32)
    value, nodes = "x", list[onnx.NodeProto]()
    for op_type, *more in [("MatMul", "a"), ("Add", "b"), ("Tanh",), ("MatMul", "b"), ("Transpose",), ("Softmax",)] * 2:
        nodes.append(helper.make_node(op_type, [value, *more], [f"v{len(nodes)}"]))
        value = nodes[-1].output[0]
    weights = [onnx.numpy_helper.from_array(array, name) for array, name in zip(given, "ab", strict=True)]
    taken = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [64, 64])
    return with_output(_model(nodes, "reference", [taken], [], weights))


_REFERENCE = _reference()
_REFERENCE_NAME = "reference.onnx"

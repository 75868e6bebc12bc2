"""Latency of two models in onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from eqsat.files import scratch_folder
from eqsat.onnx.feeds import runnable_feed, types_told
from eqsat.onnx.files import Given
from eqsat.onnx.sessions import run_session, session

_SECONDS = 2.0
_ROUNDS = (5, 200)
"""Minimum and maximum number of runs of each model."""


@dataclass(frozen=True)
class Latency:
    """The latencies of two models that ran in turn.

    Args:
        optimizer: Whether onnxruntime's own optimizer was on.
        before, after: The median time of a run of each model, in seconds.
        runs: The number of runs of each model.
        inputs: Name of each input -> its type and shape, as text.
    """

    optimizer: bool
    before: float
    after: float
    runs: int
    inputs: Mapping[str, str]


def bench(
    before: Given,
    after: Given,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    inputs: Sequence[Mapping[str, np.ndarray[Any, Any]]] = (),
    seconds: float = _SECONDS,
) -> list[Latency]:
    """Measure the latency of two models, with the optimizer of onnxruntime off and on.

    The models run in turn, so that other load on the machine affects both.

    Args:
        before, after: Models in any form that :func:`eqsat.onnx.load` takes, with the same inputs.
        seed, dims, inputs: The inputs, as for :func:`eqsat.onnx.verify`; if several are given, the first is used.
        seconds: The time for which the models run with each setting of the optimizer, in seconds. Each model runs at
            least five times.

    Raises:
        ArgumentError: ``dims`` does not fit the model.
        ModelError: onnxruntime is missing, or a model cannot be read or does not run in it.
    """
    found = []
    feed = dict(inputs[0]) if inputs else runnable_feed(before, seed, dims)
    for optimizer in (False, True):
        with scratch_folder() as folder:
            first = session(before, folder / "before.onnx", "the model as it was", optimizer, packed=True)
            second = session(after, folder / "after.onnx", "the optimized model", optimizer, packed=True)
            found.append(_latency(first, second, feed, optimizer, seconds))
    return found


def _latency(first: Any, second: Any, feed: Mapping[str, Any], optimizer: bool, seconds: float) -> Latency:
    times: tuple[list[float], list[float]] = ([], [])
    pair = ((first, "the model as it was"), (second, "the optimized model"))
    for each, what in pair:  # the first run of a session allocates
        run_session(each, feed, what)
    end = time.perf_counter() + seconds
    while len(times[0]) < _ROUNDS[0] or (len(times[0]) < _ROUNDS[1] and time.perf_counter() < end):
        turn = (0, 1) if len(times[0]) % 2 else (1, 0)  # who is second finds the caches of the other
        for index in turn:
            each, what = pair[index]
            start = time.perf_counter()
            run_session(each, feed, what)
            times[index].append(time.perf_counter() - start)
    return Latency(optimizer, median(times[0]), median(times[1]), len(times[0]), types_told(feed))

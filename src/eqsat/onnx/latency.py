"""How long a model takes in onnxruntime before and after."""

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
"""Fewest and most runs of each model."""


@dataclass(frozen=True)
class Latency:
    """Seconds of a run: the medians of two models that ran in turn.

    Args:
        optimizer: whether onnxruntime optimized them too.
        before, after: seconds.
        runs: of each model.
        inputs: type and shape of each input, as text.
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
    """The latency of two models, with the optimizer of onnxruntime off and on.

    The models run in turn, so that what else the machine does falls on both.

    Args:
        before, after: models in any form that :func:`eqsat.onnx.load` takes, of the same inputs.
        seed, dims, inputs: what they run on, as for :func:`eqsat.onnx.verify`; of several inputs the first.
        seconds: how long they run with each of the two, though five times at least.

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

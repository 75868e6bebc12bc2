"""Times models in a runtime, run as a program: a model that crashes or hangs ends nothing else.

The first line of standard input is a JSON object: ``runtime``, ``threads``, ``level``, ``rounds``, ``seconds``;
``loading``, the seconds after which no more models are loaded, or null; ``models``, a list of paths; ``reference``,
the path of a model that runs before and after each run of another, so that all find the runtime alike, and by whose
time theirs are told; and ``feeds``, the path of arrays by name that the models take, or null where they are kernels,
whose inputs are made up. The models run in turn, kernels always in one order, whole models in any.

On standard output comes a JSON line for each thing that begins or is done: ``{"at": index}`` before a model is loaded
and run for the first time, ``{"failed": index, "why": text}`` where that fails, and at last ``{"seconds": [[...],
...], "reference": [[...], ...], "spent": {...}}``, the seconds of the runs of each model, of those of the reference
beside them, and of the processor for what the program did.

This file imports nothing of ours, so that it starts fast and holds little.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_SILENT = 1.0
"""Seconds after which it is told that the models still run."""

_ALWAYS = 3
"""Models that are always loaded: what computes nothing, and one that does."""

_LONG = 5e-3
"""Seconds from which on it does not matter what a kernel finds in the caches: it runs once in its turn."""

_FEWEST, _PATIENCE = 3, 5
"""Fewest runs of kernels, where the least number of them takes more than this many times as long as asked."""

_EVEN = 0.02
"""By what part of it the last few runs of a long kernel may differ for it to run no more."""

_TOGETHER, _MOST_TOGETHER = 1e-3, 9
"""Seconds for which a whole model runs more than once in its turn, and how many times more at most."""


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    request = json.loads(sys.stdin.readline())
    sys.path.append(str(Path(__file__).parent))  # as the last: no library finds modules of ours
    engine = importlib.import_module(f"in_{request['runtime']}")

    def tell(said: dict[str, Any]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    spent = dict.fromkeys(("loading", "running", "reference"), 0.0)

    def spend(on: str, begun: float) -> None:
        spent[on] += time.process_time() - begun

    reference, *_ = engine.kernel(request["reference"], request["threads"], next(iter(engine.LEVELS)))
    feeds = None if request["feeds"] is None else dict(np.load(request["feeds"]))
    runs: dict[int, Any] = {}
    inputs: dict[int, Any] = {}
    shares: dict[int, float] = {}
    started = time.perf_counter()
    for index, path in enumerate(request["models"]):
        if index >= _ALWAYS and request["loading"] is not None and time.perf_counter() - started > request["loading"]:
            break
        tell({"at": index})
        begun = time.process_time()
        try:
            how = path, request["threads"], request["level"]
            made = engine.kernel(*how) if feeds is None else engine.whole(*how, feeds)
            runs[index], inputs[index], shares[index] = made
            runs[index]()
        except Exception as error:
            runs.pop(index, None)
            tell({"failed": index, "why": " ".join(str(error).split())[:200]})
        spend("loading", begun)
    seconds: list[list[float]] = [[] for _ in request["models"]]
    beside: list[list[float]] = [[] for _ in request["models"]]
    least, most = request["rounds"]
    clock = time.thread_time if request["threads"] == 1 else time.perf_counter  # not what other programs take

    def referred() -> float:
        begun = time.process_time()
        reference()  # what ran before left nothing of it in the caches
        start = clock()
        reference()
        took = clock() - start
        spend("reference", begun)
        return took

    settled: set[int] = set()
    references: list[float] = []
    places: list[int] = []
    told = time.perf_counter()
    end, late = told + request["seconds"], told + _PATIENCE * request["seconds"]
    for done in range(most):
        now = time.perf_counter()
        if (done >= least and now > end) or (done >= _FEWEST and now > late and feeds is None):
            break
        order = [index for index in runs if index not in settled]
        if feeds is not None:
            random.Random(done).shuffle(order)  # none shall always find the caches that another left
        for index in order:
            if time.perf_counter() > told + _SILENT:
                told = time.perf_counter()
                tell({"at": -1})
            run = runs[index]
            for array in inputs[index]:
                array.max(initial=0)  # what a kernel takes was just computed: it is at hand
            references.append(referred())
            places.append(index)
            ran = time.process_time()
            begun, start = time.perf_counter(), clock()
            run()  # a model runs often: what another one left in the caches is no part of what this one takes
            took, once = time.perf_counter() - begun, clock() - start
            if feeds is None and once > _LONG:
                seconds[index].append(once * shares[index])
                if _is_even(seconds[index][-_FEWEST:]):
                    settled.add(index)
                spend("running", ran)
                continue
            often = 0 if feeds is None else _MOST_TOGETHER
            count = 1 + int(min(_TOGETHER / took, often))
            start = clock()
            for _ in range(count):
                run()
            seconds[index].append((clock() - start) / count * shares[index])
            spend("running", ran)
    references.append(referred())
    for place, index in enumerate(places):
        beside[index].append((references[place] + references[place + 1]) / 2)
    tell({"seconds": seconds, "reference": beside, "spent": spent})


def _is_even(runs: list[float]) -> bool:
    return len(runs) == _FEWEST and max(runs) <= (1 + _EVEN) * min(runs)


if __name__ == "__main__":
    main()

"""Whole models that run in turn in the runtime, and how much of what is seen of them is noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import onnx

from eqsat.calibration.measuring import EMPTY, ROUNDS, Setup, save_feed, time_files
from eqsat.errors import ModelError
from eqsat.files import scratch_folder
from eqsat.onnx.files import Given, save_to_run

LIMIT = 0.05
"""Noise beyond which nothing is chosen by what was measured: a share of the time of the given model."""

_LONGER, _MORE = 4, 3
"""How many times as long, and as often at least, models run again after too much noise."""

_WIDTH = 1.96
"""Standard deviations to either side of a mean between which 95 % are."""


@dataclass(frozen=True)
class Run:
    """How long a model runs beside the first one, whose runs took turns with its own.

    Attributes:
        seconds: The median of its runs, what the call of the runtime takes left out.
        ratio: The median of what its runs take over what those of the first model take in the same turns.
        error: By how much the ratio may be wrong: half of its interval of 95 %.
    """

    seconds: float
    ratio: float
    error: float


@dataclass(frozen=True)
class Race:
    """Models that ran in turn.

    Attributes:
        runs: One for each model; the reason where it did not run.
        noise: By how much times differ for no reason, as a share: what two sessions of the first model differ by, or
            how uncertain ratios are, whichever is more.
    """

    runs: list[Run | str]
    noise: float

    @property
    def is_noisy(self) -> bool:
        """Whether there is too much noise to choose by what was measured."""
        return self.noise > LIMIT


def race(
    models: Sequence[Given],
    feed: Mapping[str, Any],
    setup: Setup,
    seconds: float,
    reference: float | None = None,
    repeats: bool = True,
) -> Race:
    """Run models in turn, the first of them in two sessions.

    Args:
        models: The models.
        feed: What they take, by name of the input.
        setup: How the runtime runs.
        seconds: For how long all of them run together, though seven times each at least.
        reference: Seconds that the reference takes to be told by, see :mod:`eqsat.calibration.measuring`; None for what
            it takes here and now.
        repeats: Whether they run once more if there is too much noise: four times as long, and 21 times at least.

    Raises:
        ModelError: The first model does not run.
    """
    with scratch_folder() as folder:
        paths = [folder / f"{index}.onnx" for index in range(len(models))]
        for path, model in zip(paths, models, strict=True):
            save_to_run(model, path)
        feeds = save_feed(feed, folder)
        onnx.save(EMPTY, folder / "empty_too.onnx")
        files = [folder / "empty_too.onnx", paths[0], *paths]
        run = partial(_race, files, feeds, setup, folder, reference)
        found = run(seconds, ROUNDS[0])
        return run(_LONGER * seconds, _MORE * ROUNDS[0]) if repeats and found.is_noisy else found


def _race(
    files: Sequence[Path],
    feeds: Path,
    setup: Setup,
    folder: Path,
    reference: float | None,
    seconds: float,
    fewest: int,
) -> Race:
    """As :func:`race`, of files: a model that computes nothing, the first model twice, and the others."""
    times, _ = time_files(files, setup, folder, reference, feeds, seconds, fewest=fewest)
    empty, first, again, *others = times
    if isinstance(first, str) or isinstance(again, str) or isinstance(empty, str):
        why = [each for each in (first, again, empty) if isinstance(each, str)]
        raise ModelError(f"the model as it was does not run in {setup.runtime}: {why[0]}")
    call = median(empty)
    itself, control = Run(max(median(first) - call, 0.0), 1.0, 0.0), _run(again, first, call)
    runs = [itself, *[each if isinstance(each, str) else _run(each, first, call) for each in others]]
    errors = [each.error for each in runs if isinstance(each, Run)]
    return Race(runs, max(abs(control.ratio - 1.0), control.error, *errors))


def _run(runs: Sequence[float], first: Sequence[float], call: float) -> Run:
    ratios = sorted(each / other for each, other in zip(runs, first, strict=True))
    count = len(ratios)
    # the median's interval, by how many of the ratios are on either side of it: a binomial distribution
    reach = math.ceil(_WIDTH * math.sqrt(count) / 2)
    low, high = ratios[max(count // 2 - reach, 0)], ratios[min(count // 2 + reach, count - 1)]
    return Run(max(median(runs) - call, 0.0), ratios[count // 2], (high - low) / 2)

"""Predicted and measured seconds of whole models in onnxruntime or OpenVINO.

    python benchmarks/predicted.py MODEL.onnx ... [--runtime none] [--level off] [--threads 1]

Each kernel of each model is measured by itself (`eqsat.calibration`), and the model is predicted to take what its
kernels take together. Where onnxruntime optimizes models, these are the nodes that it runs then. There are two rows for
each model: as it is written without any rule, constants computed, and as it is optimized by the number of operators.
Both run in turn.
"""

from __future__ import annotations

import math
import time
from itertools import combinations
from pathlib import Path
from statistics import fmean

import click

from eqsat import onnx
from eqsat.calibration import Calibrated, Machine, Profile, Setup, predicted
from eqsat.calibration.candidates import sizes_of
from eqsat.calibration.lowered import predicted_as_run
from eqsat.calibration.race import Run, race
from eqsat.cost import CostFunction, Roofline
from eqsat.cost.runtimes import ALL_LEVELS, RUNTIMES
from eqsat.errors import EqsatError
from eqsat.onnx.feeds import runnable_feed


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--runtime", type=click.Choice(list(RUNTIMES)), default="none", show_default=True)
@click.option("--level", type=click.Choice(ALL_LEVELS), show_default="off for none, otherwise all")
@click.option("--threads", default=1, show_default=True)
def main(models: tuple[Path, ...], runtime: str, level: str | None, threads: int) -> None:
    """Measure and print lines for each model, then how good the predictions are."""
    setup = Setup.of(runtime, threads, level)
    profile = Profile(Machine.here(setup.runtime), setup)
    click.echo(f"{profile.machine}, {threads} threads, optimizer {setup.level}")
    heads = ("model", "nodes", "kernels", "seconds", "predicted", "measured", "ratio", "roofline")
    click.echo("{:32} {:>5} {:>7} {:>7} {:>9} {:>9}  {:>5} {:>8}".format(*heads))
    rows: list[tuple[float, float, float]] = []
    for path in models:
        try:
            rows += _rows(path, profile)
        except EqsatError as error:
            click.echo(f"{path.stem[:32]:32} {error}")
    for name, place in (("predicted", 0), ("roofline", 2)):
        pairs = [(row[place], row[1]) for row in rows]
        errors = [abs(said / taken - 1) for said, taken in pairs]
        near = sum(error <= 0.1 for error in errors)
        click.echo(
            f"{name}: mean error {fmean(errors):.1%}, {near} of {len(rows)} within 10 %, Kendall tau {_tau(pairs):.3f}"
        )


def _rows(path: Path, profile: Profile) -> list[tuple[float, float, float]]:
    runtime = profile.setup.kernels
    given = onnx.load(path)
    feed = runnable_feed(given)
    forms = [onnx.run(given, rules=[]).after, onnx.run(given, runtime=runtime).after]

    def cost(model: onnx.Given, by: CostFunction) -> float:
        return predicted(model, by, runtime, sizes)

    sizes = sizes_of(given, feed)
    by = Calibrated(profile, sizes=sizes)
    start, known = time.perf_counter(), len(profile.entries)
    said = predicted_as_run(forms, feed, profile)
    if None in said:
        for model in forms:
            cost(model, by)
        by.measure_estimated()
    spent, kernels = time.perf_counter() - start, len(profile.entries) - known
    found = []
    runs = race(forms, feed, profile.setup, 2.0, profile.reference).runs
    for model, as_run, run in zip(forms, said, runs, strict=True):
        if isinstance(run, Run):
            told, roofline = cost(model, by) if as_run is None else as_run, cost(model, Roofline("cpu"))
            found.append((told, run.seconds, roofline))
            click.echo(
                f"{path.stem[:32]:32} {len(model.graph):5} {kernels:7} {spent:7.1f} {told * 1e3:9.3f} "
                f"{run.seconds * 1e3:9.3f}  {told / run.seconds:5.2f} {roofline / run.seconds:8.2f}"
            )
    return found


def _tau(pairs: list[tuple[float, float]]) -> float:
    """Kendall's: of all pairs, the share in one order less that in the other."""
    orders = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(pairs, 2)]
    return sum(math.copysign(1, order) for order in orders) / len(orders) if orders else 1.0


if __name__ == "__main__":
    main()

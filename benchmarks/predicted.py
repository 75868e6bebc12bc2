"""Predicted and measured seconds of whole models in onnxruntime.

    python benchmarks/predicted.py MODEL.onnx ... [--level off] [--threads 1]

Each kernel of each model is measured by itself (`eqsat.calibration`), and the model is predicted to take what its
kernels take together. Open dimensions are given sizes: 1 for the first axis of an input, 64 for others. Models and
kernels are measured in turn: each model before and after its kernels, lowest quartile of all runs, of one thread in
processor time. Figures still move by some per cent from run to run on a machine that does other things too.
"""

from __future__ import annotations

import math
import time
from itertools import combinations
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import click

from eqsat import onnx
from eqsat.calibration import LEVELS, Calibrated, Machine, Profile, Setup
from eqsat.calibration.measuring import quartile, time_models
from eqsat.cost import CostFunction, Roofline
from eqsat.extraction.costs import as_tuple
from eqsat.onnx.files import to_proto
from eqsat.onnx.sizes import open_dims


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--level", type=click.Choice(LEVELS), default="off", show_default=True)
@click.option("--threads", default=1, show_default=True)
def main(models: tuple[Path, ...], level: str, threads: int) -> None:
    """Measure and print a line for each model, then how good the predictions are."""
    setup = Setup(threads, level)
    runtime = "none" if level == "off" else "onnxruntime"
    profile = Profile(Machine.here(), setup)
    click.echo(f"{profile.machine}, {threads} threads, optimizer {level}")
    heads = ("model", "kernels", "seconds", "predicted", "measured", "ratio", "roofline")
    click.echo("{:32} {:>7} {:>7} {:>9} {:>9}  {:>5} {:>8}".format(*heads))
    rows: list[tuple[float, float, float]] = []
    for path in models:
        model = onnx.load(path)
        dims = {name: 1 if axis == 0 else 64 for value in model.graph.inputs for name, axis in open_dims(value)}
        model = onnx.with_sizes(model, dims)

        def cost(by: CostFunction, runtime: str = runtime, model: object = model) -> float:
            found = onnx.run(model, rules=[], cost_model=by, runtime=runtime).input_cost  # type: ignore[arg-type]
            return as_tuple(found)[0]

        by = Calibrated(profile)
        cost(by)
        whole = [*_runs(model, setup)]
        start, known = time.perf_counter(), len(profile.entries)
        by.measure_estimated()
        spent, kernels = time.perf_counter() - start, len(profile.entries) - known
        whole += _runs(model, setup)
        predicted, measured, roofline = cost(by), quartile(whole), cost(Roofline("cpu"))
        rows.append((predicted, measured, roofline))
        click.echo(
            f"{path.stem[:32]:32} {kernels:7} {spent:7.1f} {predicted * 1e3:9.3f} {measured * 1e3:9.3f}  "
            f"{predicted / measured:5.2f} {roofline / measured:8.2f}"
        )
    for name, place in (("predicted", 0), ("roofline", 2)):
        pairs = [(row[place], row[1]) for row in rows]
        errors = [abs(said / taken - 1) for said, taken in pairs]
        near = sum(error <= 0.1 for error in errors)
        click.echo(
            f"{name}: mean error {fmean(errors):.1%}, {near} of {len(rows)} within 10 %, Kendall tau {_tau(pairs):.3f}"
        )


def _runs(model: object, setup: Setup) -> list[float]:
    with TemporaryDirectory() as folder:
        (runs,) = time_models([to_proto(model)], setup, Path(folder))  # type: ignore[arg-type]
    if isinstance(runs, str):
        raise click.ClickException(f"onnxruntime does not run it: {runs}")
    return runs


def _tau(pairs: list[tuple[float, float]]) -> float:
    """Kendall's: of all pairs, the share in one order less that in the other."""
    orders = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in combinations(pairs, 2)]
    return sum(math.copysign(1, order) for order in orders) / len(orders) if orders else 1.0


if __name__ == "__main__":
    main()

"""Whether running candidates chooses faster models: `eqsat optimize --measure` beside the choice by operators.

    python benchmarks/fastest.py MODEL.onnx ... [--runtime none] [--level off] [--threads 1] [--contrib]

After the choice, the given model, what the number of operators chooses and what `--measure` chose run in turn again.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from statistics import fmean

import click

from eqsat import onnx
from eqsat.calibration import Setup, fastest
from eqsat.calibration.race import Run, race
from eqsat.cost.runtimes import ALL_LEVELS, RUNTIMES
from eqsat.errors import EqsatError
from eqsat.onnx.feeds import runnable_feed
from eqsat.pipeline.options import Options


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--runtime", type=click.Choice(list(RUNTIMES)), default="none", show_default=True)
@click.option("--level", type=click.Choice(ALL_LEVELS), show_default="off for none, otherwise all")
@click.option("--threads", default=1, show_default=True)
@click.option("--contrib", is_flag=True, help="Operators of com.microsoft may be written; needs a runtime.")
@click.option("--seconds", default=6.0, show_default=True, help="For how long candidates run.")
def main(
    models: tuple[Path, ...], runtime: str, level: str | None, threads: int, contrib: bool, seconds: float
) -> None:
    """Print a line for each model, then geometric means."""
    setup = Setup.of(runtime, threads, level)
    options = Options(runtime=setup.runtime if contrib else setup.kernels, contrib=contrib)
    click.echo(
        "{:32} {:>7} {:>5} {:>10} {:>9} {:>9} {:>6}  chosen".format(
            "model", "seconds", "tried", "candidates", "operators", "measured", "noise"
        )
    )
    rows: list[tuple[float, float]] = []
    for path in models:
        start = time.perf_counter()
        try:
            found = fastest(path, setup=setup, options=options, seconds=seconds)
            spent = time.perf_counter() - start
            given = onnx.load(path)
            forms = [given, onnx.run(given, options=options).after, found.done.after]
            again = race(forms, runnable_feed(given), setup, seconds / 2)
        except EqsatError as error:
            click.echo(f"{path.stem[:32]:32} {error}")
            continue
        _, by_operators, by_time = again.runs
        if isinstance(by_operators, Run) and isinstance(by_time, Run):
            rows.append((by_operators.ratio, by_time.ratio))
            click.echo(
                f"{path.stem[:32]:32} {spent:7.1f} {found.tried:5} {len(found.candidates):10} "
                f"{by_operators.ratio:9.3f} {by_time.ratio:9.3f} {again.noise:6.1%}  "
                f"{found.candidates[found.chosen].name[:60]}"
            )
    means = [math.exp(fmean([math.log(row[place]) for row in rows])) for place in (0, 1)]
    slower = sum(row[1] > 1.03 * row[0] for row in rows)
    click.echo(
        f"{len(rows)} models, times the given one: by operators {means[0]:.3f}, measured {means[1]:.3f}; "
        f"more than 3 % slower than by operators: {slower}"
    )


if __name__ == "__main__":
    main()

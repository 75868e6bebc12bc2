"""`eqsat optimize-all`: optimize all models in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from eqsat.cli.batch import default_workers, find_jobs, run_jobs
from eqsat.cli.bounded import Bounds
from eqsat.cli.console import line_on, table
from eqsat.cli.interrupt import Interrupted
from eqsat.cli.job import Outcome
from eqsat.cli.named import digests
from eqsat.cli.optimize import NODES, optimize_file, told_cost
from eqsat.cli.options import (
    PATH,
    Settings,
    Verification,
    check_outputs,
    json_option,
    page_option,
    shared_options,
    verify_options,
)
from eqsat.cli.progress import counted_progress
from eqsat.cli.schemas import print_json
from eqsat.cli.terminal import keep_libraries_quiet
from eqsat.cli.verified import exit_code
from eqsat.extraction.costs import figures


@click.command(name="optimize-all", short_help="Optimize all models in a folder.")
@click.argument("folder", metavar="DIR", type=PATH)
@click.argument("out", metavar="OUT_DIR", type=PATH)
@shared_options
@verify_options
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=default_workers,
    show_default="cores",
    help="Number of processes on this machine.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Address of a Dask scheduler whose workers can read and write the same files.",
)
@click.option(
    "--model-seconds",
    type=click.FloatRange(min=0, min_open=True),
    show_default="no limit",
    help="Time limit of each model, in seconds. A model that takes longer fails; the others continue.",
)
@click.option(
    "--model-memory",
    type=click.IntRange(min=1),
    metavar="MB",
    show_default="no limit",
    help="Memory limit of each model, in megabytes (Linux only). A model that needs more fails; the others continue.",
)
@page_option
@json_option
@click.pass_context
def optimize_all(
    context: click.Context,
    /,
    folder: Path,
    out: Path,
    settings: Settings,
    verification: Verification,
    workers: int,
    scheduler: str | None,
    model_seconds: float | None,
    model_memory: int | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Optimize every .onnx file in DIR and its subfolders, and write the results to OUT_DIR.

    A model is skipped if its result is newer than the model and was made with the same options. To continue a run that
    was interrupted, run the same command again. The exit code is 1 if some models failed, and 3 if a requested
    comparison proves nothing for some of them.
    """
    jobs = find_jobs(folder, out, ".onnx")
    options: dict[str, Any] = {"settings": asdict(settings), "verification": asdict(verification)}
    options["modules"] = digests([*settings.rules, settings.cost])  # results of other rules are made again
    bounds = None if model_seconds is None and model_memory is None else Bounds(model_seconds, model_memory)
    check_outputs([page], [path for job in jobs for path in (job.source, job.target)])
    outcomes: list[Outcome] = []
    try:
        with _progress(len(jobs)) as tell:
            for outcome in run_jobs(jobs, optimize_one, options, workers, scheduler, bounds):
                outcomes.append(outcome)
                tell(outcome)
    except (Interrupted, KeyboardInterrupt):  # a worker may be told first
        click.echo(f"eqsat: interrupted after {len(outcomes)} of {len(jobs)} models: run it again to go on", err=True)
        context.exit(130)
    outcomes.sort(key=lambda outcome: outcome.job.source)
    if page is not None:
        _write_page(page, outcomes, folder)
    print_json([_row(each) for each in outcomes]) if as_json else _show(outcomes, folder)
    if any(outcome.status == "failed" for outcome in outcomes):
        context.exit(1)
    context.exit(max((exit_code(outcome.facts) for outcome in outcomes), default=0))


def optimize_one(source: Path, target: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Optimize one model as `eqsat optimize` does, in any process."""
    keep_libraries_quiet()
    return optimize_file(source, target, Settings(**options["settings"]), Verification(**options["verification"]))


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "source": str(outcome.job.source),
        "target": str(outcome.job.target),
        "status": outcome.status,
        "error": outcome.error,
        "seconds": outcome.seconds,
        "facts": outcome.facts or None,
    }


@contextmanager
def _progress(count: int) -> Iterator[Any]:
    """Give a function to call with every outcome; it moves a bar on a terminal and prints failures."""
    with counted_progress("optimizing", count) as steps:

        def tell(outcome: Outcome) -> None:
            where = "" if str(outcome.job.source) in outcome.error else f"{outcome.job.source}: "
            steps.end(f"eqsat: {where}{outcome.error}" if outcome.status == "failed" else "")

        yield tell


def _name(outcome: Outcome, folder: Path) -> str:
    return str(outcome.job.source.relative_to(folder.resolve()))


def _write_page(page: Path, outcomes: list[Outcome], folder: Path) -> None:
    from eqsat import report_page

    rows = [_row(each) | {"source": _name(each, folder)} for each in outcomes]
    report_page.write(page, report_page.render_models(rows, str(folder)))


def _show(outcomes: list[Outcome], folder: Path) -> None:
    line = line_on()
    rows = []
    for outcome in outcomes:
        nodes, cost = outcome.facts.get("nodes"), outcome.facts.get("cost")
        rows.append(
            (
                _name(outcome, folder),
                outcome.status if not exit_code(outcome.facts) else f"{outcome.status}, nothing proved",
                f"{nodes['before']} -> {nodes['after']}" if nodes else "",
                f"{figures(cost['before'])} -> {figures(cost['after'])}" if cost else "",
                f"{outcome.seconds:.2f}" if outcome.seconds else "",
            )
        )
    if outcomes:
        table(line, ("model", "", "nodes", "cost", "seconds"), rows)
        costs = {told_cost(each.facts["cost"]) for each in outcomes if each.facts.get("cost")}
        told = f"nodes {NODES}; cost by {', '.join(costs)}" if costs else f"nodes {NODES}"
        line(told)
    counts = Counter(outcome.status for outcome in outcomes)
    told = ", ".join(f"{counts[status]} {status}" for status in ("done", "skipped", "failed"))
    line(f"{len(outcomes)} models: {told}")

"""`eqsat calibrate`: measure kernels in the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from eqsat.cli.console import line_on, table
from eqsat.cli.options import (
    PATH,
    check_outputs,
    dim_option,
    json_option,
    progress_option,
    read_model,
    threads_option,
)
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.cost.runtimes import ALL_LEVELS, LEVELS
from eqsat.errors import ArgumentError
from eqsat.extraction.costs import figure


@click.command(short_help="Measure the time of kernels in a runtime.")
@click.argument("models", metavar="[MODEL]...", nargs=-1, type=PATH)
@click.option("--out", "-o", type=PATH, metavar="FILE.json", help="Also write all measurements to a file, for --cost.")
@click.option(
    "--runtime",
    type=click.Choice([*LEVELS]),
    default="onnxruntime",
    show_default=True,
    help="Runtime in which kernels are measured.",
)
@click.option(
    "--level",
    type=click.Choice(ALL_LEVELS),
    default="all",
    show_default=True,
    help="Optimization level of the runtime itself. off: for models that are optimized with --runtime none.",
)
@threads_option
@dim_option
@click.option(
    "--contrib", is_flag=True, help="Also measure kernels of onnxruntime's own operators (domain com.microsoft)."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0),
    metavar="S",
    help="Begin no more kernels after S seconds of measurement; those that are left are estimated.",
)
@click.option("--show", is_flag=True, help="Print the time of every measured kernel.")
@click.option("--prune", is_flag=True, help="Delete measurements from other machines and other versions.")
@progress_option
@json_option
def calibrate(
    models: Sequence[Path],
    out: Path | None,
    runtime: str,
    level: str,
    threads: int,
    dims: Mapping[str, int],
    contrib: bool,
    seconds: float | None,
    show: bool,
    prune: bool,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Measure the kernels of the MODELs, and store their times for later use.

    The kernels are those of every form of a MODEL that the default rules find. Without a MODEL, a list of common
    kernels is measured. Each kernel runs many times in a small model of its own, in turn with the others. Kernels that
    were measured before are not measured again. `eqsat optimize --cost measured` does the same for one model: in the
    runtime that --runtime names, at level all, or without --runtime in onnxruntime, at level off.
    """
    from eqsat import calibration, onnx

    check_outputs([out], models)
    setup = calibration.Setup(threads, level, runtime)
    removed = calibration.prune() if prune else []
    cost = calibration.Calibrated.here(setup, seconds)
    known = len(cost.profile.entries)
    used: set[str] = set()
    with activity("measuring usual kernels", progress) as tell:
        for path in models:
            tell(f"measuring the kernels of {path}")
            model = read_model(path)
            names = {name for name in dims if _has(model, name)}
            used |= names
            given = onnx.with_sizes(model, {name: dims[name] for name in names})
            onnx.run(given, cost_model=cost, runtime=runtime if contrib else setup.kernels, contrib=contrib)
        if not models and not show and not prune and out is None:
            calibration.calibrate(cost.profile, calibration.usual_kernels(), seconds)
            calibration.remember(cost.profile)
    if models and (wrong := sorted({*dims} - used)):
        raise ArgumentError(f"no input of a model has an open dimension {wrong[0]!r}")
    if out is not None:
        cost.profile.save(out)
    facts = _facts(cost, len(cost.profile.entries) - known, removed)
    if as_json:
        print_json(facts | ({"entries": _entries(cost)} if show else {}))
    else:
        _show(facts, cost, show)


def _has(model: Any, name: str) -> bool:
    from eqsat.onnx.sizes import open_dims

    return any(name == each for value in model.graph.inputs for each, _ in open_dims(value))


def _facts(cost: Any, new: int, removed: Sequence[Path]) -> dict[str, Any]:
    profile = cost.profile
    return {
        "machine": str(profile.machine),
        "threads": profile.setup.threads,
        "level": profile.setup.level,
        "date": profile.date,
        "change": profile.change,
        "kernels": len(profile.entries),
        "new": new,
        "noisy": len(profile.noisy),
        "skipped": profile.skipped,
        "left": sum(key not in profile.entries for key in cost.estimated),
        "unknown": sorted({node.op for node in cost.unknown}),
        "errors": profile.fitted().errors(),
        "spent": asdict(profile.spent),
        "removed": [str(path) for path in removed],
    }


def _entries(cost: Any) -> dict[str, Any]:
    return {key: {"seconds": each.seconds, "spread": each.spread} for key, each in cost.profile.entries.items()}


def _show(facts: dict[str, Any], cost: Any, show: bool) -> None:
    line = line_on()

    for path in facts["removed"]:
        line(f"removed {path}")
    threads = facts["threads"] or "its own number of"
    line(f"{facts['machine']}, {threads} threads, optimizer {facts['level']}, since {facts['date']}")
    line(f"{facts['kernels']} kernels known, {facts['new']} of them new, {facts['noisy']} noisy")
    if facts["change"] is not None:
        line(f"a kernel takes {figure(facts['change'] * 1e6)} microseconds more among others than among its like")
    if any(facts["spent"].values()):
        spent = ", ".join(f"{seconds:.1f} {what}" for what, seconds in facts["spent"].items())
        line(f"seconds of the processor: {spent}")
    if facts["left"]:
        line(f"no time for {facts['left']} more kernels of these models, which are estimated by others")
    for key, why in facts["skipped"].items():
        line(f"not measured: {key}: {why}")
    if facts["unknown"]:
        line(f"of unknown sizes, or no kernels: {', '.join(facts['unknown'])}; --dim NAME=SIZE gives sizes")
    if not show:
        return
    slowest = sorted(cost.profile.entries.items(), key=lambda each: (-(each[1].seconds or 0.0), each[0]))
    rows = [
        (key, figure(each.seconds * 1e6), f"{each.spread:.0%}") for key, each in slowest if each.seconds is not None
    ]
    table(line, ("kernel", "microseconds", "half differ by"), rows)
    if facts["errors"]:
        line("mean error of estimates for sizes that were not measured, each kernel by the others of its operators:")
    for family, error in sorted(facts["errors"].items()):
        line(f"  {family}: {error:.0%}")

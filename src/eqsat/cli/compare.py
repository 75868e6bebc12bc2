"""The command `eqsat compare`: compare orders of rewriting with saturation."""

from __future__ import annotations

import itertools
from pathlib import Path

import click

from eqsat.cli.console import line_on
from eqsat.cli.optimize import Explained, show_explained, told_cost
from eqsat.cli.options import (
    PATH,
    Settings,
    check_outputs,
    json_option,
    page_option,
    progress_option,
    read_model,
    shared_options,
)
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.cost.models import unit_of
from eqsat.egraph.rule import RuleSet, flatten
from eqsat.errors import ModelError


@click.command(short_help="Compare orders of rewriting with saturation.")
@click.argument("source", metavar="IN", type=PATH)
@click.option("--orders", type=click.IntRange(min=1), default=6, show_default=True, help="Number of orders to try.")
@click.option(
    "--random-runs",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of runs that choose each match at random.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random choices.")
@click.option("--plot", type=PATH, metavar="FILE.svg", help="Also write a plot of the costs.")
@shared_options
@page_option
@progress_option
@json_option
def compare(
    source: Path,
    orders: int,
    random_runs: int,
    seed: int,
    plot: Path | None,
    settings: Settings,
    page: Path | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Compare the costs that the ONNX model IN reaches by rewriting in different orders, and by saturation."""
    from eqsat import compare_orders, onnx, report_page
    from eqsat.onnx.cost import onnx_cost
    from eqsat.onnx.imported import opset_of

    check_outputs([plot, page], [source])
    model = onnx.at_opset(read_model(source), settings.opset)
    imported = onnx.import_model(model)
    options = settings.options
    cost_model = onnx_cost(options.cost_model, opset_of(model), options.runtime)
    with activity("saturating", progress) as tell:
        done = itertools.count()
        comparison = compare_orders(
            imported.function,
            options.rules or _subjects_of_default(),
            orders,
            seed,
            cost_model,
            random_runs=random_runs,
            on_row=lambda row: tell(f"{next(done)} of {orders + random_runs} runs are done"),
            options=options,
        )
    explained = Explained.of(comparison.extraction.explanations) if options.explain else None
    if plot is not None:
        try:
            comparison.plot(plot)
        except OSError as error:
            raise ModelError(f"cannot write {plot}: {error.strerror or error}") from None
    if page is not None:
        report_page.write(
            page,
            report_page.render(
                comparison.extraction,
                source.name,
                cost_model=cost_model,
                orders=comparison,
                facts={"Runtime": options.runtime},
                opaque=imported.opaque,
                **({} if explained is None else vars(explained)),
            ),
        )
    cost = {"model": settings.cost, "unit": unit_of(options.cost_model)}
    facts = (
        comparison.to_json()
        | {"cost": cost, "runtime": options.runtime}
        | ({} if explained is None else explained.facts)
    )
    if as_json:
        print_json(facts)
    else:
        click.echo(f"{comparison}\ncosts by {told_cost(cost)}; kernels of runtime {options.runtime}")
        show_explained(facts, line_on())


def _subjects_of_default() -> list[RuleSet]:
    """Return the default rules, as one set for each subject."""
    from eqsat.rules import default, sets

    names = {rule.name for rule in flatten(default)}
    kept = {name: [rule for rule in flatten(each) if rule.name in names] for name, each in sets.items()}
    return [RuleSet(name, rules) for name, rules in kept.items() if rules and name != default.name]

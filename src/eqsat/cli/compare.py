"""`eqsat compare`: how much the order of rewriting matters for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from eqsat.cli.options import (
    COSTS,
    PATH,
    cost_option,
    json_option,
    keep_apart,
    limit_options,
    limits,
    read_model,
    rules_option,
)
from eqsat.egraph.rule import RuleSet, flatten
from eqsat.errors import ModelError


@click.command(short_help="Tell how much the order of rewriting matters for a model.")
@click.argument("source", metavar="IN", type=PATH)
@rules_option
@cost_option
@click.option("--orders", type=click.IntRange(min=1), default=6, show_default=True, help="How many orders to try.")
@click.option("--random-runs", type=click.IntRange(min=0), default=0, show_default=True, help="Runs by random choices.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the drawing of orders.")
@click.option("--plot", type=PATH, metavar="FILE.svg", help="Also draw the costs.")
@click.option("--report", "page", type=PATH, metavar="FILE.html", help="Also write a page that shows what was done.")
@limit_options
@json_option
def compare(
    source: Path,
    rules: list[Any] | None,
    cost: str,
    orders: int,
    random_runs: int,
    seed: int,
    plot: Path | None,
    page: Path | None,
    iterations: int,
    nodes: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Rewrite the ONNX model IN with the rule sets in different orders, and saturate it, and print what each costs."""
    from eqsat import compare_orders, onnx, report_page
    from eqsat.onnx.cost import OnnxCost
    from eqsat.onnx.imported import opset_of

    keep_apart([plot, page], [source])
    model = read_model(source)
    imported = onnx.import_model(model)
    cost_model = OnnxCost(COSTS[cost](), opset_of(model))
    comparison = compare_orders(
        imported.function,
        rules or _subjects_of_default(),
        orders,
        seed,
        cost_model,
        limits(iterations, nodes, seconds),
        random_runs,
    )
    if plot is not None:
        try:
            comparison.plot(plot)
        except OSError as error:
            raise ModelError(f"cannot write {plot}: {error.strerror or error}") from None
    if page is not None:
        extraction, opaque = comparison.extraction, imported.opaque
        report_page.write(
            page,
            report_page.render(extraction, source.name, cost_model=cost_model, orders=comparison, opaque=opaque),
        )
    click.echo(json.dumps(comparison.to_json(), indent=1) if as_json else str(comparison))


def _subjects_of_default() -> list[RuleSet]:
    """The default rules, a set for each subject."""
    from eqsat.rules import default, sets

    names = {rule.name for rule in flatten(default)}
    kept = {name: [rule for rule in flatten(each) if rule.name in names] for name, each in sets.items()}
    return [RuleSet(name, rules) for name, rules in kept.items() if rules and name != default.name]

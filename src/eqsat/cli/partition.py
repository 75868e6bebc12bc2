"""`eqsat partition`: what a target computes in one call, as local functions of an ONNX model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from eqsat.cli.optimize import node_count, refuse_beyond, to_blame, write_model
from eqsat.cli.options import PATH, STREAM, Settings, json_option, optimization_options, read_model
from eqsat.cli.progress import saturation_progress


@click.command(short_help="Write a model cut for a target.")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target_file", metavar="OUT", type=PATH)
@click.option("--target", required=True, metavar="T", help="Whose pattern table is taken: dnnl or tensorrt.")
@click.option("--as-is", is_flag=True, help="No rules: take matches in the order of the table, as Relay does.")
@optimization_options
@click.option("--progress/--no-progress", default=None, help="Tell every iteration on stderr; so on terminals.")
@json_option
def partition(
    source: Path, target_file: Path, target: str, as_is: bool, progress: bool | None, as_json: bool, **settings: Any
) -> None:
    """Write to OUT the model IN with each composite of a target as one node, a call of a local function.

    Rules act beside the pattern table, and the cheapest graph is taken that both lead to.
    """
    from eqsat import onnx

    how = Settings(**settings)
    given = read_model(source)
    model = how.to_work_on(given)
    with saturation_progress(progress) as tick:
        if as_is:
            done = onnx.merge(model, target)
        else:
            done = onnx.partition(model, target, how.rules, how.limits, how.cost_model, how.method, tick)
    if how.runs:
        differences = onnx.verify(given if source == STREAM else source, done.after, how.runs)
        if not how.keep_differing:
            refuse_beyond(how.tolerance, differences, lambda: "" if as_is else to_blame(model, how, target))
    write_model(done.after, target_file)
    facts = {
        "nodes": {"before": node_count(given), "after": node_count(done.after)},
        "composites": dict(done.composites.most_common()),
        "opaque": done.opaque,
    }
    to_stderr = target_file == STREAM
    click.echo(json.dumps(facts, indent=1), err=to_stderr) if as_json else _show(facts, Console(stderr=to_stderr))


def _show(facts: dict[str, Any], console: Console) -> None:
    nodes, composites = facts["nodes"], facts["composites"]
    console.print(f"nodes  {nodes['before']} -> {nodes['after']}", highlight=False)
    console.print(f"composites  {sum(composites.values())} of {len(composites)} kinds", highlight=False)
    if composites:
        table = Table("function", "nodes", box=None)
        for name, count in composites.items():
            table.add_row(escape(name), str(count))
        console.print(table)

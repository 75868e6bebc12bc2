"""The command `eqsat why`: show the origin of a node of an optimized model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from eqsat.cli.options import PATH, json_option, read_model, rules_named, rules_option
from eqsat.cli.schemas import print_json


@click.command(short_help="Show the origin of a node of an optimized model.")
@click.argument("model", metavar="OUT", type=PATH)
@click.argument("node", metavar="NODE")
@click.option(
    "--origin",
    type=PATH,
    metavar="IN",
    help="The model before optimization; also print the operators and places of its nodes.",
)
@rules_option
@json_option
def why(model: Path, node: str, origin: Path | None, rules: tuple[str, ...], as_json: bool) -> None:
    """Print the nodes of the given model that a node of OUT comes from, and the rules that led to it, in order.

    NODE is the name of a node, the name of one of its outputs, or an operator and a number: Conv:0 is the first Conv.
    Name rules of your own with --rules to print their equations.
    """
    from eqsat import onnx

    source = None if origin is None else read_model(origin)
    found = onnx.why(read_model(model), node, source, rules_named(rules) or ())
    if as_json:
        print_json(asdict(found))
    else:
        click.echo(str(found))

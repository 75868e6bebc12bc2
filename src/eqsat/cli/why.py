"""`eqsat why`: where a node of an optimized model is from."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from eqsat.cli.options import PATH, json_option, read_model, rules_named, rules_option
from eqsat.cli.schemas import print_json


@click.command(short_help="Tell where a node of an optimized model is from, and by which rules.")
@click.argument("model", metavar="OUT", type=PATH)
@click.argument("node", metavar="NODE")
@click.option("--origin", type=PATH, metavar="IN", help="The model that was optimized: also tell operators and places.")
@rules_option
@json_option
def why(model: Path, node: str, origin: Path | None, rules: tuple[str, ...], as_json: bool) -> None:
    """Tell which nodes of the given model a node of OUT comes from, and the rules that led to it, in order.

    NODE is the name of a node, or of a value that it makes, or an operator and a number: Conv:0 is the first Conv.
    Rules of your own are told with their equations where --rules names them.
    """
    from eqsat import onnx

    source = None if origin is None else read_model(origin)
    found = onnx.why(read_model(model), node, source, rules_named(rules) or ())
    if as_json:
        print_json(asdict(found))
    else:
        click.echo(str(found))

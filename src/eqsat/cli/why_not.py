"""The command `eqsat why-not`: show why a rule did not contribute to the result."""

from __future__ import annotations

from pathlib import Path

import click

from eqsat.cli.options import PATH, Settings, json_option, read_model, shared_options
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json


@click.command("why-not", short_help="Show why a rule did not contribute to the result.")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("rule", metavar="RULE")
@click.argument("node", metavar="[NODE]", required=False)
@shared_options
@json_option
def why_not(source: Path, rule: str, node: str | None, settings: Settings, as_json: bool) -> None:
    """Show why RULE did not contribute to the result when the ONNX model IN is optimized.

    If the rule matches nowhere, print the nearest places, with the operator, attribute, shape, dtype or constant that
    is required and the one that is there. If it matches but a condition fails, print the condition. If it acted, print
    how much more the graph with its result costs. NODE, the name of a node or of one of its outputs, restricts the
    answer to matches at that node.
    """
    from eqsat import onnx

    with activity("saturating, and looking for the nearest places"):
        found = onnx.why_not(read_model(source), rule, node, options=settings.options)
    if as_json:
        print_json({"rule": found.rule, "outcome": found.outcome, "reasons": list(found.reasons)})
    else:
        click.echo(str(found))

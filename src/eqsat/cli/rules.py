"""`eqsat rules`: what the rules are."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from eqsat.cli.options import json_option


@click.group()
def rules() -> None:
    """What the rules are."""


@rules.command(name="list")
@json_option
def list_rules(as_json: bool) -> None:
    """Print the rule sets and their rules, with what each rule keeps of the values it rewrites."""
    from eqsat.egraph.rule import flatten
    from eqsat.rules import sets

    listed = {name: {rule.name: rule.soundness.value for rule in flatten(each)} for name, each in sets.items()}
    if as_json:
        click.echo(json.dumps(listed, indent=1))
        return
    table = Table("set", "rule", "keeps", box=None)
    for name, entries in listed.items():
        for index, (rule, soundness) in enumerate(entries.items()):
            table.add_row("" if index else name, rule, soundness)
    Console().print(table)

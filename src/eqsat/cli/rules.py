"""`eqsat rules`: what the rules are."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
from typing import Any

import click
from rich.table import Table

from eqsat.cli.options import json_option
from eqsat.cli.terminal import Console
from eqsat.errors import RuleError


@click.group()
def rules() -> None:
    """List the rules, or test that they are sound."""


@rules.command(name="verify")
@click.argument("sets", nargs=-1)
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Instances to compare for each rule.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random choices.")
@click.option("--all", "show_all", is_flag=True, help="Print sound rules too.")
@json_option
def verify_rules(sets: tuple[str, ...], instances: int, seed: int, show_all: bool, as_json: bool) -> None:
    """Test that rules keep values: both sides of each are computed on random instances.

    SETS are names of shipped sets (by default all rules), or MODULE:NAME for your own. The exit code is 1 when a rule
    is not sound, with the smallest counterexample found.
    """
    from eqsat.egraph.rule import flatten
    from eqsat.rules import sets as shipped
    from eqsat.rules.verify import table, verify

    chosen = flatten([_rule_set(name) for name in sets or shipped])
    verdicts = []
    for rule in chosen:
        (verdict,) = verify(rule, instances, seed)
        verdicts.append(verdict)
        if not as_json and (show_all or not verdict.ok):
            click.echo(table([verdict]))
    failed = [verdict for verdict in verdicts if not verdict.ok]
    if as_json:
        click.echo(
            json.dumps(
                [dataclasses.asdict(verdict) | {"soundness": verdict.soundness.value} for verdict in verdicts], indent=1
            )
        )
    else:
        tested = sum(verdict.instances for verdict in verdicts)
        click.echo(f"{len(verdicts) - len(failed)} of {len(verdicts)} rules sound on {tested} instances")
    if failed:
        raise SystemExit(1)


def _rule_set(name: str) -> Any:
    """A shipped set, or an object of a module."""
    from eqsat.rules import sets

    module, _, attribute = name.partition(":")
    if not attribute:
        if name not in sets:
            raise RuleError(f"there is no rule set {name!r}: give MODULE:NAME, or one of {', '.join(sets)}")
        return sets[name]
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the module raises
        raise RuleError(f"{name} cannot be had: {type(error).__name__}: {error}") from error


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

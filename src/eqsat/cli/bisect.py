"""`eqsat bisect`: which rule makes a user's own check of the optimized model fail."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eqsat.brief import one_line
from eqsat.cli.options import PATH, Settings, json_option, read_model, shared_options
from eqsat.egraph.schedule import Schedule
from eqsat.errors import ArgumentError

_MOST_TOLD = 5
"""Changes of a rule that are told."""


@click.command(short_help="Find the rule after which a check of your own fails.")
@click.argument("source", metavar="IN", type=PATH)
@click.option(
    "--check",
    "command",
    required=True,
    metavar="CMD",
    help="A command that gets the path of a model as its last argument, or in the place of {}. An exit code other "
    "than 0 says that the model is wrong.",
)
@shared_options
@json_option
def bisect(source: Path, command: str, settings: Settings, as_json: bool) -> None:
    """Find the rule after which a check of the optimized model fails.

    IN is optimized again and again with fewer rules, and CMD is run on each result, until no rule can be left out. The
    rules that are left are named, with what they changed.
    """
    from eqsat import onnx
    from eqsat.onnx.optimize import acting_rules

    words = shlex.split(command)
    if not words:
        raise ArgumentError("--check is empty: give a command")
    model, options, runs = read_model(source), settings.options, 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, source.name))

        def passes(each: Any) -> bool:
            nonlocal runs
            runs += 1
            onnx.save(each, path)
            given = [word.replace("{}", path) for word in words] if "{}" in command else [*words, path]
            try:
                ran = subprocess.run(given, capture_output=True, check=False)
            except OSError as error:
                raise ArgumentError(f"cannot run --check {command!r}: {error.strerror or error}") from None
            return ran.returncode == 0

        found = onnx.bisect(model, passes, options=options)
    changes = []
    if found:
        every = Schedule.of(acting_rules(onnx.at_opset(model, options.opset), options)).rules
        guilty = [rule for rule in every if rule.name in found]
        done = onnx.run(model, options=replace(options, rules=guilty, explain=True, contrib=False))
        changes = [str(change) for change in done.extraction.explanation.changes() if change.rule in found]
    if as_json:
        click.echo(json.dumps({"rules": found, "runs": runs, "changes": changes}, indent=1))
    elif found is None:
        click.echo(f"the check passes on the optimized model ({runs} models were checked)")
    elif not found:
        click.echo("the check fails on what is written although no rule acts: no rule is to blame")
    else:
        together = "" if len(found) == 1 else ", only together"
        click.echo(f"{', '.join(found)}{together}: with it the check fails ({runs} models were checked)")
        for change in changes[:_MOST_TOLD]:
            click.echo(f"  {one_line(change, 300)}")

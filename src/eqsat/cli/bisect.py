"""The command `eqsat bisect`: find the rule that makes a check of the optimized model fail."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import click

from eqsat.brief import one_line
from eqsat.cli.options import PATH, Settings, json_option, progress_option, read_model, shared_options
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.egraph.schedule import Schedule
from eqsat.errors import ArgumentError, EqsatError

Check: TypeAlias = Callable[[Any], bool]

_MOST_TOLD = 5
"""Maximum number of changes that are printed."""


@click.command(short_help="Find the rule that makes a check of your own fail.")
@click.argument("source", metavar="IN", type=PATH)
@click.option(
    "--check",
    "command",
    required=True,
    metavar="CMD|X",
    help="A command that receives the path of a model as its last argument, or in place of {}. A nonzero exit code "
    "means that the model is wrong. If a number is given instead, outputs may differ on random inputs by at "
    "most this share of their largest value.",
)
@click.option(
    "--check-seconds",
    "most_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Time limit of one run of the command, in seconds. Exceeding it is an error.",
)
@shared_options
@progress_option
@json_option
def bisect(
    source: Path, command: str, most_seconds: float, settings: Settings, progress: bool | None, as_json: bool
) -> None:
    """Find the rule that makes a check of the optimized model fail.

    Optimize IN repeatedly with fewer rules, and run CMD on each result, until no rule can be left out. Print the
    remaining rules and what they changed.
    """
    from eqsat import onnx
    from eqsat.onnx.optimize import acting_rules

    model, options, runs = read_model(source), settings.options, 0
    with _check(command, most_seconds, source, model) as check, activity("checking the model", progress) as tell:

        def passes(each: Any) -> bool:
            nonlocal runs
            runs += 1
            tell(f"model {runs} is being checked")
            return check(each)

        found = onnx.bisect(model, passes, options=options)
    changes = []
    if found:
        every = Schedule.of(acting_rules(onnx.at_opset(model, options.opset), options)).rules
        guilty = [rule for rule in every if rule.name in found]
        done = onnx.run(model, options=replace(options, rules=guilty, explain=True, contrib=False))
        changes = [str(change) for change in done.extraction.explanation.changes() if change.rule in found]
    if as_json:
        print_json({"rules": found, "runs": runs, "changes": changes})
    elif found is None:
        click.echo(f"the check passes on the optimized model ({runs} models were checked)")
    elif not found:
        click.echo("the check also fails on a model that no rule changed: no rule is to blame")
    else:
        together = "" if len(found) == 1 else ", only together"
        click.echo(f"{', '.join(found)}{together}: with it the check fails ({runs} models were checked)")
        for change in changes[:_MOST_TOLD]:
            click.echo(f"  {one_line(change, 300)}")


@contextmanager
def _check(command: str, most_seconds: float, source: Path, model: Any) -> Iterator[Check]:
    """Provide the check of a model: a command, or a comparison with the given model."""
    try:
        tolerance = float(command)
    except ValueError:
        with tempfile.TemporaryDirectory() as folder:
            yield _command(command, most_seconds, str(Path(folder, source.name)))
    else:
        if not tolerance >= 0:
            raise ArgumentError(f"--check {command}: give a command, or a number that is not negative")
        yield _comparison(model, tolerance)


def _command(command: str, most_seconds: float, path: str) -> Check:
    from eqsat import onnx

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"--check {command!r} is not a command: {error}") from None
    if not words:
        raise ArgumentError("--check is empty: give a command")
    given = [word.replace("{}", path) for word in words] if "{}" in command else [*words, path]

    def check(each: Any) -> bool:
        onnx.save(each, path)
        try:
            ran = subprocess.run(
                given, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=most_seconds
            )
        except subprocess.TimeoutExpired:
            raise ArgumentError(
                f"--check {command!r} took more than {most_seconds:g} seconds on a model and was stopped: allow "
                "more with --check-seconds"
            ) from None
        except OSError as error:
            raise ArgumentError(f"cannot run --check {command!r}: {error.strerror or error}") from None
        return ran.returncode == 0

    return check


def _comparison(model: Any, tolerance: float) -> Check:
    from eqsat import onnx

    def check(each: Any) -> bool:
        try:
            return not onnx.differing(onnx.verify(model, each, mistakes=0), tolerance)
        except EqsatError:
            if each is model:
                raise
            return False  # it does not even run

    return check

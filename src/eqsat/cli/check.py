"""The command `eqsat check`: replay the certificate of an optimization."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from eqsat.cli.console import line_on
from eqsat.cli.optimize import show_certificate
from eqsat.cli.options import PATH, json_option, read_model, rules_named, rules_option
from eqsat.cli.progress import activity
from eqsat.cli.schemas import print_json
from eqsat.cli.verified import UNPROVED


@click.command(short_help="Check the certificate of an optimized model.")
@click.argument("before", metavar="IN", type=PATH)
@click.argument("after", metavar="OUT", type=PATH)
@click.argument("certificate", metavar="CERTIFICATE", type=PATH)
@rules_option
@json_option
@click.pass_context
def check(
    context: click.Context,
    /,
    before: Path,
    after: Path,
    certificate: Path,
    rules: Sequence[str],
    as_json: bool,
) -> None:
    """Check CERTIFICATE, which `eqsat optimize IN OUT --certificate CERTIFICATE` wrote.

    A checker that is independent of the optimizer replays each step. The exit code is 0 if the steps lead from IN to
    OUT, 3 if the certificate states that it covers only a part of the model, and 2 if a step does not hold or the
    certificate belongs to other models. --rules adds to the rules of eqsat.
    """
    from eqsat import onnx

    with activity("replaying the steps"):
        found = onnx.check(read_model(before), read_model(after), certificate, rules_named(rules))
    facts = {
        "proved": found.proved,
        "steps": found.steps,
        "rules": sorted(found.rules),
        "keeps": found.soundness,
        "uncovered": list(found.uncovered),
    }
    if as_json:
        print_json(facts)
    else:
        line = line_on()
        line("proved" if found.proved else "not proved")
        show_certificate(facts, line)
    context.exit(0 if found.proved else UNPROVED)

"""`eqsat check`: replay the certificate of an optimization."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from eqsat.cli.console import Console
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

    Each step is replayed by a checker of its own. The exit code is 0 where the steps lead from IN to OUT, 3 where the
    certificate says that they show a part of that only, and 2 where a step does not hold or the models are others.
    --rules are beside the rules that are shipped.
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
        console = Console()
        console.print("proved" if found.proved else "not proved", highlight=False)
        show_certificate(facts, lambda text: console.print(text, highlight=False, soft_wrap=True))
    context.exit(0 if found.proved else UNPROVED)

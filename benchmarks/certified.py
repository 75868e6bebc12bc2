"""Do certificates of models check, in less time than the optimization took, and are changed ones refused?

    python benchmarks/certified.py [--changed N] [--rules SET ...] [--runtime NAME] [MODEL.onnx or FOLDER ...]

Without models: those of ``tests/data/spellings`` and ``tests/data/exports``, and the networks of the onnx package.
For each model the table has the processor seconds of the optimization without a certificate, with the steps kept,
of writing the certificate, and of checking it; the steps, the bytes of the certificate, and what the steps keep. Below
stands what no step shows, and which changed certificates were taken: so many are tried, in all models together.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from changed_certificates import changed_certificates
from public_models import installed_models

import eqsat.onnx
from eqsat.errors import CertificateError, EqsatError
from eqsat.rules import RuleSet, sets

DATA = Path(__file__).parents[1] / "tests" / "data"


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--changed", type=click.IntRange(min=0), default=100, show_default=True, help="Changed certificates.")
@click.option(
    "--rules", "names", multiple=True, type=click.Choice(sorted(sets)), help="Rule sets; by default, default."
)
@click.option("--runtime", default="none", show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(models: tuple[Path, ...], changed: int, names: tuple[str, ...], runtime: str, seed: int) -> None:
    """Optimize, certify and check the models."""
    choices = random.Random(seed)
    keywords: dict[str, Any] = {"runtime": runtime}
    if names:
        keywords["rules"] = RuleSet("asked", [rule for name in names for rule in sets[name]])
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        paths = [path for each in models for path in (sorted(each.glob("*.onnx")) if each.is_dir() else [each])]
        if not models:
            paths = sorted([*DATA.glob("spellings/*.onnx"), *DATA.glob("exports/*.onnx")])
            paths += installed_models(Path(folder))
        click.echo(f"{'model':40} {'run':>6} {'kept':>6} {'made':>6} {'check':>6} {'steps':>6} {'bytes':>9} keeps")
        for number, path in enumerate(paths):
            share = changed * (number + 1) // len(paths) - changed * number // len(paths)
            try:
                total += _tried(path, keywords, share, choices)
            except EqsatError as error:
                click.echo(f"{path.stem[:40]:40} {error}")
                total["failed"] += 1
    click.echo(
        f"{total['models']} models, {total['proved']} proved, {total['slower']} of which take longer to check than to "
        f"optimize; {total['failed']} without certificate; {total['refused']} of {total['changed']} changed "
        "certificates are refused"
    )
    sys.exit(total["proved"] < total["models"] or total["refused"] < total["changed"] or bool(total["failed"]))


def _tried(path: Path, keywords: dict[str, Any], share: int, choices: random.Random) -> Counter[str]:
    clock, times = time.process_time, [time.process_time()]
    eqsat.onnx.run(path, **keywords)
    times.append(clock())
    done = eqsat.onnx.run(path, explain=True, **keywords)
    times.append(clock())
    certificate = eqsat.onnx.certify(done)
    times.append(clock())
    checked = eqsat.onnx.check(path, done.after, certificate, keywords.get("rules"))
    times.append(clock())
    took = [after - before for before, after in pairwise(times)]
    data = certificate.as_data()
    size = len(json.dumps(data))
    seconds = " ".join(f"{each:6.2f}" for each in took)
    click.echo(f"{path.stem[:40]:40} {seconds} {checked.steps:6} {size:9} {checked.soundness}")
    for each in checked.uncovered:
        click.echo(f"    not proved: {each}")
    found = Counter(models=1, proved=checked.proved, slower=checked.proved and took[-1] > took[0])
    others = list(changed_certificates(data, choices, max(share // 8, 1)))
    for what, other in choices.sample(others, min(share, len(others))):
        found["changed"] += 1
        try:
            eqsat.onnx.check(path, done.after, other, keywords.get("rules"))
        except CertificateError:
            found["refused"] += 1
        else:
            click.echo(f"    TAKEN: {what}")
    return found


if __name__ == "__main__":
    main()

"""Proved rules on many random instances that their proofs did not see: none may differ.

    python benchmarks/sampled_proofs.py STATE.jsonl [--instances N] [--seed N] [--workers N] [NAME ...]

Without names: all rules of ``eqsat/rules/prove/proved.json``. The rules are sampled in turn, a batch of instances of
each, every batch by a seed of its own. Each batch is a line of the file of the state as soon as it is done; a run that
is stopped goes on there. The exit code is 1 if any instance differs, or if a rule has fewer instances than are asked
for.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import click

from eqsat.egraph.rule import Rule, flatten
from eqsat.rules import sets
from eqsat.rules.prove import PROVED_BEFORE
from eqsat.rules.verify import verify

BATCH = 250
"""Instances of one seed."""
DIFFERS = ("unsound", "failed")


@click.command(help=__doc__)
@click.argument("state", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1)
@click.option("--instances", type=click.IntRange(min=1), default=1000, show_default=True, help="For each rule.")
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True, help="Proofs use 0.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
def main(state: Path, names: tuple[str, ...], instances: int, seed: int, workers: int) -> None:
    """Sample rules, and tell each that differs."""
    wanted = names or tuple(json.loads(PROVED_BEFORE.read_text(encoding="utf-8")))
    done: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in map(json.loads, state.read_text(encoding="utf-8").splitlines() if state.exists() else ()):
        done[line["rule"]].append(line)
    left = list(wanted)
    with state.open("a", encoding="utf-8") as out, ProcessPoolExecutor(workers) as pool:
        while left := [name for name in left if _count(done[name]) < instances and not _is_given_up(done[name])]:
            jobs = [pool.submit(sample, name, len(done[name]), seed) for name in left]
            for job in as_completed(jobs):
                line = job.result()
                done[line["rule"]].append(line)
                print(json.dumps(line), file=out, flush=True)
                if line["status"] in DIFFERS:
                    click.echo(f"{line['rule']}: {line['status']}\n{line['detail']}")
    differing = [name for name in wanted if any(line["status"] in DIFFERS for line in done[name])]
    counts = {name: _count(done[name]) for name in wanted}
    fewer = {name: count for name, count in counts.items() if count < instances}
    click.echo(
        f"{len(wanted)} rules, {sum(counts.values())} instances: {len(differing)} rules differ; "
        f"{len(fewer)} have fewer than {instances}: {fewer}"
    )
    sys.exit(bool(differing or fewer))


def _count(lines: list[dict[str, Any]]) -> int:
    return sum(line["instances"] for line in lines)


def _is_given_up(lines: list[dict[str, Any]]) -> bool:
    """Whether the last batch of a rule differed or gave nothing more."""
    return bool(lines) and (lines[-1]["status"] in DIFFERS or not lines[-1]["instances"])


def sample(name: str, batch: int, seed: int) -> dict[str, Any]:
    """Test a rule on a batch of instances."""
    (verdict,) = verify(_rules()[name], BATCH, seed * 1000 + batch)
    return {
        "rule": name,
        "status": verdict.status,
        "instances": verdict.instances,
        "seconds": round(verdict.seconds, 2),
        "detail": verdict.detail,
    }


@cache
def _rules() -> dict[str, Rule]:
    return {rule.name: rule for rule in flatten(sets.values())}


if __name__ == "__main__":
    main()

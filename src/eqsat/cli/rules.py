"""The commands `eqsat rules`: list, test and prove rules."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from eqsat.cli.batch import default_workers
from eqsat.cli.console import line_on, table
from eqsat.cli.named import Named, load
from eqsat.cli.options import json_option
from eqsat.cli.progress import counted_progress
from eqsat.cli.schemas import print_json
from eqsat.egraph.rule import Rule, flatten
from eqsat.errors import FileError

JOBS = 10
"""Number of rules to prove for which starting a process pays off."""


@click.group()
def rules() -> None:
    """List, test or prove rewrite rules."""


def _names() -> list[str]:
    """Return the names of the sets of eqsat, and of the rules with other names."""
    from eqsat.rules import sets

    return [*dict.fromkeys([*sets, *(rule.name for each in sets.values() for rule in each)])]


_names_argument = click.argument(
    "names", nargs=-1, metavar="[NAME]...", type=Named("rule set or rule", _names, flatten)
)
_seed_option = click.option("--seed", default=0, show_default=True, help="Seed of the random choices.")
_progress_option = click.option(
    "--progress/--no-progress", default=None, help="Show progress on standard error.  [default: only on a terminal]"
)


@rules.command(name="verify")
@_names_argument
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Number of instances to compare for each rule.",
)
@_seed_option
@click.option("--all", "show_all", is_flag=True, help="Also print sound rules.")
@_progress_option
@json_option
def verify_rules(
    names: tuple[str, ...], instances: int, seed: int, show_all: bool, progress: bool | None, as_json: bool
) -> None:
    """Test rules by computing both sides of each on random instances.

    NAME is a rule set or a rule of eqsat, or MODULE:NAME for one of your own. By default, all rules are tested. If a
    rule is not sound, print the smallest counterexample found; the exit code is 1.
    """
    from eqsat.rules.verify import table, verify

    chosen, verdicts = _chosen(names), []
    with counted_progress("verifying", len(chosen), progress) as steps:
        for rule in chosen:
            steps.begin(rule.name)
            verdicts += verify(rule, instances, seed)
            if not as_json and (show_all or not verdicts[-1].ok):
                click.echo(table(verdicts[-1:]))
            steps.end()
    failed = [verdict for verdict in verdicts if not verdict.ok]
    if as_json:
        print_json([asdict(verdict) | {"soundness": verdict.soundness.value} for verdict in verdicts])
    else:
        tested = sum(verdict.instances for verdict in verdicts)
        click.echo(f"{len(verdicts) - len(failed)} of {len(verdicts)} rules sound on {tested} instances")
    if failed:
        raise SystemExit(1)


@rules.command(name="prove")
@_names_argument
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="Number of instances to prove for each rule. Instances differ in shapes and attributes.",
)
@_seed_option
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Number of random instances to test each rule on, as `rules verify` does.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Number of processes.  [default: the number of processors]")
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Store proofs, and reuse stored ones.",
)
@click.option(
    "--expect",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file of rules and what was proved of each. Proving less of a rule is an error.",
)
@_progress_option
@json_option
def prove_rules(
    names: tuple[str, ...],
    instances: int,
    seed: int,
    samples: int,
    workers: int | None,
    cache: bool,
    expect: Path | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Prove rules for all values of their inputs and, if possible, for all ranks and sizes.

    NAME is a rule set or a rule of eqsat, or MODULE:NAME for one of your own. By default, all rules are proved. An
    instance that cannot be proved is tested. The exit code is 1 if a rule is refuted (a counterexample is printed), if
    no instance of a rule is found, or if less is proved than --expect says. Proofs are stored in the folder `proofs` of
    eqsat's cache (EQSAT_CACHE) until the rule, the operators or the prover change.
    """
    from eqsat.rules.prove import Proof, Store, less, summary, table, told

    expected = {} if expect is None else _expected(expect)
    chosen = _chosen(names)
    store = Store() if cache else None
    how = (instances, seed, samples)
    kept = {place: proof for place, rule in enumerate(chosen) if store and (proof := store.find(rule, *how))}
    rest = [place for place in range(len(chosen)) if place not in kept]
    proofs: list[Proof] = []
    with counted_progress("proving", len(chosen), progress) as steps, _processes(workers, len(rest)) as mapped:
        made = iter(mapped(partial(_proved, names, cache, *how), rest))
        for place, rule in enumerate(chosen):
            steps.begin(rule.name)
            proofs.append(kept[place] if place in kept else next(made))
            if not as_json:
                click.echo(table(proofs[-1:]))
            steps.end()
    if as_json:
        print_json([told(proof) for proof in proofs])
    else:
        click.echo(summary(proofs))
    fallen = less(proofs, expected)
    for line in fallen:
        click.echo(line, err=True)
    if fallen or not all(proof.ok for proof in proofs):
        raise SystemExit(1)


def _expected(path: Path) -> dict[str, str]:
    """Return what was proved of rules according to a file, by name."""
    from eqsat.rules.prove.proof import PROVED

    statuses = [status.value for status in PROVED]
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise FileError(f"{path} is not JSON: {error}") from None
    if not isinstance(told, dict) or not all(status in statuses for status in told.values()):
        raise FileError(f"{path} does not say what was proved: it must map names of rules to {' or '.join(statuses)}")
    return told


@cache
def _chosen(names: tuple[str, ...]) -> list[Rule]:
    """Return the named rules, by default all rules of eqsat."""
    from eqsat.rules import sets

    return flatten([_named(name) for name in names or sets])


def _proved(names: tuple[str, ...], cache: bool, instances: int, seed: int, samples: int, place: int) -> Any:
    """Return the proof of one of the named rules. It may run in another process, to which rules cannot be sent."""
    from eqsat.rules.prove import Store, prove

    return prove(_chosen(names)[place], instances, seed, Store() if cache else None, samples)[0]


@contextmanager
def _processes(wanted: int | None, jobs: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """Provide ``map`` in several processes, if there are enough jobs."""
    count = min(wanted or default_workers(), jobs // JOBS)
    if count < 2:
        yield map
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool.map


def _named(name: str) -> Any:
    """Return a shipped set, a shipped rule, or an object of a module."""
    from eqsat.rules import sets

    if ":" in name:
        return load(name)
    return sets[name] if name in sets else next(rule for each in sets.values() for rule in each if rule.name == name)


@rules.command(name="list")
@json_option
def list_rules(as_json: bool) -> None:
    """Print the rule sets and their rules, with the soundness of each rule and what is proved of it."""
    from eqsat.rules import sets
    from eqsat.rules.prove import PROVED_BEFORE

    proved = json.loads(PROVED_BEFORE.read_text(encoding="utf-8"))
    listed = {name: {rule.name: rule.soundness.value for rule in flatten(each)} for name, each in sets.items()}
    if as_json:
        told = {
            name: {rule: {"keeps": keeps, "proved": proved.get(rule, "")} for rule, keeps in entries.items()}
            for name, entries in listed.items()
        }
        print_json(told)
        return
    rows = [
        ("" if index else name, rule, soundness, proved.get(rule, ""))
        for name, entries in listed.items()
        for index, (rule, soundness) in enumerate(entries.items())
    ]
    table(line_on(), ("set", "rule", "keeps", "proved for"), rows)

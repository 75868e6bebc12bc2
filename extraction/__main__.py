"""`python -m eqsat.extraction FILE...`: solve extraction-gym files and print a table or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from eqsat.brief import one_line
from eqsat.errors import EqsatError

from . import EXTRACTORS, extract
from .costs import Cost, as_tuple, figure
from .gym import read_gym
from .problem import Problem
from .solution import Result

_LONGEST = 1000
"""Characters of an error or a name that are told. None is markup, or a command to the terminal."""


@click.command(short_help="Solve files of the extraction-gym benchmark.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice([*EXTRACTORS]),
    help="Extraction method. May be repeated.  [default: auto]",
)
@click.option("--seconds", default=5.0, show_default=True, help="Time limit for each file and method, in seconds.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random choices.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def main(files: Sequence[str], methods: Sequence[str], seconds: float, seed: int, as_json: bool) -> None:
    """Extract the cheapest graph of each extraction-gym FILE (.json or .json.xz).

    The exit code is 1 if some files failed, and 2 if all of them failed.
    """
    rows: list[dict[str, Any]] = []
    failed = False
    console = Console(stderr=True)
    for file in track(files, "solving", console=console, transient=True, disable=not console.is_terminal):
        try:
            problem = read_gym(file)
            found = {method: extract(problem, method, seconds=seconds, seed=seed) for method in methods or ("auto",)}
        except EqsatError as error:
            failed = True
            print(f"eqsat: {one_line(str(error), _LONGEST)}", file=sys.stderr)
        else:
            rows += [_row(file, problem, method, result) for method, result in found.items()]
    print(json.dumps(rows, indent=1)) if as_json else _print_table(rows)
    sys.exit(0 if not failed else 1 if rows else 2)


def _row(file: str, problem: Problem, method: str, result: Result) -> dict[str, Any]:
    return {
        "file": file,
        "nodes": problem.num_nodes,
        "classes": problem.num_classes,
        "method": method,
        "cost": _finite(result.cost),
        "lower_bound": _finite(result.lower_bound),
        "optimal": result.optimal,
        "tree_cost": _finite(result.tree_cost),
        "seconds": result.seconds,
        "remark": result.message,
    }


def _finite(cost: Cost) -> Cost | None:
    return cost if all(map(isfinite, as_tuple(cost))) else None


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None)
    for name, _ in COLUMNS:
        table.add_column(name, justify="left" if name in ("file", "method", "optimal", "remark") else "right")
    for row in rows:
        table.add_row(*[Text(one_line(show(row[name.replace(" ", "_")]), _LONGEST)) for name, show in COLUMNS])
    if rows:
        Console(width=None if sys.stdout.isatty() else 100_000).print(table)


def _figure(digits: int) -> Callable[[float | None], str]:
    return lambda number: "none" if number is None else figure(number, digits)


COLUMNS: list[tuple[str, Callable[[Any], str]]] = [
    ("file", str),
    ("nodes", str),
    ("classes", str),
    ("method", str),
    ("cost", _figure(10)),
    ("lower bound", _figure(10)),
    ("optimal", lambda optimal: "yes" if optimal else "no"),
    ("tree cost", _figure(6)),
    ("seconds", lambda seconds: f"{seconds:.3f}"),
    ("remark", str),
]


if __name__ == "__main__":
    main()

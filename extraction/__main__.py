"""`python -m eqsat.extraction FILE...`: solve extraction-gym files and print a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console, JustifyMethod
from rich.table import Table

from eqsat.errors import EqsatError

from .anytime import EXTRACTORS, extract
from .gym import read_gym


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--method", "methods", multiple=True, type=click.Choice([*EXTRACTORS]), help="May be repeated; auto.")
@click.option("--seconds", default=5.0, show_default=True, help="Time for each file and method.")
@click.option("--seed", default=0, show_default=True)
def main(files: Sequence[str], methods: Sequence[str], seconds: float, seed: int) -> None:
    """Extract the cheapest graph of each extraction-gym FILE (.json or .json.xz)."""
    failed = print_table(files, methods or ("auto",), seconds, seed)
    sys.exit(1 if failed else 0)


def print_table(files: Sequence[str], methods: Sequence[str], seconds: float, seed: int) -> int:
    """Solve the files, print one row for each file and method; how many files could not be read."""
    table = Table(box=None)
    for name, side in COLUMNS:
        table.add_column(name, justify=side)
    failed = 0
    for file in files:
        try:
            problem = read_gym(file)
            for method in methods:
                result = extract(problem, method, seconds=seconds, seed=seed)
                figures = [f"{result.cost:.10g}", f"{result.lower_bound:.10g}", "yes" if result.optimal else "no"]
                sizes = [str(problem.num_nodes), str(problem.num_classes)]
                tree_cost, taken = f"{result.tree_cost:.6g}", f"{result.seconds:.3f}"
                table.add_row(file, *sizes, method, *figures, tree_cost, taken, result.message)
        except EqsatError as error:
            failed += 1
            print(error, file=sys.stderr)
    if table.rows:
        Console(width=None if sys.stdout.isatty() else 200, soft_wrap=True).print(table)
    return failed


COLUMNS: list[tuple[str, JustifyMethod]] = [
    ("file", "left"),
    ("nodes", "right"),
    ("classes", "right"),
    ("method", "left"),
    ("cost", "right"),
    ("lower bound", "right"),
    ("optimal", "left"),
    ("tree cost", "right"),
    ("seconds", "right"),
    ("remark", "left"),
]


if __name__ == "__main__":
    main()

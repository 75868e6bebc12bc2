"""Show the progress of what takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eqsat.cli.console import Console, escape
from eqsat.egraph.report import Report


@contextmanager
def activity(doing: str, wanted: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is being done, and give a function that tells how far it is.

    On a terminal that is one changing line with the time it takes, which goes when it is done; elsewhere each call of
    the function prints a line.

    Args:
        doing: What is being done.
        wanted: Whether to show it; None for on a terminal only.
    """
    console = Console(stderr=True)
    if wanted is False or (wanted is None and not console.is_terminal):
        yield lambda line: None
    elif not console.is_terminal:
        yield lambda line: click.echo(line, err=True)
    else:
        columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
            task = bar.add_task(escape(doing), total=None)
            yield lambda line: bar.update(task, description=escape(line))


@contextmanager
def saturation_progress(wanted: bool | None) -> Iterator[Callable[[Report], None]]:
    """Give a function to call after every iteration, which shows the sizes of the e-graph: see :func:`activity`."""
    with activity("saturating", wanted) as tell:
        yield lambda report: tell(_line(report))


def _line(report: Report) -> str:
    last = report.iterations[-1]
    return f"iteration {len(report.iterations)}: {last.nodes} e-nodes, {last.classes} classes"


class Steps:
    """Steps of which each is told; see :func:`counted_progress`."""

    def __init__(self, bar: Progress, count: int, in_lines: bool):
        self._bar = bar
        self._task = bar.add_task("", total=count)
        self._count = count
        self._begun = 0
        self._in_lines = in_lines

    def begin(self, name: str) -> None:
        """Tell that the next step begins."""
        self._begun += 1
        if self._in_lines:
            click.echo(f"{self._begun} of {self._count}: {name}", err=True)
        self._bar.update(self._task, description=escape(name))

    def end(self, line: str = "") -> None:
        """Tell that a step has ended, and print a line on stderr if there is one."""
        self._bar.advance(self._task)
        if line:
            self._bar.console.print(escape(line), highlight=False, soft_wrap=True)


@contextmanager
def counted_progress(doing: str, count: int, wanted: bool | None = None) -> Iterator[Steps]:
    """Give an object to tell of steps, of which a terminal shows how many are done.

    Args:
        doing: What is done in each.
        count: How many steps there are.
        wanted: Whether to tell of each step, on what is no terminal by a line; None for on a terminal only.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    shown = console.is_terminal and wanted is not False
    redirected = sys.stdout.isatty()  # else what goes to a file would go to the terminal
    with Progress(*columns, console=console, disable=not shown, redirect_stdout=redirected) as bar:
        yield Steps(bar, count, bool(wanted) and not shown)

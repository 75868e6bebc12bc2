"""Progress of commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from eqsat.brief import visible
from eqsat.cli.console import line_on
from eqsat.egraph.report import Report

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def activity(doing: str, wanted: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is being done, and provide a function that reports progress.

    On a terminal this is one changing line with the elapsed time, which disappears at the end. Elsewhere each call of
    the function prints a line.

    Args:
        doing: What is being done.
        wanted: Whether to show it; None for only on a terminal.
    """
    on_terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and not on_terminal):
        yield lambda line: None
    elif not on_terminal:
        yield line_on(stderr=True)
    else:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, emoji=False)
        columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
            task = bar.add_task(_escape(doing), total=None)
            yield lambda line: bar.update(task, description=_escape(line))


@contextmanager
def saturation_progress(wanted: bool | None) -> Iterator[Callable[[Report], None]]:
    """Provide a function that shows the size of the e-graph after every iteration: see :func:`activity`."""
    with activity("saturating", wanted) as tell:
        yield lambda report: tell(_line(report))


def _line(report: Report) -> str:
    last = report.iterations[-1]
    return f"iteration {len(report.iterations)}: {last.nodes} e-nodes, {last.classes} classes"


class Steps:
    """Steps whose progress is shown; see :func:`counted_progress`."""

    def __init__(self, bar: Progress, count: int, in_lines: bool):
        self._bar = bar
        self._task = bar.add_task("", total=count)
        self._count = count
        self._begun = 0
        self._in_lines = in_lines

    def begin(self, name: str) -> None:
        """Report that the next step begins."""
        self._begun += 1
        if self._in_lines:
            click.echo(f"{self._begun} of {self._count}: {name}", err=True)
        self._bar.update(self._task, description=_escape(name))

    def end(self, line: str = "") -> None:
        """Report that a step has ended, and print a line on stderr if one is given."""
        self._bar.advance(self._task)
        if line:
            self._bar.console.print(_escape(line), highlight=False, soft_wrap=True)


@contextmanager
def counted_progress(doing: str, count: int, wanted: bool | None = None) -> Iterator[Steps]:
    """Provide an object that reports steps; a terminal shows how many of them are finished.

    Args:
        doing: What each step does.
        count: The number of steps.
        wanted: Whether to report each step, by a line if stderr is not a terminal; None for only on a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, emoji=False)
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


def _escape(name: str) -> str:
    """Return a name for a line of progress: without control characters, and with brackets that are not markup."""
    from rich.markup import escape

    return escape(visible(name))

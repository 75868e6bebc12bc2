"""Show the progress of a saturation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from eqsat.cli.terminal import Console
from eqsat.egraph.report import Report


@contextmanager
def saturation_progress(wanted: bool | None) -> Iterator[Callable[[Report], None]]:
    """Give a function to call after every iteration, which shows sizes on stderr; on a terminal, in one changing line.

    Args:
        wanted: Whether to show them; None for on a terminal only.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda report: None
    elif not sys.stderr.isatty():
        yield lambda report: click.echo(_line(report), err=True)
    else:
        with Console(stderr=True).status("saturating") as status:
            yield lambda report: status.update(_line(report))


def _line(report: Report) -> str:
    last = report.iterations[-1]
    return f"iteration {len(report.iterations)}: {last.nodes} e-nodes, {last.classes} classes"

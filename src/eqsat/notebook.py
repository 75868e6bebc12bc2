"""What notebooks show of results: HTML of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from eqsat.brief import one_line
from eqsat.markup import Cell, Markup, number, text

LINES = 60
"""Lines of a text that are shown; the middle ones are left out."""

WIDTH = 240
"""Characters of a line that are shown."""

ROWS = 40
"""Rows of a table that are shown."""


def preview(title: str, *parts: str) -> str:
    """A line that tells what there is, and what follows it."""
    return f"<div><p><b>{text(one_line(title))}</b></p>{''.join(map(text, parts))}</div>"


def page(thing: object, title: str, *parts: str) -> str:
    """A line that tells what there is, its page in a frame, and what tells the same where frames are not shown.

    Args:
        thing: What :mod:`eqsat.report_page.embedded` has a page of; that is above all that is shown.
        title: The line.
        parts: What follows, folded; of a large graph it is all that is shown.
    """
    frame = import_module("eqsat.report_page.embedded").frame(thing)
    if frame is None:
        return preview(title, *parts)
    folded = f"<details><summary>Without the page</summary>{''.join(map(text, parts))}</details>"
    return preview(title, frame, Markup(folded))


def lines(shown: str) -> Markup:
    """A text as it is, but for what is too much of it."""
    every = shown.strip("\n").splitlines()
    half = LINES // 2
    if len(every) > LINES:
        every = [*every[:half], f"... {len(every) - 2 * half} more lines ...", *every[-half:]]
    kept = "\n".join([line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in every])
    return Markup(f'<pre style="white-space: pre">{text(kept)}</pre>')


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Markup:
    """The first rows of a table; numbers stand right."""
    top = "".join([f"<th>{text(head)}</th>" for head in heads])
    body = "".join([f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:ROWS]])
    rest = f"<p>{len(rows) - ROWS} more rows</p>" if len(rows) > ROWS else ""
    return Markup(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{rest}")


def _cell(value: Cell) -> str:
    if isinstance(value, (int, float)):
        return f'<td style="text-align: right">{text(number(value))}</td>'
    return f'<td style="text-align: left">{text("" if value is None else one_line(value))}</td>'

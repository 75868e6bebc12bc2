"""HTML by small pieces. Whatever comes from files is escaped here, and nowhere else."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


class Markup(str):
    """Text that is HTML already."""


Cell = str | int | float | None
"""What stands in a table: text, a number, or nothing."""


def text(value: object) -> Markup:
    """``value`` as HTML text: escaped, without characters that HTML has not."""
    if isinstance(value, Markup):
        return value
    shown = number(value) if isinstance(value, float) else str(value)
    return Markup(html.escape("".join(map(_shown, shown))))


def _shown(character: str) -> str:
    return character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"


def number(value: float) -> str:
    """A number to four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 and math.isfinite(value) else f"{value:.4g}"


def as_json(data: Any) -> Markup:
    """``data`` as JSON that can stand in a script element, whatever strings are in it."""
    plain = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def join(parts: Iterable[str]) -> Markup:
    """Pieces, one a line; plain ones are escaped."""
    return Markup("\n".join(map(text, parts)))


def section(name: str, title: str, *parts: str) -> Markup:
    """A part of the page that links can point to."""
    return Markup(f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{text(title)}</h2>'
                  f"{join(parts)}</section>")  # fmt: skip


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    """A table whose columns the reader can sort; numbers stand right."""
    listed = list(rows)
    first = listed[0] if listed else [""] * len(heads)
    top = "".join(map(_head, heads, first))
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed)
    return Markup(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table class="sortable">'
        f"<caption>{text(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(name: str, value: Cell) -> str:
    kind = ' class="number"' if isinstance(value, (int, float)) else ""
    inside = f'<button type="button">{text(name)}</button>' if name else ""
    return f'<th scope="col"{kind}>{inside}</th>'


def _cell(value: Cell) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, (int, float)):
        return f'<td class="number" data-value="{value!r}">{text(number(value))}</td>'
    return f"<td>{text(value)}</td>"


def bar(share: float) -> Markup:
    """A bar as long as a share, from 0 to 1."""
    return Markup(f'<span class="bar" style="--share:{100 * share:.1f}%"></span>')


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and values."""
    return Markup(
        '<dl class="facts">' + "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in pairs) + "</dl>"
    )


def chart(
    title: str, across: str, series: Sequence[tuple[str, str, Sequence[float | None]]], *, logarithmic: bool = False
) -> Markup:
    """Numbers that the page's script draws as a chart, over 1, 2, ….

    Args:
        title: what is shown.
        across: what is counted from left to right.
        series: a name; ``solid`` or ``dashed`` for a line, nothing for dots; and values, all of one length.
        logarithmic: whether values stand on a logarithmic axis, which they do where all are above zero.
    """
    values = [value for _, _, each in series for value in each if value is not None]
    count = max((len(each) for _, _, each in series), default=0)
    told = {
        "across": across,
        "x": [*range(1, count + 1)],
        "log": logarithmic and bool(values) and min(values) > 0,
        "series": [{"name": name, "line": line, "values": [*each]} for name, line, each in series],
    }
    plain = json.dumps(told, separators=(",", ":"), allow_nan=False)
    return Markup(f'<figure class="chart" data-chart="{text(plain)}"><figcaption>{text(title)}</figcaption></figure>')

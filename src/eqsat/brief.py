"""Text to show: one line of bounded length for anything, which ``repr`` gives, and no control characters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

LENGTH = 160
"""Characters of a line."""

DEPTH = 4
"""How deep a graph or pattern is shown."""

_WIDTH = 4
"""How many operands of a node are shown."""

MORE = "..."


def one_line(text: str, length: int = LENGTH) -> str:
    """``text`` on one line of at most so many characters; control characters are escaped."""
    words = " ".join(text[: 4 * length].split())
    shown = (
        words if words.isprintable() else "".join([each if each.isprintable() else ascii(each)[1:-1] for each in words])
    )
    return shown if len(shown) <= length and len(text) <= 4 * length else f"{shown[: length - len(MORE)]}{MORE}"


def call_text(head: str, operands: Sequence[Any], depth: int) -> str:
    """``head(operand, operand)`` of things that have a method ``brief``, down to a depth."""
    if depth <= 0 and operands:
        return f"{head}({MORE})"
    shown = [operand.brief(depth - 1) for operand in operands[:_WIDTH]]
    return f"{head}({', '.join(shown + [MORE] * (len(operands) > _WIDTH))})"


def listed(names: Sequence[str], most: int = _WIDTH) -> str:
    """The first of some names."""
    return ", ".join([*names[:most], *[f"{len(names) - most} more"] * (len(names) > most)])


def visible(text: str) -> str:
    """``text`` with JSON's escapes for what does not print: on a terminal, control characters are commands."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in text)

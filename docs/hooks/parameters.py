"""An extension of Griffe: where a docstring describes several parameters together, each gets the description."""

from __future__ import annotations

import re
from typing import Any

import griffe

_TOGETHER = re.compile(r"^( +)(\w+(?:, \w+)+):((?: .*)?(?:\n(?:\1 +.*| *(?=\n\1 )))*)", re.M)


class EachParameter(griffe.Extension):
    """Split ``first, second: Models`` into an entry for each of the two."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Rewrite the docstring of a function whose parameters these are."""
        names = {parameter.name for parameter in func.parameters}
        if func.docstring:
            func.docstring.value = _split(func.docstring.value, names)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Do so for a class, whose docstring describes its fields or the parameters of its ``__init__``."""
        if cls.docstring:
            cls.docstring.value = _split(cls.docstring.value, set())


def _split(text: str, names: set[str]) -> str:
    def each(entry: re.Match[str]) -> str:
        found = entry[2].split(", ")
        if names and not names & {*found}:
            return entry[0]
        return "\n".join([f"{entry[1]}{name}:{entry[3]}" for name in found])

    return _TOGETHER.sub(each, text)

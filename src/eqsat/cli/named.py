"""What the command line is given by name: something of eqsat, or MODULE:NAME, an object of one's own."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from eqsat.errors import ArgumentError, EqsatError

_MOST_TOLD = 100
"""Names that are all told to who gives a wrong one that none is near to."""


class Named(click.ParamType):  # type: ignore[type-arg]  # old versions of click have no argument
    """The type of an option that takes a name of eqsat's or MODULE:NAME.

    Args:
        kind: What is named, for messages.
        known: Gives eqsat's own names.
        check: Called with the object that MODULE:NAME is; raises EqsatError if it will not do.
    """

    def __init__(self, kind: str, known: Callable[[], Iterable[str]], check: Callable[[Any], object]):
        self.name = kind
        self.known = known
        self.check = check

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; a usage error says what is wrong with it."""
        if ":" in value:
            try:
                self.check(load(value))
            except EqsatError as error:
                self.fail(f"{value}: {error}", param, ctx)
        elif value not in self.known():
            known = list(self.known())
            near = get_close_matches(value, known)
            choices = near or (known if len(known) <= _MOST_TOLD else [])
            how = "or one that is near to it:" if near else "or choose from"
            told = f", {how} {', '.join(choices)}" if choices else ""
            self.fail(f"there is no {self.name} {value!r}: give MODULE:NAME{told}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete eqsat's own names."""
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


def load(name: str) -> Any:
    """Return the object that MODULE:NAME names.

    Modules are looked for where Python does, and then in the current folder: a file there stands for no module of the
    standard library or of an installed package.

    Raises:
        ArgumentError: The module cannot be imported, or has no such attribute.
    """
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = importlib.import_module(module)
    except Exception as error:  # whatever the module raises
        raise ArgumentError(f"it cannot be imported: {type(error).__name__}: {error}") from error
    try:
        return attrgetter(attribute)(found)
    except AttributeError:
        where = getattr(found, "__file__", None) or "built in"
        raise ArgumentError(f"module {module} ({where}) has no {attribute!r}") from None


def digests(names: Iterable[str]) -> dict[str, str]:
    """Return, for each MODULE:NAME or file among names, a digest of the module's file or the file: both may change."""
    files = {name: sys.modules[name.partition(":")[0]].__file__ for name in names if ":" in name}
    files |= {name: name for name in names if Path(name).is_file()}
    return {name: hashlib.sha256(Path(file).read_bytes()).hexdigest() for name, file in files.items() if file}

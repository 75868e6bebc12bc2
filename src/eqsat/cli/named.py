"""Values of options that are names: a name of eqsat, or MODULE:NAME for an object of the user."""

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
"""Maximum number of names that are all listed if a wrong name has no similar one."""


class Named(click.ParamType):  # type: ignore[type-arg]  # old versions of click have no argument
    """The type of an option that accepts a name of eqsat or MODULE:NAME.

    Args:
        kind: The kind of the named objects, for messages.
        known: A function that returns the names of eqsat.
        check: A function that receives the object of MODULE:NAME, and raises EqsatError if it is not suitable.
    """

    def __init__(self, kind: str, known: Callable[[], Iterable[str]], check: Callable[[Any], object]):
        self.name = kind
        self.known = known
        self.check = check

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; a wrong name is a usage error."""
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
        """Return the names of eqsat that complete the given beginning."""
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


def load(name: str) -> Any:
    """Return the object that MODULE:NAME names.

    Modules are searched for where Python searches, and then in the current folder. A file there does not hide a module
    of the standard library or of an installed package.

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
    """Return the digest of each file among names, and of the module's file for each MODULE:NAME; both may change."""
    files = {name: sys.modules[name.partition(":")[0]].__file__ for name in names if ":" in name}
    files |= {name: name for name in names if Path(name).is_file()}
    return {name: hashlib.sha256(Path(file).read_bytes()).hexdigest() for name, file in files.items() if file}

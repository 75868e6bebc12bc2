"""The text form as a method: ``str(obj)`` and ``obj.astext()`` of expressions and modules.

The printer knows every class of expression, so it is a layer above them: it registers itself with the two generic
functions here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from eqsat.errors import ArgumentError
from eqsat.notebook import lines, preview


@singledispatch
def astext(obj: Any, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None) -> str:
    """The text form of ``obj`` with its version line; see :func:`eqsat.relay.printer.astext`."""
    raise ArgumentError(f"a {type(obj).__name__} has no text form")


@singledispatch
def pretty(obj: Any) -> str:
    """The text form of ``obj`` without version line and metadata; see :func:`eqsat.relay.printer.pretty`."""
    raise ArgumentError(f"a {type(obj).__name__} has no text form")


class Printable:
    """Base class of what has a text form."""

    __slots__ = ()

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None) -> str:
        """Return the text form with its version line: see :func:`eqsat.relay.printer.astext`."""
        return astext(self, show_meta_data, annotate)

    def __str__(self) -> str:
        return pretty(self)

    def _repr_html_(self) -> str:
        return preview(repr(self), lines(str(self)))

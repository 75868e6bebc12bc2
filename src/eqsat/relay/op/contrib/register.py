"""The registered pattern tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_MAKERS: dict[str, Callable[[], Any]] = {}


def register_pattern_table(compiler: str, table: Callable[[], Any] | None = None) -> Any:
    """Register what ``table()`` gives as the pattern table of a compiler; also as a decorator.

    Args:
        compiler: name of the compiler, such as ``"dnnl"``.
        table: a function without arguments that gives the table, see :func:`relay.transform.MergeComposite`;
            left out, the decorated function is it. It is called when the table is first asked for.
    """

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        _MAKERS[compiler] = cache(make)
        return make

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Any:
    """The table registered for ``compiler``, None when there is none."""
    make = _MAKERS.get(compiler)
    return None if make is None else make()


def registered() -> list[str]:
    """The compilers that have a table."""
    return list(_MAKERS)

"""The registered pattern tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TABLES: dict[str, Any] = {}


def register_pattern_table(compiler: str, table: Callable[[], Any] | None = None) -> Any:
    """Register what ``table()`` gives, at once, as the pattern table of a compiler; also as a decorator.

    Args:
        compiler: name of the compiler, such as ``"dnnl"``.
        table: a function without arguments that gives the table, see :func:`relay.transform.MergeComposite`;
            left out, the decorated function is it.
    """

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        _TABLES[compiler] = make()
        return make

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Any:
    """The table registered for ``compiler``, None when there is none."""
    return _TABLES.get(compiler)


def registered() -> list[str]:
    """The compilers that have a table."""
    return list(_TABLES)

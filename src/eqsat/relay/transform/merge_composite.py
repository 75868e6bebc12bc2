"""MergeComposite: matches of patterns become calls of composite functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from eqsat.errors import ArgumentError
from eqsat.relay.dataflow_pattern.language import DFPattern
from eqsat.relay.expr import Expr, Function
from eqsat.relay.infer import infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo

PatternTable: TypeAlias = Sequence[
    tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Expr], bool]]
]  # (name, pattern) or (name, pattern, check)


def MergeComposite(pattern_table: PatternTable) -> Pass:
    """Replace matches of patterns by calls of functions with attribute ``Composite``.

    Args:
        pattern_table: entries ``(name, pattern)`` or ``(name, pattern, check)``, where ``check(root)`` says
            whether a match is taken and sees typed expressions. Earlier entries take their matches first;
            later ones see their calls but not what is inside.

    Raises:
        ArgumentError: an entry that is of neither form.
    """
    entries = checked_table(pattern_table)
    info = PassInfo(0, "MergeComposite")
    return FunctionPass(lambda function, mod, context: merge_composite(function, mod, entries), info, typed=True)


def merge_composite(
    function: Function, mod: IRModule, pattern_table: PatternTable, attrs: Mapping[str, Any] | None = None
) -> Function:
    """Do :func:`MergeComposite` to one function, which is typed; ``attrs`` are further ones for composite functions."""
    for name, pattern, check in checked_table(pattern_table):
        merged = pattern.partition(function, {"Composite": name, **(attrs or {})}, check)
        if merged is not function:
            typed = infer_type(merged, mod)
            function = typed if isinstance(typed, Function) else function
    return function


def checked_table(table: PatternTable) -> list[tuple[str, DFPattern, Callable[[Expr], bool]]]:
    """The entries of a table with their checks; raises ArgumentError for one of neither form."""
    if not isinstance(table, Iterable):
        raise ArgumentError(f"a pattern table is a list of (name, pattern) or (name, pattern, check), not {table!r}")
    checked = []
    for entry in table:
        shaped = isinstance(entry, (tuple, list)) and len(entry) in (2, 3)
        if not (shaped and isinstance(entry[0], str) and isinstance(entry[1], DFPattern)):
            raise ArgumentError(f"a pattern table holds (name, pattern) or (name, pattern, check), not {entry!r}")
        check = entry[2] if len(entry) == 3 and entry[2] is not None else _take_all
        if not callable(check):
            raise ArgumentError(f"the check of pattern {entry[0]!r} is not callable: {check!r}")
        checked.append((entry[0], entry[1], check))
    return checked


def _take_all(root: Expr) -> bool:
    return True

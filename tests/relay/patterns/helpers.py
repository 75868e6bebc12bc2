"""Short names for what many pattern tests do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat import relay
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher


def matches(pattern: DFPattern, expr: relay.Expr) -> bool:
    return pattern.match(expr)


def bindings(pattern: DFPattern, expr: relay.Expr) -> dict[DFPattern, list[relay.Expr]] | None:
    """What each sub-pattern matched, None when the pattern does not match."""
    matcher = Matcher(pattern, DataflowGraph(expr))
    return matcher.bound if matcher.match(expr) else None


def variables(names: str) -> Sequence[Any]:
    """Variables without types, one for each name."""
    return [relay.var(name) for name in names.split()]

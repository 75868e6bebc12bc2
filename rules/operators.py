"""Classes of operators, in patterns of calls."""

from __future__ import annotations

from functools import reduce
from operator import or_

from eqsat.relay.dataflow_pattern import DFPattern, is_op, wildcard


def one_of(*names: str) -> DFPattern:
    """Any of the operators of these names."""
    return reduce(or_, map(is_op, names))


elementwise = wildcard().has_attr({"TOpPattern": 0})
"""Operators whose every element depends on the same element of the argument."""

binary = one_of("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal", "less", "greater")
"""Elementwise operators of two arguments that broadcast."""

reduction = one_of("sum", "mean", "max", "min", "prod", "all", "any")
"""Reductions over some axes, with attributes ``axis``, ``keepdims`` and ``exclude``."""

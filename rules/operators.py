"""Classes of operators, in patterns of calls."""

from __future__ import annotations

from functools import reduce
from operator import or_

from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op.op import operators
from eqsat.relay.traits import Trait


def one_of(*names: str) -> DFPattern:
    """Any of the operators of these names."""
    return reduce(or_, map(is_op, names))


def names_with(traits: Trait, arguments: int) -> list[str]:
    """The names of the operators that have some traits and take so many tensors."""
    return [op.name for op in operators(traits, arguments)]


unary = one_of(*names_with(Trait.ELEMENTWISE, 1))
"""Operators whose every element depends on the same element of their one argument."""

COMMUTATIVE = names_with(Trait.ELEMENTWISE | Trait.COMMUTATIVE, 2)
commutative = one_of(*COMMUTATIVE)
ordered = one_of(*(name for name in names_with(Trait.ELEMENTWISE, 2) if name not in COMMUTATIVE))
binary = commutative | ordered
"""Elementwise operators of two arguments that broadcast."""

reduction = one_of("sum", "mean", "max", "min", "prod", "all", "any")
"""Reductions over some axes, with attributes ``axis``, ``keepdims`` and ``exclude``; of one element they are it."""

any_reduction = reduction | one_of("norm_l1", "norm_l2", "sum_of_squares", "log_sum", "log_sum_exp")
"""These, and functions of sums with the same attributes."""

VIEWS = names_with(Trait.VIEW, 1)


def view(data: DFPattern) -> DFPattern:
    """An operator that gives another shape to the same elements in the same order.

    Each call has its own pattern: Relay takes one that stands in two places for one operator.
    """
    return one_of(*VIEWS)(data)

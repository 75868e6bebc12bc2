"""Classes of operators, in patterns of calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Any

from eqsat.egraph.rule import Refusal
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op.op import operators
from eqsat.relay.op.types import axes_indices
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, Type, is_static


def one_of(*names: str) -> DFPattern:
    """Any of the operators of these names."""
    return reduce(or_, map(is_op, names))


def _names(traits: Trait, arguments: int) -> list[str]:
    return [op.name for op in operators(traits, arguments)]


unary = one_of(*_names(Trait.ELEMENTWISE, 1))
"""Operators whose every element depends on the same element of their one argument."""

_COMMUTATIVE = _names(Trait.ELEMENTWISE | Trait.COMMUTATIVE, 2)
commutative = one_of(*_COMMUTATIVE)
ordered = one_of(*(name for name in _names(Trait.ELEMENTWISE, 2) if name not in _COMMUTATIVE))
binary = commutative | ordered
"""Elementwise operators of two arguments that broadcast."""

reduction = one_of("sum", "mean", "max", "min", "prod", "all", "any")
"""Reductions over some axes, with attributes ``axis``, ``keepdims`` and ``exclude``; of one element they are it."""

any_reduction = reduction | one_of("norm_l1", "norm_l2", "sum_of_squares", "log_sum", "log_sum_exp")
"""These, and functions of sums with the same attributes."""

view = one_of(*_names(Trait.VIEW, 1))
"""Operators that give another shape to the same elements in the same order."""


def rank_of(ty: Type) -> int:
    return len(ty.shape) if isinstance(ty, TensorType) else 0


def is_last(attrs: Any, ty: Type) -> bool:
    """Guard: the axis of an operator on a tensor of type ``ty`` is the last one."""
    return attrs.axis in (-1, rank_of(ty) - 1)


def front(axes: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)) if rank else ()


def permutation(attrs: Any, rank: int) -> tuple[int, ...]:
    """The axes of a transpose, counted from the front; reversed when it names none."""
    return tuple(range(rank))[::-1] if attrs.axes is None else front(attrs.axes, rank)


def inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes.index(axis) for axis in range(len(axes)))


def renumbered(axes: list[int]) -> tuple[int, ...]:
    """The order of some axes among themselves."""
    return tuple(sorted(axes).index(axis) for axis in axes)


def reduced_axes(attrs: Any, ty: Type) -> tuple[int, ...]:
    """The axes that a reduction of a tensor of type ``ty`` goes over, counted from the front, in order."""
    return tuple(sorted(axes_indices(attrs.axis, rank_of(ty), attrs.exclude)))


def shape_of(ty: Type) -> Any:
    """The dimensions of a type when all are known."""
    return ty.concrete_shape if is_static(ty) and isinstance(ty, TensorType) else Refusal("a dimension is not known")

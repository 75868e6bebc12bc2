"""The axes that attributes name, counted from the front, and orders of axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.relay.attrs import Attrs
from eqsat.relay.op.types import axes_indices
from eqsat.relay.ty import Dim, Type
from eqsat.rules.types import rank_of


def is_last(attrs: Attrs, ty: Type) -> bool:
    """Guard: the axis of an operator on a tensor of type ``ty`` is the last one."""
    return attrs.axis in (-1, rank_of(ty) - 1)


def from_front(axes: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(axis % rank for axis in ((axes,) if isinstance(axes, int) else axes)) if rank else ()


def permutation(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The axes of a transpose; reversed where it names none."""
    return tuple(range(rank))[::-1] if attrs.axes is None else from_front(attrs.axes, rank)


def inverse_order(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes of the transpose that undoes one by ``axes``."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


def renumbered(axes: Sequence[int]) -> tuple[int, ...]:
    """The order of some axes among themselves: (7, 2, 5) is (2, 0, 1)."""
    return tuple(sorted(axes).index(axis) for axis in axes)


def without(axes: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    """The order of the axes that are left when those at the places ``gone`` are taken out."""
    return renumbered([axis for place, axis in enumerate(axes) if place not in gone])


def among_ones(long: Sequence[int], ones: Sequence[int], shape: Sequence[Dim]) -> tuple[int, ...]:
    """The order of axes that gives ``shape``: those of one element may stand anywhere, the others stay in theirs."""
    left, of_one = iter(long), iter(ones)
    return tuple([next(of_one if dim == 1 else left) for dim in shape])


def reduced_axes(attrs: Attrs, ty: Type) -> tuple[int, ...]:
    """The axes that a reduction of a tensor of type ``ty`` goes over, in ascending order."""
    return tuple(sorted(axes_indices(attrs.axis, rank_of(ty), attrs.exclude)))

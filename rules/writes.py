"""Scatters at places that are known: slices of what was written, and blocks that are put between parts of the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Ref, Refusal, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple
from eqsat.relay.op import concatenate, scatter_nd, strided_slice
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.slices import Ranges, cut, in_order

x, updates = variables("x updates")
(places,) = constants("places")

# ---- slices of what was written


def rows_written(value: Array, attrs: Attrs) -> list[int]:
    """The rows that a scatter replaces, in order; none if it does anything else with them."""
    return value.ravel().tolist() if attrs.mode == "update" and value.ndim == 2 and len(value) == 1 else []


def takes_the_written(value: Array, write: Attrs, attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a slice takes all rows that were written, in their order, and no others."""
    taken, rows = in_order(attrs, ty), rows_written(value, write)
    return not isinstance(taken, Refusal) and [*taken] == [0] and bool(rows) and rows == [*taken[0]]


def writes_every_row(value: Array, attrs: Attrs, ty: TensorType) -> bool:
    """Guard: every row is written, in order."""
    rows = rows_written(value, attrs)
    return bool(rows) and rows == [*range(len(rows))] and ty.shape[0] == len(rows)


scattered = scatter_nd(x, places, updates)
of_scattered = strided_slice(scattered)

# ---- blocks: all that there is between two places of one axis


def block_of(coordinates: Array, attrs: Attrs, ty: TensorType) -> tuple[int, range] | Refusal:
    """The axis along which a scatter at tuples of places writes a part, and this part."""
    if attrs.mode != "update" or not is_static(ty) or not coordinates.size:
        return refuse("it replaces nothing, or a dimension is not known")
    return _block(coordinates, ty.concrete_shape[: len(coordinates)])


def block_of_elements(index: Array, attrs: Attrs, ty: TensorType) -> tuple[int, range] | Refusal:
    """The same of a scatter along an axis."""
    if attrs.reduction != "update" or not is_static(ty) or not index.size:
        return refuse("it replaces nothing, or a dimension is not known")
    coordinates = np.indices(index.shape)
    coordinates[axis_index(attrs.axis, index.ndim)] = index
    return _block(coordinates, ty.concrete_shape)


def _block(coordinates: Array, shape: tuple[int, ...]) -> tuple[int, range] | Refusal:
    """The axis and the part where the places written are, in order, all places of a part of one axis."""
    written = coordinates.shape[1:]
    axes = [axis for axis, pair in enumerate(zip(written, shape, strict=False)) if pair[0] != pair[1]]
    if len(written) != len(shape) or len(axes) != 1:
        return refuse("it writes no part of one axis")
    (axis,) = axes
    first = int(coordinates[axis].flat[0])
    expected = np.indices(written)
    expected[axis] += first
    if first < 0 or not np.array_equal(coordinates, expected):
        return refuse("the places are not in order")
    return axis, range(first, first + written[axis])


def blocks(name: str, operator: str) -> Iterator[Rewrite]:
    """scatter(x, places a to b of an axis, y) = concat(x[:a], y, x[b:]), where a part of x may be nothing"""
    whole = is_op(operator)(x, places, updates)
    refs: tuple[Ref, ...] = (value_of(places), attrs_of(whole), type_of(x))
    find = block_of if operator == "scatter_nd" else block_of_elements

    def part(is_before: bool, has_other: bool) -> DFPattern:
        """What is before the block, or behind it, and whether there is something on its other side, too."""

        def left(value: Array, attrs: Attrs, ty: TensorType) -> Ranges | Refusal:
            found = find(value, attrs, ty)
            if isinstance(found, Refusal):
                return found
            axis, written = found
            before, behind = range(written.start), range(written.stop, ty.concrete_shape[axis])
            mine, other = (before, behind) if is_before else (behind, before)
            return {axis: mine} if mine and bool(other) == has_other else refuse("another part is left")

        return cut(x, left, *refs)

    def axis_of(*given: object) -> int | Refusal:
        found = find(*given)  # type: ignore[arg-type]
        return found if isinstance(found, Refusal) else found[0]

    forms = {
        "first": (updates, part(is_before=False, has_other=False)),
        "last": (part(is_before=True, has_other=False), updates),
        "middle": (part(is_before=True, has_other=True), updates, part(is_before=False, has_other=True)),
    }
    for form, fields in forms.items():
        yield rewrite(f"{name}-of-{form}-block", whole, concatenate(is_tuple(fields), axis=compute(axis_of, *refs)))


writes = RuleSet(
    "writes",
    [
        rewrite(
            "slice-of-what-was-written",
            of_scattered,
            updates,
            when(takes_the_written, value_of(places), attrs_of(scattered), attrs_of(of_scattered), type_of(x)),
        ),
        rewrite(
            "scatter-of-every-row",
            scattered,
            updates,
            when(writes_every_row, value_of(places), attrs_of(scattered), type_of(x)),
        ),
        *blocks("scatter", "scatter_nd"),
        *blocks("scatter-along-axis", "scatter_elements"),
    ],
)

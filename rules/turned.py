"""Transposes of what is computed from values that are transposed anyway are computed from the transposes.

Transposes travel outward (:mod:`eqsat.rules.transposes`). Where the transpose of an operand is computed too, and other
values from it, the way back costs nothing and adds no values. ``T`` stands for transposes of one order below.
"""

from __future__ import annotations

from eqsat.egraph.author import attrs_of, like, rewrite, type_of, when
from eqsat.egraph.rule import Guard, Rewrite, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple_get_item
from eqsat.relay.op import split, strided_slice, transpose
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import Type
from eqsat.rules.axes import inverse_order, permutation
from eqsat.rules.operators import binary, unary
from eqsat.rules.transposes import (
    c,
    has_plain_bounds,
    is_spread,
    of_turned,
    renamed_axes,
    same_order,
    spread,
    turn_like,
    turned,
    turned_too,
    x,
    y,
)
from eqsat.rules.types import Shape, rank_of


def behind(name: str, value: DFPattern, result: DFPattern, *guards: Guard, also: tuple[DFPattern, ...] = ()) -> Rewrite:
    """T value = result, where T x and ``also`` are there."""
    whole = transpose(value)
    return rewrite(
        f"transpose-of-{name}-of-transposed",
        (whole, turned, *also),
        (result, turned, *also),
        when(same_order, attrs_of(whole), attrs_of(turned), type_of(value), type_of(x)),
        *guards,
    )


def moved_axis(attrs: Attrs, turn: Attrs, ty: Type) -> int:
    """The ``axis`` of a call over ``x`` in terms of the axes of ``T x``."""
    rank = rank_of(ty)
    return permutation(turn, rank).index(axis_index(attrs.axis, rank))


def moved_axes(attrs: Attrs, turn: Attrs, ty: Type) -> Shape:
    """The axes of a slice of ``x`` in terms of the axes of ``T x``."""
    return renamed_axes(attrs, inverse_order(permutation(turn, rank_of(ty))))


turned_constant = turn_like(spread())
applied, joined = unary(x), binary(x, y)
with_constant, constant_first = binary(x, c), binary(c, x)
sliced, parts = strided_slice(x), split(x)
part = is_tuple_get_item(parts)
spreads = when(is_spread, type_of(x), type_of(c))

turned_anyway = RuleSet(
    "turned-anyway",
    [
        behind("unary", applied, like(applied, turned)),
        behind(
            "binary",
            joined,
            like(joined, turned, turned_too),
            when(same_order, attrs_of(turned), attrs_of(turned_too), type_of(x), type_of(y)),
            also=(turned_too,),
        ),
        behind("constant", with_constant, like(with_constant, turned, turned_constant), spreads),
        behind("ordered-constant", constant_first, like(constant_first, turned_constant, turned), spreads),
        behind(
            "slice",
            sliced,
            like(sliced, turned, axes=of_turned(moved_axes, sliced)),
            when(has_plain_bounds, attrs_of(sliced)),
        ),
        behind("split", part, like(part, like(parts, turned, axis=of_turned(moved_axis, parts)))),
    ],
)

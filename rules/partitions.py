"""Slices that divide an axis among them: one split.

As the halves of a rotary embedding or a gated unit, and the states of several layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any, cast

from eqsat.egraph.author import refuse, variables
from eqsat.egraph.group_rules import GroupRule, NodeMap
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay.expr import Call, Expr, Var
from eqsat.relay.op import strided_slice
from eqsat.relay.ty import TensorType
from eqsat.rules.draw import Draw
from eqsat.rules.joining import ranges
from eqsat.rules.siblings import divided

(x,) = variables("x")

MOST = 16
"""Parts of a split: more outputs make one wide tuple."""

cut = strided_slice(x)


def type_of_data(node_map: NodeMap) -> TensorType:
    ty = node_map[x][0]._checked_type
    assert isinstance(ty, TensorType)  # what is sliced is a tensor
    return ty


def taken(node_map: NodeMap) -> tuple[int, range] | None:
    """The axis that a match slices, and what it takes of it; None when it slices several."""
    ty = type_of_data(node_map)
    found = ranges(cast(Call, node_map[cut][0]).attrs, ty)
    if not isinstance(found, dict):
        return None
    some = [(axis, part) for axis, part in found.items() if part != range(_length(ty, axis))]
    return some[0] if len(some) == 1 and some[0][1] and some[0][1].step == 1 else None


def _length(ty: TensorType, axis: int) -> int:
    """The length of an axis of which ranges are known."""
    dim = ty.shape[axis]
    assert isinstance(dim, int)
    return dim


def sliced_axis(node_map: NodeMap) -> Hashable:
    found = taken(node_map)
    return refuse("it takes no part of one axis of known length") if found is None else found[0]


def partition(parts: Sequence[range], length: int) -> list[range] | None:
    """Some of ``parts`` that follow each other from 0 to ``length``, the shortest of those that begin together."""
    shortest: dict[int, range] = {}
    for part in parts:
        shortest[part.start] = min(shortest.get(part.start, part), part, key=len)
    found: list[range] = []
    at = 0
    while at < length and at in shortest:
        found.append(shortest[at])
        at = shortest[at].stop
    return found if at == length and len(found) <= MOST else None


def as_split(node_maps: Sequence[NodeMap]) -> Any:
    """The parts of one split, for the slices that it makes; the others stay as they are."""
    data = node_maps[0][x][0]
    found = [each for each in map(taken, node_maps) if each is not None]
    axis, slices = found[0][0], [part for _, part in found]
    order = partition(slices, _length(type_of_data(node_maps[0]), axis))
    if order is None:
        return refuse("the slices leave something out, or they are too many")
    parts = dict(zip(order, divided(data, list(map(len, order)), axis), strict=True))
    return [parts.get(part, node_map[cut][0]) for part, node_map in zip(slices, node_maps, strict=True)]


def _drawn(draw: Draw) -> tuple[Expr, ...]:
    """Slices of one axis that divide it, mostly, and now and then one more."""
    length = draw.rng.randint(2, 6)
    axis = draw.rng.randrange(3)
    shape = [2, 3, 2]
    shape[axis] = length
    data = Var("x", TensorType(shape, draw.dtype))
    ends = [0, *sorted(draw.rng.sample(range(1, length), draw.rng.randint(1, length - 1))), length]
    bounds = [*pairwise(ends), *([(0, length - 1)] if draw.chance(0.2) else [])][int(draw.chance(0.1)) :]
    back = draw.rng.choice((0, 3))
    return tuple([strided_slice(data, begin=[a], end=[b], axes=[axis - back]) for a, b in bounds])


partitions = RuleSet(
    "partitions",
    [
        GroupRule(
            "slices-are-split",
            cut,
            soundness=Soundness.EXACT,
            examples=_drawn,
            sees_matched=True,
            shared=(x,),
            key=sliced_axis,
            merge=as_split,
        ),
    ],
)

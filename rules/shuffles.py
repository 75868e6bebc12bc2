"""An axis split, its parts exchanged and joined again, as in channel shuffles, is one gather along the axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from eqsat.egraph.author import attrs_of, compute, refuse, rewrite, type_of, variables
from eqsat.egraph.rule import Array, Refusal, RuleSet
from eqsat.relay.attrs import Attrs
from eqsat.relay.op import reshape, take, transpose
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.axes import permutation
from eqsat.rules.operators import view
from eqsat.rules.shape import codes
from eqsat.rules.types import has_zero, rank_of
from eqsat.rules.values import computed_parts

(x,) = variables("x")

LEAST_ROW = 16
"""Elements that must move together: fewer are transposed faster than gathered."""
MOST_INDICES = 1 << 14

parts = view(x)
exchanged = transpose(parts)
joined = view(exchanged)


def known(dims: Sequence[Dim]) -> list[int] | None:
    """Dimensions as numbers, None where some are unknown."""
    numbers = [dim for dim in dims if isinstance(dim, int)]
    return numbers if len(numbers) == len(dims) else None


def shuffle(attrs: Attrs, split: TensorType, whole: TensorType) -> tuple[int, Array] | Refusal:
    """The axis of ``whole`` that a transpose shuffles after a reshape to ``split``, and the indices in new order."""
    order = permutation(attrs, rank_of(split))
    moved = [place for place, axis in enumerate(order) if place != axis]
    if not moved:
        return refuse("nothing is exchanged")
    first, last = moved[0], moved[-1] + 1
    middle, rest = known(split.shape[first:last]), known(split.shape[last:])
    if not middle or rest is None or 0 in (*middle, *rest):
        return refuse("an axis that moves is of unknown length, or nothing is there")
    count, row = prod(middle), prod(rest)
    if row < LEAST_ROW or count > MOST_INDICES:
        return refuse("single elements move, or there are too many")
    for axis in range(rank_of(whole)):
        after = known(whole.shape[axis + 1 :])
        if whole.shape[axis] == count and after is not None and prod(after) == row:
            indices = np.arange(count).reshape(middle).transpose([each - first for each in order[first:last]])
            return axis, indices.reshape(-1)
    return refuse("more than one axis is shuffled")


found = computed_parts(shuffle, attrs_of(exchanged), type_of(parts), type_of(x))

shuffles = RuleSet(
    "shuffles",
    [
        rewrite(
            "shuffle-is-gather",
            joined,
            reshape(
                take(x, found(1), axis=found(0), mode="fast"),
                newshape=compute(codes, type_of(joined)),
                allowzero=compute(has_zero, type_of(joined)),
            ),
        )
    ],
)

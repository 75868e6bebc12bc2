"""A new axis that is expanded and then joined with another one repeats parts of a tensor, which one gather does.

Attention repeats the heads of keys and values in this way for groups of queries. The gather needs no sizes, which the
expansion may have had computed.
"""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.egraph.author import refuse, rewrite, type_of, variables
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import take
from eqsat.relay.ty import TensorType
from eqsat.rules.operators import view
from eqsat.rules.shuffles import LEAST_ROW, MOST_INDICES, known
from eqsat.rules.types import rank_of
from eqsat.rules.values import computed_parts

x, sizes = variables("x sizes")

parts = view(x)


def repeats(
    whole: TensorType, split: TensorType, spread: TensorType, result: TensorType
) -> tuple[int, Array] | Refusal:
    """The axis of ``whole`` along which the result repeats it, and the indices of the gather that does it.

    Args:
        whole: the tensor.
        split: with an axis of one element more.
        spread: with that axis expanded.
        result: with that axis as a part of the one before it (each element is repeated) or behind it (all are).
    """
    added = [axis for axis, (one, many) in enumerate(zip(split.shape, spread.shape, strict=False)) if one != many]
    ranks = (rank_of(result), rank_of(split), rank_of(spread))
    if len(added) != 1 or ranks != (rank_of(whole), rank_of(whole) + 1, rank_of(whole) + 1):
        return refuse("it is not expanded along one new axis")
    (new,) = added
    if split.shape[:new] + split.shape[new + 1 :] != whole.shape:
        return refuse("the view does more than put in an axis")
    times = spread.shape[new]
    for axis, pick in ((new - 1, np.repeat), (new, np.tile)):
        if not 0 <= axis < rank_of(whole):
            continue
        length = whole.shape[axis]
        if not isinstance(length, int) or not isinstance(times, int) or not 1 < length * times <= MOST_INDICES:
            continue
        if length > 1 and result.shape == (*whole.shape[:axis], length * times, *whole.shape[axis + 1 :]):
            row = known(whole.shape[axis + 1 :])
            if row is not None and prod(row) < LEAST_ROW:
                return refuse("single elements are repeated")
            return axis, pick(np.arange(length), times)
    return refuse("the new axis joins none of a known length")


def repeated(name: str, spread: DFPattern) -> Rewrite:
    """reshape(expand(reshape(x))) = take(x, (0, 0, 1, 1), axis)"""
    joined = view(spread)
    types = (type_of(x), type_of(parts), type_of(spread), type_of(joined))
    found = computed_parts(repeats, *types)
    return rewrite(name, joined, take(x, found(1), axis=found(0), mode="fast"))


repeating = RuleSet(
    "repeating",
    [
        repeated("repeat-is-gather", is_op("broadcast_to")(parts)),
        repeated("dynamic-repeat-is-gather", is_op("dyn.broadcast_to")(parts, sizes)),
    ],
)

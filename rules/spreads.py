"""What is repeated as often as sizes say, behind operators: these are computed first, and their results are repeated.

Networks of open sizes compute their masks at run time. They compare the places of neighbours to see where sequences
begin, and look the answers up; of places that are a range, all this says is one number, repeated. The size of a result
is told by the result itself: an operator that broadcasts takes the repetition in, and then nothing asks for the size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Guard, Refusal, Rewrite, RuleSet
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple
from eqsat.relay.op import cumsum, expand_dims, gather_nd, logical_and, negative, shape_of, strided_slice, take, where
from eqsat.relay.op.index import slice_bounds
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.operators import binary, view
from eqsat.rules.ranges import (
    TRUE_EVERYWHERE,
    along,
    compares_places,
    down,
    is_of_each,
    is_one_size,
    length,
    long_axis,
    ordered,
    sizes,
    spread,
)
from eqsat.rules.shape import broadcasts
from eqsat.rules.types import is_integer, is_scalar, rank_of, same_dtype, same_type
from eqsat.rules.values import attribute, filled, minus_one, one, scalar, zero

x, y, z, q, k, v, mask, more_sizes = variables("x y z q k v mask more_sizes")
c, begins, beyond, strides = constants("c begins beyond strides")


def again(data: DFPattern, root: DFPattern) -> DFPattern:
    """``data``, repeated to the shape of what ``root`` matched."""
    return is_op("dyn.broadcast_to")(data, shape_of(root, dtype="int64"))


def before_repeated(name: str, whole: DFPattern, operands: Sequence[DFPattern], *guards: Guard) -> Rewrite:
    """f(expand(x)) = expand(f(x)): ``whole`` is computed of operands before they are repeated."""
    return rewrite(name, whole, again(like(whole, *operands), whole), *guards)


repeated, number = spread(x), spread(c)
other_repeated = is_op("dyn.broadcast_to")(y, more_sizes)
both = binary(repeated, other_repeated)
with_number, number_first = binary(y, number), binary(number, y)
with_repeated, repeated_first = binary(y, repeated), binary(repeated, y)
spaced = expand_dims(repeated)
summed = cumsum(spread(zero))
is_number = when(is_scalar, type_of(c))
without_axes = compute(lambda value: value.reshape(()), value_of(c))
tiled = is_op("dyn.tile")(x, sizes)
part = strided_slice(repeated)
both_joined = is_op("concatenate")(is_tuple((repeated, other_repeated)))
summed_along = cumsum(number)
looked_up = take(y, repeated)


def repeats_ones(whole: TensorType, ty: TensorType) -> bool:
    """Guard: only axes of one element are repeated."""
    pairs = zip(ty.shape, whole.shape, strict=False)
    return rank_of(ty) == rank_of(whole) and all(dim == 1 or is_one_size(dim, of) for dim, of in pairs)


def lengths(ty: TensorType, sizes: TensorType) -> Array | Refusal:
    """The sizes of all axes."""
    if not is_static(ty) or sizes.shape != (rank_of(ty),):
        return refuse("a dimension is not known, or axes are added")
    return np.asarray(ty.concrete_shape, sizes.dtype)


def slices_unrepeated(attrs: Attrs, ty: TensorType, whole: TensorType) -> bool:
    """Guard: a slice takes parts of axes along which nothing is repeated."""
    return rank_of(ty) == rank_of(whole) and all(
        is_one_size(ty.shape[axis], whole.shape[axis]) for axis, *_ in slice_bounds(attrs, rank_of(ty))
    )


def keeps_axis(attrs: Attrs, ty: TensorType, whole: TensorType) -> bool:
    """Guard: an operator works along an axis along which nothing is repeated."""
    axis = axis_index(attrs.axis or 0, rank_of(whole))
    return rank_of(ty) == rank_of(whole) and is_one_size(ty.shape[axis], whole.shape[axis])


def joins_unrepeated(attrs: Attrs, *types: TensorType) -> bool:
    """Guard: what is joined has equal shapes but for the axis, along which nothing is repeated, also before that."""
    first, second, whole, other = types
    if not keeps_axis(attrs, first, whole) or not keeps_axis(attrs, second, other):
        return False
    axis = axis_index(attrs.axis, rank_of(whole))
    pairs = zip(first.shape, second.shape, strict=True)
    return all(at == axis or is_one_size(one, two) for at, (one, two) in enumerate(pairs))


def has_all_axes(attrs: Attrs, ty: TensorType, whole: TensorType) -> bool:
    """Guard: indices of a gather have as many axes before they are repeated."""
    return attrs.axis is not None and not attrs.batch_dims and rank_of(ty) == rank_of(whole)


def repeats_result(whole: TensorType, ty: TensorType, other: TensorType) -> bool:
    """Guard: a result would be smaller if an operand, which is no number, were not repeated."""
    return not is_scalar(ty) and not broadcasts(whole, ty, other)


# ---- neighbours in a range

counted = spread(along)
step = filled(1, "step")
first = strided_slice(counted)
joined = is_op("concatenate")(is_tuple((first - one | first + minus_one, counted)))
moved = x + c
difference = x - moved


def ends(stop: DFPattern) -> DFPattern:
    """All there is along other axes, and what is before ``stop``, a list of one size, along the last one."""
    return is_op("concatenate")(is_tuple((beyond, stop)))


def counts_along_last(ty: TensorType, repeated: TensorType) -> bool:
    """Guard: a range lies along the last axis, and is repeated along others."""
    return long_axis(ty) == rank_of(ty) - 1 and is_one_size(ty.shape[-1], repeated.shape[-1])


def takes_first(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a slice takes the first place of the last axis."""
    return slice_bounds(attrs, rank_of(ty)) == [(rank_of(ty) - 1, 0, 1, 1)]


def of_neighbours(name: str, begin: int, stop: DFPattern, result: DFPattern) -> Rewrite:
    """One of the numbers before a range, and the range: all but the first, or all but the last one."""

    def takes_on(begins: Array, beyond: Array, strides: Array) -> bool:
        farthest = np.all(beyond >= np.iinfo(np.int32).max)
        return bool(farthest and np.all(strides == 1) and [*begins] == [0] * beyond.size + [begin])

    return rewrite(
        name,
        is_op("dyn.strided_slice")(joined, begins, ends(stop), strides),
        result,
        when(counts_along_last, type_of(along), type_of(counted)),
        when(takes_first, attrs_of(first), type_of(counted)),
        when(lambda attrs, ty: attrs.axis in (-1, rank_of(ty) - 1), attrs_of(joined), type_of(counted)),
        when(takes_on, value_of(begins), value_of(beyond), value_of(strides)),
    )


# ---- masks


def attends(mask: DFPattern) -> DFPattern:
    return nn.masked_attention(q, k, v, mask)


by_repeated, by_order, by_order_and_more = attends(repeated), attends(ordered), attends(logical_and(ordered, mask))


in_order = {name: attribute(by_order, name) for name in ("scale", "softcap", "query_heads", "key_heads")}


def says_as_much(ty: TensorType, of: TensorType, query: TensorType) -> bool:
    """Guard: a mask says the same of all keys before it is repeated, for no more queries and batches than there are."""
    if rank_of(ty) < 2 or not is_one_size(ty.shape[-1], of.shape[-1]) or rank_of(query) < 4:
        return False
    pairs = zip(of.shape[-2::-1], query.shape[-2::-1], strict=False)
    return all(dim == 1 or is_one_size(dim, length) for dim, length in pairs)


def is_of_all_places(attrs: Attrs, ty: TensorType, query: TensorType, key: TensorType) -> bool:
    """Guard: places of all keys are compared with those of all queries, alike for batches and heads."""
    return not attrs.causal and is_of_each(ty, query.shape[-2], key.shape[-2])


def causal(name: str, whole: DFPattern, result: DFPattern) -> Rewrite:
    return rewrite(
        name,
        whole,
        result,
        when(compares_places, type_of(along), type_of(down)),
        when(is_of_all_places, attrs_of(whole), type_of(ordered), type_of(q), type_of(k)),
    )


spreads = RuleSet(
    "spreads",
    [
        rewrite(
            "tile-of-ones-by-sizes",
            tiled,
            is_op("dyn.broadcast_to")(x, sizes * compute(lengths, type_of(x), type_of(sizes))),
            when(repeats_ones, type_of(tiled), type_of(x)),
        ),
        before_repeated(
            "slice-of-repeated", part, [x], when(slices_unrepeated, attrs_of(part), type_of(x), type_of(repeated))
        ),
        before_repeated(
            "join-of-repeated",
            both_joined,
            [is_tuple((x, y))],
            when(joins_unrepeated, attrs_of(both_joined), *map(type_of, (x, y, repeated, other_repeated))),
        ),
        before_repeated(
            "sums-of-repeated-constant",
            summed_along,
            [c],
            when(keeps_axis, attrs_of(summed_along), type_of(c), type_of(number)),
        ),
        before_repeated(
            "take-by-repeated",
            looked_up,
            [y, x],
            when(has_all_axes, attrs_of(looked_up), type_of(x), type_of(repeated)),
        ),
        before_repeated("function-of-repeated", both, [x, y]),
        *[
            before_repeated(name, whole, operands, when(repeats_result, type_of(whole), type_of(x), type_of(y)))
            for name, whole, operands in (
                ("function-with-repeated", with_repeated, [y, x]),
                ("function-of-repeated-and-more", repeated_first, [x, y]),
            )
        ],
        *[
            before_repeated(
                f"{name}-of-repeated",
                whole,
                operands,
                when(lambda ty, *parts: not broadcasts(ty, *parts), type_of(whole), *map(type_of, operands)),
            )
            for name, whole, operands in (
                ("choice", where(y, repeated, z), [y, x, z]),
                ("other-choice", where(y, z, repeated), [y, z, x]),
            )
        ],
        before_repeated("function-with-repeated-number", with_number, [y, c], is_number),
        before_repeated("function-of-repeated-number", number_first, [c, y], is_number),
        before_repeated(
            "axes-of-repeated",
            spaced,
            [x],
            when(lambda *types: rank_of(types[0]) == rank_of(types[1]), type_of(x), type_of(repeated)),
        ),
        *[
            rewrite(f"{name}-of-repeated-number", whole, again(without_axes, whole), is_number)
            for name, whole in (
                ("view", view(number)),
                ("take", take(number, y)),
                ("gather", gather_nd(number, y)),
                ("take-of-view", take(view(number), y)),
                ("gather-of-view", gather_nd(view(number), y)),
            )
        ],
        *[
            rewrite(
                f"where-{name}-repeats",
                chosen,
                again(x, chosen),
                when(lambda *types: not same_type(*types), type_of(x), type_of(chosen)),
            )
            for name, truth in TRUE_EVERYWHERE.items()
            for chosen in [where(truth, x, y)]
        ],
        rewrite("sums-of-zero", summed, again(scalar(0, summed), summed)),
        of_neighbours("all-but-one-before-range", 1, view(length + step) | view(length) + step, spread(along)),
        of_neighbours("one-before-range", 0, view(length), counted + scalar(-1, counted)),
        # x - (x + c) = -c
        rewrite(
            "difference-of-shifted",
            difference,
            again(negative(c), x),
            when(is_integer, type_of(x)),
            is_number,
            when(same_dtype, type_of(x), type_of(c)),
            when(lambda number, ty: rank_of(number) <= rank_of(ty), type_of(c), type_of(x)),
        ),
        rewrite(
            "mask-repeated",
            by_repeated,
            like(by_repeated, q, k, v, x),
            when(says_as_much, type_of(x), type_of(repeated), type_of(q)),
        ),
        causal("mask-in-order", by_order, nn.attention(q, k, v, causal=True, **in_order)),
        causal("mask-in-order-and-more", by_order_and_more, like(by_order_and_more, q, k, v, mask, causal=True)),
    ],
)

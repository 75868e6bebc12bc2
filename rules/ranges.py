"""Numbers that count up, of sizes that are not known: gathers by them take all there is, and masks by them are causal.

Networks of open sizes compute their masks at run time: places of queries and keys are ranges, which are compared, and
by which tables and other masks are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, real, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple
from eqsat.relay.op import (
    equal,
    expand_dims,
    gather_nd,
    less_equal,
    logical_and,
    logical_not,
    reshape,
    shape_of,
    take,
    transpose,
    trilu,
    where,
)
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.axes import is_last, permutation
from eqsat.rules.heads import FORMS, are_heads, is_by_key, k, q, query_key_value, scores, v
from eqsat.rules.masks import below_all
from eqsat.rules.operators import unary, view
from eqsat.rules.shape import broadcasts, reshaped
from eqsat.rules.types import Shape, rank_of
from eqsat.rules.values import all_true, filled, scalar, zero

x, y, z, condition, length, height, sizes, k_th = variables("x y z condition length height sizes k_th")
c, d, least = constants("c d least")
diagonal, instead = filled(0, "diagonal"), filled(0, "instead")


def is_one_size(first: Dim, second: Dim) -> bool:
    """Whether two dimensions surely are one number."""
    return first == second and first != AnyDim()


def long_axis(ty: TensorType) -> int | None:
    """The only axis of more than one element; None if there are several, or none."""
    axes = [axis for axis, dim in enumerate(ty.shape) if dim != 1]
    return axes[0] if len(axes) == 1 else None


def counting(stop: DFPattern) -> DFPattern:
    """0, 1, 2 and so on, below ``stop``."""
    return is_op("arange")(filled(0, "start"), stop, filled(1, "step"))


def spread(data: DFPattern) -> DFPattern:
    """What is repeated as often as sizes say."""
    return is_op("dyn.broadcast_to")(data, sizes)


along, down = view(counting(length)), view(counting(height))

# ---- gathers by ranges

every = take(x, along)
flat = view(x)


def takes_every(attrs: Attrs, places: TensorType, data: TensorType) -> bool:
    """Guard: a range has a number for each place of an axis that is gathered from."""
    if attrs.axis is None or attrs.batch_dims:
        return False
    axis = long_axis(places)
    return axis is not None and is_one_size(places.shape[axis], data.shape[axis_index(attrs.axis, rank_of(data))])


def is_outer(rows: TensorType, columns: TensorType) -> bool:
    """Whether two indices that broadcast against each other vary along one axis each, the first along the earlier."""
    row, column = long_axis(rows), long_axis(columns)
    return row is not None and column is not None and row - rank_of(rows) < column - rank_of(columns)


def takes_pairs(
    attrs: Attrs, turned: Attrs, joined: Attrs, pairs: TensorType, data: TensorType, *indices: TensorType
) -> bool:
    """Guard: pairs of a row and a column, along the last axis, name elements of a matrix."""
    rank = rank_of(pairs)
    plain = not attrs.batch_dims and joined.axis in (-1, rank - 1) and rank_of(data) == 2
    return plain and permutation(turned, rank) == (rank - 1, *range(rank - 1)) and is_outer(*indices)


def takes_from_rows(attrs: Attrs, data: TensorType, row: TensorType, rows: TensorType, columns: TensorType) -> bool:
    """Guard: elements of all rows of a matrix, which is laid out in a row, are taken.

    That no more of each row are taken than it has follows where the sizes are not known, for the last row ends there.
    """
    if attrs.batch_dims or attrs.axis is None or long_axis(row) != axis_index(attrs.axis, rank_of(row)):
        return False
    if attrs.mode != "fast" or rank_of(data) != 2 or not is_outer(rows, columns):
        return False
    height, width = (ty.shape[long_axis(ty) or 0] for ty in (rows, columns))
    if isinstance(width, int) and (not isinstance(data.shape[1], int) or width > data.shape[1]):
        return False
    return is_one_size(height, data.shape[0])


def is_width(axis: Array, ty: TensorType, data: TensorType) -> bool:
    """Guard: the size of an axis of one tensor is how long the rows of a matrix are."""
    at = axis.size == 1 and int(axis.item())
    return rank_of(data) == 2 and -rank_of(ty) <= at < rank_of(ty) and is_one_size(ty.shape[at], data.shape[1])


def has_width(columns: TensorType, data: TensorType) -> bool:
    """Guard: there are as many columns as rows of a matrix are long."""
    axis = long_axis(columns)
    return axis is not None and rank_of(data) == 2 and is_one_size(columns.shape[axis], data.shape[1])


def ones_around(ty: TensorType) -> Shape:
    """How many axes of one element there are before, between and behind the two others."""
    row, column = (axis for axis, dim in enumerate(ty.shape) if dim != 1)
    return row, column - row - 1, rank_of(ty) - column - 1


def spaced(data: DFPattern, root: DFPattern) -> DFPattern:
    """A matrix with the axes of one element that ``root`` has; no reshape can say so where both sizes are not known."""
    for axis in (-3, -2, -1):  # first ones before the rows: views of the rest may be reshapes
        count = compute(lambda ty, axis=axis: ones_around(ty)[axis], type_of(root))
        data = expand_dims(data, axis=axis, num_newaxis=count)
    return data


def in_a_row(index: DFPattern) -> DFPattern:
    """An index without its axes of one element."""
    return reshape(index, newshape=(-1,))


def matrix_gathers() -> Iterator[Rewrite]:
    """x[rows, columns] = x[rows][:, columns], whether elements are named by pairs or by their places in one row."""
    widths = (
        ("", length, when(has_width, type_of(along), type_of(x))),
        ("-of-size", take(shape_of(y), c), when(is_width, value_of(c), type_of(y), type_of(x))),
    )
    for name, width, is_known in widths:
        for form, added in (("", view(width)), ("-by-number", width)):
            whole = take(flat, along + down * added)
            yield rewrite(
                f"gather-of-every-row{name}{form}",
                whole,
                spaced(take(x, in_a_row(along), axis=1, mode="fast"), whole),
                is_known,
                when(takes_from_rows, attrs_of(whole), *map(type_of, (x, flat, down, along))),
            )
    joined = is_op("concatenate")(is_tuple([expand_dims(spread(index)) for index in (y, z)]))
    turned = transpose(joined)
    whole = gather_nd(x, turned)
    yield rewrite(
        "gather-of-pairs",
        whole,
        spaced(take(take(x, in_a_row(y), axis=0, mode="fast"), in_a_row(z), axis=1, mode="fast"), whole),
        when(
            takes_pairs,
            attrs_of(whole),
            attrs_of(turned),
            attrs_of(joined),
            type_of(joined),
            *map(type_of, (x, y, z)),
        ),
    )


# ---- masks that hide the keys behind a query

marked = is_op("trilu")(spread(c), k_th)
unmarked = equal(marked, zero)
truths = compute(lambda value: np.ones_like(value, bool), value_of(c))


def has_no_zero(value: Array) -> bool:
    """Guard: no element is 0."""
    return bool(np.all(value != 0))


ordered = less_equal(along, down)
lower = trilu(spread(all_true), diagonal, upper=False)


def compares_places(columns: TensorType, rows: TensorType) -> bool:
    """Guard: places of keys along the last axis are compared with those of queries along the one before it."""
    return long_axis(rows) == rank_of(rows) - 2 and long_axis(columns) == rank_of(columns) - 1


def is_of_each(ty: TensorType, queries: Dim, keys: Dim) -> bool:
    """Guard: a mask has a row for each query and a column for each key, and no other axes."""
    if rank_of(ty) < 2 or any(dim != 1 for dim in ty.shape[:-2]):
        return False
    return is_one_size(ty.shape[-2], queries) and is_one_size(ty.shape[-1], keys)


def is_of_each_score(ty: TensorType, score: TensorType) -> bool:
    """Guard: the same of a mask of scores."""
    return is_of_each(ty, *score.shape[-2:])


def causal() -> Iterator[Rewrite]:
    """softmax(c q k' + (0 for no key behind the query, else minus infinity)) v = attention(q, k, v), causal"""
    for form, mask in (("ordered", ordered), ("lower", lower)):
        hidden = where(mask, zero, below_all)
        places = [when(compares_places, type_of(along), type_of(down))] if mask is ordered else []
        left = nn.softmax(x + hidden)  # each query sees the first key
        yield rewrite(
            f"nan-of-{form}-keys",
            where(is_op("isnan")(left), instead, left),
            left,
            real(x),
            when(is_last, attrs_of(left), type_of(left)),
            when(is_of_each_score, type_of(hidden), type_of(x)),
            *places,
            soundness=Soundness.ROUNDING,
        )
        for prefix, product, said, extra in FORMS:
            soft = nn.softmax(product + hidden)
            whole = nn.matmul(soft, v)
            yield rewrite(
                f"{prefix}{form}-causal-attention",
                whole,
                nn.attention(q, k, v, causal=True, **said),
                when(is_by_key, attrs_of(scores), attrs_of(soft), attrs_of(whole)),
                when(are_heads, *query_key_value),
                when(is_of_each_score, type_of(hidden), type_of(scores)),
                *places,
                *extra,
                real(product),
                soundness=Soundness.ROUNDING,
            )


# ---- what is true of all numbers of a range

range_from = view(is_op("arange")(c, length, d))
natural = less_equal(least, range_from)


def counts_from(first: Array, by: Array, lowest: Array, ty: TensorType) -> bool:
    """Guard: a range counts up from a number that is no less than another, which adds no axes."""
    return bool(lowest.size == 1 and lowest.ndim <= rank_of(ty) and by > 0 and first >= lowest.reshape(()))


viewed_number = view(spread(c))
function_of_number = unary(viewed_number)


TRUE_EVERYWHERE = {"all-true": spread(all_true), "view-of-all-true": view(spread(all_true))}


def hiding_nothing() -> Iterator[Rewrite]:
    """Choices by what is true everywhere, as often as sizes say, or by a view of that."""
    for name, truth in TRUE_EVERYWHERE.items():
        yield rewrite(f"where-{name}", where(truth, x, y), x)
        # beside another condition it only says how large the choice is
        for order, both in (("and", logical_and(truth, condition)), ("behind", logical_and(condition, truth))):
            chosen = x + where(both, y, z)
            yield rewrite(
                f"add-where-{name}-{order}",
                chosen,
                x + where(condition, y, z),
                when(broadcasts, *map(type_of, (chosen, x, condition, y, z))),
            )
        for kind, nothing in (("zero", zero), ("zeros", is_op("dyn.broadcast_to")(zero, height))):
            yield rewrite(
                f"add-{kind}-where-{name}",
                x + where(truth, nothing, y),
                x,
                soundness=Soundness.ROUNDING,
                contracts=True,  # or else sums of any number of such choices were made
            )


ranges = RuleSet(
    "ranges",
    [
        rewrite(
            "range-is-at-least",
            natural,
            is_op("dyn.broadcast_to")(scalar(True, natural), shape_of(range_from, dtype="int64")),
            when(counts_from, value_of(c), value_of(d), value_of(least), type_of(range_from)),
        ),
        *hiding_nothing(),
        # f(view(expand(c))) = view(expand(f(c)))
        rewrite(
            "function-of-viewed-number", function_of_number, like(viewed_number, spread(like(function_of_number, c)))
        ),
        # a triangle of numbers, compared with the zeros around it, is one of truth values
        rewrite(
            "triangle-of-numbers",
            unmarked,
            logical_not(like(marked, spread(truths), k_th)),
            when(has_no_zero, value_of(c)),
        ),
        # x[0, 1, 2 ..] = x
        rewrite(
            "gather-of-range",
            every,
            reshaped(x, every),
            when(takes_every, attrs_of(every), type_of(along), type_of(x)),
        ),
        *matrix_gathers(),
    ],
)
causal_attention = RuleSet("causal-attention", causal())

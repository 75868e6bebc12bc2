"""Gathers: operators behind a gather from a constant table are applied to the table, and gathers that are no gathers.

Only constant tables are changed: of other tables more rows might be computed than are gathered.
"""

from __future__ import annotations

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Refusal, RuleSet, Soundness
from eqsat.nd import bits
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.op import broadcast_to, gather_nd, squeeze, take, transpose
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import permutation, without
from eqsat.rules.one_hot import hot_rows
from eqsat.rules.operators import binary, unary, view
from eqsat.rules.shape import expanded, reshaped
from eqsat.rules.types import floats, is_float, rank_of
from eqsat.rules.values import number_of, repeated_number

x, i = variables("x i")
table, squares, weight, c, b, gamma, beta, places = constants("table squares weight c b gamma beta places")
ROUNDING = Soundness.ROUNDING

# ---- what follows a gather from a constant table

taken = take(table, i)
applied = unary(taken)
met, met_first = binary(taken, c), binary(c, taken)
biased = nn.bias_add(taken, b)
normalized = nn.layer_norm(taken, gamma, beta)
multiplied = nn.dense(taken, weight)


def takes_rows(attrs: Attrs, data: TensorType) -> bool:
    """Whether a gather takes whole entries of the first axis."""
    return rank_of(data) > 1 and attrs.axis in (0, -rank_of(data)) and not attrs.batch_dims


def meets_rows_alike(attrs: Attrs, data: TensorType, constant: TensorType) -> bool:
    """Guard: a constant is combined with each row in the same way."""
    if not rank_of(constant):
        return True
    if not takes_rows(attrs, data):
        return False
    row = data.concrete_shape[1:]
    try:
        return bool(np.broadcast_shapes(constant.concrete_shape, row) == row)
    except ValueError:
        return False


def is_along_rows(attrs: Attrs, taken: Attrs, data: TensorType) -> bool:
    """Guard: an operator works along the last axis of gathered rows."""
    return takes_rows(taken, data) and bool(attrs.axis == -1)


def narrows(attrs: Attrs, data: TensorType, matrix: TensorType) -> bool:
    """Guard: rows, multiplied by a matrix, are no longer than before."""
    return takes_rows(attrs, data) and bool(matrix.shape[0] <= matrix.shape[1])  # type: ignore[operator]


by_squares = take(squares, i)


def same_rows(first: Attrs, second: Attrs, one: TensorType, other: TensorType) -> bool:
    """Guard: two gathers take the same places of tables of floating-point numbers of one type."""
    return first == second and one == other and is_float(one)


def are_squares(value: Array, squared: Array) -> bool:
    """Guard: one table has the squares of the other one."""
    few = value[:1], squared[:1]  # which mostly differ
    return all(np.array_equal(bits(one * one), bits(other)) for one, other in (few, (value, squared)))


along_rows = when(meets_rows_alike, attrs_of(taken), type_of(table), type_of(c))

tables = RuleSet(
    "tables",
    [
        # (x x)[i] = x[i] x[i]
        rewrite(
            "take-of-squares",
            (taken, by_squares),
            (taken, taken * taken),
            when(same_rows, attrs_of(taken), attrs_of(by_squares), type_of(table), type_of(squares)),
            when(are_squares, value_of(table), value_of(squares)),
        ),
        # f(table[i]) = f(table)[i]
        rewrite("take-of-unary", applied, like(taken, like(applied, table), i)),
        rewrite("take-of-constant", met, like(taken, like(met, table, c), i), along_rows),
        rewrite("take-of-ordered-constant", met_first, like(taken, like(met_first, c, table), i), along_rows),
        rewrite(
            "take-of-bias",
            biased,
            like(taken, like(biased, table, b), i),
            when(is_along_rows, attrs_of(biased), attrs_of(taken), type_of(table)),
        ),
        rewrite(
            "take-of-layer-norm",
            normalized,
            like(taken, like(normalized, table, gamma, beta), i),
            when(is_along_rows, attrs_of(normalized), attrs_of(taken), type_of(table)),
            soundness=ROUNDING,
        ),
        rewrite(
            "take-of-dense",
            multiplied,
            like(taken, like(multiplied, table, weight), i),
            when(narrows, attrs_of(taken), type_of(table), type_of(weight)),
            floats(table, weight),
            soundness=ROUNDING,
        ),
    ],
)

# ---- gathers that take all there is, in order

collected = gather_nd(x, places)


def takes_in_order(attrs: Attrs, indices: Array, ty: TensorType) -> bool | Refusal:
    """Guard: the indices name each entry of the leading axes once, in order."""
    if attrs.batch_dims or not is_static(ty):
        return refuse("it has batches, or a dimension is not known")
    leading = ty.concrete_shape[: len(indices)]
    rows = indices.reshape(len(indices), -1)
    if rows.shape[1] != np.prod(leading) or np.any(rows < 0) or np.any(leading <= rows.T):
        return False
    return np.array_equal(np.ravel_multi_index(list(rows), leading), np.arange(rows.shape[1]))


gathered = take(x, places)


def takes_every(attrs: Attrs, indices: Array, ty: TensorType) -> bool:
    """Guard: the indices name every place of an axis once, in order."""
    if attrs.axis is None or attrs.batch_dims:
        return False
    return indices.size == ty.shape[attrs.axis] and np.array_equal(indices.ravel(), np.arange(indices.size))


turned = transpose(x)
picked = take(turned, i)


def picked_axis(pick: Attrs, turn: Attrs, ty: TensorType) -> int:
    """The axis of a tensor from which a gather takes one place of the transposed tensor."""
    return int(permutation(turn, rank_of(ty))[pick.axis % rank_of(ty)])


def left_order(pick: Attrs, turn: Attrs, ty: TensorType) -> tuple[int, ...]:
    """The transpose of what is left when one place is taken before the transpose."""
    return without(permutation(turn, rank_of(ty)), [pick.axis % rank_of(ty)])


def has_one_axis(attrs: Attrs, indices: TensorType) -> bool:
    """Guard: each tuple of indices is a single index."""
    return not attrs.batch_dims and indices.shape[0] == 1


by_tuples = gather_nd(x, i)

orders = RuleSet(
    "gathers-in-order",
    [
        # one place of a transposed axis
        rewrite(
            "gather-of-transpose",
            picked,
            transpose(
                like(picked, x, i, axis=compute(picked_axis, attrs_of(picked), attrs_of(turned), type_of(x))),
                axes=compute(left_order, attrs_of(picked), attrs_of(turned), type_of(x)),
            ),
            when(
                lambda attrs, ty: attrs.axis is not None and not attrs.batch_dims and not ty.shape,
                attrs_of(picked),
                type_of(i),
            ),
        ),
        rewrite(
            "gather-nd-of-rows",
            by_tuples,
            take(x, squeeze(i, axis=[0]), axis=0, mode="fast"),
            when(has_one_axis, attrs_of(by_tuples), type_of(i)),
        ),
        rewrite(
            "gather-nd-in-order",
            collected,
            reshaped(x, collected),
            when(takes_in_order, attrs_of(collected), value_of(places), type_of(x)),
        ),
        rewrite(
            "gather-every-place",
            gathered,
            reshaped(x, gathered),
            when(takes_every, attrs_of(gathered), value_of(places), type_of(x)),
        ),
    ],
)

# ---- one number everywhere, which may be too large to be computed before run time

alike = repeated_number()
filled = broadcast_to(c)

numbers = RuleSet(
    "numbers",
    [
        *[
            rewrite(f"{name}-of-filled-table", root, expanded(number_of(alike), root))
            for name, root in (("take", take(alike, i)), ("gather-nd", gather_nd(alike, i)))
        ],
        *[
            rewrite(f"{name}-of-expanded-number", root, expanded(c, root), when(lambda ty: not ty.shape, type_of(c)))
            for name, root in (("view", view(filled)), ("transpose", transpose(filled)))
        ],
    ],
)

gathering = RuleSet("gathering", [hot_rows, tables, orders, numbers])

"""Rows gathered from a constant table: a product with one-hot rows is a gather, and what follows one changes the table.

A row of ``one_hot`` whose index is out of range is zero, a gather has no such row: the rules ask for indices that are
in range by their type or by a clip, or (opt-in set ``in_range``) for the user's word. Only constant tables are changed:
of other tables more rows might be computed than are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_constant
from eqsat.relay.op import cast, clip, equal, gather_nd, one_hot, reshape, squeeze, take, transpose
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import permutation
from eqsat.rules.operators import commutative, ordered, unary
from eqsat.rules.shape import codes, reshaped
from eqsat.rules.types import Shape, floats, is_float, is_integer, rank_of
from eqsat.rules.values import is_finite, one, scalar, zero

x, i = variables("x i")
table, weight, c, b, gamma, beta, places = constants("table weight c b gamma beta places")
ROUNDING = Soundness.ROUNDING

# ---- one-hot rows


@dataclass(frozen=True)
class CountingUp:
    """Whether a constant is a row of the numbers 0, 1, 2 and so on."""

    def __call__(self, value: Array) -> bool:
        row = value.reshape(-1)
        is_row = value.dtype.kind in "iu" and value.size and value.shape[-1:] == row.shape
        return bool(is_row and np.array_equal(row, np.arange(len(row))))

    def example(self, shape: tuple[int, ...], dtype: str) -> Array:
        return np.arange(5).astype(dtype)


steps = is_constant(label="steps", predicate=CountingUp())
matches = equal(x, steps)
rows = cast(matches)


def without_last(ty: TensorType, row: TensorType) -> Shape | Refusal:
    """The shape of indices that are compared with a row along an axis of their own."""
    if not ty.shape or ty.shape[-1] != 1 or rank_of(row) > rank_of(ty) or 0 in ty.shape:
        return refuse("the indices have no axis of one for the row")
    return codes(TensorType(ty.shape[:-1], ty.dtype))


# ---- products with one-hot rows


def is_table(attrs: Attrs, indices: TensorType, product: Attrs, matrix: TensorType, result: TensorType) -> bool:
    """Guard: the places of one-hot rows, which come last, are the rows of the table (for ``dense`` its columns)."""
    by_columns = "transpose_b" not in product
    plain = (
        rank_of(matrix) == 2 and attrs.axis in (-1, rank_of(indices)) and attrs.dtype == matrix.dtype == result.dtype
    )
    turned = product.get("transpose_a", False) or product.get("transpose_b", False)
    return bool(plain and not turned and matrix.shape[1 if by_columns else 0] == attrs.depth)


def holds_type(attrs: Attrs, ty: TensorType, *wider: TensorType) -> bool:
    """Guard: each value of an unsigned type, and of what it is cast to, is a place of a one-hot row."""
    if ty.dtype not in ("uint8", "uint16") or not all(np.can_cast(ty.dtype, to.dtype) for to in wider):
        return False
    return bool(is_integer((ty, *wider)[-1]) and attrs.depth > np.iinfo(ty.dtype).max)


def holds_clip(attrs: Attrs, bounds: Attrs, ty: TensorType) -> bool:
    """Guard: each number that a clip leaves is a place of a one-hot row."""
    return bool(is_integer(ty) and 0 <= bounds.a_min <= bounds.a_max <= attrs.depth - 1)


def is_index(ty: TensorType) -> bool:
    return is_integer(ty)


def one_hot_products(name: str, index: DFPattern, in_range: Callable[[DFPattern], Guard]) -> list[Rewrite]:
    """one_hot(i) @ table = table[i]

    Args:
        name: why the index is in range.
        index: its pattern.
        in_range: the guard that says so, given the pattern of the one-hot rows.
    """
    hot = one_hot(index, one, zero)

    def law(kind: str, call: DFPattern, rows: DFPattern) -> Rewrite:
        return rewrite(
            f"{name}-one-hot-{kind}",
            call,
            take(rows, index, axis=0, mode="fast"),
            when(is_table, attrs_of(hot), type_of(index), attrs_of(call), type_of(table), type_of(call)),
            floats(table),
            when(is_finite, value_of(table)),
            in_range(hot),
            soundness=ROUNDING,
        )

    return [
        law("dense", nn.dense(hot, table), transpose(table, axes=(1, 0))),
        law("matmul", nn.matmul(hot, table), table),
    ]


clipped, widened = clip(x), cast(x)

hot_rows = RuleSet(
    "hot-rows",
    [
        # numbers that equal 0, 1, 2 .. in turn
        rewrite(
            "one-hot",
            rows,
            one_hot(
                reshape(x, newshape=compute(without_last, type_of(x), type_of(steps))),
                scalar(1, rows),
                scalar(0, rows),
                depth=compute(lambda ty: ty.shape[-1], type_of(steps)),
                axis=-1,
                dtype=compute(lambda ty: ty.dtype, type_of(rows)),
            ),
            when(lambda index, result: is_integer(index) and is_float(result), type_of(x), type_of(rows)),
        ),
        *one_hot_products(
            "bytes",
            i,
            lambda hot: when(holds_type, attrs_of(hot), type_of(i)),
        ),
        *one_hot_products(
            "widened",
            widened,
            lambda hot: when(holds_type, attrs_of(hot), type_of(x), type_of(widened)),
        ),
        *one_hot_products(
            "clipped",
            clipped,
            lambda hot: when(holds_clip, attrs_of(hot), attrs_of(clipped), type_of(x)),
        ),
    ],
)

in_range = RuleSet(
    "in_range",
    one_hot_products(
        "in-range",
        i,
        lambda hot: when(is_index, type_of(i)),
    ),
)
"""Opt-in: the user says that all indices of one-hot rows are in range."""

# ---- what follows a gather from a constant table

taken = take(table, i)
applied = unary(taken)
met, met_first = (commutative | ordered)(taken, c), ordered(c, taken)
biased = nn.bias_add(taken, b)
normalized = nn.layer_norm(taken, gamma, beta)
multiplied = nn.dense(taken, weight)


def takes_rows(attrs: Attrs, data: TensorType) -> bool:
    """Whether whole entries along the first axis are gathered."""
    return rank_of(data) > 1 and attrs.axis in (0, -rank_of(data)) and not attrs.batch_dims


def meets_rows_alike(attrs: Attrs, data: TensorType, constant: TensorType) -> bool:
    """Guard: a constant meets each row in the same way."""
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
    """Guard: rows times a matrix are no longer than they were."""
    return takes_rows(attrs, data) and bool(matrix.shape[0] <= matrix.shape[1])  # type: ignore[operator]


along_rows = when(meets_rows_alike, attrs_of(taken), type_of(table), type_of(c))

tables = RuleSet(
    "tables",
    [
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
    """Where the axis that one place of a transposed tensor is taken from lies in the tensor itself."""
    return int(permutation(turn, rank_of(ty))[pick.axis % rank_of(ty)])


def left_order(pick: Attrs, turn: Attrs, ty: TensorType) -> tuple[int, ...]:
    """The order of the axes that are left."""
    order = permutation(turn, rank_of(ty))
    gone = order[pick.axis % rank_of(ty)]
    return tuple(axis - (axis > gone) for axis in order if axis != gone)


def has_one_axis(attrs: Attrs, indices: TensorType) -> bool:
    """Guard: the tuples of indices are of one."""
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

gathering = RuleSet("gathering", [hot_rows, tables, orders])

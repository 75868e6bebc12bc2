"""Products with one-hot rows are gathers of rows of the other operand.

A row of ``one_hot`` or ``signed_one_hot`` whose index is out of range is zero, and a gather has no such row. So the
rules ask for indices that are in range by their type or by a clip, or (the opt-in set ``in_range``) for the user's
word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_constant
from eqsat.relay.op import cast, clip, equal, one_hot, reshape, signed_one_hot, take, transpose
from eqsat.relay.ty import TensorType
from eqsat.rules.shape import codes
from eqsat.rules.types import Shape, dtype_of, floats, is_float, is_integer, rank_of
from eqsat.rules.values import is_finite, one, scalar, zero

x, i = variables("x i")
(table,) = constants("table")
ROUNDING = Soundness.ROUNDING


@dataclass(frozen=True)
class CountingUp:
    """Whether a constant is a row of the numbers 0, 1, 2 and so on; the predicate of a pattern."""

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
    """The shape of indices without their last axis, along which they are compared with a row."""
    if not ty.shape or ty.shape[-1] != 1 or rank_of(row) > rank_of(ty) or 0 in ty.shape:
        return refuse("the indices have no axis of one for the row")
    return codes(TensorType(ty.shape[:-1], ty.dtype))


def is_table(attrs: Attrs, indices: TensorType, product: Attrs, matrix: TensorType, result: TensorType) -> bool:
    """Guard: one-hot rows lie along the last axis, with a place for each row of the table (for ``dense``: column)."""
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


def one_hot_products(name: str, index: DFPattern, in_range: Callable[[DFPattern], Guard]) -> list[Rewrite]:
    """one_hot(i) @ table = table[i]

    Args:
        name: begins the names of the rules, and says why the index is in range.
        index: the pattern of the index.
        in_range: makes the guard that the index is in range from the pattern of the one-hot rows.
    """

    def law(kind: str, hot: DFPattern, call: DFPattern, rows: DFPattern) -> Rewrite:
        return rewrite(
            f"{name}-{kind}",
            call,
            take(rows, index, axis=0, mode="fast"),
            when(is_table, attrs_of(hot), type_of(index), attrs_of(call), type_of(table), type_of(call)),
            floats(table),
            when(is_finite, value_of(table)),
            in_range(hot),
            soundness=ROUNDING,
        )

    laws = []
    for kind, hot in ("one-hot", one_hot(index, one, zero)), ("signed-one-hot", signed_one_hot(index, one, zero)):
        laws += [
            law(f"{kind}-dense", hot, nn.dense(hot, table), transpose(table, axes=(1, 0))),
            law(f"{kind}-matmul", hot, nn.matmul(hot, table), table),
        ]
    return laws


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
                dtype=dtype_of(rows),
            ),
            when(lambda index, result: is_integer(index) and is_float(result), type_of(x), type_of(rows)),
        ),
        *one_hot_products("bytes", i, lambda hot: when(holds_type, attrs_of(hot), type_of(i))),
        *one_hot_products(
            "widened", widened, lambda hot: when(holds_type, attrs_of(hot), type_of(x), type_of(widened))
        ),
        *one_hot_products(
            "clipped", clipped, lambda hot: when(holds_clip, attrs_of(hot), attrs_of(clipped), type_of(x))
        ),
    ],
)

in_range = RuleSet("in_range", one_hot_products("in-range", i, lambda hot: when(is_integer, type_of(i))))
"""Opt-in: the user says that all indices of one-hot rows are in range."""

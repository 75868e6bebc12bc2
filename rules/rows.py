"""A product of batches of rows with one matrix is a product of all rows at once, which can take in a bias.

Runtimes add a bias within a matrix product only where both operands are matrices. The view that makes a matrix of the
batches costs next to nothing, and several products of one tensor share it. Sums and normalizations between two products
work on all rows at once, too, so that the view back meets the next view and both go.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.egraph.author import attrs_of, compute, constants, given, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import reshape
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, is_exact
from eqsat.rules.axes import is_last
from eqsat.rules.operators import one_of, unary
from eqsat.rules.shape import codes_between, reshaped
from eqsat.rules.types import Shape, has_zero, rank_of, same_sizes, same_type

x, y, gamma, beta, sizes = variables("x y gamma beta sizes")
w, b = constants("w b")


def as_rows(ty: TensorType) -> tuple[Dim, ...]:
    """The ``newshape`` that makes one matrix of all rows."""
    return (-1, ty.shape[-1])


def rows_of(data: DFPattern) -> DFPattern:
    """All rows of a batch of matrices, as one matrix."""
    return reshape(data, newshape=compute(as_rows, type_of(data)))


def batches_of_rows(whole: TensorType, data: TensorType, rows: TensorType) -> Shape | Refusal:
    """The codes of a view of data that has the axes of a result, but for the last one, which is that of rows."""
    return codes_between(data.shape, (*whole.shape[:-1], rows.shape[-1]))


def batches_of(whole: DFPattern) -> DFPattern:
    """``x``, whose rows are multiplied to what ``whole`` views, with the batches of that view."""
    return reshape(x, newshape=compute(batches_of_rows, type_of(whole), type_of(x), type_of(as_matrix)))


multiplied = one_of("nn.matmul", "nn.dense")
product = multiplied(x, w)
product_of_rows = like(product, rows_of(x), w)
biased = product + b
split = reshape(product)

as_matrix = reshape(x)
product_of_matrix = multiplied(as_matrix, w)
biased_matrix = product_of_matrix + b | nn.bias_add(product_of_matrix, b, axis=-1)
split_of_rows = reshape(product_of_matrix)


def splits(rows: DFPattern) -> dict[str, DFPattern]:
    """Views of rows as batches, whose sizes are known or computed."""
    return {"": reshape(rows), "sized-": is_op("dyn.reshape")(rows, sizes)}


back = reshape(x)
normalized = nn.layer_norm(back, gamma, beta)
normalized_first = nn.layer_norm(x, gamma, beta)
rows_normalized = reshape(normalized_first)


def multiplies_rows(attrs: Attrs, weight: TensorType) -> bool:
    """Guard: a matrix is multiplied, and is known."""
    return rank_of(weight) == 2 and not attrs.get("transpose_a", False) and not attrs.out_dtype


def is_by_matrix(attrs: Attrs, data: TensorType, weight: TensorType) -> bool:
    """Guard: rows of known length are multiplied by a matrix."""
    is_known = isinstance(data.shape[-1], int) and 0 not in (*data.shape, *weight.shape)
    return is_known and multiplies_rows(attrs, weight)


def is_of_rows(attrs: Attrs, data: TensorType, weight: TensorType) -> bool:
    """Guard: data of more than two axes are multiplied by a matrix, along the last axis."""
    return rank_of(data) > 2 and is_by_matrix(attrs, data, weight)


def are_rows(attrs: Attrs, data: TensorType, rows: TensorType, weight: TensorType) -> bool:
    """Guard: all rows of data of more than two axes, as one matrix, are multiplied by a matrix."""
    return is_of_rows(attrs, data, weight) and rank_of(rows) == 2 and same_sizes(data.shape[-1:], rows.shape[-1:])


def are_of_batches(
    attrs: Attrs, data: TensorType, rows: TensorType, weight: TensorType, product: TensorType, whole: TensorType
) -> bool:
    """Guard: a view of a product of rows has the batches of data that these are of, or axes of the data join in rows.

    Data in other batches would be multiplied in the batches of each view.
    """
    if not is_by_matrix(attrs, rows, weight) or not is_view_of_rows(product, whole):
        return False
    return data.shape[-1] != rows.shape[-1] or same_sizes(whole.shape[:-1], data.shape[:-1])


def is_view_of_rows(rows: TensorType, ty: TensorType) -> bool:
    """Guard: a view gives a matrix more axes, and keeps its rows."""
    return rank_of(rows) == 2 < rank_of(ty) and same_sizes(rows.shape[-1:], ty.shape[-1:]) and 0 not in ty.shape


# ---- rows whose number is open: the view back would need sizes that are computed, so that it is better to have none

flat, flat_too = reshape(x), reshape(y)


def is_open(ty: TensorType, matrix: TensorType) -> bool:
    """Guard: a view makes one matrix of all rows of a tensor, of which nobody knows how many there are."""
    if rank_of(matrix) != 2 or rank_of(ty) < 3 or not is_exact(ty) or not isinstance(matrix.shape[0], AnyDim):
        return False
    return isinstance(ty.shape[-1], int) and ty.shape[-1] == matrix.shape[-1]


def stays_open(
    name: str, whole: DFPattern, result: DFPattern, *guards: Guard, soundness: Soundness = Soundness.EXACT
) -> Rewrite:
    """f(rows(x)) = rows(f(x))"""
    return rewrite(
        f"{name}-of-open-rows",
        whole,
        reshape(result, newshape=compute(as_rows, type_of(whole))),
        when(is_open, type_of(x), type_of(flat)),
        *guards,
        soundness=soundness,
    )


def open_rows() -> Iterator[Rewrite]:
    """Operators on rows, which leave them rows."""
    for name, product in (("matmul", nn.matmul(flat, w)), ("dense", nn.dense(flat, w))):
        is_plain = when(multiplies_rows, attrs_of(product), type_of(w))
        yield stays_open(name, product, like(product, x, w), is_plain, soundness=Soundness.ROUNDING)
    normalized_rows, shifted = nn.layer_norm(flat, gamma, beta), nn.bias_add(flat, b)
    yield stays_open(
        "layer-norm",
        normalized_rows,
        like(normalized_rows, x, gamma, beta, axis=-1),
        when(is_last, attrs_of(normalized_rows), type_of(flat)),
    )
    yield stays_open("bias", shifted, like(shifted, x, b, axis=-1), when(is_last, attrs_of(shifted), type_of(flat)))
    applied = unary(flat)
    yield stays_open("unary", applied, like(applied, x))
    for name, met, shifted_rows in (("sum", flat + flat_too, flat + b), ("multiple", flat * flat_too, flat * b)):
        yield stays_open(
            name,
            met,
            like(met, x, y),
            when(same_type, type_of(x), type_of(y)),
            when(is_open, type_of(y), type_of(flat_too)),
        )
        yield stays_open(
            f"{name}-with-vector",
            shifted_rows,
            like(shifted_rows, x, b),
            when(lambda ty: rank_of(ty) < 2, type_of(b)),
            when(same_type, type_of(shifted_rows), type_of(flat)),
        )


def products_of_batches() -> Iterator[Rewrite]:
    """view(view'(x) w) = view"(x) w with the batches of the result, with a bias or without"""
    types = type_of(x), type_of(as_matrix), type_of(w), type_of(product_of_matrix)
    is_vector = when(lambda ty: rank_of(ty) == 1, type_of(b))
    for name, product, guards in (("product", product_of_matrix, ()), ("biased-product", biased_matrix, (is_vector,))):
        for form, whole in splits(product).items():
            of_batches = like(product_of_matrix, batches_of(whole), w)
            yield rewrite(
                f"{form}{name}-of-batches",
                whole,
                of_batches + b if guards else of_batches,
                when(are_of_batches, attrs_of(product_of_matrix), *types, type_of(whole)),
                given(product_of_matrix),
                *guards,
                soundness=Soundness.ROUNDING,
            )


rows = RuleSet(
    "rows",
    [
        *open_rows(),
        rewrite(
            "product-of-rows",
            biased,
            reshaped(product_of_rows + b, biased, is_matched=False),
            when(is_of_rows, attrs_of(product), type_of(x), type_of(w)),
            when(lambda ty: rank_of(ty) == 1, type_of(b)),
            soundness=Soundness.ROUNDING,
        ),
        # split(x w) = split(rows(x) w)
        rewrite(
            "split-product-of-rows",
            split,
            reshaped(product_of_rows, split, is_matched=False),
            when(is_of_rows, attrs_of(product), type_of(x), type_of(w)),
            when(lambda ty: not has_zero(ty), type_of(split)),
            soundness=Soundness.ROUNDING,
        ),
        # split(rows(x) w) = split(x w)
        rewrite(
            "split-product-of-batches",
            split_of_rows,
            reshaped(like(product_of_matrix, x, w), split_of_rows, is_matched=False),
            when(are_rows, attrs_of(product_of_matrix), type_of(x), type_of(as_matrix), type_of(w)),
            when(lambda ty: not has_zero(ty), type_of(split_of_rows)),
            given(product_of_matrix),
            soundness=Soundness.ROUNDING,
        ),
        *products_of_batches(),
        # view(rows) + y = view(rows + rows(y))
        *[
            rewrite(
                f"{name}-of-rows",
                whole,
                like(back, like(whole, x, rows_of(y))),
                when(same_type, type_of(back), type_of(y)),
                when(is_view_of_rows, type_of(x), type_of(back)),
            )
            for name, whole in (("sum", back + y), ("multiple", back * y))
        ],
        # norm(view(x)) = view(norm(x)), of rows, or for rows where only these are given: others have the norm of x, too
        *[
            rewrite(
                f"layer-norm-of-{name}",
                normalized,
                like(back, like(normalized, x, gamma, beta, axis=-1)),
                when(is_last, attrs_of(normalized), type_of(back)),
                *guards,
            )
            for name, guards in (
                ("rows", (when(is_view_of_rows, type_of(x), type_of(back)),)),
                (
                    "given-rows",
                    (when(is_view_of_rows, type_of(back), type_of(x)), given(normalized)),
                ),
            )
        ],
        rewrite(
            "rows-of-layer-norm",
            rows_normalized,
            like(normalized_first, like(rows_normalized, x), gamma, beta, axis=-1),
            when(is_last, attrs_of(normalized_first), type_of(x)),
            when(is_view_of_rows, type_of(rows_normalized), type_of(x)),
        ),
    ],
)

"""Products of batches of rows with one matrix, as products of all rows at once: those take a bias in.

A matrix product with a bias is one kernel for two dimensions only. The view that makes two of more costs next to
nothing, several products of one tensor share it, and the view back may meet another one: sums and normalizations of
rows between two products are those of all rows at once, too.
"""

from __future__ import annotations

from math import prod
from typing import Any

from eqsat.egraph.author import attrs_of, compute, constants, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.expr import Constant, Expr, Var
from eqsat.relay.op import reshape
from eqsat.relay.ty import TensorType
from eqsat.rules.draw import FLOATS, Draw
from eqsat.rules.operators import is_last, rank_of
from eqsat.rules.shape import codes

x, y, gamma, beta = variables("x y gamma beta")
w, b = constants("w b")


def of_ints(ty: TensorType) -> list[int]:
    return [dim for dim in ty.shape if isinstance(dim, int)]


def as_rows(ty: TensorType) -> tuple[Any, ...]:
    return (-1, ty.shape[-1])


def rows_of(data: Any) -> Any:
    """All rows of a batch of them."""
    return reshape(data, newshape=compute(as_rows, type_of(data)))


product = nn.matmul(x, w)
product_of_rows = like(product, rows_of(x), w)
biased = product + b
split = reshape(product)

back = reshape(x)
normalized = nn.layer_norm(back, gamma, beta)
normalized_first = nn.layer_norm(x, gamma, beta)
rows_normalized = reshape(normalized_first)


def is_of_rows(attrs: Any, data: TensorType, weight: TensorType) -> bool:
    """Guard: more than two dimensions, whose last one meets a matrix."""
    plain = not attrs.transpose_a and rank_of(weight) == 2 and not attrs.out_dtype
    return plain and rank_of(data) > 2 and isinstance(data.shape[-1], int) and prod(of_ints(data)) > 0


def is_view_of_rows(rows: TensorType, ty: TensorType) -> bool:
    """Guard: a view makes more axes of those of rows, which stay as long."""
    return rank_of(rows) == 2 < rank_of(ty) and rows.shape[-1] == ty.shape[-1]


def _split(draw: Draw) -> Expr:
    ty = TensorType([draw.rng.randint(1, 4) for _ in range(3 if draw.chance(0.9) else 2)], "float32")
    weight = Constant(draw.array(TensorType((ty.shape[-1], 6), ty.dtype)))
    return reshape(nn.matmul(Var("x", ty), weight), newshape=(-1, 2, 3))  # type: ignore[no-any-return]


def _batch(draw: Draw) -> Expr:
    ty = TensorType([draw.rng.randint(1, 4) for _ in range(draw.rng.choice((2, 3, 3, 4)))], draw.rng.choice(FLOATS))
    units = draw.rng.randint(1, 5)
    weight, bias = (Constant(draw.array(TensorType(shape, ty.dtype))) for shape in ((ty.shape[-1], units), (units,)))
    return nn.matmul(Var("x", ty), weight) + bias  # type: ignore[no-any-return]


def _viewed(draw: Draw, dtype: str) -> tuple[Expr, TensorType]:
    """Rows in the shape of batches of them, mostly, and that shape."""
    batch, count, length = 2, draw.rng.randint(1, 3), draw.rng.randint(1, 4)
    rows = (batch * count, length) if draw.chance(0.8) else (batch * count * length,)
    ty = TensorType((batch, count, length), dtype)
    return reshape(Var("x", TensorType(rows, dtype)), newshape=ty.shape), ty


def _met(draw: Draw) -> Expr:
    batches, ty = _viewed(draw, draw.dtype)
    other = Var("y", ty if draw.chance(0.8) else TensorType((1, *ty.shape[1:]), ty.dtype))
    return batches + other if draw.chance(0.5) else other * batches  # type: ignore[no-any-return]


def _norm(draw: Draw, batches: Expr, ty: TensorType) -> Expr:
    axis = draw.rng.choice((-1, 2, 2, 1))
    scale, shift = (Var(name, TensorType((ty.shape[axis],), ty.dtype)) for name in ("gamma", "beta"))
    return nn.layer_norm(batches, scale, shift, axis=axis)  # type: ignore[no-any-return]


def _normalized(draw: Draw) -> Expr:
    return _norm(draw, *_viewed(draw, "float32"))


def _flattened(draw: Draw) -> Expr:
    ty = TensorType((2, draw.rng.randint(1, 3), 4), "float32")
    return reshape(_norm(draw, Var("x", ty), ty), newshape=(-1, draw.rng.choice((4, 4, 4, 2))))  # type: ignore[no-any-return]


rows = RuleSet(
    "rows",
    [
        rewrite(
            "product-of-rows",
            biased,
            reshape(product_of_rows + b, newshape=compute(codes, type_of(biased))),
            when(is_of_rows, attrs_of(product), type_of(x), type_of(w)),
            when(lambda ty: rank_of(ty) == 1, type_of(b)),
            soundness=Soundness.ROUNDING,
            examples=_batch,
        ),
        # split(x w) = split(rows(x) w)
        rewrite(
            "split-product-of-rows",
            split,
            reshape(product_of_rows, newshape=compute(codes, type_of(split))),
            when(is_of_rows, attrs_of(product), type_of(x), type_of(w)),
            soundness=Soundness.ROUNDING,
            examples=_split,
        ),
        # view(rows) + y = view(rows + rows(y))
        *[
            rewrite(
                f"{name}-of-rows",
                whole,
                like(back, like(whole, x, rows_of(y))),
                when(lambda first, second: first.shape == second.shape, type_of(back), type_of(y)),
                when(is_view_of_rows, type_of(x), type_of(back)),
                examples=_met,
            )
            for name, whole in (("sum", back + y), ("multiple", back * y))
        ],
        # norm(view(rows)) = view(norm(rows))
        rewrite(
            "layer-norm-of-rows",
            normalized,
            like(back, like(normalized, x, gamma, beta, axis=-1)),
            when(is_last, attrs_of(normalized), type_of(back)),
            when(is_view_of_rows, type_of(x), type_of(back)),
            examples=_normalized,
        ),
        rewrite(
            "rows-of-layer-norm",
            rows_normalized,
            like(normalized_first, like(rows_normalized, x), gamma, beta, axis=-1),
            when(is_last, attrs_of(normalized_first), type_of(x)),
            when(is_view_of_rows, type_of(rows_normalized), type_of(x)),
            examples=_flattened,
        ),
    ],
)

"""Products of batches of rows with one matrix, as products of all rows at once: those take a bias in.

A matrix product with a bias is one kernel for two dimensions only. The view that makes two of more costs next to
nothing, several products of one tensor share it, and the view back may meet another one.
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
from eqsat.rules.operators import rank_of
from eqsat.rules.shape import codes

(x,) = variables("x")
w, b = constants("w b")

product = nn.matmul(x, w)
biased = product + b


def is_of_rows(attrs: Any, data: TensorType, weight: TensorType, bias: TensorType) -> bool:
    """Guard: more than two dimensions, whose last one meets a matrix and a bias."""
    plain = not attrs.transpose_a and rank_of(weight) == 2 and rank_of(bias) == 1 and not attrs.out_dtype
    return plain and rank_of(data) > 2 and isinstance(data.shape[-1], int) and prod(of_ints(data)) > 0


def of_ints(ty: TensorType) -> list[int]:
    return [dim for dim in ty.shape if isinstance(dim, int)]


def as_rows(ty: TensorType) -> tuple[Any, ...]:
    return (-1, ty.shape[-1])


def _batch(draw: Draw) -> Expr:
    ty = TensorType([draw.rng.randint(1, 4) for _ in range(draw.rng.choice((2, 3, 3, 4)))], draw.rng.choice(FLOATS))
    units = draw.rng.randint(1, 5)
    weight, bias = (Constant(draw.array(TensorType(shape, ty.dtype))) for shape in ((ty.shape[-1], units), (units,)))
    return nn.matmul(Var("x", ty), weight) + bias  # type: ignore[no-any-return]


rows = RuleSet(
    "rows",
    [
        rewrite(
            "product-of-rows",
            biased,
            reshape(
                like(product, reshape(x, newshape=compute(as_rows, type_of(x))), w) + b,
                newshape=compute(codes, type_of(biased)),
            ),
            when(is_of_rows, attrs_of(product), type_of(x), type_of(w), type_of(b)),
            soundness=Soundness.ROUNDING,
            examples=_batch,
        ),
    ],
)

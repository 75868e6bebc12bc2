"""Two products in a row by constant weights are one product by the product of the weights."""

from __future__ import annotations

from math import prod

from eqsat.egraph.author import attrs_of, constants, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.types import floats_alike, rank_of
from eqsat.rules.values import attribute

(x,) = variables("x")
w, v = constants("w v")
FINITE = Soundness.FINITE


def matmul_shrinks(first: Attrs, second: Attrs, one: TensorType, two: TensorType) -> bool:
    """Guard: the product of two weights has no more elements than they have together."""
    shapes = [ty.concrete_shape for ty in (one, two) if is_static(ty) and rank_of(ty) == 2]
    if len(shapes) < 2 or second.transpose_a:
        return False
    return shapes[0][1 if first.transpose_b else 0] * shapes[1][0 if second.transpose_b else 1] <= sum(
        map(prod, shapes)
    )


def dense_shrinks(one: TensorType, two: TensorType) -> bool:
    """Guard: as :func:`matmul_shrinks`, for weights of dense layers."""
    shapes = [ty.concrete_shape for ty in (one, two) if is_static(ty)]
    return len(shapes) == 2 and shapes[0][1] * shapes[1][0] <= sum(map(prod, shapes))


first_matmul = nn.matmul(x, w)
second_matmul = nn.matmul(first_matmul, v)
first_dense = nn.dense(x, w)
second_dense = nn.dense(first_dense, v)

chains = RuleSet(
    "chains",
    [
        # (x w) v = x (w v)
        rewrite(
            "matmul-matmul",
            second_matmul,
            like(
                first_matmul,
                x,
                nn.matmul(
                    w,
                    v,
                    transpose_a=attribute(first_matmul, "transpose_b"),
                    transpose_b=attribute(second_matmul, "transpose_b"),
                ),
                transpose_b=False,
                units=None,
            ),
            when(matmul_shrinks, attrs_of(first_matmul), attrs_of(second_matmul), type_of(w), type_of(v)),
            floats_alike(x, w, v, first_matmul, second_matmul),
            when(lambda ty: rank_of(ty) > 1, type_of(x)),
            soundness=FINITE,
        ),
        rewrite(
            "dense-dense",
            second_dense,
            like(first_dense, x, nn.matmul(v, w), units=None),
            when(dense_shrinks, type_of(w), type_of(v)),
            floats_alike(x, w, v, first_dense, second_dense),
            soundness=FINITE,
        ),
    ],
)

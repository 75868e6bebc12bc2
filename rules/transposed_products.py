"""Transposes of operands and results of matrix products are flags of the product."""

from __future__ import annotations

from eqsat.egraph.author import attrs_of, compute, like, rewrite, type_of, variables, when
from eqsat.egraph.rule import Compute, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import transpose
from eqsat.relay.ty import Type
from eqsat.rules.axes import permutation
from eqsat.rules.types import dtype_of, rank_of
from eqsat.rules.values import attribute

x, y, z = variables("x y z")
ROUNDING = Soundness.ROUNDING
turned = transpose(x)


def swaps_last(attrs: Attrs, ty: Type) -> bool:
    """Guard: a transpose exchanges the last two axes and nothing else."""
    rank = rank_of(ty)
    return rank > 1 and permutation(attrs, rank) == (*range(rank - 2), rank - 1, rank - 2)


matmul_left, matmul_right = nn.matmul(turned, z), nn.matmul(z, turned)
batch_left, batch_right = nn.batch_matmul(turned, z), nn.batch_matmul(z, turned)
dense_right = nn.dense(z, turned)
product = nn.matmul(x, y)
whole = transpose(product)


def flipped(call: DFPattern, flag: str) -> Compute:
    return compute(lambda attrs: not attrs[flag], attrs_of(call))


products = RuleSet(
    "transposes-products",
    [
        *[
            rewrite(
                f"transpose-into-{name}",
                call,
                like(call, *operands, **{flag: flipped(call, flag)}),
                when(swaps_last, attrs_of(turned), type_of(x)),
                soundness=ROUNDING,
            )
            for name, call, operands, flag in (
                ("matmul-left", matmul_left, (x, z), "transpose_a"),
                ("matmul-right", matmul_right, (z, x), "transpose_b"),
                ("batch-matmul-left", batch_left, (x, z), "transpose_a"),
                ("batch-matmul-right", batch_right, (z, x), "transpose_b"),
            )
        ],
        rewrite(
            "transpose-into-dense",
            dense_right,
            nn.matmul(z, x, out_dtype=attribute(dense_right, "out_dtype")),
            when(swaps_last, attrs_of(turned), type_of(x)),
            soundness=ROUNDING,
        ),
        # T (x @ y) = T y @ T x
        rewrite(
            "transpose-of-matmul",
            whole,
            nn.matmul(
                y,
                x,
                transpose_a=compute(lambda attrs: not attrs.transpose_b, attrs_of(product)),
                transpose_b=compute(lambda attrs: not attrs.transpose_a, attrs_of(product)),
                out_dtype=dtype_of(product),
            ),
            when(swaps_last, attrs_of(whole), type_of(product)),
            when(lambda *types: all(rank_of(ty) == 2 for ty in types), type_of(x), type_of(y)),
            soundness=ROUNDING,
        ),
    ],
)

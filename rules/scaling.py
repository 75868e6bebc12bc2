"""The scale of attention travels to weights that absorb it.

``softmax(q k' s)`` needs no multiplication where ``q`` or ``k`` is a product with weights, which absorb ``s``
(:mod:`eqsat.rules.linear`); rules of :mod:`eqsat.rules.transposes` move it past reshapes and transposes on the way.
That ``(x y) s`` is ``(x s) y`` is used under a softmax only: along a chain of products, scales would be distributed in
exponentially many ways.

Scales and signs also go to the smaller of two factors, which is often the same in all layers, as in rotary embeddings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    base,
    compute,
    constants,
    distinct,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    weighted,
    when,
)
from eqsat.egraph.rule import Array, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple
from eqsat.relay.op import concatenate, negative, where
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.operators import view
from eqsat.rules.types import (
    floats,
    floats_of_one_dtype,
    is_number_for,
    is_scalar,
    is_wide,
    keeps_floats,
    rank_of,
    same_sizes,
)
from eqsat.rules.values import scales_safely

x, y, u, v, mask, condition = variables("x y u v mask condition")
s, c = constants("s c")
ROUNDING = Soundness.ROUNDING


def scores(name: str, product: Callable[[DFPattern, DFPattern], DFPattern]) -> list[Rewrite]:
    """softmax(x y s) = softmax((x s) y) = softmax(x (y s)), with or without a mask"""
    plain = product(x, y)
    forms: dict[str, Callable[[DFPattern], DFPattern]] = {
        "": lambda part: part,
        "masked-": lambda part: part + mask,
        "chosen-": lambda part: where(condition, part, mask),
    }
    found = []
    for form, inside in forms.items():
        whole = nn.softmax(inside(plain * s))
        for side, better in (("left", like(plain, x * s, y)), ("right", like(plain, x, y * s))):
            found.append(
                rewrite(
                    f"scale-of-{form}scores-into-{side}-of-{name}",
                    whole,
                    like(whole, inside(better)),
                    when(scales_safely, value_of(s)),
                    when(is_number_for, type_of(s), type_of(x), type_of(y), type_of(plain)),
                    when(is_wide, type_of(s)),
                    soundness=ROUNDING,
                )
            )
    return found


def is_of_matrices(factor: TensorType, data: TensorType, product: TensorType) -> bool:
    """Guard: a factor has one number for each matrix of a batch, of which ``data`` has as many as the product."""
    if not floats_of_one_dtype(factor, data, product) or is_scalar(factor) or not is_static(factor):
        return False
    if not 2 < rank_of(factor) <= rank_of(product) == rank_of(data) or factor.shape[-2:] != (1, 1):
        return False
    pairs = zip(factor.shape[-3::-1], data.shape[-3::-1], strict=False)
    return same_sizes(data.shape[:-2], product.shape[:-2]) and all(one in (1, other) for one, other in pairs)


def is_no_scalar(ty: Type) -> bool:
    return not is_scalar(ty)


def is_spread(factor: TensorType, over: TensorType) -> bool:
    """Guard: a factor that is no scalar is repeated along an axis of what it multiplies.

    Scalars, which meet outside of sums, would go in and out again and again.
    """
    if is_scalar(factor):
        return False
    dims = (*(1,) * (rank_of(over) - rank_of(factor)), *factor.shape)
    return len(dims) == rank_of(over) and any(dim == 1 != length for dim, length in zip(dims, over.shape, strict=True))


def signs(attrs: Attrs, first: TensorType, second: TensorType, factor: TensorType) -> Array | Refusal:
    """The signs that a factor of two joined parts takes over: -1 for the first part, and 1 for the second one."""
    rank = rank_of(first)
    axis = attrs.axis % rank
    place, lengths = axis - rank + rank_of(factor), (first.shape[axis], second.shape[axis])
    if not all(isinstance(length, int) for length in lengths):
        return refuse("a length is not known")
    if place < 0 or factor.shape[place] != sum(lengths):
        return refuse("the factor is one for both parts")
    each = np.repeat([-1.0, 1.0], lengths).astype(factor.dtype)
    return each.reshape(-1, *[1] * (rank - 1 - axis))


weighted_sum = x * u + y * v
weighted_scaled = weighted_sum * s
negated = concatenate(is_tuple([negative(x), y]))
negated_scaled = negated * u

plain = nn.matmul(x, y)
viewed = view(x)
row_scaled = y * c
scaled_rows = x * row_scaled

scaling = RuleSet(
    "scaling",
    [
        *[
            rule
            for name, product in (("matmul", nn.matmul), ("batch-matmul", nn.batch_matmul))
            for rule in scores(name, product)
        ],
        # (x y) s = (x s) y, where each matrix of a batch has a scale of its own, as heads of attention have in Swin v2
        rewrite(
            "scales-of-matrices-into-matmul",
            plain * s,
            like(plain, x * s, y),
            when(is_wide, type_of(s)),
            when(scales_safely, value_of(s)),
            when(is_of_matrices, type_of(s), type_of(x), type_of(plain)),
            soundness=ROUNDING,
        ),
        # (x u + y v) s = x (u s) + y (v s)
        rewrite(
            "scale-into-weighted-sum",
            weighted_scaled,
            x * (u * s) + y * (v * s),
            when(scales_safely, value_of(s)),
            when(is_number_for, type_of(s), type_of(x), type_of(y), type_of(u), type_of(v)),
            when(is_spread, type_of(u), type_of(x)),
            when(is_spread, type_of(v), type_of(y)),
            soundness=ROUNDING,
        ),
        # (-x, y) u = (x, y) (-1, 1) u
        rewrite(
            "sign-of-part-outward",
            negated_scaled,
            like(negated, is_tuple([x, y]))
            * (u * compute(signs, attrs_of(negated), type_of(x), type_of(y), type_of(u))),
            floats(u),
        ),
        # view(x) s = view(x s)
        rewrite(
            "scale-through-view",
            viewed * s,
            like(viewed, x * s),
            when(is_number_for, type_of(s), type_of(x), type_of(viewed)),
            weighted(x),
            base(viewed),
        ),
        # x (y c) = (x y) c: a row of constants, as the gamma of RMSNorm, gets where weights absorb it; x y may overflow
        rewrite(
            "row-outward",
            scaled_rows,
            (x * y) * c,
            keeps_floats(scaled_rows, x),
            when(is_no_scalar, type_of(c)),
            distinct(row_scaled, y),
            soundness=Soundness.FINITE,
        ),
    ],
)

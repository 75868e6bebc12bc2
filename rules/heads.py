"""RMSNorm and scaled dot-product attention of heads, recognised where they are written out.

A target that lacks these operators writes them out again at no greater cost.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from ml_dtypes import finfo

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Compute, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple_get_item
from eqsat.relay.op import mean, rsqrt, tanh, transpose
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType
from eqsat.rules.axes import is_last, permutation, reduced_axes
from eqsat.rules.normalization import between_casts, is_vector
from eqsat.rules.operators import view
from eqsat.rules.types import floats, is_float, is_scalar, is_wide, rank_of, same_sizes
from eqsat.rules.values import all_positive, epsilon_of, one, only_number, vector_along

x, gamma, q, k, v, mask = variables("x gamma q k v mask")
eps, c, cap, known_mask = constants("eps c cap known_mask")
ROUNDING = Soundness.ROUNDING

# ---- x / sqrt(mean(x^2) + eps)

squares = mean(x * x)
normalized = x * rsqrt(squares + eps)
unscaled = nn.rms_norm(x, one)
length = is_op("norm_l2")(x)
of_length_one = x / length


def over_last_axis(ty: TensorType, attrs: Attrs) -> bool:
    """Guard: a mean of ``x`` goes over the last axis and keeps it."""
    return bool(ty.shape and attrs.keepdims) and reduced_axes(attrs, ty) == (rank_of(ty) - 1,)


def unscaled_norm(epsilon: Compute | float) -> DFPattern:
    """x / sqrt(mean(x^2) + epsilon)"""
    return nn.rms_norm(x, vector_along(1, x, -1), axis=-1, epsilon=epsilon, scale=False)


def over_root_of_length(factor: Array, ty: TensorType) -> Array | Refusal:
    """A factor divided by the root of the length of the last axis: 1, if it is this root but for rounding."""
    size = ty.shape[-1]
    if not isinstance(size, int) or not size:
        return refuse("its length is not known")
    share = factor.astype(np.float64) / size**0.5
    return np.where(np.abs(share - 1) <= 4 * float(finfo(factor.dtype).eps), 1, share).astype(factor.dtype)


rms_norms = RuleSet(
    "rms-norms",
    [
        between_casts("rms-norm", nn.rms_norm, c),
        # squares of some hundreds overflow in float16, but not where the norm is one operator
        *[
            rewrite(
                name,
                normalized,
                unscaled_norm(compute(epsilon_of, value_of(eps))),
                when(over_last_axis, type_of(x), attrs_of(squares)),
                floats(x),
                when(has_width, type_of(x)),
                soundness=soundness,
            )
            for name, has_width, soundness in (
                ("rms-norm", is_wide, ROUNDING),
                ("rms-norm-of-short", lambda ty: not is_wide(ty), Soundness.FINITE),
            )
        ],
        # x / |x| c = x / sqrt(mean(x^2)) (c / sqrt n)
        rewrite(
            "scaled-length-one-is-rms-norm",
            of_length_one * c,
            unscaled_norm(0.0) * compute(over_root_of_length, value_of(c), type_of(x)),
            when(over_last_axis, type_of(x), attrs_of(length)),
            floats(x, c),
            when(is_wide, type_of(x)),
            soundness=ROUNDING,
        ),
        # the scale may come in earlier
        *[
            rewrite(f"{name}-rms-norm", whole, normalized * gamma, when(is_wide, type_of(x)), soundness=ROUNDING)
            for name, whole in (
                ("scale-before", (x * gamma) * rsqrt(squares + eps)),
                ("scale-of-inverse-of", x * (rsqrt(squares + eps) * gamma)),
            )
        ],
        rewrite(
            "rms-norm-scale",
            unscaled * gamma,
            like(unscaled, x, gamma, scale=True),
            when(is_vector, type_of(gamma), type_of(x)),
            when(is_last, attrs_of(unscaled), type_of(x)),
            soundness=ROUNDING,
        ),
    ],
)

# ---- softmax(c Q K' + mask) V

scores = nn.matmul(q, k)
query_key_value = (type_of(q), type_of(k), type_of(v))


def is_by_key(product: Attrs, softmax: Attrs, weighted: Attrs) -> bool:
    """Guard: scores are q k', probabilities are over the keys, and no other operand is transposed."""
    plain = not product.transpose_a and product.transpose_b and not weighted.transpose_a and not weighted.transpose_b
    return bool(plain and softmax.axis in (-1, 3) and not product.out_dtype and not weighted.out_dtype)


def are_heads(query: TensorType, key: TensorType, value: TensorType) -> bool:
    """Guard: queries, keys and values have four axes and equal numbers of batches, and as many heads or one for all.

    That there are as many keys as values follows from the products.
    """
    four = all(is_float(part) and rank_of(part) == 4 and part.dtype == query.dtype for part in (query, key, value))
    if not four or not same_sizes(query.shape[:1], key.shape[:1], value.shape[:1]):
        return False
    return same_sizes(key.shape[1:2], value.shape[1:2]) and key.shape[1] in (1, query.shape[1])


def leaves_some(mask: Array) -> bool:
    """Guard: no row of a mask hides every key by the least number of its dtype.

    The softmax over such a row gives all keys one weight, but ONNX Runtime's attention gives zeros.
    """
    with np.errstate(over="ignore"):
        lower = np.nextafter(mask, mask.dtype.type(-np.inf))  # NumPy does not know the least bfloat16
    return bool(np.all(np.any(np.isfinite(lower), axis=-1)))


def masks_scores(ty: TensorType, whole: TensorType) -> bool:
    """Guard: a mask that broadcasts against scores of type ``whole``, and says something of each key."""
    fits = 2 <= rank_of(ty) <= 4 and ty.shape[-1] == whole.shape[-1] and AnyDim() not in ty.shape
    return fits and all(dim in (1, other) for dim, other in zip(ty.shape[::-1], whole.shape[::-1], strict=False))


def of_heads(
    name: str, weighted_by: DFPattern, result: DFPattern, *guards: Guard, soundness: Soundness = ROUNDING
) -> Rewrite:
    """softmax(weighted_by) v = result"""
    probabilities = nn.softmax(weighted_by)
    whole = nn.matmul(probabilities, v)
    return rewrite(
        name,
        whole,
        result,
        when(is_by_key, attrs_of(scores), attrs_of(probabilities), attrs_of(whole)),
        when(are_heads, *query_key_value),
        *guards,
        soundness=soundness,
    )


scaled = scores * c
factor = compute(lambda value: float(value.reshape(-1)[0]), value_of(c))
is_factor = when(  # ONNX's attention takes the root of the scale, and ONNX Runtime demands that it is positive
    lambda value, ty: is_scalar(ty) and rank_of(ty) <= 4 and all_positive(value), value_of(c), type_of(c)
)

# soft caps: scores of no more than some number, by a tangent
limit = compute(only_number, value_of(cap))
scale_behind_cap = compute(
    lambda *values: float(np.prod([value.flat[0] for value in values])), value_of(c), value_of(cap)
)
is_cap = when(
    lambda value, ty: is_scalar(ty) and rank_of(ty) <= 4 and bool(np.all((value > 0) & np.isfinite(value))),
    value_of(cap),
    type_of(cap),
)

Form: TypeAlias = tuple[str, DFPattern, dict[str, Any], tuple[Guard, ...]]
"""How scores are written: what begins the name of a rule, the pattern, what attention says of it, and conditions."""

FORMS: tuple[Form, ...] = (
    ("", scores, {"scale": 1.0}, ()),
    ("scaled-", scaled, {"scale": factor}, (is_factor,)),
    ("capped-", tanh(scores) * cap, {"scale": limit, "softcap": limit}, (is_cap,)),
    ("scaled-capped-", tanh(scaled) * cap, {"scale": scale_behind_cap, "softcap": limit}, (is_factor, is_cap)),
)


def masked(name: str, mask: DFPattern, *guards: Guard, soundness: Soundness = ROUNDING) -> list[Rewrite]:
    """Attention with a mask, by each form of scores."""
    is_mask = when(masks_scores, type_of(mask), type_of(scores))
    return [
        of_heads(
            f"{prefix}{name}-attention",
            form + mask,
            nn.masked_attention(q, k, v, mask, **said),
            is_mask,
            *more,
            *guards,
            soundness=soundness,
        )
        for prefix, form, said, more in FORMS
    ]


turned_keys = transpose(k)
over_columns = nn.matmul(q, turned_keys)
columns = {"viewed": view(k), "split": is_tuple_get_item(is_op("split")(k)), "sliced": is_op("strided_slice")(k)}


def keys_as_rows(name: str, columns: DFPattern) -> Rewrite:
    """q k' = q transpose(k)' where keys are columns: convolutions make them (batch, head, element, place)"""
    product = nn.matmul(q, columns)
    return rewrite(
        f"{name}-keys-as-rows",
        product,
        like(product, q, transpose(columns, axes=(0, 1, 3, 2)), transpose_b=True),
        when(multiplies_columns, attrs_of(product), type_of(columns)),
        soundness=ROUNDING,
    )


def multiplies_columns(attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a product of queries with matrices for each head whose columns are keys."""
    return not attrs.transpose_a and not attrs.transpose_b and rank_of(ty) == 4


def puts_heads_and_elements_first(attrs: Attrs, product: Attrs, ty: TensorType) -> bool:
    """Guard: a transpose makes of keys (batch, place, head, element) a matrix for each head whose columns are keys."""
    plain = not product.transpose_a and not product.transpose_b
    return plain and rank_of(ty) == 4 and permutation(attrs, 4) == (0, 2, 3, 1)


keys = RuleSet(
    "keys",
    [
        rewrite(
            "keys-as-rows",
            over_columns,
            like(over_columns, q, transpose(k, axes=(0, 2, 1, 3)), transpose_b=True),
            when(puts_heads_and_elements_first, attrs_of(turned_keys), attrs_of(over_columns), type_of(k)),
            soundness=Soundness.ROUNDING,
        ),
    ],
)

attention = RuleSet(
    "attention",
    [
        *[keys_as_rows(name, made) for name, made in columns.items()],
        *[
            of_heads(f"{prefix}attention", form, nn.attention(q, k, v, **said), *guards)
            for prefix, form, said, guards in FORMS
        ],
        *masked("constant-masked", known_mask, when(leaves_some, value_of(known_mask))),
        *masked("masked", mask, soundness=Soundness.FINITE),  # that some key of each row is left is not known
    ],
)

heads = RuleSet("heads", [rms_norms, keys, attention])

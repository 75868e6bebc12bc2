"""Weights and biases of convolutions and matrix products absorb the scales and shifts around the product.

Weights, scales and shifts are constants, so what the rules compute from them costs nothing at run time. Two products in
a row by constant weights are one product by the product of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import dropwhile
from math import prod

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    bare,
    base,
    compute,
    constants,
    derived,
    distinct,
    factor,
    like,
    plain,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    weighted,
    when,
)
from eqsat.egraph.rule import Array, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.egraph.scales import is_moderate
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import add, broadcast_to, multiply, reshape
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.operators import view
from eqsat.rules.products import (
    CONVOLUTIONS,
    MATRIX,
    PRODUCTS,
    Product,
    as_bias,
    as_parameter,
    bias_shape,
    channel_count,
    every_channel,
    scaled_weight,
)
from eqsat.rules.types import Shape, floats_alike, floats_of_one_type, rank_of, same_type
from eqsat.rules.values import all_positive, attribute, keeps_order, zero

x, y = variables("x y")
w, s, b, c, v = constants("w s b c v")

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE


def absorbing(product: Product) -> list[Rewrite]:
    """Scales and shifts of the data and of the result of a product, absorbed by its weight and bias."""
    multiple = x * s
    plain, scaled = product(x, w), product(multiple, w)
    multiplied = plain * s
    return [
        # (x (*) w) s = x (*) (w s)
        rewrite(
            f"scale-into-{product.short}",
            multiplied,
            like(plain, x, scaled_weight(product, "outputs", w, s, plain, plain)),
            floats_alike(x, w, s, plain),
            derived(multiplied, plain),
            soundness=ROUNDING,
        ),
        # (x s) (*) w = x (*) (s w)
        rewrite(
            f"scale-through-{product.short}",
            scaled,
            like(scaled, x, scaled_weight(product, "inputs", w, s, x, scaled)),
            floats_alike(x, w, s, scaled),
            bare(x),
            derived(multiple, x),
            soundness=ROUNDING,
        ),
        # y + c = bias(y, c) where c varies along the channels only
        rewrite(
            f"shift-is-{product.short}-bias",
            plain + c,
            nn.bias_add(plain, as_bias(c, plain, product.axis), axis=product.axis),
            when(lambda attrs, weight: bool(product.weight(attrs, weight)), attrs_of(plain), type_of(w)),
        ),
    ]


# ---- biases


shifted = nn.bias_add(y, b)
shifted_again = nn.bias_add(shifted, c)
bias_and_shift, scaled_bias = shifted + c, shifted * s
scaled_or_shifted = (y + c) | (y * c)
biased_shift, biased_affine = nn.bias_add(y + c, b), nn.bias_add(scaled_or_shifted, b)


def on_one_axis(one: Attrs, other: Attrs, of: TensorType) -> bool:
    """Guard: two biases lie along the same axis."""
    return axis_index(one.axis, rank_of(of)) == axis_index(other.axis, rank_of(of))


def bias_as_term(biased: DFPattern) -> DFPattern:
    """The bias ``b`` of a matched ``biased``, as it broadcasts in a sum."""
    return reshape(b, newshape=compute(bias_shape, attrs_of(biased), type_of(biased), type_of(b)))


def is_no_parameter(constant: TensorType, of: TensorType, attrs: Attrs) -> bool:
    """Guard: a constant of known shape varies along other axes than a bias of ``of``."""
    return is_static(constant) and not isinstance(channel_count(constant, of, attrs.axis), int)


def varies_otherwise(constant: DFPattern, biased: DFPattern) -> Guard:
    """Condition: no bias like that of a matched ``biased`` takes in the constant."""
    return when(is_no_parameter, type_of(constant), type_of(biased), attrs_of(biased))


biases = RuleSet(
    "biases",
    [
        # y + 0 may turn -0.0 into 0.0
        rewrite("bias-of-zero", nn.bias_add(y, zero), y, soundness=ROUNDING, contracts=True),
        # (y + b) + c = y + (b + c)
        rewrite(
            "shift-of-bias",
            bias_and_shift,
            like(shifted, y, b + as_parameter(c, y, shifted)),
            distinct(bias_and_shift, shifted, y),
            weighted(y),
            soundness=ROUNDING,
            contracts=True,
        ),
        rewrite(
            "bias-bias",
            shifted_again,
            like(shifted, y, b + c),
            when(on_one_axis, attrs_of(shifted), attrs_of(shifted_again), type_of(y)),
            distinct(shifted_again, shifted, y),
            weighted(y),
            soundness=ROUNDING,
            contracts=True,
        ),
        # a bias of what no weight makes is a constant like others, that meets them
        rewrite(
            "bias-of-plain-is-sum",
            shifted,
            y + bias_as_term(shifted),
            plain(y),
        ),
        # bias(y + c, b) = bias(y, b + c)
        rewrite(
            "bias-of-shift",
            biased_shift,
            like(biased_shift, y, b + as_parameter(c, y, biased_shift)),
            distinct(biased_shift, y),
            weighted(y),
            soundness=ROUNDING,
            contracts=True,
        ),
        # along other axes: a constant that meets the bias in a sum
        rewrite(
            "bias-of-affine-is-sum",
            biased_affine,
            scaled_or_shifted + bias_as_term(biased_affine),
            varies_otherwise(c, biased_affine),
            weighted(y),
        ),
        # bias(y, b) + c = y + (b + c)
        rewrite(
            "bias-and-shift",
            bias_and_shift,
            y + (bias_as_term(shifted) + c),
            varies_otherwise(c, shifted),
            distinct(bias_and_shift, y),
            base(y),
            weighted(y),
            soundness=ROUNDING,
            contracts=True,
        ),
        # bias(y, b) s = y s + b s
        rewrite(
            "multiple-of-bias",
            scaled_bias,
            y * s + bias_as_term(shifted) * s,
            varies_otherwise(s, shifted),
            derived(scaled_bias, shifted),
            base(y),
            weighted(y),
            soundness=ROUNDING,
        ),
        # (y + b) s = y s + b s
        rewrite(
            "scale-of-bias",
            scaled_bias,
            like(shifted, y * s, b * as_parameter(s, y, shifted)),
            derived(scaled_bias, shifted),
            weighted(y),
            soundness=ROUNDING,
        ),
    ],
)

# ---- shifts of the data


def row_shape(shift: Type, of: TensorType) -> Shape | Refusal:
    """The shape of a shift as a matrix of one row."""
    count = channel_count(shift, of, -1)
    return (1, count) if isinstance(count, int) else count


def full_row(of: TensorType) -> Shape | Refusal:
    """The shape of a matrix of one row that is as long as those of ``of``."""
    channels = every_channel(of, -1)
    return (1, *channels) if isinstance(channels, tuple) else channels


def is_plain_matrix(attrs: Attrs, weight: TensorType) -> bool:
    """Guard: a weight is one matrix, with elements, of data that is not transposed."""
    return rank_of(weight) == 2 and 0 not in weight.shape and not attrs.get("transpose_a", False)


def is_nonzero(value: Array) -> bool:
    """Guard: a constant is not 0 everywhere: a shift by nothing would be found again behind every product."""
    return bool(np.any(value != 0))


def shift_through(product: Product) -> Rewrite:
    """(x + c) w = x w + c w"""
    shifted = x + c
    moved = product(shifted, w)
    row = broadcast_to(
        reshape(c, newshape=compute(row_shape, type_of(c), type_of(x))), shape=compute(full_row, type_of(x))
    )
    bias = reshape(like(moved, row, w), newshape=compute(lambda of: every_channel(of, -1), type_of(moved)))
    return rewrite(
        f"shift-through-{product.short}",
        moved,
        nn.bias_add(like(moved, x, w), bias, axis=-1),
        when(is_plain_matrix, attrs_of(moved), type_of(w)),
        when(is_nonzero, value_of(c)),
        floats_alike(x, c, w, moved),
        derived(shifted, x),
        soundness=ROUNDING,
    )


# ---- scales and shifts of images that a view lays out in rows


def own_axes(constant: TensorType) -> Shape:
    """The shape of a constant without the axes of one element in front."""
    return tuple(dropwhile(lambda dim: dim == 1, constant.concrete_shape))


def joined_axes(constant: TensorType, of: TensorType, rows: TensorType) -> Shape | Refusal:
    """The sizes of the last axes of data, which a view joins to its own last one; a constant varies along no others."""
    own, length = own_axes(constant), rows.shape[-1] if rows.shape else None
    if not own:
        return refuse("it is one number, which passes any view")
    for start in range(rank_of(of) - len(own), -1, -1):
        joined = TensorType(of.shape[start:])
        if is_static(joined) and 0 not in joined.shape and prod(joined.concrete_shape) == length:
            return joined.concrete_shape
    return refuse("the view does not join last axes, or the constant varies along others")


def through_view(product: Product, verb: str, operator: Callable[[DFPattern, DFPattern], DFPattern]) -> Rewrite:
    """view(x s) w = (view(x) s') w: the weight takes in the scale, and the bias a shift"""
    changed = operator(x, c)
    rows = view(changed)
    whole = product(rows, w)
    beside = reshape(c, newshape=compute(own_axes, type_of(c)))
    row = broadcast_to(beside, shape=compute(joined_axes, type_of(c), type_of(x), type_of(rows)))
    return rewrite(
        f"{verb}-through-view-into-{product.short}",
        whole,
        like(whole, operator(like(rows, x), reshape(row, newshape=(-1,))), w),
        when(is_static, type_of(c)),
        when(same_type, type_of(changed), type_of(x)),
        floats_alike(x, c, whole),
        derived(changed, x),
    )


# ---- two products in a row by constant weights


def shrinks(one: TensorType, two: TensorType, turned_one: bool = True, turned_two: bool = True) -> bool:
    """Guard: the product of two weights, transposed or not, has no more elements than they have together."""
    shapes = [ty.concrete_shape for ty in (one, two) if is_static(ty) and rank_of(ty) == 2]
    if len(shapes) < 2:
        return False
    return shapes[0][1 if turned_one else 0] * shapes[1][0 if turned_two else 1] <= sum(map(prod, shapes))


def matmul_shrinks(first: Attrs, second: Attrs, one: TensorType, two: TensorType) -> bool:
    return not second.transpose_a and shrinks(one, two, first.transpose_b, second.transpose_b)


first_matmul, first_dense = nn.matmul(x, w), nn.dense(x, w)
second_matmul, second_dense = nn.matmul(first_matmul, v), nn.dense(first_dense, v)

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
            when(shrinks, type_of(w), type_of(v)),
            floats_alike(x, w, v, first_dense, second_dense),
            soundness=FINITE,
        ),
    ],
)

# ---- positive scales pass activations


def may_leave(scale: Array) -> bool:
    """Guard: one moderate number above 0."""
    return scale.size == 1 and all_positive(scale) and is_moderate(scale)


ACTIVATIONS = {"relu": nn.relu, "leaky-relu": nn.leaky_relu}

scaled = x * c
affine = scaled + b


def through_activation(name: str, activation: Callable[[DFPattern], DFPattern]) -> list[Rewrite]:
    """relu(x) s = relu(x s), s > 0

    A scale goes inward where a weight absorbs it. Elsewhere scalars go outward, where they meet: were they to go inward
    along a chain, each link would have a form for every product of scales behind it.
    """
    active = activation(x)
    return [
        rewrite(
            f"scale-through-{name}",
            active * s,
            like(active, x * s),
            when(keeps_order, value_of(s)),
            floats_alike(x, s),
            weighted(x),
            base(active),
            soundness=ROUNDING,
        ),
        *[
            rewrite(
                f"scalar-out-of-{form}{name}",
                whole,
                like(whole, inside) * c,
                when(may_leave, value_of(c)),
                floats_alike(x, c),
                *more,
                base(x),
                factor(x),
                soundness=ROUNDING,
            )
            for form, whole, inside, more in (
                ("", activation(scaled), x, [distinct(scaled, x)]),
                ("affine-", activation(affine), x + b / c, [distinct(affine, scaled, x)]),
            )
        ],
    ]


def forward(product: Product, name: str, activation: Callable[[DFPattern], DFPattern]) -> Rewrite:
    """relu(x s) (*) w = relu(x) (*) (s w), s > 0"""
    multiple = x * s
    active = activation(multiple)
    whole = product(active, w)
    return rewrite(
        f"scale-through-{name}-into-{product.short}",
        whole,
        like(whole, like(active, x), scaled_weight(product, "inputs", w, s, x, whole)),
        when(keeps_order, value_of(s)),
        floats_alike(x, w, s, whole),
        derived(multiple, x),
        soundness=ROUNDING,
    )


scaled_again = nn.relu(x) * s


through = RuleSet(
    "scales-through-activations",
    [
        # relu(relu(x) s) = relu(x) s, s > 0
        rewrite(
            "relu-of-scaled-relu",
            nn.relu(scaled_again),
            scaled_again,
            when(all_positive, value_of(s)),
            floats_alike(x, s),
            contracts=True,
        ),
        *[rule for name, activation in ACTIVATIONS.items() for rule in through_activation(name, activation)],
        *[
            forward(product, name, activation)
            for product in (*CONVOLUTIONS[1:], *MATRIX[:2])
            for name, activation in ACTIVATIONS.items()
        ],
    ],
)


def common_weight(product: Product) -> list[Rewrite]:
    """Sums of products over the same data, or by the same weight."""
    one, other = product(x, w), product(x, v)
    left, right = product(x, w), product(y, w)

    def alike(first: DFPattern, second: DFPattern) -> Guard:
        return when(lambda *attrs: attrs[0] == attrs[1], attrs_of(first), attrs_of(second))

    return [
        # x w + x v = x (w + v)
        rewrite(
            f"same-data-{product.short}",
            one + other,
            like(one, x, w + v),
            alike(one, other),
            when(floats_of_one_type, type_of(w), type_of(v)),
            soundness=FINITE,
        ),
        # x w + y w = (x + y) w
        rewrite(
            f"same-weight-{product.short}",
            left + right,
            like(left, x + y, w),
            alike(left, right),
            when(lambda *types: floats_of_one_type(*types) and is_static(types[0]), type_of(x), type_of(y)),
            soundness=FINITE,
        ),
    ]


linear = RuleSet(
    "linear",
    [
        *[rule for product in PRODUCTS for rule in absorbing(product)],
        biases,
        *[shift_through(product) for product in MATRIX[:2]],
        *[
            through_view(product, verb, operator)
            for product in MATRIX[:2]
            for verb, operator in (("scale", multiply), ("shift", add))
        ],
        chains,
        through,
        *[rule for product in (CONVOLUTIONS[1], *MATRIX) for rule in common_weight(product)],
    ],
)

"""Scales, shifts and products absorbed by the weights and biases of convolutions and matrix products.

Weights and scales are constants, so what the rules build of them is folded and costs nothing at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    distinct,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import broadcast_to, reshape
from eqsat.relay.op.nn.window import SPATIAL, channels_first
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.operators import rank_of, shape_of
from eqsat.rules.values import is_float

x, y = variables("x y")
w, s, b, c, v = constants("w s b c v")

ROUNDING = Soundness.ROUNDING
FINITE = Soundness.FINITE

# ---- which axis of a weight is which


@dataclass(frozen=True)
class Weight:
    """The weight of a product, where its outputs and inputs lie.

    Args:
        rank: number of its axes.
        outputs, inputs: the axes; None where a scale cannot be laid along it.
    """

    rank: int
    outputs: int | None
    inputs: int | None


def conv_weight(attrs: Any, weight: TensorType) -> Any:
    rank = len(attrs.strides)
    plain = attrs.data_layout == channels_first(rank) and attrs.kernel_layout == f"OI{SPATIAL[rank]}"
    if not plain or attrs.out_layout not in ("", None, attrs.data_layout):
        return refuse("the channels are not axis 1")
    if attrs.groups == 1:
        return Weight(rank + 2, 0, 1)
    each_its_own = weight.shape[1] == 1 and weight.shape[0] == attrs.groups
    return Weight(rank + 2, 0, 0 if each_its_own else None)


def transposed_conv_weight(attrs: Any, weight: TensorType) -> Any:
    rank = len(attrs.strides)
    plain = attrs.data_layout == channels_first(rank) and attrs.kernel_layout == f"IO{SPATIAL[rank]}"
    if not plain or attrs.out_layout not in ("", None, attrs.data_layout) or attrs.groups != 1:
        return refuse("the channels are not axis 1, or there are groups")
    return Weight(rank + 2, 1, 0)


def dense_weight(attrs: Any, weight: TensorType) -> Any:
    return Weight(2, 0, 1)


def matmul_weight(attrs: Any, weight: TensorType) -> Any:
    rank = rank_of(weight)
    if rank < 2:
        return refuse("the weight is no matrix")
    rows, columns = (rank - 1, rank - 2) if attrs.transpose_b else (rank - 2, rank - 1)
    return Weight(rank, columns, None if attrs.transpose_a else rows)


@dataclass(frozen=True)
class Product:
    """An operator that multiplies data by a weight.

    Args:
        name: the operator's name.
        axis: the axis of data and result along which channels lie.
        weight: where they lie in the weight, from the attributes and the weight's type.
    """

    name: str
    axis: int
    weight: Callable[[Any, TensorType], Any]

    @property
    def short(self) -> str:
        return self.name.removeprefix("nn.")

    def __call__(self, data: Any, weight: Any) -> DFPattern:
        return is_op(self.name)(data, weight)


CONVOLUTIONS = [Product(f"nn.conv{rank}d", 1, conv_weight) for rank in (1, 2, 3)]
TRANSPOSED = [Product(f"nn.conv{rank}d_transpose", 1, transposed_conv_weight) for rank in (1, 2, 3)]
MATRIX = [
    Product("nn.dense", -1, dense_weight),
    Product("nn.matmul", -1, matmul_weight),
    Product("nn.batch_matmul", -1, matmul_weight),
]
PRODUCTS = [*CONVOLUTIONS, *TRANSPOSED, *MATRIX]

# ---- constants that vary along the channels only


def channel_count(shift: Type, of: Type, axis: int) -> Any:
    """Length of the channel ``axis`` of ``of``, or 1, as ``shift`` broadcasts against it along that axis only."""
    if not is_static(shift) or not isinstance(of, TensorType) or len(shift.shape) > len(of.shape):
        return refuse("the shape of the constant is not known")
    if not -len(of.shape) <= axis < len(of.shape):
        return refuse("there is no such axis")
    axis %= len(of.shape)
    padded = (1,) * (len(of.shape) - len(shift.shape)) + shift.concrete_shape
    others = padded[:axis] + padded[axis + 1 :]
    if any(dim != 1 for dim in others) or padded[axis] not in (1, of.shape[axis]):
        return refuse("the constant varies along another axis than the channels")
    return padded[axis] or refuse("there are no channels")


def laid_over(product: Product, side: str) -> Any:
    """A computed ``newshape`` that lays a scale over the outputs or inputs of the weight."""

    def newshape(scale: Type, of: Type, attrs: Any, weight: TensorType) -> Any:
        count, axes = channel_count(scale, of, product.axis), product.weight(attrs, weight)
        if not isinstance(axes, Weight) or not count:
            return axes if count else count
        axis = getattr(axes, side)
        if axis is None:
            return refuse("a scale cannot be laid over the weight")
        return tuple(count if each == axis else 1 for each in range(axes.rank))

    return newshape


def same_floats(*types: Type) -> bool:
    return is_float(*types) and len({ty.dtype for ty in types if isinstance(ty, TensorType)}) == 1


def along(axis: Callable[[Any], int] | int) -> tuple[Any, Any]:
    """Computed shapes: of a constant as a vector, and of the vector with an element for each channel."""

    def place(attrs: Any) -> int:
        return axis if isinstance(axis, int) else axis(attrs)

    def vector(shift: Type, of: Type, attrs: Any = None) -> Any:
        count = channel_count(shift, of, place(attrs))
        return (count,) if count else count

    def whole(of: TensorType, attrs: Any = None) -> Any:
        channels = of.shape[place(attrs)]
        return (channels,) if isinstance(channels, int) else refuse("the number of channels is not known")

    return vector, whole


def as_bias(shift: DFPattern, of: DFPattern, axis: int) -> Any:
    """A constant that varies along the channels only, as the bias of ``of``."""
    vector, whole = along(axis)
    return broadcast_to(
        reshape(shift, newshape=compute(vector, type_of(shift), type_of(of))), shape=compute(whole, type_of(of))
    )


def absorbing(product: Product) -> list[Any]:
    """What a product takes in of scales and shifts around it."""
    plain, scaled = product(x, w), product(x * s, w)
    floats = when(same_floats, type_of(x), type_of(w), type_of(s), type_of(plain))
    before = (type_of(s), type_of(x), attrs_of(scaled), type_of(w))
    after = (type_of(s), type_of(plain), attrs_of(plain), type_of(w))
    return [
        # (x (*) w) s = x (*) (w s)
        rewrite(
            f"scale-into-{product.short}",
            plain * s,
            like(plain, x, w * reshape(s, newshape=compute(laid_over(product, "outputs"), *after))),
            floats,
            soundness=ROUNDING,
        ),
        # (x s) (*) w = x (*) (s w)
        rewrite(
            f"scale-through-{product.short}",
            scaled,
            like(scaled, x, w * reshape(s, newshape=compute(laid_over(product, "inputs"), *before))),
            when(same_floats, type_of(x), type_of(w), type_of(s), type_of(scaled)),
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


def bias_axis(attrs: Any) -> int:
    return int(attrs.axis)


shifted = nn.bias_add(y, b)
shifted_again = nn.bias_add(shifted, c)
vector, whole = along(bias_axis)


def on_channels(constant: DFPattern) -> Any:
    return reshape(constant, newshape=compute(vector, type_of(constant), type_of(y), attrs_of(shifted)))


biases = RuleSet(
    "biases",
    [
        # (y + b) + c = y + (b + c)
        rewrite(
            "shift-of-bias", shifted + c, like(shifted, y, b + on_channels(c)), distinct(shifted, y), soundness=ROUNDING
        ),
        rewrite(
            "bias-bias",
            shifted_again,
            like(shifted, y, b + c),
            when(lambda inner, outer: inner == outer, attrs_of(shifted), attrs_of(shifted_again)),
            distinct(shifted, y),
            soundness=ROUNDING,
        ),
        # (y + b) s = y s + b s
        rewrite("scale-of-bias", shifted * s, like(shifted, y * s, b * on_channels(s)), soundness=ROUNDING),
    ],
)

# ---- shifts of the data


def row_shape(shift: Type, of: TensorType) -> Any:
    count = channel_count(shift, of, -1)
    return (1, count) if count else count


def full_row(of: TensorType) -> Any:
    channels = of.shape[-1] if of.shape else None
    return (1, channels) if isinstance(channels, int) else refuse("the number of channels is not known")


def outputs_of(of: TensorType) -> Any:
    channels = of.shape[-1] if of.shape else None
    return (channels,) if isinstance(channels, int) and channels else refuse("the number of outputs is not known")


def is_plain_matrix(attrs: Any, weight: TensorType) -> bool:
    return rank_of(weight) == 2 and not attrs.get("transpose_a", False)


def is_something(value: NDArray[Any]) -> bool:
    """Whether a constant is not 0: a shift by nothing would be found again behind every product."""
    return bool(np.any(value != 0))


def shift_through(product: Product) -> Any:
    """(x + c) w = x w + c w"""
    moved = product(x + c, w)
    row = broadcast_to(
        reshape(c, newshape=compute(row_shape, type_of(c), type_of(x))), shape=compute(full_row, type_of(x))
    )
    bias = reshape(like(moved, row, w), newshape=compute(outputs_of, type_of(moved)))
    return rewrite(
        f"shift-through-{product.short}",
        moved,
        nn.bias_add(like(moved, x, w), bias, axis=-1),
        when(is_plain_matrix, attrs_of(moved), type_of(w)),
        when(is_something, value_of(c)),
        when(same_floats, type_of(x), type_of(c), type_of(w), type_of(moved)),
        soundness=ROUNDING,
    )


# ---- two products in a row


def shrinks(first: Any, second: Any, one: TensorType, two: TensorType, result: TensorType) -> Any:
    """Whether the product of two weights is no larger than they are together."""
    shapes = [shape_of(ty) for ty in (one, two)]
    if not all(isinstance(shape, tuple) and len(shape) == 2 for shape in shapes):
        return False
    rows = shapes[0][1 if first.get("transpose_b", False) else 0]
    columns = shapes[1][0 if second.get("transpose_b", False) else 1]
    return rows * columns <= sum(map(prod, shapes)) and not second.get("transpose_a", False)


def dense_shrinks(one: TensorType, two: TensorType) -> bool:
    shapes = [shape_of(ty) for ty in (one, two)]
    return all(isinstance(shape, tuple) for shape in shapes) and shapes[0][1] * shapes[1][0] <= sum(map(prod, shapes))


first_matmul = nn.matmul(x, w)
second_matmul = nn.matmul(first_matmul, v)
first_dense = nn.dense(x, w)
second_dense = nn.dense(first_dense, v)

chains = RuleSet(
    "product-chains",
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
                    transpose_a=compute(lambda attrs: attrs.transpose_b, attrs_of(first_matmul)),
                    transpose_b=compute(lambda attrs: attrs.transpose_b, attrs_of(second_matmul)),
                ),
                transpose_b=False,
                units=None,
            ),
            when(
                shrinks,
                attrs_of(first_matmul),
                attrs_of(second_matmul),
                type_of(w),
                type_of(v),
                type_of(second_matmul),
            ),
            when(same_floats, type_of(x), type_of(w), type_of(v), type_of(first_matmul), type_of(second_matmul)),
            when(lambda ty: rank_of(ty) > 1, type_of(x)),
            soundness=FINITE,
        ),
        rewrite(
            "dense-dense",
            second_dense,
            like(first_dense, x, nn.matmul(v, w), units=None),
            when(dense_shrinks, type_of(w), type_of(v)),
            when(same_floats, type_of(x), type_of(w), type_of(v), type_of(first_dense), type_of(second_dense)),
            soundness=FINITE,
        ),
    ],
)

# ---- positive scales pass activations


def all_positive(value: NDArray[Any]) -> bool:
    return bool(value.dtype.kind == "f" and np.all(value > 0) and np.all(np.isfinite(value)))


ACTIVATIONS = {"relu": nn.relu, "leaky-relu": nn.leaky_relu}


def through_activation(name: str, activation: Callable[[Any], DFPattern]) -> Any:
    """relu(x) s = relu(x s), s > 0; not back: scales that meet would part again in every other way."""
    plain = activation(x)
    return rewrite(
        f"scale-through-{name}",
        plain * s,
        like(plain, x * s),
        when(all_positive, value_of(s)),
        when(same_floats, type_of(x), type_of(s)),
        soundness=ROUNDING,
    )


def forward(product: Product, name: str, activation: Callable[[Any], DFPattern]) -> Any:
    """relu(x s) (*) w = relu(x) (*) (s w), s > 0"""
    active = activation(x * s)
    whole = product(active, w)
    refs = (type_of(s), type_of(x), attrs_of(whole), type_of(w))
    positive = when(all_positive, value_of(s))
    return rewrite(
        f"scale-through-{name}-into-{product.short}",
        whole,
        like(whole, like(active, x), w * reshape(s, newshape=compute(laid_over(product, "inputs"), *refs))),
        positive,
        when(same_floats, type_of(x), type_of(w), type_of(s), type_of(whole)),
        soundness=ROUNDING,
    )


through = RuleSet(
    "scales-through-activations",
    [
        *[through_activation(name, activation) for name, activation in ACTIVATIONS.items()],
        *[
            forward(product, name, activation)
            for product in (*CONVOLUTIONS[1:], *MATRIX[:2])
            for name, activation in ACTIVATIONS.items()
        ],
    ],
)


def common_weight(product: Product) -> list[Any]:
    """Sums of products over the same data, or by the same weight."""
    one, other = product(x, w), product(x, v)
    left, right = product(x, w), product(y, w)
    return [
        # x w + x v = x (w + v)
        rewrite(
            f"same-data-{product.short}",
            one + other,
            like(one, x, w + v),
            when(lambda *attrs: attrs[0] == attrs[1], attrs_of(one), attrs_of(other)),
            when(lambda *types: types[0] == types[1] and is_float(*types), type_of(w), type_of(v)),
            soundness=FINITE,
        ),
        # x w + y w = (x + y) w
        rewrite(
            f"same-weight-{product.short}",
            left + right,
            like(left, x + y, w),
            when(lambda *attrs: attrs[0] == attrs[1], attrs_of(left), attrs_of(right)),
            when(
                lambda *types: types[0] == types[1] and is_float(*types) and isinstance(shape_of(types[0]), tuple),
                type_of(x),
                type_of(y),
            ),
            soundness=FINITE,
        ),
    ]


linear = RuleSet(
    "linear",
    [
        *[rule for product in PRODUCTS for rule in absorbing(product)],
        biases,
        *[shift_through(product) for product in MATRIX[:2]],
        chains,
        through,
        *[rule for product in (CONVOLUTIONS[1], *MATRIX) for rule in common_weight(product)],
    ],
)

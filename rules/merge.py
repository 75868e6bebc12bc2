"""Opt-in: products that share an operand are merged into one, as TASO and TENSAT do.

Sibling convolutions, matrix products and gates have their weights concatenated, and the result is split again. Where
the weights are constants, the concatenation is done before run time. Whether one large product is cheaper than several
small ones depends on the device, so this set is meant to be used with a cost model of one.

Some rules of TASO and TENSAT are left out. Those on sums and concatenations of a product with a product of that product
follow from :mod:`eqsat.rules.linear` where weights are constants, and gain nothing where they are not. Products by one
weight that nothing concatenates yet could be joined along the batch, but then steps of a recurrence would depend on
themselves. Joining two activations and splitting the result only makes the e-graph grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    index_of,
    like,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.group_rules import GroupRule
from eqsat.egraph.rule import Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple, is_tuple_get_item, many
from eqsat.relay.op import concatenate, sigmoid, split, tanh
from eqsat.relay.op.nn.window import has_channels_first
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.siblings import (
    Activation,
    BatchMatrices,
    Convolutions,
    Enlarged,
    Gates,
    Matrices,
    Siblings,
    Stacked,
    b,
    w,
    x,
    y,
)
from eqsat.rules.values import attribute

ROUNDING = Soundness.ROUNDING

u, v = variables("u v")
(k,) = constants("k")

ACTIVATIONS: dict[str, Activation] = {"": lambda value: value, "-relu": nn.relu, "-sigmoid": sigmoid, "-tanh": tanh}
PRODUCTS: dict[str, tuple[type[Siblings], DFPattern, int]] = {
    "sibling-convs": (Convolutions, nn.conv2d(x, w), 1),
    "enlarged-convs": (Enlarged, nn.conv2d(x, w), 1),
    "sibling-denses": (Siblings, nn.dense(x, w), -1),
    "sibling-matmuls": (Matrices, nn.matmul(x, w), -1),
}


def sibling_rules() -> list[GroupRule]:
    """The rules on siblings: one for each kind of product, with and without a bias, and for each activation."""
    found: list[GroupRule] = []
    for suffix, activation in ACTIVATIONS.items():
        for bias, (name, (kind, product, axis)) in combinations(("", "-bias"), PRODUCTS.items()):
            if axis == -1 or suffix in ("", "-relu"):
                value = nn.bias_add(product, b) if bias else product
                found.append(kind(product, value, activation, axis).rule(f"{name}{bias}{suffix}"))
        found.append(Gates(activation).rule(f"gates{suffix}"))
    dense, batch_matmul, plain = nn.dense(x, w), nn.batch_matmul(x, w), ACTIVATIONS[""]
    found.append(Stacked(dense, dense, plain, 0).rule("stacked-denses"))
    found.append(BatchMatrices(batch_matmul, batch_matmul, plain, -1).rule("sibling-batch-matmuls"))
    return found


parts = split(x)
part = is_tuple_get_item(parts)
joined_again = concatenate(is_tuple([many(part, shared=[parts])]))


def is_whole(concat: Attrs, indices: Sequence[int], cut: Attrs, ty: TensorType) -> bool:
    """Guard: the parts are all there are, in order, and they are joined along the axis they were cut on."""
    cuts, rank = cut.indices_or_sections, len(ty.shape)
    sections = cuts if isinstance(cuts, int) else len(cuts) + 1
    in_order = list(indices) == list(range(sections))
    return in_order and axis_index(concat.axis, rank) == axis_index(cut.axis, rank)


def may_add_up(first: Attrs, second: Attrs, *types: TensorType) -> bool:
    """Guard: two convolutions differ in their channels only, so that their sum is one over all channels."""
    if first != second or not has_channels_first(first) or first.groups != 1 or not all(map(is_static, types)):
        return False
    images, weights, results = types[:2], types[2:4], types[4:]
    sizes = {(ty.shape[0], *ty.shape[2:]) for ty in images}, {ty.shape[2:] for ty in weights}, {*results}
    return all(len(each) == 1 for each in sizes)


def _plain_dense(first: Attrs, second: Attrs) -> bool:
    return first.get("out_dtype") in (None, "") and second.get("out_dtype") in (None, "")


def are_denses_of_rows(first: Attrs, second: Attrs, *types: TensorType) -> bool:
    """Guard: two dense layers of as many rows and outputs, whose sum broadcasts nothing."""
    data, other, weight, second_weight, *_ = types
    same = data.shape[:-1] == other.shape[:-1] and is_static(data) and is_static(other)
    return bool(_plain_dense(first, second) and same and weight.shape[0] == second_weight.shape[0])


def one_sum(name: str, first: DFPattern, second: DFPattern, axis: int, holds: Callable[..., bool]) -> Rewrite:
    """f(x, u) + f(y, v) = f(concat(x, y), concat(u, v)), if neither product overflows"""
    return rewrite(
        name,
        first + second,
        like(first, concatenate(is_tuple([x, y]), axis=axis), concatenate(is_tuple([u, v]), axis=1)),
        when(holds, attrs_of(first), attrs_of(second), *map(type_of, (x, y, u, v, first, second))),
        soundness=Soundness.FINITE,
    )


def is_by_rows(concat: Attrs, first: Attrs, second: Attrs, ty: TensorType, data: TensorType, other: TensorType) -> bool:
    """Guard: results of dense layers of equal attributes are joined along another axis than the outputs."""
    return bool(first == second and axis_index(concat.axis, len(ty.shape)) < len(ty.shape) - 1)


def is_by_batch(
    concat: Attrs, first: Attrs, second: Attrs, ty: TensorType, data: TensorType, other: TensorType
) -> bool:
    """Guard: results of convolutions of equal attributes, over images of equal size, are joined along the batch."""
    by_batch = has_channels_first(first) and axis_index(concat.axis, len(ty.shape)) == 0
    return bool(first == second and by_batch and is_static(data) and data.shape[1:] == other.shape[1:])


def one_weight(name: str, first: DFPattern, second: DFPattern, holds: Callable[..., bool]) -> Rewrite:
    """concat(f(x, w), f(y, w)) = f(concat(x, y), w)"""
    whole = concatenate(is_tuple([first, second]))
    axis = compute(lambda attrs, ty: axis_index(attrs.axis, len(ty.shape)), attrs_of(whole), type_of(first))
    return rewrite(
        name,
        whole,
        like(first, concatenate(is_tuple([x, y]), axis=axis), w),
        when(holds, attrs_of(whole), attrs_of(first), attrs_of(second), type_of(first), type_of(x), type_of(y)),
        soundness=ROUNDING,
    )


inner_dense = nn.dense(x, u)
outer_dense = nn.dense(inner_dense, k)

siblings = RuleSet(
    "siblings",
    [
        *sibling_rules(),
        # concat(split(x).0, split(x).1, ..) = x
        rewrite(
            "concat-of-split",
            joined_again,
            x,
            when(is_whole, attrs_of(joined_again), index_of(part), attrs_of(parts), type_of(x)),
        ),
    ],
)

sums = RuleSet(
    "sums",
    [
        one_sum("add-convs", nn.conv2d(x, u), nn.conv2d(y, v), 1, may_add_up),
        one_sum("add-denses", nn.dense(x, u), nn.dense(y, v), -1, are_denses_of_rows),
        one_weight("joined-denses", nn.dense(x, w), nn.dense(y, w), is_by_rows),
        one_weight("joined-convs", nn.conv2d(x, w), nn.conv2d(y, w), is_by_batch),
        # (x u') k' = x (k u)'; k is at hand, so that of the ways to multiply a chain of weights only one is made
        rewrite(
            "dense-of-dense",
            outer_dense,
            like(outer_dense, x, nn.matmul(k, u), units=attribute(outer_dense, "units")),
            when(_plain_dense, attrs_of(inner_dense), attrs_of(outer_dense)),
            when(lambda value: value.ndim == 2, value_of(k)),
            soundness=Soundness.FINITE,
        ),
    ],
)

merge = RuleSet("merge", [siblings, sums])

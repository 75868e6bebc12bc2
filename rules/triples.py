"""Queries, keys and values are the parts of one product, of which the heads are split and put first once for all.

Three products of one operand by constant weights, each viewed as heads and transposed, are joined. So are the parts of
one product that was viewed with an axis for the three.

Only products of the given graph are joined, and only those of one layer: others would be kept in memory until they are
used. :mod:`eqsat.rules.merge` joins any number of products, of any weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from eqsat.egraph.author import (
    attrs_of,
    constants,
    like,
    refuse,
    rewrite,
    successive,
    type_of,
    variables,
    when,
)
from eqsat.egraph.rule import Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_tuple, is_tuple_get_item
from eqsat.relay.op import concatenate, reshape, split, transpose
from eqsat.relay.ty import Dim, TensorType, is_static
from eqsat.rules.axes import permutation
from eqsat.rules.operators import view
from eqsat.rules.shape import codes_between
from eqsat.rules.types import Shape, floats_alike, rank_of
from eqsat.rules.values import computed_parts

(x,) = variables("x")
weights = constants("u v w")

NEAR = 8
"""Products of the given graph among which are the three: those of one layer, and what scores have of positions."""


# ---- three products


def are_alike(*attrs: Attrs) -> bool:
    """Guard: products differ in the number of their outputs at most, and their weights are not transposed."""
    plain = [{**each, "units": None} for each in attrs]
    return all(each == plain[0] for each in plain) and not attrs[0].get("transpose_b", False)


def are_matrices(*types: TensorType) -> bool:
    """Guard: weights are matrices of some outputs each."""
    return all(rank_of(ty) == 2 and is_static(ty) and 0 not in ty.shape for ty in types)


def heads_of_all(
    turn: Attrs, other: Attrs, third: Attrs, product: TensorType, *views: TensorType
) -> tuple[Shape, Shape, Shape, int] | Refusal:
    """How to view the joined product as heads and transpose that; where to cut which axis of it."""
    rank = rank_of(views[0])
    at = rank - 2
    orders = [permutation(attrs, rank_of(ty)) for attrs, ty in zip((turn, other, third), views, strict=True)]
    if at < 1 or any(order != orders[0] for order in orders) or 0 in (*product.shape, *views[0].shape):
        return refuse("the products are transposed in different ways, or there are no elements")
    around = [(*ty.shape[:at], *ty.shape[at + 1 :]) for ty in views]
    heads = [dim for ty in views if isinstance(dim := ty.shape[at], int)]
    if any(each != around[0] for each in around) or len(heads) < len(views) or not isinstance(around[0][-1], int):
        return refuse("heads differ in length, or how many there are is not known")
    newshape = codes_between(product.shape, (*views[0].shape[:at], sum(heads), views[0].shape[-1]))
    if isinstance(newshape, Refusal):
        return newshape
    return newshape, orders[0], tuple(accumulate(heads[:-1])), orders[0].index(at)


def part_last_axis(*types: TensorType) -> bool:
    """Guard: each of the views, which come after the products, parts the last axis of its product in two."""
    half = len(types) // 2
    for product, ty in zip(types[:half], types[half:], strict=True):
        heads = ty.shape[-2:]
        if len(heads) < 2 or not all(isinstance(dim, int) for dim in (*heads, *product.shape[-1:])):
            return False
        if heads[0] * heads[1] != product.shape[-1]:  # type: ignore[operator]
            return False
    return True


def triple(name: str, products: Sequence[DFPattern], outputs: int) -> Rewrite:
    """T view(x u), T view(x v), T view(x w) are the parts of T view(x (u, v, w)).

    Args:
        name: the name of the rule.
        products: the patterns of the products.
        outputs: the axis of the weights along which the outputs lie.
    """
    whole = like(products[0], x, concatenate(is_tuple(weights), axis=outputs), units=None)
    views = [reshape(each) for each in products]
    roots = [transpose(each) for each in views]
    found = computed_parts(heads_of_all, *map(attrs_of, roots), type_of(products[0]), *map(type_of, views))
    turned = transpose(reshape(whole, newshape=found(0)), axes=found(1))
    parts = split(turned, indices_or_sections=found(2), axis=found(3))
    return rewrite(
        name,
        tuple(roots),
        tuple([is_tuple_get_item(parts, index) for index in range(len(roots))]),
        successive(NEAR, *products),
        when(are_alike, *map(attrs_of, products)),
        when(are_matrices, *map(type_of, weights)),
        when(part_last_axis, *map(type_of, (*products, *views))),
        floats_alike(x, *weights, products[0]),
        soundness=Soundness.ROUNDING,
    )


denses, matmuls = ([product(x, weight) for weight in weights] for product in (nn.dense, nn.matmul))

# ---- one product, viewed with an axis for the three


turned = transpose(x)
parts = split(turned)
part = is_tuple_get_item(parts)
alone = view(part)


def heads_of_parts(
    turn: Attrs, cut: Attrs, data: TensorType, ty: TensorType
) -> tuple[Shape, Shape, int, int] | Refusal:
    """How to join an axis with the next, how to transpose that, and in how many parts to cut which axis of it.

    Args:
        turn, cut: the attributes of the transpose and of the split into parts of one place each.
        data: what is transposed.
        ty: a part without the axis.
    """
    order = permutation(turn, rank_of(data))
    axis = order[cut.axis % len(order)]
    count, rest = data.shape[axis], [each for each in order if each != axis]
    if axis + 1 == len(order) or not isinstance(count, int) or not isinstance(data.shape[axis + 1], int):
        return refuse("there is no next axis, or its length is not known")
    cuts = cut.indices_or_sections
    if count < 2 or (cuts if isinstance(cuts, int) else len(cuts) + 1) != count or 0 in data.shape:
        return refuse("the parts are longer than one, or empty")
    if ty.shape != tuple([data.shape[each] for each in rest]):
        return refuse("the axis stays")
    joined: tuple[Dim, ...] = (*data.shape[:axis], count * data.shape[axis + 1], *data.shape[axis + 2 :])
    newshape = codes_between(data.shape, joined)
    if isinstance(newshape, Refusal):
        return newshape
    return newshape, tuple([each - (each > axis) for each in rest]), count, rest.index(axis + 1)


joined = computed_parts(heads_of_parts, attrs_of(turned), attrs_of(parts), type_of(x), type_of(alone))

triples = RuleSet(
    "triples",
    [
        triple("three-denses", denses, 0),
        triple("three-matmuls", matmuls, 1),
        # the parts of T x along one axis, without it, are those of T' x' along the next one, which it is joined with
        rewrite(
            "parts-of-transposed",
            alone,
            like(
                part,
                like(
                    parts,
                    transpose(reshape(x, newshape=joined(0)), axes=joined(1)),
                    indices_or_sections=joined(2),
                    axis=joined(3),
                ),
            ),
        ),
    ],
)

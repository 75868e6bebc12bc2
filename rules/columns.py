"""Parts of a value that is viewed as heads, as columns of a value that is not.

Queries, keys and values of one product often lie side by side, or do so within each head: the product is viewed as
heads, cut along one axis, and the heads of each part are joined. With the columns of the weight in another order, the
parts lie one behind the other, and no view is needed to cut them; or each has a product of its own columns. Only values
of the given graph are cut: others were joined from what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.egraph.author import (
    attrs_of,
    constants,
    given,
    like,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Ref, Refusal, Rewrite, RuleSet, Settled, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import reshape, strided_slice, take
from eqsat.relay.ty import TensorType
from eqsat.rules.slices import Ranges, cut, in_order, only_index
from eqsat.rules.types import rank_of, same_sizes
from eqsat.rules.values import computed_parts

x, y = variables("x y")
w, b, place = constants("w b place")


def columns_taken(
    whole: TensorType, view: TensorType, result: TensorType, taken: Ranges | Refusal
) -> tuple[Array, int, range] | Refusal:
    """The number of the column at each place of a view that parts the last axis, and which axis of it is cut where.

    Args:
        whole: what is viewed.
        view: the view, whose other axes are as before.
        result: a part of the view, of which the axes that were put in are joined again.
        taken: what that part takes of the view.
    """
    if isinstance(taken, Refusal):
        return taken
    lead, dims = rank_of(whole) - 1, view.shape[rank_of(whole) - 1 :]
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(taken) != 1 or lead < 0 or 0 in (*whole.shape, *view.shape, *result.shape) or len(sizes) < len(dims):
        return refuse("the part is of several axes, a length is not known, or there are no elements")
    if not (len(sizes) > 1 and np.prod(sizes) == whole.shape[-1] and same_sizes(view.shape[:lead], whole.shape[:lead])):
        return refuse("the view does not part the last axis")
    if rank_of(result) != rank_of(whole) or not same_sizes(result.shape[:lead], whole.shape[:lead]):
        return refuse("the part has other axes than what was viewed")
    ((axis, part),) = taken.items()
    if axis < lead or part.step != 1 or not part:
        return refuse("it takes no part of the columns")
    return np.arange(np.prod(sizes)).reshape(sizes), axis - lead, part


def neighbouring(whole: TensorType, view: TensorType, result: TensorType, taken: Ranges | Refusal) -> Ranges | Refusal:
    """The columns of a part, where they lie side by side."""
    found = columns_taken(whole, view, result, taken)
    if isinstance(found, Refusal):
        return found
    order, axis, part = found
    places = order.take(part, axis=axis).ravel()
    if places[-1] - places[0] + 1 != len(places):
        return refuse("the columns are apart")
    return {rank_of(whole) - 1: range(int(places[0]), int(places[-1]) + 1)}


def columns_for(
    whole: TensorType, view: TensorType, result: TensorType, taken: Ranges | Refusal
) -> tuple[Array, Ranges] | Refusal:
    """The columns of a product of which a part is taken, and which of them then are this part's.

    The three thirds of a view get one order of all columns, so that their product is one. Another part gets a product
    of its own columns: nobody may need the others.
    """
    found = columns_taken(whole, view, result, taken)
    if isinstance(found, Refusal):
        return found
    order, axis, part = found
    if all(size == 1 for size in order.shape[:axis]):
        return refuse("the columns are side by side")
    length, last = len(part), rank_of(whole) - 1
    if order.shape[axis] != 3 * length or part.start % length:
        own = order.take(part, axis=axis).ravel()
        return own, {last: range(len(own))}
    shape = (*order.shape[:axis], 3, length, *order.shape[axis + 1 :])
    third, index = order.size // 3, part.start // length
    return np.moveaxis(order.reshape(shape), axis, 0).ravel(), {last: range(index * third, (index + 1) * third)}


def is_matrix(attrs: Attrs, weight: TensorType) -> bool:
    """Guard: a weight is one matrix, which is not transposed."""
    return rank_of(weight) == 2 and not attrs.get("transpose_b", False)


def is_for_columns(bias: TensorType, product: TensorType) -> bool:
    """Guard: there is a bias for each column."""
    return bias.shape == product.shape[-1:]


def by_slice(view: DFPattern) -> tuple[DFPattern, Callable[..., Ranges | Refusal], tuple[Ref, ...]]:
    """A part that is cut out, what it takes, and of what that is computed."""
    part = strided_slice(view)
    return part, in_order, (attrs_of(part), type_of(view))


def by_place(view: DFPattern) -> tuple[DFPattern, Callable[..., Ranges | Refusal], tuple[Ref, ...]]:
    """A part of one place, without the axis."""
    part = take(view, place)
    return part, only_index, (value_of(place), type_of(place), type_of(view), attrs_of(part))


CUTS = {"slice": by_slice, "place": by_place}


def neighbours_of_heads(name: str, cut_out: str, whole: DFPattern, guard: Settled) -> Rewrite:
    """join(split(y)[a:b]) = y[a':b'], where ``y`` is ``whole``, and ``name`` that of the rule"""
    view = reshape(whole)
    part, taken, refs = CUTS[cut_out](view)
    root = reshape(part)

    def places(whole: TensorType, view: TensorType, result: TensorType, *of: object) -> Ranges | Refusal:
        return neighbouring(whole, view, result, taken(*of))

    return rewrite(name, root, cut(whole, places, type_of(whole), type_of(view), type_of(root), *refs), guard)


def columns_of_heads(name: str, kind: str, product: DFPattern, outputs: int, biased: bool) -> Rewrite:
    """join(split(x w)[a:b]) = (x w')[a':b'], where w' has columns of w in another order; with a bias or without

    Args:
        name: how the part is taken.
        kind: the name of the product.
        product: the pattern of the product of ``x`` and ``w``.
        outputs: the axis of ``w`` along which its columns lie.
        biased: whether a bias is added.
    """
    value = product + b if biased else product
    view = reshape(value)
    part, taken, refs = CUTS[name](view)
    root = reshape(part)
    types = (type_of(value), type_of(view), type_of(root))

    def found(whole: TensorType, view: TensorType, result: TensorType, *of: object) -> tuple[Array, Ranges] | Refusal:
        return columns_for(whole, view, result, taken(*of))

    def places(*of: Any) -> Ranges | Refusal:
        every = found(*of)
        return every if isinstance(every, Refusal) else every[1]

    columns = computed_parts(found, *types, *refs)(0)
    reordered = like(product, x, take(w, columns, axis=outputs, mode="fast"))
    if biased:
        reordered = like(value, reordered, take(b, columns, axis=0, mode="fast"))
    return rewrite(
        f"{name}-of-heads-of-{kind}{'-with-bias' if biased else ''}",
        root,
        cut(reordered, places, *types, *refs),
        given(w),
        when(is_matrix, attrs_of(product), type_of(w)),
        *[when(is_for_columns, type_of(b), type_of(product))] * biased,
        soundness=Soundness.ROUNDING,
    )


PRODUCTS = (("matmul", nn.matmul(x, w), 1), ("dense", nn.dense(x, w), 0))
"""Products with a weight, and the axis of it along which its outputs lie."""

columns = RuleSet(
    "columns",
    [
        *[neighbours_of_heads(f"{name}-of-heads", name, y, given(y)) for name in CUTS],
        *[
            neighbours_of_heads(f"{name}-of-neighbours-of-{kind}", name, product, given(w))
            for name in CUTS
            for kind, product, _ in PRODUCTS
        ],
        *[
            columns_of_heads(name, kind, product, outputs, biased)
            for name in CUTS
            for kind, product, outputs in PRODUCTS
            for biased in (False, True)
        ],
    ],
)

"""Views that split and join axes, past transposes, batched products and broadcasting operands.

A view splits and joins neighbouring axes in blocks: each block of axes before has as many elements as one of axes
behind. What works on whole blocks works as well before the view, where views meet and cancel. PyTorch writes the
transpose of the keys of attention, and BLOOM its scores, with batches and heads joined in one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, mul

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, weighted, when
from eqsat.egraph.rule import Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.dims import multiply_dims, quotient
from eqsat.relay.op import reshape, transpose
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType
from eqsat.rules.axes import inverse_order, is_last, permutation
from eqsat.rules.operators import view
from eqsat.rules.shape import codes_between, moves_ones_only, reshaped
from eqsat.rules.types import Shape, is_scalar, keeps, rank_of, same_sizes
from eqsat.rules.values import computed_parts

x, y, z = variables("x y z")
c, s = constants("c s")

Block = tuple[range, range]
"""Axes before a view, and the axes behind it that have the same elements."""


def blocks_of(before: Sequence[Dim], after: Sequence[Dim]) -> list[Block] | None:
    """The smallest blocks of a view from one shape to another, None where it is not known which they are."""
    if not before or not after or 0 in before or AnyDim() in (*before, *after):
        return None
    found, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        first, other, left, right = i, j, before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if i < len(before) and _divides(left, right):
                left, i = multiply_dims(left, before[i]), i + 1
            elif j < len(after) and _divides(right, left):
                right, j = multiply_dims(right, after[j]), j + 1
            else:
                return None
        found.append((range(first, i), range(other, j)))
    if any(dim != 1 for dim in (*before[i:], *after[j:])):
        return None
    last, behind = found[-1]
    found[-1] = range(last.start, len(before)), range(behind.start, len(after))
    return found


def _divides(part: Dim, whole: Dim) -> bool:
    """Whether a dimension may be a factor of another: of numbers, the smaller one is tried."""
    if isinstance(part, int) and isinstance(whole, int):
        return part < whole
    return quotient([whole], [part]) not in (None, AnyDim())


def moved_blocks(
    turn: Attrs, data: TensorType, turned: TensorType, result: TensorType
) -> tuple[list[Dim], Shape] | None:
    """A view of a transpose as a transpose of a view: the shape of that view, and the order of its axes.

    Args:
        turn: the attributes of the transpose.
        data, turned: the types before and behind it.
        result: the type of the view.
    """
    blocks = blocks_of(turned.shape, result.shape)
    if blocks is None:
        return None
    order = permutation(turn, rank_of(data))
    long = [axis for axis in range(rank_of(data)) if data.shape[axis] != 1]
    starts = []
    for axes, _ in blocks:
        of_data = [order[axis] for axis in axes]
        places = [long.index(axis) for axis in of_data if axis in long]
        if places and places != list(range(places[0], places[0] + len(places))):
            return None
        starts.append(long[places[0]] if places else of_data[0])
    ranked = sorted(range(len(blocks)), key=lambda index: starts[index])
    moved = [axis for index in ranked for axis in blocks[index][1]]
    return [result.shape[axis] for axis in moved], inverse_order(moved)


def before_transpose(
    turn: Attrs, whole: TensorType, data: TensorType, turned: TensorType, result: TensorType
) -> tuple[Shape, Shape] | Refusal:
    """The codes of a reshape of ``whole``, of which ``data`` is a view, and the transpose of it."""
    found = moved_blocks(turn, data, turned, result)
    if found is None:
        return refuse("axes are joined that the transpose parts")
    shape, order = found
    codes = codes_between(whole.shape, shape)
    return codes if isinstance(codes, Refusal) else (codes, order)


inner_view = view(x)
turned_view = transpose(inner_view)
outer_view = view(turned_view)
part_before = computed_parts(
    before_transpose, attrs_of(turned_view), *map(type_of, (x, inner_view, turned_view, outer_view))
)

batch = view(x)
turned = transpose(batch)


def turns_a_matrix(turn: Attrs, matrix: TensorType, batch: TensorType) -> bool:
    """Guard: a view of a matrix that adds axes of one element is transposed, and so is the matrix."""
    is_matrix = rank_of(matrix) == 2 and not {0, 1} & {*matrix.shape}
    is_kept = same_sizes([dim for dim in batch.shape if dim != 1], matrix.shape)
    return is_matrix and is_kept and not moves_ones_only(turn, batch)


# ---- batches of matrices


def keeps_matrices(result: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Whether a view keeps the last two axes, of matrices, and splits or joins those in front."""
    return len(result) > 2 < len(after) and same_sizes(result[-2:], after[-2:])


def of_batches(part: TensorType, other: TensorType, product: TensorType, after: TensorType) -> Shape | Refusal:
    """The codes of a reshape of an operand of a product of matrices whose batches another view splits or joins."""
    if not keeps_matrices(product.shape, after.shape) or not same_sizes(
        part.shape[:-2], other.shape[:-2], product.shape[:-2]
    ):
        return refuse("it changes matrices, or operands are repeated")
    return codes_between(part.shape, (*after.shape[:-2], *part.shape[-2:]))


def keeps_last_axis(before: TensorType, after: TensorType) -> bool:
    """Guard: a view keeps the last axis."""
    return bool(before.shape) and same_sizes(before.shape[-1:], after.shape[-1:]) and 0 not in before.shape


def along_blocks(part: TensorType, whole: TensorType, after: TensorType) -> Shape | Refusal:
    """The codes of a reshape of a tensor that broadcasts against another one, along whole blocks of a view of that."""
    blocks = blocks_of(whole.shape, after.shape)
    if blocks is None or rank_of(part) > rank_of(whole):
        return refuse("what the view splits and joins is not known")
    dims = (*[1] * (rank_of(whole) - rank_of(part)), *part.shape)
    shape: list[Dim] = []
    for before, behind in blocks:
        own = [dims[axis] for axis in before]
        if own == [whole.shape[axis] for axis in before]:
            shape += [after.shape[axis] for axis in behind]
        elif all(dim == 1 for dim in own):
            shape += [1] * len(behind)
        else:
            return refuse("it broadcasts along a part of what the view joins")
    return codes_between(part.shape, shape)


def as_many_axes(part: TensorType, other: TensorType) -> Shape | Refusal:
    """The codes of a reshape of matrices that puts axes of one element in front, until there are as many axes."""
    if not 2 < rank_of(part) < rank_of(other) or 0 in part.shape:
        return refuse("it is one matrix, has as many axes, or has no elements")
    return codes_between(part.shape, (*[1] * (rank_of(other) - rank_of(part)), *part.shape))


product = nn.matmul(x, y)
seen_product = view(product)
batches_of_left, batches_of_right = (
    compute(of_batches, *map(type_of, (one, two, product, seen_product))) for one, two in ((x, y), (y, x))
)
laid_out = view(x)
soft = nn.softmax(x)
seen_soft = view(soft)


def with_axes_of(data: DFPattern, other: DFPattern) -> DFPattern:
    """Batches of matrices with as many axes as others have."""
    return reshape(data, newshape=compute(as_many_axes, type_of(data), type_of(other)))


def into_scores(name: str, scores: DFPattern) -> Rewrite:
    """view(scores + z) = view(scores) + view(z), where z is a mask or bias of scores"""
    whole = scores + z
    seen = view(whole)
    moved = reshape(z, newshape=compute(along_blocks, type_of(z), type_of(whole), type_of(seen)))
    return rewrite(f"view-into-masked-{name}", seen, like(seen, scores) + moved, keeps(whole, scores))


def constant_into_view(verb: str, whole: DFPattern, operator: Callable[[DFPattern, DFPattern], DFPattern]) -> Rewrite:
    """view(x) + c = view(x + c'), where a weight in x can take in the constant"""
    moved = reshape(c, newshape=compute(along_blocks, type_of(c), type_of(whole), type_of(x)))
    return rewrite(
        f"{verb}-into-view-of-product",
        whole,
        like(laid_out, operator(x, moved)),
        when(lambda ty: not is_scalar(ty), type_of(c)),
        keeps(whole, laid_out),
        weighted(x),
    )


blocks = RuleSet(
    "blocks",
    [
        # view(T view(x)) = T' view'(x)
        rewrite(
            "transpose-out-of-views",
            outer_view,
            transpose(reshape(x, newshape=part_before(0)), axes=part_before(1)),
        ),
        # T view(x) = view(T x) of a matrix, so that all rows at once stay a matrix
        rewrite(
            "view-out-of-transpose-of-matrix",
            turned,
            reshaped(transpose(x, axes=(1, 0)), turned, is_matched=False),
            when(turns_a_matrix, attrs_of(turned), type_of(x), type_of(batch)),
        ),
        # view(x y) = view(x) view(y)
        rewrite(
            "view-into-product",
            seen_product,
            like(product, reshape(x, newshape=batches_of_left), reshape(y, newshape=batches_of_right)),
            soundness=Soundness.ROUNDING,
        ),
        # operands with fewer axes are repeated along the axes in front
        rewrite("matmul-of-more-axes", product, like(product, x, with_axes_of(y, x)), soundness=Soundness.ROUNDING),
        rewrite("more-axes-by-matmul", product, like(product, with_axes_of(x, y), y), soundness=Soundness.ROUNDING),
        constant_into_view("shift", laid_out + c, add),
        constant_into_view("scale", laid_out * c, mul),
        into_scores("product", product),
        into_scores("scaled-product", product * s),
        # view(softmax(x)) = softmax(view(x))
        rewrite(
            "view-into-softmax",
            seen_soft,
            like(soft, like(seen_soft, x), axis=-1),
            when(is_last, attrs_of(soft), type_of(x)),
            when(keeps_last_axis, type_of(soft), type_of(seen_soft)),
            soundness=Soundness.ROUNDING,
        ),
    ],
)

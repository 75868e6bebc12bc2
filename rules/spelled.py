"""Ways of writing one thing between which no cost decides, each written in one of them.

Optimization does without these rules: a matrix product costs the same whether its weight is transposed, whether its
operand has one axis or two that are not multiplied, and whether a bias is added by an operator of its own. Where two
graphs are to be proved equal, each may be written in another way, and both come to be written in a third.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, Compute, FoldConstants, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import concatenate, reshape, stack, strided_slice, transpose, where
from eqsat.relay.op.nn.window import has_channels_first
from eqsat.relay.op.types import axes_indices, axis_index
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.rules.axes import permutation, reduced_axes
from eqsat.rules.operators import any_reduction, binary, one_of, view
from eqsat.rules.products import bias_shape
from eqsat.rules.rows import is_of_rows, rows_of
from eqsat.rules.shape import reshaped
from eqsat.rules.slices import Ranges, cut, ranges
from eqsat.rules.types import is_wide, rank_of
from eqsat.rules.written import written

x, y, z, m, u, v = variables("x y z m u v")
w, b, c, d = constants("w b c d")

ROUNDING = Soundness.ROUNDING


# ---- axes are counted from the front, and all of them are named


def counted(attrs: Attrs, data: Type) -> int:
    """The axis that an operator names, counted from the front."""
    first = data.fields[0] if isinstance(data, TupleType) else data
    return axis_index(attrs.axis, rank_of(first))


def stacked(attrs: Attrs, parts: TupleType) -> int:
    """The axis that a stack makes, counted from the front."""
    return axis_index(attrs.axis, rank_of(parts.fields[0]) + 1)


def arguments(attrs: Attrs, data: TensorType) -> tuple[int, ...]:
    """The axes that a search for the greatest or least element goes over."""
    return axes_indices(attrs.axis, rank_of(data), attrs.exclude)


def turned_axes(attrs: Attrs, data: TensorType) -> tuple[int, ...]:
    """The axes of a transpose, which may name none."""
    return permutation(attrs, rank_of(data))


along_one = one_of("nn.softmax", "nn.log_softmax", "cumsum", "cumprod", "argsort", "sort", "reverse", "repeat", "topk")(
    x
)
of_two = one_of("gather", "nn.bias_add", "take")(x, y)
normalized = nn.layer_norm(x, y, z)
joined, stack_of = concatenate(x), stack(x)
reduced, found = any_reduction(x), one_of("argmax", "argmin")(x)
transposed = transpose(x)


def from_front(name: str, call: DFPattern, *operands: DFPattern) -> Rewrite:
    """An operator along one axis."""
    return rewrite(
        f"axis-of-{name}-from-front",
        call,
        like(call, *operands, axis=compute(counted, attrs_of(call), type_of(x))),
        when(has_axis, attrs_of(call)),
    )


def has_axis(attrs: Attrs) -> bool:
    """Guard: an axis is given; without one some operators take all elements in a row."""
    return attrs.axis is not None


axes = RuleSet(
    "spelled-axes",
    [
        from_front("one-operand", along_one, x),
        from_front("two-operands", of_two, x, y),
        from_front("layer-norm", normalized, x, y, z),
        from_front("concatenate", joined, x),
        rewrite(
            "axis-of-stack-from-front",
            stack_of,
            like(stack_of, x, axis=compute(stacked, attrs_of(stack_of), type_of(x))),
        ),
        rewrite(
            "axes-of-reduction-named",
            reduced,
            like(reduced, x, axis=compute(reduced_axes, attrs_of(reduced), type_of(x)), exclude=False),
        ),
        rewrite(
            "axes-of-search-named",
            found,
            like(found, x, axis=compute(arguments, attrs_of(found), type_of(x)), exclude=False),
        ),
        rewrite(
            "axes-of-transpose-named",
            transposed,
            transpose(x, axes=compute(turned_axes, attrs_of(transposed), type_of(x))),
        ),
    ],
)

# ---- matrix products with a constant: its columns are the outputs, and all rows are multiplied at once


def is_plain(attrs: Attrs) -> bool:
    """Guard: the result is of the dtype of the operands."""
    return not attrs.out_dtype


def turns_matrix(attrs: Attrs, weight: TensorType) -> bool:
    """Guard: a constant matrix is transposed by the product."""
    return bool(attrs.transpose_b) and rank_of(weight) == 2


dense = nn.dense(x, w)
turned = nn.matmul(x, w)

matrices = RuleSet(
    "spelled-matrices",
    [
        rewrite(
            "dense-is-matmul", dense, nn.matmul(x, transpose(w)), when(is_plain, attrs_of(dense)), soundness=ROUNDING
        ),
        rewrite(
            "matmul-of-turned-constant",
            turned,
            like(turned, x, transpose(w), transpose_b=False),
            when(turns_matrix, attrs_of(turned), type_of(w)),
            soundness=ROUNDING,
        ),
        rewrite(
            "matmul-of-rows",
            turned,
            reshaped(like(turned, rows_of(x), w), turned, is_matched=False),
            when(is_of_rows, attrs_of(turned), type_of(x), type_of(w)),
            soundness=ROUNDING,
        ),
    ],
)

# ---- views are reshapes to a shape that is written in one way

viewed = view(x)
view_as_reshape = rewrite("view-is-reshape", viewed, reshaped(x, viewed))

# ---- biases are sums


biased = nn.bias_add(x, b)
bias_as_sum = rewrite(
    "bias-is-sum",
    biased,
    x + reshape(b, newshape=compute(bias_shape, attrs_of(biased), type_of(x), type_of(b))),
)

# ---- constants that broadcast are written as small as they can be

_MOST = 1 << 20
"""Elements of a constant beyond which it is not looked at whether they repeat."""


def smaller(constant: Array, whole: TensorType, other: TensorType) -> Array | Refusal:
    """A constant without what it repeats along axes that the other operand has in full."""
    if not 0 < constant.size <= _MOST or rank_of(other) < rank_of(whole):
        return refuse("the constant adds an axis, or is large or empty")
    missing = rank_of(whole) - constant.ndim
    found = constant
    for axis, size in enumerate(constant.shape):
        first = found.take([0], axis)
        if size > 1 and other.shape[axis + missing] == size and _repeats(found, axis):
            found = first
    while found.ndim and found.shape[0] == 1:
        found = found[0]
    return refuse("it repeats nothing") if found.shape == constant.shape else found


def _repeats(array: Array, axis: int) -> bool:
    """Whether all that is along an axis is the same, bit for bit."""
    rows = np.ascontiguousarray(np.moveaxis(array, axis, 0)).reshape(array.shape[axis], -1).view(np.uint8)
    return bool((rows == rows[0]).all())


right, left = binary(x, c), binary(c, x)
chosen_first, chosen_second = where(m, c, y), where(m, y, c)


def _small(whole: DFPattern, other: DFPattern) -> Compute:
    return compute(smaller, value_of(c), type_of(whole), type_of(other))


broadcasts = RuleSet(
    "spelled-broadcasts",
    [
        rewrite("constant-broadcasts", right, like(right, x, _small(right, x))),
        rewrite("first-constant-broadcasts", left, like(left, _small(left, x), x)),
        rewrite("chosen-constant-broadcasts", chosen_first, where(m, _small(chosen_first, m), y)),
        rewrite("other-constant-broadcasts", chosen_second, where(m, y, _small(chosen_second, m))),
    ],
)

# ---- parts of products with a constant are products with parts of it


def along_last(attrs: Attrs, whole: TensorType) -> range | Refusal:
    """What a slice takes of the last axis, if it takes all of the others."""
    found = ranges(attrs, whole)
    if isinstance(found, Refusal):
        return found
    last = rank_of(whole) - 1
    others = [axis for axis, taken in found.items() if axis != last and taken != range(whole.shape[axis])]  # type: ignore[arg-type]
    return refuse("it takes no part of the last axis alone") if others or last not in found else found[last]


def of_columns(attrs: Attrs, whole: TensorType, product: Attrs, weight: TensorType) -> Ranges | Refusal:
    """Which columns of a weight a slice of the product needs."""
    taken = along_last(attrs, whole)
    if product.transpose_b or rank_of(weight) < 2:
        return refuse("the columns of the weight are no outputs")
    return taken if isinstance(taken, Refusal) else {rank_of(weight) - 1: taken}


def of_filters(attrs: Attrs, whole: TensorType, conv: Attrs) -> Ranges | Refusal:
    """Which filters of a convolution a slice of it needs."""
    found = ranges(attrs, whole)
    if isinstance(found, Refusal):
        return found
    if not has_channels_first(conv) or conv.groups != 1 or {*found} != {1} or not found[1]:
        return refuse("it takes no part of the channels alone")
    return {0: found[1]}


def of_constant(attrs: Attrs, whole: TensorType, data: TensorType, constant: TensorType) -> Ranges | Refusal:
    """What a slice takes of a constant that broadcasts against the data."""
    found = ranges(attrs, whole)
    if isinstance(found, Refusal):
        return found
    if data.shape != whole.shape:
        return refuse("the data is broadcast")
    missing = rank_of(whole) - rank_of(constant)
    return {
        axis - missing: taken
        for axis, taken in found.items()
        if axis >= missing and constant.shape[axis - missing] != 1
    }


multiplied = nn.matmul(x, w)
convolved = nn.conv2d(x, w)
shifted, shifting = binary(x, c), binary(c, x)
part_of_product, part_of_conv = strided_slice(multiplied), strided_slice(convolved)
part_of_shifted, part_of_shifting = strided_slice(shifted), strided_slice(shifting)

parts = RuleSet(
    "spelled-parts",
    [
        rewrite(
            "part-of-matmul",
            part_of_product,
            like(
                multiplied,
                x,
                cut(w, of_columns, attrs_of(part_of_product), type_of(multiplied), attrs_of(multiplied), type_of(w)),
                units=None,
            ),
            soundness=ROUNDING,
        ),
        rewrite(
            "part-of-conv2d",
            part_of_conv,
            like(
                convolved,
                x,
                cut(w, of_filters, attrs_of(part_of_conv), type_of(convolved), attrs_of(convolved)),
                channels=None,
            ),
            soundness=ROUNDING,
        ),
        rewrite(
            "part-of-sum-with-constant",
            part_of_shifted,
            like(
                shifted,
                like(part_of_shifted, x),
                cut(c, of_constant, attrs_of(part_of_shifted), type_of(shifted), type_of(x), type_of(c)),
            ),
        ),
        rewrite(
            "part-of-constant-and-data",
            part_of_shifting,
            like(
                shifting,
                cut(c, of_constant, attrs_of(part_of_shifting), type_of(shifting), type_of(x), type_of(c)),
                like(part_of_shifting, x),
            ),
        ),
    ],
)

# ---- numbers by which operands of a product are scaled come behind it


def is_one_number(ty: TensorType) -> bool:
    """Guard: a constant without axes, of a dtype in which a product of usual numbers does not overflow."""
    return ty.shape == () and is_wide(ty)


def scaled_behind(name: str, product: Callable[[DFPattern, DFPattern], DFPattern]) -> list[Rewrite]:
    """(c x) y = c (x y) = x (c y)"""
    first, second = product(x * c, y), product(y, x * c)
    return [
        rewrite(
            f"scale-out-of-{name}-{place}",
            whole,
            like(whole, *operands) * c,
            when(is_one_number, type_of(c)),
            soundness=ROUNDING,
        )
        for place, whole, operands in (("left", first, (x, y)), ("right", second, (y, x)))
    ]


scales = RuleSet(
    "spelled-scales", [*scaled_behind("matmul", nn.matmul), *scaled_behind("batch-matmul", nn.batch_matmul)]
)

large = FoldConstants("fold-large-constants", limit=1 << 24)
"""A weight that one graph has turned is given in the other."""

spelled = RuleSet("spelled", [axes, large, matrices, view_as_reshape, bias_as_sum, broadcasts, parts, scales, written])

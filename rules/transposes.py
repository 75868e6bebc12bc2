"""Transposes travel towards the results, past all operators that work in any order of axes.

Where two of them meet, they become one or cancel. ``T`` stands for a transpose below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Compute, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item, many, wildcard
from eqsat.relay.dims import multiply_dims
from eqsat.relay.op import concatenate, expand_dims, reshape, split, squeeze, strided_slice, transpose
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import Dim, TensorType, Type, is_exact, is_static
from eqsat.rules.axes import among_ones, from_front, inverse_order, permutation, reduced_axes, without
from eqsat.rules.operators import any_reduction, binary, one_of, unary, view
from eqsat.rules.types import Shape, has_zero, is_scalar, rank_of
from eqsat.rules.values import attribute, computed_parts

x, y, z = variables("x y z")
(c,) = constants("c")
ROUNDING = Soundness.ROUNDING
turned, turned_too = transpose(x), transpose(y)


def turn_like(result: DFPattern) -> DFPattern:
    """``result``, transposed as ``x`` was."""
    axes = compute(lambda attrs, ty: permutation(attrs, rank_of(ty)), attrs_of(turned), type_of(x))
    return transpose(result, axes=axes)


def same_order(first: Attrs, second: Attrs, ty: Type, other: Type) -> bool:
    rank = rank_of(ty)
    return rank == rank_of(other) and permutation(first, rank) == permutation(second, rank)


# ---- elementwise

applied = unary(turned)
joined = binary(turned, turned_too)
with_number, number_first = binary(x, c), binary(c, x)
turned_scaling, turned_ordered = transpose(with_number), transpose(number_first)
viewed = view(x)
function_of_view = unary(viewed)
turned_function = transpose(function_of_view)


def spread_axes(attrs: Attrs, ty: Type, of: TensorType) -> Shape | Refusal:
    """The shape of a constant with as many axes as ``x``."""
    missing = rank_of(ty) - rank_of(of)
    if missing < 0 or not rank_of(of) or not is_static(of) or has_zero(of):
        return refuse("the constant has no elements, no axes, or more than the tensor")
    return (1,) * missing + of.concrete_shape


def spread() -> DFPattern:
    """The constant, with as many axes as ``x``."""
    return reshape(c, newshape=compute(spread_axes, attrs_of(turned), type_of(x), type_of(c)))


def turned_back() -> DFPattern:
    """The constant in the order of ``x``."""
    back = compute(lambda attrs, ty: inverse_order(permutation(attrs, rank_of(ty))), attrs_of(turned), type_of(x))
    return transpose(spread(), axes=back)


def is_small_scalar(ty: Type, of: Type) -> bool:
    return is_scalar(of) and rank_of(of) <= rank_of(ty)


def is_spread(ty: Type, of: Type) -> bool:
    if is_scalar(of) or not is_static(of):
        return False
    return 0 < rank_of(of) <= rank_of(ty) and 0 not in of.shape


def beside(name: str, constant: DFPattern, *guards: Guard) -> list[Rewrite]:
    """T x + c = T (x + constant), and c + T x = T (constant + x)"""
    first, second = binary(turned, c), binary(c, turned)
    return [
        rewrite(f"transpose-out-of-{name}", first, turn_like(like(first, x, constant)), *guards),
        rewrite(f"transpose-out-of-ordered-{name}", second, turn_like(like(second, constant, x)), *guards),
    ]


elementwise = RuleSet(
    "transposes-elementwise",
    [
        # f(T x) = T f(x)
        rewrite("transpose-out-of-unary", applied, turn_like(like(applied, x))),
        # T f(view(x)) = T view(f(x)): other rules look for views under transposes
        rewrite(
            "view-out-of-turned-unary",
            turned_function,
            like(turned_function, like(viewed, like(function_of_view, x))),
        ),
        # T x + T y = T (x + y)
        rewrite(
            "transpose-out-of-binary",
            joined,
            turn_like(like(joined, x, y)),
            when(same_order, attrs_of(turned), attrs_of(turned_too), type_of(x), type_of(y)),
        ),
        *beside("scaling", c, when(is_small_scalar, type_of(x), type_of(c))),
        # T (x + c) = T x + c of a number, behind which other rules look for the transpose
        *[
            rewrite(f"transpose-into-{name}", whole, made, when(is_small_scalar, type_of(x), type_of(c)))
            for name, whole, made in (
                ("scaling", turned_scaling, like(with_number, like(turned_scaling, x), c)),
                ("ordered-scaling", turned_ordered, like(number_first, c, like(turned_ordered, x))),
            )
        ],
        *beside("constant", turned_back(), when(is_spread, type_of(x), type_of(c))),
    ],
)

# ---- along some axes


def of_turned(function: Callable[..., object], call: DFPattern) -> Compute:
    """What ``function`` makes of the attributes of ``call`` and of the transpose, and of the type of ``x``."""
    return compute(function, attrs_of(call), attrs_of(turned), type_of(x))


def mapped_axis(attrs: Attrs, turn: Attrs, ty: Type) -> int:
    """The ``axis`` of a call in terms of the axes of ``x``."""
    return permutation(turn, rank_of(ty))[axis_index(attrs.axis, rank_of(ty))]


def reduction(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[Shape, Shape]:
    """The axes of a reduction in terms of the axes of ``x``, and the transpose of what it leaves of ``x``."""
    axes, gone = permutation(turn, rank_of(ty)), reduced_axes(attrs, ty)
    return tuple(sorted(axes[axis] for axis in gone)), axes if attrs.keepdims else without(axes, gone)


def squeezing(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[Shape, Shape] | Refusal:
    """The axes that a squeeze of ``T x`` removes, in terms of ``x``, and the order of the axes that are left."""
    if attrs.axis is None:
        return refuse("the axes are not given")
    axes, gone = permutation(turn, rank_of(ty)), from_front(attrs.axis, rank_of(ty))
    return tuple(sorted(axes[axis] for axis in gone)), without(axes, gone)


def expanded_order(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[int, ...]:
    """The transpose of ``x`` with new axes last, so that they come where ``attrs`` say."""
    rank, count = rank_of(ty), attrs.num_newaxis
    axes, at = permutation(turn, rank), attrs.axis % (rank + 1)
    return (*axes[:at], *range(rank, rank + count), *axes[at:])


def pad_width(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[Shape, ...]:
    """The widths of a pad of ``T x`` in the order of the axes of ``x``."""
    back = inverse_order(permutation(turn, rank_of(ty)))
    return tuple(tuple(attrs.pad_width[axis]) for axis in back)


def slice_axes(attrs: Attrs, turn: Attrs, ty: Type) -> Shape:
    """The axes of a slice of ``T x`` in terms of the axes of ``x``."""
    return renamed_axes(attrs, permutation(turn, rank_of(ty)))


def renamed_axes(attrs: Attrs, names: Shape) -> Shape:
    """The axes of a slice, where each axis has another number, by its number."""
    which = range(len(attrs.begin)) if attrs.axes is None else from_front(attrs.axes, len(names))
    return tuple([names[axis] for axis in which])


def has_plain_bounds(attrs: Attrs) -> bool:
    return len(attrs.begin) == len(attrs.end) and len(attrs.strides) in (0, 1, len(attrs.begin))


reduced = any_reduction(turned)
reduces = computed_parts(reduction, attrs_of(reduced), attrs_of(turned), type_of(x))
soft = one_of("nn.softmax", "nn.log_softmax")(turned)
squeezed, expanded = squeeze(turned), expand_dims(turned)
squeezes = computed_parts(squeezing, attrs_of(squeezed), attrs_of(turned), type_of(x))
padded = is_op("nn.pad")(turned, y)
sliced = strided_slice(turned)

axes = RuleSet(
    "transposes-along-axes",
    [
        # sum(T x) = T' sum(x)
        rewrite(
            "transpose-out-of-reduction",
            reduced,
            transpose(like(reduced, x, axis=reduces(0), exclude=False), axes=reduces(1)),
            soundness=ROUNDING,  # sums in another order
        ),
        rewrite(
            "transpose-out-of-softmax",
            soft,
            turn_like(like(soft, x, axis=of_turned(mapped_axis, soft))),
            soundness=ROUNDING,
        ),
        rewrite("transpose-out-of-squeeze", squeezed, transpose(squeeze(x, axis=squeezes(0)), axes=squeezes(1))),
        rewrite(
            "transpose-out-of-expand-dims",
            expanded,
            transpose(like(expanded, x, axis=compute(rank_of, type_of(x))), axes=of_turned(expanded_order, expanded)),
        ),
        rewrite("transpose-out-of-pad", padded, turn_like(like(padded, x, y, pad_width=of_turned(pad_width, padded)))),
        rewrite(
            "transpose-out-of-slice",
            sliced,
            turn_like(like(sliced, x, axes=of_turned(slice_axes, sliced))),
            when(has_plain_bounds, attrs_of(sliced)),
        ),
    ],
)

# ---- several tensors

field = wildcard()
turned_field = transpose(field)
branches = concatenate(is_tuple([many(turned_field)]))
parts = split(turned)
part = is_tuple_get_item(parts)


def joined_axis(attrs: Attrs, turns: Sequence[Attrs], types: Sequence[Type]) -> int:
    """The axis of a concatenation in terms of the axes of its fields before they are transposed."""
    rank = rank_of(types[0])
    return permutation(turns[0], rank)[axis_index(attrs.axis, rank)]


def one_order(turns: Sequence[Attrs], types: Sequence[Type]) -> bool:
    """Guard: all fields are transposed in the same way."""
    return all(same_order(turns[0], turn, types[0], ty) for turn, ty in zip(turns, types, strict=True))


several = RuleSet(
    "transposes-several",
    [
        # concat(T x, T y, ..) = T concat(x, y, ..)
        rewrite(
            "transpose-out-of-concat",
            branches,
            transpose(
                like(
                    branches,
                    is_tuple([many(field)]),
                    axis=compute(joined_axis, attrs_of(branches), attrs_of(turned_field), type_of(field)),
                ),
                axes=compute(
                    lambda turns, types: permutation(turns[0], rank_of(types[0])),
                    attrs_of(turned_field),
                    type_of(field),
                ),
            ),
            when(one_order, attrs_of(turned_field), type_of(field)),
        ),
        # split(T x).i = T (split(x).i)
        rewrite(
            "transpose-out-of-split", part, turn_like(like(part, like(parts, x, axis=of_turned(mapped_axis, parts))))
        ),
    ],
)

# ---- axes that a view joins


def groups(whole: TensorType, joined: TensorType) -> list[list[int]] | None:
    """For each axis of a view the axes of the tensor that are joined in it, None where the view parts an axis."""
    found: list[list[int]] = []
    axis = 0
    for dim in joined.shape:
        group: list[int] = []
        product: Dim = 1
        while axis < len(whole.shape) and (not group or product != dim):
            group.append(axis)
            product = multiply_dims(product, whole.shape[axis])
            axis += 1
        if product != dim or not group:
            return None
        found.append(group)
    return found if all(dim == 1 for dim in whole.shape[axis:]) else None


def order_apart(attrs: Attrs, whole: TensorType, joined: TensorType, result: TensorType) -> tuple[int, ...] | Refusal:
    """The transpose of ``whole`` that moves its axes as groups of them are moved, where ``result`` has them all."""
    if rank_of(joined) >= rank_of(whole) or rank_of(result) != rank_of(whole) or not is_exact(whole):
        return refuse("no axes are joined and parted again")
    found = groups(whole, joined)
    if found is None:
        return refuse("an axis is parted")
    order = [axis for group in permutation(attrs, rank_of(joined)) for axis in found[group] if whole.shape[axis] != 1]
    ones = [axis for axis, dim in enumerate(whole.shape) if dim == 1]
    if [whole.shape[axis] for axis in order] != [dim for dim in result.shape if dim != 1]:
        return refuse("it ends in other axes")
    return among_ones(order, ones, result.shape)


def transposed_groups(name: str, reshaped: Callable[[DFPattern, DFPattern], DFPattern]) -> Rewrite:
    """view(T view(x)) = T' x"""
    joined = reshaped(x, y)
    turned = transpose(joined)
    apart = reshaped(turned, z)
    axes = compute(order_apart, attrs_of(turned), type_of(x), type_of(joined), type_of(apart))
    return rewrite(name, apart, transpose(x, axes=axes))


regrouped = RuleSet(
    "transposes-of-joined-axes",
    [
        transposed_groups("transpose-of-joined-axes", lambda data, sizes: view(data)),
        transposed_groups("transpose-of-axes-joined-by-sizes", is_op("dyn.reshape")),
    ],
)

# ---- products: transposes of operands and results are flags of matrix products


def swaps_last(attrs: Attrs, ty: Type) -> bool:
    """Guard: a transpose exchanges the last two axes and nothing else."""
    rank = rank_of(ty)
    return rank > 1 and permutation(attrs, rank) == (*range(rank - 2), rank - 1, rank - 2)


matmul_left, matmul_right = nn.matmul(turned, z), nn.matmul(z, turned)
batch_left, batch_right = nn.batch_matmul(turned, z), nn.batch_matmul(z, turned)
dense_right = nn.dense(z, turned)
product = nn.matmul(x, y)
whole = transpose(product)
dense = nn.dense(x, y)
turned_dense = transpose(dense)
is_flag = when(swaps_last, attrs_of(turned), type_of(x))


def dtype_of_swapped(attrs: Attrs, second: TensorType, product: TensorType) -> str:
    """The attribute of a product whose factors change places: it has the dtype of the first one by default."""
    return attrs.out_dtype or ("" if second.dtype == product.dtype else product.dtype)


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
                is_flag,
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
            is_flag,
            soundness=ROUNDING,
        ),
        # T (x @ y) = T y @ T x
        rewrite(
            "transpose-of-matmul",
            whole,
            nn.matmul(
                y,
                x,
                transpose_a=flipped(product, "transpose_b"),
                transpose_b=flipped(product, "transpose_a"),
                out_dtype=compute(dtype_of_swapped, attrs_of(product), type_of(y), type_of(product)),
            ),
            when(swaps_last, attrs_of(whole), type_of(product)),
            when(lambda *types: all(rank_of(ty) == 2 for ty in types), type_of(x), type_of(y)),
            soundness=ROUNDING,
        ),
        # T (x @ T y) = y @ T x
        rewrite(
            "transpose-of-dense",
            turned_dense,
            like(dense, y, x, units=None),
            when(swaps_last, attrs_of(turned_dense), type_of(dense)),
            when(lambda ty: rank_of(ty) == 2, type_of(x)),
            soundness=ROUNDING,
        ),
    ],
)

transposes = RuleSet("transposes", [elementwise, axes, several, regrouped, products])

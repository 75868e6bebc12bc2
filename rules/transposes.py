"""Transposes travel towards the results, past all operators that work in any order of axes.

Where two of them meet, they become one or cancel. ``T`` stands for a transpose below.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.egraph.author import attrs_of, compute, constants, like, refuse, rewrite, type_of, variables, when
from eqsat.egraph.rule import Compute, Refusal, RuleSet, Soundness
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op, is_tuple, is_tuple_get_item, many, wildcard
from eqsat.relay.op import concatenate, expand_dims, reshape, split, squeeze, strided_slice, transpose
from eqsat.relay.op.types import axis_index
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.rules.axes import from_front, inverse_order, permutation, reduced_axes, renumbered
from eqsat.rules.operators import any_reduction, binary, commutative, one_of, ordered, unary
from eqsat.rules.transposed_products import products
from eqsat.rules.types import Shape, is_scalar, rank_of

x, y, z = variables("x y z")
(c,) = constants("c")
ROUNDING = Soundness.ROUNDING
turned, turned_too = transpose(x), transpose(y)


def order(of: DFPattern, operand: DFPattern) -> Compute:
    """The axes of a matched transpose."""
    return compute(lambda attrs, ty: permutation(attrs, rank_of(ty)), attrs_of(of), type_of(operand))


def turn_like(result: DFPattern) -> DFPattern:
    """``result``, transposed as ``x`` was."""
    return transpose(result, axes=order(turned, x))  # type: ignore[no-any-return]


def same_order(first: Attrs, second: Attrs, ty: Type, other: Type) -> bool:
    rank = rank_of(ty)
    return rank == rank_of(other) and permutation(first, rank) == permutation(second, rank)


# ---- elementwise

applied = unary(turned)
joined = binary(turned, turned_too)
with_scalar, scalar_first = (commutative | ordered)(turned, c), ordered(c, turned)
with_constant, constant_first = (commutative | ordered)(turned, c), ordered(c, turned)


def spread_axes(attrs: Attrs, ty: Type, of: TensorType) -> Shape | Refusal:
    """The shape of a constant with as many axes as ``x``."""
    missing = rank_of(ty) - rank_of(of)
    if missing < 0 or not rank_of(of) or not is_static(of):
        return refuse("the constant has no axes, or more than the tensor")
    return (1,) * missing + of.concrete_shape


def turned_back() -> DFPattern:
    """The constant in the order of ``x``."""
    padded = reshape(c, newshape=compute(spread_axes, attrs_of(turned), type_of(x), type_of(c)))
    back = compute(lambda attrs, ty: inverse_order(permutation(attrs, rank_of(ty))), attrs_of(turned), type_of(x))
    return transpose(padded, axes=back)  # type: ignore[no-any-return]


def is_small_scalar(ty: Type, of: Type) -> bool:
    return is_scalar(of) and rank_of(of) <= rank_of(ty)


def is_spread(ty: Type, of: Type) -> bool:
    if is_scalar(of) or not is_static(of):
        return False
    return 0 < rank_of(of) <= rank_of(ty) and 0 not in of.shape


scalars = when(is_small_scalar, type_of(x), type_of(c))
spread = when(is_spread, type_of(x), type_of(c))

elementwise = RuleSet(
    "transposes-elementwise",
    [
        # f(T x) = T f(x)
        rewrite("transpose-out-of-unary", applied, turn_like(like(applied, x))),
        # T x + T y = T (x + y)
        rewrite(
            "transpose-out-of-binary",
            joined,
            turn_like(like(joined, x, y)),
            when(same_order, attrs_of(turned), attrs_of(turned_too), type_of(x), type_of(y)),
        ),
        # T x + a = T (x + a)
        rewrite("transpose-out-of-scaling", with_scalar, turn_like(like(with_scalar, x, c)), scalars),
        rewrite("transpose-out-of-ordered-scaling", scalar_first, turn_like(like(scalar_first, c, x)), scalars),
        # T x + c = T (x + T' c)
        rewrite("transpose-out-of-constant", with_constant, turn_like(like(with_constant, x, turned_back())), spread),
        rewrite(
            "transpose-out-of-ordered-constant",
            constant_first,
            turn_like(like(constant_first, turned_back(), x)),
            spread,
        ),
    ],
)

# ---- along some axes


def mapped_axis(call: DFPattern) -> Compute:
    """The ``axis`` of ``call`` in terms of the axes of ``x``."""

    def axis(attrs: Attrs, turn: Attrs, ty: Type) -> int:
        return permutation(turn, rank_of(ty))[axis_index(attrs.axis, rank_of(ty))]

    return compute(axis, attrs_of(call), attrs_of(turned), type_of(x))


def mapped_axes(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[int, ...]:
    """The axes of a reduction in terms of the axes of ``x``."""
    axes = permutation(turn, rank_of(ty))
    return tuple(sorted(axes[axis] for axis in reduced_axes(attrs, ty)))


def left_order(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[int, ...]:
    """The transpose of what a reduction leaves of ``x``."""
    axes = permutation(turn, rank_of(ty))
    if attrs.keepdims:
        return axes
    gone = reduced_axes(attrs, ty)
    return renumbered([axes[axis] for axis in range(rank_of(ty)) if axis not in gone])


def squeezed_axes(attrs: Attrs, turn: Attrs, ty: TensorType) -> Shape | Refusal:
    """The axes that a squeeze of ``T x`` removes, in terms of ``x``."""
    axes = permutation(turn, rank_of(ty))
    if attrs.axis is None:
        return refuse("the axes are not given")
    return tuple(sorted(axes[axis] for axis in from_front(attrs.axis, rank_of(ty))))


def squeezed_order(attrs: Attrs, turn: Attrs, ty: TensorType) -> Shape | Refusal:
    """The order of the axes that are left."""
    axes = permutation(turn, rank_of(ty))
    if attrs.axis is None:
        return refuse("the axes are not given")
    gone = from_front(attrs.axis, rank_of(ty))
    return renumbered([axes[axis] for axis in range(rank_of(ty)) if axis not in gone])


def expanded_order(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[int, ...]:
    """The transpose of ``x`` with new axes last, so that they come where ``attrs`` say."""
    rank, count = rank_of(ty), attrs.num_newaxis
    axes, at = permutation(turn, rank), attrs.axis % (rank + 1)
    return (*axes[:at], *range(rank, rank + count), *axes[at:])


def pad_width(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[Shape, ...]:
    """The widths of a pad of ``T x`` in the order of the axes of ``x``."""
    back = inverse_order(permutation(turn, rank_of(ty)))
    return tuple(tuple(attrs.pad_width[axis]) for axis in back)


def slice_axes(attrs: Attrs, turn: Attrs, ty: Type) -> tuple[int, ...]:
    axes = permutation(turn, rank_of(ty))
    which = range(len(attrs.begin)) if attrs.axes is None else from_front(attrs.axes, rank_of(ty))
    return tuple(axes[axis] for axis in which)


def has_plain_bounds(attrs: Attrs) -> bool:
    return len(attrs.begin) == len(attrs.end) and len(attrs.strides) in (0, 1, len(attrs.begin))


reduced = any_reduction(turned)
about = (attrs_of(reduced), attrs_of(turned), type_of(x))
soft = one_of("nn.softmax", "nn.log_softmax")(turned)
squeezed, expanded = squeeze(turned), expand_dims(turned)
padded = is_op("nn.pad")(turned, y)
sliced = strided_slice(turned)

axes = RuleSet(
    "transposes-along-axes",
    [
        # sum(T x) = T' sum(x)
        rewrite(
            "transpose-out-of-reduction",
            reduced,
            transpose(
                like(reduced, x, axis=compute(mapped_axes, *about), exclude=False), axes=compute(left_order, *about)
            ),
        ),
        rewrite("transpose-out-of-softmax", soft, turn_like(like(soft, x, axis=mapped_axis(soft))), soundness=ROUNDING),
        rewrite(
            "transpose-out-of-squeeze",
            squeezed,
            transpose(
                squeeze(x, axis=compute(squeezed_axes, attrs_of(squeezed), attrs_of(turned), type_of(x))),
                axes=compute(squeezed_order, attrs_of(squeezed), attrs_of(turned), type_of(x)),
            ),
        ),
        rewrite(
            "transpose-out-of-expand-dims",
            expanded,
            transpose(
                like(expanded, x, axis=compute(rank_of, type_of(x))),
                axes=compute(expanded_order, attrs_of(expanded), attrs_of(turned), type_of(x)),
            ),
        ),
        rewrite(
            "transpose-out-of-pad",
            padded,
            turn_like(like(padded, x, y, pad_width=compute(pad_width, attrs_of(padded), attrs_of(turned), type_of(x)))),
        ),
        rewrite(
            "transpose-out-of-slice",
            sliced,
            turn_like(like(sliced, x, axes=compute(slice_axes, attrs_of(sliced), attrs_of(turned), type_of(x)))),
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
        rewrite("transpose-out-of-split", part, turn_like(like(part, like(parts, x, axis=mapped_axis(parts))))),
    ],
)

transposes = RuleSet("transposes", [elementwise, axes, several, products])

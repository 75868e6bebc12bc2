"""Reductions: two in a row, over axes of one element, before a view; and functions of sums that are one operator."""

from __future__ import annotations

import operator
from math import prod

from eqsat.egraph.author import (
    attrs_of,
    base,
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
from eqsat.egraph.bases import EXTREMES
from eqsat.egraph.rule import Array, Guard, Refusal, Rewrite, RuleSet, Soundness
from eqsat.egraph.scales import is_moderate
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.op import abs, exp, log, mean, sqrt, sum
from eqsat.relay.ty import Dim, TensorType, Type, is_exact
from eqsat.rules.axes import reduced_axes
from eqsat.rules.operators import any_reduction, reduction, view
from eqsat.rules.shape import reshaped
from eqsat.rules.types import Shape, floats, floats_alike, is_wide, rank_of, same_dtype
from eqsat.rules.values import Filled, all_positive, attribute, is_finite

(x,) = variables("x")
a, c, s = constants("a c s")
ROUNDING = Soundness.ROUNDING


def joined_axes(inner: Attrs, outer: Attrs, ty: Type) -> Shape | Refusal:
    """The axes that two reductions, one after the other, go over."""
    if bool(inner.keepdims) != bool(outer.keepdims):
        return refuse("one keeps dimensions and the other does not")
    gone = reduced_axes(inner, ty)
    left = range(rank_of(ty)) if inner.keepdims else [axis for axis in range(rank_of(ty)) if axis not in gone]
    between = TensorType([1] * len(left), "float32")
    return tuple(sorted({*gone, *(left[axis] for axis in reduced_axes(outer, between))}))


def reduced_shape(attrs: Attrs, ty: TensorType, keepdims: bool) -> tuple[Dim, ...]:
    """The shape of the result of a reduction of a tensor of type ``ty``."""
    gone = reduced_axes(attrs, ty)
    shape = [1 if axis in gone else dim for axis, dim in enumerate(ty.shape)]
    return tuple(shape) if keepdims else tuple(dim for axis, dim in enumerate(shape) if axis not in gone)


def is_other_form(attrs: Attrs, ty: TensorType, root: TensorType) -> bool:
    """Guard: a view gives a reduction the shape that it has with the opposite ``keepdims``."""
    return is_exact(root) and reduced_shape(attrs, ty, not attrs.keepdims) == root.shape


def over_ones(attrs: Attrs, ty: TensorType) -> bool:
    return all(ty.shape[axis] == 1 for axis in reduced_axes(attrs, ty))


def repeated(name: str) -> Rewrite:
    """sum(sum(x)) = sum(x) over the axes of both"""
    inner = is_op(name)(x)
    outer = is_op(name)(inner)
    axes = compute(joined_axes, attrs_of(inner), attrs_of(outer), type_of(x))
    suits = floats(x) if name == "mean" else when(same_dtype, type_of(outer), type_of(inner))
    return rewrite(f"{name}-of-{name}", outer, like(outer, x, axis=axes, exclude=False), suits, soundness=ROUNDING)


def is_share(value: Array, attrs: Attrs, ty: TensorType) -> bool:
    """Guard: a factor is 1 divided by the number of summands."""
    count = prod(dim if isinstance(dim, int) else 0 for dim in (ty.shape[axis] for axis in reduced_axes(attrs, ty)))
    return count > 0 and value.size == 1 and value.ndim == 0 and Filled(1 / count)(value)


def of_sum(name: str, lhs: DFPattern, summed: DFPattern, soundness: Soundness = ROUNDING) -> Rewrite:
    """A function ``lhs`` of a sum ``summed`` is one operator ``name``."""
    attrs = {field: compute(lambda of, field=field: of[field], attrs_of(summed)) for field in _FIELDS}
    return rewrite(
        name.replace("_", "-"),
        lhs,
        is_op(name)(x).has_attr(attrs),
        floats(x),
        when(is_wide, type_of(x)),
        soundness=soundness,
    )


_FIELDS = ("axis", "keepdims", "exclude")


def level(constant: Array, attrs: Attrs, ty: TensorType) -> Array | Refusal:
    """What a constant beside a tensor of type ``ty`` is after a reduction along whose axes it does not vary."""
    axes, rank = reduced_axes(attrs, ty), rank_of(ty)
    if constant.ndim > rank or not is_finite(constant):
        return refuse("the constant adds axes, or is not finite")
    aligned = constant.reshape((1,) * (rank - constant.ndim) + constant.shape)
    if any(aligned.shape[axis] != 1 for axis in axes):
        return refuse("the constant varies along the axes of the reduction")
    return aligned if attrs.keepdims else aligned.squeeze(axes)


def out_of(name: str) -> list[Rewrite]:
    """max(x + c) = max(x) + c, and max(x s) = max(x) s where s is positive: the order of numbers stays."""
    shifted, scaled = x + c, x * s
    of_shifted, of_scaled = is_op(name)(shifted), is_op(name)(scaled)

    def left(verb: str, whole: DFPattern, inner: DFPattern, constant: DFPattern, *guards: Guard) -> Rewrite:
        outside = compute(level, value_of(constant), attrs_of(whole), type_of(x))
        operation = operator.add if inner is shifted else operator.mul
        return rewrite(
            f"{verb}-out-of-{name}",
            whole,
            operation(like(whole, x), outside),
            *guards,
            floats_alike(x, constant, whole),
            distinct(inner, x),
            base(x),
        )

    return [
        left("shift", of_shifted, shifted, c),
        left("scale", of_scaled, scaled, s, when(is_moderate, value_of(s)), when(all_positive, value_of(s))),
    ]


reduced = any_reduction(x)
viewed = view(reduced)
over_one = reduction(x)
total = sum(x)
shared = total * a

squares, magnitudes, exponentials = sum(x * x), sum(abs(x)), sum(exp(x))
of_squares, length = is_op("sum_of_squares")(x), is_op("norm_l2")(x)


def written(name: str, lhs: DFPattern, call: DFPattern) -> Rewrite:
    """A function of a sum of squares as that sum: what a normalization is found in."""
    attrs = {field: attribute(call, field) for field in _FIELDS}
    return rewrite(name, lhs, sum(x * x).has_attr(attrs), floats(x), when(is_wide, type_of(x)), soundness=ROUNDING)


functions = RuleSet(
    "functions-of-sums",
    [
        of_sum("sum_of_squares", squares, squares),
        of_sum("norm_l1", magnitudes, magnitudes),
        of_sum("norm_l2", sqrt(squares), squares),
        of_sum("log_sum", log(total), total),
        of_sum("log_sum_exp", log(exponentials), exponentials, Soundness.FINITE),  # only this form overflows
        written("sum-of-squares-written-out", of_squares, of_squares),
        written("square-of-norm-l2", length * length, length),
    ],
)

reductions = RuleSet(
    "reductions",
    [
        functions,
        *map(repeated, ("sum", "mean", "max", "min", "prod", "all", "any")),
        *[rule for name in EXTREMES for rule in out_of(name)],
        rewrite(
            "view-of-reduction",
            viewed,
            like(reduced, x, keepdims=compute(lambda attrs: not attrs.keepdims, attrs_of(reduced))),
            when(is_other_form, attrs_of(reduced), type_of(x), type_of(viewed)),
        ),
        # sum(x) / n = mean(x)
        rewrite(
            "mean",
            shared,
            mean(x, axis=compute(reduced_axes, attrs_of(total), type_of(x)), keepdims=attribute(total, "keepdims")),
            floats(x),
            when(is_share, value_of(a), attrs_of(total), type_of(x)),
            soundness=ROUNDING,
        ),
        # one summand
        rewrite(
            "reduce-over-ones",
            over_one,
            reshaped(x, over_one),
            when(over_ones, attrs_of(over_one), type_of(x)),
            when(same_dtype, type_of(x), type_of(over_one)),
            soundness=ROUNDING,
        ),
    ],
)

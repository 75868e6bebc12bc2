"""Masks of attention: what they hide, how they are written, and the NaN of rows that they hide altogether.

PyTorch puts zeros in the place of the NaN that a softmax gives where a mask of minus infinity hides every key, as the
attention of ONNX does. Where a mask of the least number of a dtype hides every key it hides none, but ONNX Runtime's
attention gives zeros there too; with half of that number it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.egraph.author import (
    above_half,
    above_least,
    attrs_of,
    compute,
    constants,
    countable,
    distinct,
    like,
    modest,
    real,
    refuse,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Compute, Distinct, Guard, Numbers, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op
from eqsat.relay.op import broadcast_to, where
from eqsat.relay.ty import TensorType, is_static
from eqsat.rules.axes import is_last
from eqsat.rules.heads import (
    FORMS,
    are_heads,
    is_by_key,
    k,
    known_mask,
    leaves_some,
    masks_scores,
    q,
    query_key_value,
    scores,
    v,
)
from eqsat.rules.shape import broadcasts
from eqsat.rules.types import Shape, is_float, is_scalar, keeps, keeps_floats, rank_of
from eqsat.rules.values import scalar, zero

x, y, z, bias, mask, condition = variables("x y z bias mask condition")
a, b, c = constants("a b c")
ROUNDING = Soundness.ROUNDING

# ---- NaN

without_nan = where(is_op("isnan")(x), y, x)

left = nn.softmax(y + known_mask)
asked, weights = nn.softmax(z + mask), nn.softmax(y + mask)
of_other = where(is_op("isnan")(asked), x, weights)


def leaves_numbers(mask: Array) -> bool:
    """Guard: a mask leaves some key of each row, and makes none infinite."""
    return mask.dtype.kind == "f" and leaves_some(mask) and bool(np.all(mask < np.inf))


def without_infinity(mask: Array) -> Array:
    """A mask that hides the same keys, but of real numbers."""
    return np.where(mask == -np.inf, np.finfo(mask.dtype).min / 2, mask)


nans = RuleSet(
    "nans",
    [
        rewrite(
            "nan-of-left-keys",
            where(is_op("isnan")(left), zero, left),
            like(left, y + compute(without_infinity, value_of(known_mask))),  # a sum of real numbers
            above_half(y),  # as half of the least number below
            when(is_last, attrs_of(left), type_of(left)),
            when(leaves_numbers, value_of(known_mask)),
            soundness=ROUNDING,
        ),
        # what is NaN is a matter of the mask alone, even if it is asked of scores with another scale
        rewrite(
            "nan-of-other-scores",
            of_other,
            where(is_op("isnan")(weights), x, weights),
            real(y),
            real(z),
            distinct(asked, weights),
            keeps(weights, asked),
            when(is_last, attrs_of(asked), type_of(asked)),
            when(is_last, attrs_of(weights), type_of(weights)),
            soundness=ROUNDING,
        ),
        rewrite("nan-of-real", without_nan, x, real(x), when(is_float, type_of(x)), soundness=ROUNDING),
        rewrite("nan-of-any", without_nan, x, when(is_float, type_of(x)), soundness=Soundness.FINITE),
    ],
)

# ---- what stands for a place that is hidden


@dataclass(frozen=True)
class Extreme:
    """Whether all elements of an array are minus infinity or, ``finite``, the least number; a pattern's predicate."""

    finite: bool

    def __call__(self, array: Array) -> bool:
        return bool(array.size and array.dtype.kind == "f" and np.all(array == self._value(array.dtype)))

    def example(self, shape: Shape, dtype: str) -> Array:
        of = np.dtype(dtype)
        return np.full(shape, self._value(of) if of.kind == "f" else 0, dtype)

    def _value(self, dtype: np.dtype[Any]) -> float:
        return float(np.finfo(dtype).min) if self.finite else -np.inf


@dataclass(frozen=True)
class Low:
    """Whether all elements of an array are half of the least number, or below; a pattern's predicate."""

    def __call__(self, array: Array) -> bool:
        return bool(array.size and array.dtype.kind == "f" and np.all(array <= np.finfo(array.dtype).min / 2))

    def example(self, shape: Shape, dtype: str) -> Array:
        return np.full(shape, -np.inf if np.dtype(dtype).kind == "f" else 0, dtype)


below_all = is_constant(label="below_all", predicate=Low())
least = is_constant(label="least", predicate=Extreme(finite=True))
minus_infinity = is_constant(label="minus_infinity", predicate=Extreme(finite=False))


def half(number: DFPattern) -> Compute:
    """Half of a constant."""
    return compute(lambda value: value / 2, value_of(number))


hides = where(condition, y, least)
hidden = nn.softmax(x + hides)
hides_all = where(condition, zero, minus_infinity)


def masked(scores: DFPattern) -> DFPattern:
    """Scores with another mask, which may hide keys, too."""
    return scores + mask


def choices(shown: DFPattern, low: DFPattern) -> Iterator[tuple[str, DFPattern, DFPattern]]:
    """Ways to choose x or a low number by a condition, and what is added to x instead."""
    yield "", where(shown, x, low), where(shown, scalar(0, low), half(low))
    yield "other-", where(shown, low, x), where(shown, half(low), scalar(0, low))


def hides_scores(
    name: str,
    low: DFPattern,
    *guards: Numbers,
    inside: Callable[[DFPattern], DFPattern] = lambda scores: scores,
    soundness: Soundness = ROUNDING,
) -> list[Rewrite]:
    """softmax(x where shown, else the least number) = softmax(x + (0 where shown, else half of the least number))"""
    rules = []
    for side, whole, choice in choices(condition, low):
        soft = nn.softmax(inside(whole))
        rules.append(
            rewrite(
                name.format(side),
                soft,
                like(soft, inside(x + choice)),
                real(x) if low is minus_infinity else above_half(x),
                keeps_floats(whole, x),
                when(is_scalar, type_of(low)),
                *guards,
                soundness=soundness,
            )
        )
    return rules


def lost_in(name: str, part: DFPattern) -> Rewrite:
    """scores + (y + (0 where shown, else a low number)) = scores + (y where shown, else the low number)

    Beside so low a number nothing is left of y, which is not huge. Scores are not chosen, for those are in every layer.
    """
    biased = y + where(condition, zero, below_all)
    soft = nn.softmax(part + biased)
    return rewrite(
        f"low-in-bias-of-{name}scores",
        soft,
        like(soft, part + where(condition, y, below_all)),
        countable(y),
        when(broadcasts, *map(type_of, (biased, condition, y, below_all))),
        when(is_float, type_of(y)),
        soundness=ROUNDING,
    )


def shows_some(shown: Array, added: Array) -> bool:
    """Guard: a condition and a mask that is added show a key of each row together."""
    if added.dtype.kind != "f":
        return False
    both = np.atleast_1d(shown & (added > np.finfo(added.dtype).min / 4))
    return bool(np.all(np.any(both, axis=-1)))


def hides_known() -> list[Rewrite]:
    """The same with another mask, if both are known and show a key of each row."""
    rules = []
    for side, whole, choice in choices(a, least):
        shows = (lambda hidden, added: shows_some(~hidden, added)) if side else shows_some
        soft = nn.softmax(whole + known_mask)
        rules.append(
            rewrite(
                f"least-in-{side}known-masked-scores",
                soft,
                like(soft, x + choice + known_mask),
                above_half(x),
                keeps_floats(whole, x),
                when(is_scalar, type_of(least)),
                when(is_last, attrs_of(soft), type_of(soft)),
                when(shows, value_of(a), value_of(known_mask)),
                soundness=ROUNDING,
            )
        )
    return rules


def hides_biased(name: str, low: DFPattern, *guards: Numbers, soundness: Soundness = ROUNDING) -> list[Rewrite]:
    """softmax(scores + y where shown, else the least number) = softmax(scores + (y where shown, else half of it))"""
    rules = []
    for form, part in (("", scores), ("scaled-", scores * c)):
        whole = where(condition, part + y, low)
        soft = nn.softmax(whole)
        rules.append(
            rewrite(
                name.format(form),
                soft,
                like(soft, part + where(condition, y, half(low))),
                real(part),
                keeps_floats(whole, part),
                when(is_scalar, type_of(low)),
                *guards,
                soundness=soundness,
            )
        )
    return rules


# ---- attention with masks


def attended(
    name: str, shown: Sequence[DFPattern], mask: DFPattern, *guards: Guard | Distinct | Numbers, guarded: bool = False
) -> list[Rewrite]:
    """softmax(scores + all of ``shown``) v = attention(q, k, v, mask), by each form of scores.

    Args:
        guarded: whether zeros take the place of NaN among the probabilities.
    """
    rules = []
    of = [condition] if mask is condition else shown
    for prefix, product, said, extra in FORMS:
        soft = nn.softmax(sum(shown, start=product))
        weights = where(is_op("isnan")(soft), zero, soft) if guarded else soft
        whole = nn.matmul(weights, v)
        rules.append(
            rewrite(
                f"{prefix}{name}-attention",
                whole,
                nn.masked_attention(q, k, v, mask, **said),
                when(is_by_key, attrs_of(scores), attrs_of(soft), attrs_of(whole)),
                when(are_heads, *query_key_value),
                *[when(masks_scores, type_of(part), type_of(scores)) for part in of],
                *extra,
                *guards,
                *([real(product)] if guarded else []),
                soundness=ROUNDING,
            )
        )
    return rules


# ---- masks that are the same for all queries


def missing_queries(mask: TensorType, query: TensorType) -> Shape | Refusal:
    """The shape of a mask of one row, of as many as there are queries."""
    queries = query.shape[-2]
    if not is_static(mask) or not isinstance(queries, int) or mask.shape[-2] == queries:
        return refuse("it has a row for each query, or a dimension is not known")
    return (*mask.concrete_shape[:-2], queries, mask.concrete_shape[-1])


def widened(ty: TensorType, of: TensorType) -> Shape | Refusal:
    """The shape of a constant that makes a choice by a condition as large as an expansion of it."""
    if not is_static(ty) or not is_static(of) or rank_of(ty) != rank_of(of):
        return refuse("a dimension is not known, or axes are added")
    return tuple(1 if old == new else new for old, new in zip(of.concrete_shape, ty.concrete_shape, strict=True))


chosen = where(condition, a, b)
expanded = broadcast_to(chosen)
by_rows = nn.masked_attention(q, k, v, mask)

masks = RuleSet(
    "masks",
    [
        rewrite(
            "half-of-the-least",
            hidden,
            like(hidden, x + where(condition, y, half(least))),
            above_half(x),  # as below
            above_half(y),
            when(is_float, type_of(x)),
            soundness=ROUNDING,
        ),
        hides_scores("least-in-{}scores", least),
        hides_scores("infinity-in-{}scores", minus_infinity),
        hides_scores("infinity-in-{}masked-scores", minus_infinity, inside=masked),
        hides_biased("infinity-in-biased-{}scores", minus_infinity),
        # half of the least number hides less than it: where another mask has such numbers, too, a row that both hide
        # together would show what the other one does not hide
        hides_scores("least-in-{}masked-scores", least, above_half(mask), inside=masked),
        hides_known(),
        hides_biased("least-in-biased-{}scores", least, above_half(y)),
        hides_scores("least-in-{}any-masked-scores", least, inside=masked, soundness=Soundness.FINITE),
        hides_biased("least-in-any-biased-{}scores", least, soundness=Soundness.FINITE),
        lost_in("", scores),
        lost_in("scaled-", scores * c),
        attended("open-masked", [mask], mask, above_least(mask)),
        attended("biased-masked", [bias, mask], bias + mask, modest(bias), above_least(mask), distinct(bias, mask)),
        attended("guarded-masked", [hides_all], condition, guarded=True),
        rewrite(
            "mask-of-each-query",
            by_rows,
            like(by_rows, q, k, v, broadcast_to(mask, shape=compute(missing_queries, type_of(mask), type_of(q)))),
        ),
        rewrite(
            "expand-into-constant-choice",
            expanded,
            where(condition, broadcast_to(a, shape=compute(widened, type_of(expanded), type_of(condition))), b),
            when(lambda *types: all(map(is_scalar, types)), type_of(a), type_of(b)),
        ),
    ],
)

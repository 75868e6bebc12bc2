"""What attention takes in: scales of queries and keys, and several biases of its scores."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.egraph.author import (
    attrs_of,
    compute,
    constants,
    distinct,
    like,
    rewrite,
    type_of,
    value_of,
    variables,
    when,
)
from eqsat.egraph.rule import Array, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import DFPattern
from eqsat.relay.op import where
from eqsat.rules.types import is_number_for, keeps_floats
from eqsat.rules.values import all_positive, scales_safely

x, y, q, k, v, mask, bias, condition = variables("x y q k v mask bias condition")
s, t, c = constants("s t c")
ROUNDING = Soundness.ROUNDING


def scaled_parts(name: str, operator: Callable[..., DFPattern], *masks: DFPattern) -> list[Rewrite]:
    """attention(q s, k, v) = attention(q, k s, v) = attention(q, k, v) with a scale that is s times as large"""
    found = []
    for part, operands in (("queries", (q * s, k, v)), ("keys", (q, k * s, v))):
        whole = operator(*operands, *masks)
        scale = compute(_times, attrs_of(whole), value_of(s))
        found.append(
            rewrite(
                f"scale-of-{part}-into-{name}",
                whole,
                like(whole, q, k, v, *masks, scale=scale),
                when(is_number_for, type_of(s), type_of(q), type_of(k)),
                when(scales_safely, value_of(s)),
                when(all_positive, value_of(s)),  # ONNX's reference takes the root of the scale
                soundness=ROUNDING,
            )
        )
    return found


def _times(attrs: Attrs, value: Array) -> float:
    return float(attrs.scale) * float(value.reshape(-1)[0])


scores = nn.matmul(x, y)
scaled_scores = scores * c
both_scaled = nn.matmul(x * s, y * t)


def scales_meet(form: str, inside: Callable[[DFPattern], DFPattern]) -> Rewrite:
    """softmax((x s) (y t)) = softmax((x y) (s t)), with or without a mask"""
    whole = nn.softmax(inside(both_scaled))
    return rewrite(
        f"scales-of-{form}scores-meet",
        whole,
        like(whole, inside(like(both_scaled, x, y) * (s * t))),
        when(is_number_for, type_of(s), type_of(x), type_of(y), type_of(both_scaled)),
        when(is_number_for, type_of(t), type_of(x), type_of(y), type_of(both_scaled)),
        when(scales_safely, value_of(s)),
        when(scales_safely, value_of(t)),
        soundness=ROUNDING,
    )


def biased(name: str, part: DFPattern) -> Rewrite:
    """softmax((scores + mask) + bias) = softmax(scores + (mask + bias)): that sum is often one for all layers"""
    whole = (part + mask) + bias
    soft = nn.softmax(whole)
    return rewrite(
        f"biases-of-{name}",
        soft,
        like(soft, part + (mask + bias)),
        keeps_floats(whole, part),
        distinct(mask, bias),  # a mask of zeros is the sum of any number of them
        soundness=ROUNDING,
    )


attended = RuleSet(
    "attended",
    [
        *scaled_parts("attention", nn.attention),
        *scaled_parts("masked-attention", nn.masked_attention, mask),
    ],
)

score_parts = RuleSet(
    "score-parts",
    [
        scales_meet("", lambda part: part),
        scales_meet("masked-", lambda part: part + mask),
        scales_meet("chosen-", lambda part: where(condition, part, mask)),
        biased("scores", scores),
        biased("scaled-scores", scaled_scores),
    ],
)

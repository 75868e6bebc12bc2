"""Opt-in: operators replaced by faster approximations of them (Relay's FastMath)."""

from __future__ import annotations

from typing import Any

from eqsat.egraph.author import attrs_of, compute, rewrite, type_of, variables, when
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_op
from eqsat.rules.values import is_float

(x,) = variables("x")


def faster(name: str) -> Any:
    return rewrite(
        f"fast-{name}", is_op(name)(x), is_op(f"fast_{name}")(x), when(is_float, type_of(x)), soundness=Soundness.FINITE
    )


softmax = nn.softmax(x)
fast_softmax = rewrite(
    "fast-softmax",
    softmax,
    nn.fast_softmax(x, axis=compute(lambda attrs: attrs.axis, attrs_of(softmax))),
    when(is_float, type_of(x)),
    soundness=Soundness.FINITE,
)

fast_math = RuleSet("fast_math", [faster("exp"), faster("erf"), faster("tanh"), fast_softmax])

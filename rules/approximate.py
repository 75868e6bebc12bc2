"""Opt-in: operators are replaced by faster approximations (Relay's FastMath)."""

from __future__ import annotations

from eqsat.egraph.author import rewrite, variables
from eqsat.egraph.rule import Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_op
from eqsat.rules.types import floats
from eqsat.rules.values import attribute

(x,) = variables("x")


def faster(name: str) -> Rewrite:
    return rewrite(f"fast-{name}", is_op(name)(x), is_op(f"fast_{name}")(x), floats(x), soundness=Soundness.FINITE)


softmax = nn.softmax(x)
fast_softmax = rewrite(
    "fast-softmax", softmax, nn.fast_softmax(x, axis=attribute(softmax, "axis")), floats(x), soundness=Soundness.FINITE
)

fast_math = RuleSet("fast_math", [faster("exp"), faster("erf"), faster("tanh"), fast_softmax])

"""Neutral elements, repeated operators, constants that meet."""

from __future__ import annotations

from eqsat.egraph.author import constants, rewrite, variables
from eqsat.egraph.rule import RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.op import negative
from eqsat.rules.values import one, zero

x, y = variables("x y")
a, b = constants("a b")

ROUNDING = Soundness.ROUNDING

algebra = RuleSet(
    "algebra",
    [
        # neutral elements; x + 0 may turn -0.0 into 0.0
        rewrite("add-zero", x + zero, x, soundness=ROUNDING),
        rewrite("subtract-zero", x - zero, x, soundness=ROUNDING),
        rewrite("multiply-one", x * one, x),
        rewrite("divide-one", x / one, x),
        # operators that undo or repeat themselves
        rewrite("negate-twice", negative(negative(x)), x),
        rewrite("relu-twice", nn.relu(nn.relu(x)), nn.relu(x)),
        # constants that meet
        rewrite("add-add-constant", (x + a) + b, x + (a + b), soundness=ROUNDING),
        rewrite("multiply-multiply-constant", (x * a) * b, x * (a * b), soundness=ROUNDING),
        rewrite("scale-after-shift", (x + a) * b, x * b + a * b, soundness=ROUNDING),
    ],
)

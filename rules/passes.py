"""Opt-in: Relay's passes that are no gain by themselves.

FastMath replaces operators by faster approximations. SimplifyInference and CanonicalizeOps write operators out in
simpler ones, for targets that lack them, as far as the default rules do not do their work already (they simplify batch
normalization and dropout). A cost model that counts operators never chooses these forms.
"""

from __future__ import annotations

from collections.abc import Callable

from eqsat.egraph.author import refuse, rewrite, variables
from eqsat.egraph.group_rules import NodeMap
from eqsat.egraph.rule import PythonRule, Refusal, Rewrite, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import DFPattern, is_op
from eqsat.relay.expr import Call, Expr
from eqsat.relay.transform.write_out import canonical, simplified
from eqsat.relay.ty import is_static
from eqsat.rules.types import floats, is_float
from eqsat.rules.values import attribute

x, gamma, beta = variables("x gamma beta")


def faster(name: str) -> Rewrite:
    return rewrite(f"fast-{name}", is_op(name)(x), is_op(f"fast_{name}")(x), floats(x), soundness=Soundness.FINITE)


softmax = nn.softmax(x)
fast_softmax = rewrite(
    "fast-softmax", softmax, nn.fast_softmax(x, axis=attribute(softmax, "axis")), floats(x), soundness=Soundness.FINITE
)

fast_math = RuleSet("fast_math", [faster("exp"), faster("erf"), faster("tanh"), fast_softmax])


def lowered(name: str, lhs: DFPattern, write: Callable[[Expr, Expr], Expr]) -> PythonRule:
    """The rule that a call equals what the function ``write`` of a pass makes of it, for floats of known shapes."""

    def apply(root: Expr, node_map: NodeMap) -> Expr | Refusal:
        types = [arg._checked_type for arg in root.args] if isinstance(root, Call) else []
        if not all(is_static(ty) and is_float(ty) for ty in types):
            return refuse("the arguments are no floats of known shapes")
        return write(root, root)

    return PythonRule(f"{name}-written-out", lhs, apply)


lowering = RuleSet(
    "lowering",
    [
        lowered("bias-add", nn.bias_add(x, beta), canonical),
        lowered("layer-norm", nn.layer_norm(x, gamma, beta), simplified),
        lowered("instance-norm", nn.instance_norm(x, gamma, beta), simplified),
        lowered("group-norm", nn.group_norm(x, gamma, beta), simplified),
        lowered("l2-normalize", nn.l2_normalize(x), simplified),
    ],
)

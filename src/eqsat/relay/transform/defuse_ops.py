"""DefuseOps: the inverse of FuseOps."""

from __future__ import annotations

from eqsat.relay.expr import Call, Expr, Function
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.visitor import rewrite_post_order, substitute


def DefuseOps() -> Pass:
    """Replace each call of a function literal by the function's body over the arguments."""
    return FunctionPass(lambda function, mod, context: _defused(function), PassInfo(0, "DefuseOps"))


def _defused(function: Function) -> Function:
    def visit(old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and isinstance(new.op, Function):
            return substitute(new.op.body, dict(zip(new.op.params, new.args, strict=True)))
        return new

    defused = rewrite_post_order(function, visit)
    return defused if isinstance(defused, Function) else function

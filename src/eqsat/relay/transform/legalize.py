"""Legalize: calls become what is registered for their operators."""

from __future__ import annotations

from typing import Any

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.visitor import rewrite_post_order


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> Pass:
    """Replace calls by what an operator attribute makes of them, once each.

    The attribute is a function ``legalize(attrs, args, types)`` that gives another call, or None to leave the call;
    ``types`` are those of the arguments and of the result. See :func:`eqsat.relay.op.register_legalize`.

    Args:
        legalize_map_attr_name: the name of the attribute.
    """

    def visit(old: Expr, new: Expr) -> Expr:
        op = old.op if isinstance(old, Call) else None
        legalize = op.get_attr(legalize_map_attr_name) if isinstance(op, Op) else None
        if legalize is None or not isinstance(old, Call) or not isinstance(new, Call):
            return new
        made: Any = legalize(old.attrs, list(new.args), [*[arg.checked_type for arg in old.args], old.checked_type])
        if made is not None and not isinstance(made, Call):
            raise PassError(f"{legalize_map_attr_name} of {op!r} must give a call or None, not {made!r}")
        return new if made is None else made

    return FunctionPass(
        lambda function, mod, context: rewrite_post_order(function, visit), PassInfo(1, "Legalize"), typed=True
    )

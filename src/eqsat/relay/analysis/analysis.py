"""Questions about graphs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from eqsat.relay.expr import Call, Expr, Op, Var
from eqsat.relay.regions import AnnotatedRegion as AnnotatedRegion
from eqsat.relay.regions import AnnotatedRegionSet as AnnotatedRegionSet
from eqsat.relay.visitor import post_order
from eqsat.relay.visitor import post_order_visit as post_order_visit


def all_vars(expr: Expr) -> list[Var]:
    """Return all variables of an expression, bound and free, in post-order."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """Return the variables that nodes of an expression bind, in post-order of these nodes."""
    return list(dict.fromkeys(variable for node in post_order(expr) for variable in node.binds))


def free_vars(expr: Expr) -> list[Var]:
    """Return the variables of an expression that nothing in it binds, in post-order.

    A variable is one object that one node binds, so a variable that is bound anywhere in the expression is not free.
    """
    nodes = post_order(expr)
    bound = {variable for node in nodes for variable in node.binds}
    return [node for node in nodes if isinstance(node, Var) and node not in bound]


def list_op_freqs(mod: Any) -> dict[str, int]:
    """Return how many calls of each operator there are in the functions of a module."""
    nodes = post_order(*mod.functions.values())
    return dict(Counter(node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op)))

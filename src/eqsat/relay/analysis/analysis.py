"""Questions about graphs."""

from __future__ import annotations

from eqsat.relay.expr import Expr, Var
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

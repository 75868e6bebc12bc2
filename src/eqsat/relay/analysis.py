"""Questions about graphs."""

from __future__ import annotations

from eqsat.relay.expr import Expr, Var
from eqsat.relay.regions import AnnotatedRegion as AnnotatedRegion
from eqsat.relay.regions import AnnotatedRegionSet as AnnotatedRegionSet
from eqsat.relay.visitor import post_order


def all_vars(expr: Expr) -> list[Var]:
    """Every variable of ``expr``, bound and free, in post-order."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr) -> list[Var]:
    """The variables bound by functions, lets and clauses of ``expr``, in post-order of their binders."""
    bound: dict[Var, None] = {}
    for node in post_order(expr):
        bound.update(dict.fromkeys(node.binds))
    return list(bound)


def free_vars(expr: Expr) -> list[Var]:
    """The variables of ``expr`` that nothing in it binds, in post-order.

    A variable is one object with one binder, so a variable bound anywhere in ``expr`` is not free.
    """
    bound = set(bound_vars(expr))
    return [variable for variable in all_vars(expr) if variable not in bound]

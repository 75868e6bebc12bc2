"""Whether each variable of an expression is bound in one place, and used only there."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from eqsat.relay.expr import Expr, Let, Var


class _Step(Enum):
    """What is done with nodes on the way through a graph."""

    VISIT = auto()
    ENTER = auto()
    """The scope of variables begins."""
    LEAVE = auto()


def well_formed(expr: Expr) -> bool:
    """Return whether each variable is bound at most once, and one that is bound is used only in its scope.

    A node that several scopes share counts in the first of them.
    """
    seen: set[Expr] = set()
    bound: set[Expr] = set()
    free: set[Expr] = set()
    in_scope: set[Expr] = set()
    agenda: list[tuple[_Step, Sequence[Expr]]] = [(_Step.VISIT, [expr])]
    while agenda:
        step, nodes = agenda.pop()
        if step is _Step.LEAVE:
            in_scope.difference_update(nodes)
        elif step is _Step.ENTER:
            if len(set(nodes)) < len(nodes) or any(node in bound or node in free for node in nodes):
                return False
            bound.update(nodes)
            in_scope.update(nodes)
        else:
            (node,) = nodes
            if isinstance(node, Var):
                if node in bound and node not in in_scope:
                    return False
                free.update({node} - bound)
            elif node not in seen:
                seen.add(node)
                agenda += reversed(_steps(node))
    return True


def _steps(node: Expr) -> list[tuple[_Step, Sequence[Expr]]]:
    """What is done below a node, in order. A let's variable is in scope in its value too, which may be recursive."""
    outside = [(_Step.VISIT, [child]) for child in node.outside]
    steps: list[tuple[_Step, Sequence[Expr]]] = [] if isinstance(node, Let) else [*outside]
    for variables, body in node.scopes:
        steps.append((_Step.ENTER, variables))
        steps += outside if isinstance(node, Let) else []
        steps += [(_Step.VISIT, [body]), (_Step.LEAVE, variables)]
    return steps

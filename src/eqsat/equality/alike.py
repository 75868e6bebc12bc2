"""Graphs of the same form: the nodes at which they differ, for example after a change of one node of a model.

For such graphs it pays off to search for an input on which they differ before trying to prove anything.
"""

from __future__ import annotations

from eqsat.egraph.lower import region_children
from eqsat.equality.groups import FIRST, SECOND, Groups
from eqsat.relay.expr import Call, Constant, Expr, Op, TupleGetItem


def changes(groups: Groups) -> list[tuple[Expr, Expr]] | None:
    """The nodes that stand at the same places of two graphs and differ by more than their operands.

    None if the graphs have other operators at many places, so that one may be what rules make of the other.
    """
    found: list[tuple[Expr, Expr]] = []
    agenda = [groups.joined.roots]
    seen = {*agenda}
    while agenda:
        first, second = agenda.pop()
        ours, theirs = list(region_children(first)), list(region_children(second))
        are_constants = isinstance(first, Constant) and isinstance(second, Constant)
        if are_constants or groups.sides(second) & FIRST or groups.sides(first) & SECOND:
            found.append((first, second))
        elif head(first) != head(second) or len(ours) != len(theirs):
            if not ours or {*ours} != {*theirs}:
                return None
            found.append((first, second))
        else:
            if said(first) != said(second):
                found.append((first, second))
            new = [pair for pair in zip(ours, theirs, strict=True) if pair[0] is not pair[1] and pair not in seen]
            seen.update(new)
            agenda += reversed(new)
    return found


def head(node: Expr) -> object:
    """The operator of a node."""
    return node.op if isinstance(node, Call) and isinstance(node.op, Op) else type(node)


def said(node: Expr) -> object:
    """Return all data of a node except its operands."""
    if isinstance(node, Call):
        return (head(node), None if node.attrs is None else node.attrs.key)
    return (head(node), node.index if isinstance(node, TupleGetItem) else None)

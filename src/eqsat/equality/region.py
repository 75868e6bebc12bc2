"""A part of two joined graphs as one expression; variables replace the nodes that are proved equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqsat.egraph.lower import over, region_children
from eqsat.equality.groups import Groups
from eqsat.relay.expr import Expr, Tuple, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.ty import TupleType, Type


@dataclass(frozen=True)
class Part:
    """A part of two joined graphs.

    Attributes:
        root: The tuple of what it computes.
        types: The type of each node below it.
        nodes: Nodes of the graphs, each the leader of its group -> what they are in the part.
        is_whole: Whether nothing is cut off below.
    """

    root: Expr
    types: dict[Expr, Type]
    nodes: dict[Expr, Expr]
    is_whole: bool


def cut(groups: Groups, roots: Iterable[Expr], depth: int | None, taken: Mapping[Expr, Expr]) -> Part:
    """The part that computes some nodes of both graphs.

    Args:
        groups: The graphs, and what is known to be equal. Below what is, nothing has to be proved.
        roots: The nodes.
        depth: How many levels are kept nevertheless below nodes that both graphs have; None for all.
        taken: Constant -> the computation that takes its place.
    """
    tops = [*dict.fromkeys(map(groups.leader, roots))]
    inside, frontier = _cone(groups, tops)
    kept, cuts = _levels(groups, [*frontier], depth)
    cuts -= inside
    types: dict[Expr, Type] = {}
    new: dict[Expr, Expr] = {}
    for node in sorted({*inside, *kept, *cuts}, key=groups.place.__getitem__):
        ty = groups.joined.types[node]
        if node in cuts:
            made: Expr = Var(f"cut{groups.place[node]}", ty)
        else:
            below = [new[groups.leader(child)] for child in region_children(node)]
            made = taken.get(node) or over(node, below)
        new[node], types[made] = made, ty
        if node in taken:
            extend_types(types, made)
    used = {groups.leader(child) for node in inside for child in region_children(node)}
    root = Tuple([new[node] for node in tops if node not in used] or [new[node] for node in tops])
    types[root] = TupleType([types[field] for field in root.fields])
    return Part(root, types, new, not cuts)


def _cone(groups: Groups, tops: Sequence[Expr]) -> tuple[set[Expr], dict[Expr, None]]:
    """The nodes from some down to those that both graphs have, and these."""
    inside: set[Expr] = set()
    frontier: dict[Expr, None] = {}
    agenda = list(tops)
    while agenda:
        node = groups.leader(agenda.pop())
        if groups.is_shared(node):
            frontier[node] = None
        elif node not in inside:
            inside.add(node)
            agenda += region_children(node)
    return inside, frontier


def _levels(groups: Groups, frontier: list[Expr], depth: int | None) -> tuple[set[Expr], set[Expr]]:
    """The nodes that are kept from a frontier on, and those below that are cut off."""
    kept: set[Expr] = set()
    level, count = frontier, 0
    while level and (depth is None or count < depth):
        kept.update(level)
        below = [groups.leader(child) for node in level for child in region_children(node)]
        level = [node for node in dict.fromkeys(below) if node not in kept]
        count += 1
    cuts = {node for node in level if not isinstance(node, Var)}
    kept.update(node for node in level if isinstance(node, Var))
    agenda = [node for node in cuts if node in groups.constant]  # what is computed from constants stays whole
    while agenda:
        node = groups.leader(agenda.pop())
        cuts.discard(node)
        if node not in kept:
            kept.add(node)
            agenda += region_children(node)
    return kept, cuts

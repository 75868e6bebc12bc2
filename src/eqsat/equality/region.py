"""A part of two joined graphs as one expression, whose leaves are variables in the place of what is proved equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eqsat.egraph.lower import region_children
from eqsat.equality.joining import Joined
from eqsat.relay.expr import Call, Constant, Expr, Tuple, Var
from eqsat.relay.infer import extend_types
from eqsat.relay.ty import TupleType, Type


@dataclass(frozen=True)
class Part:
    """A part of two joined graphs.

    Attributes:
        root: The tuple of what it computes.
        types: The type of each node below it.
        firsts, seconds: Nodes of the first and of the second graph that are in it -> what they are in it.
        borrowed: Nodes of the second graph in whose place there are equal ones of the first.
        is_whole: Whether nothing is cut off below.
    """

    root: Expr
    types: dict[Expr, Type]
    firsts: dict[Expr, Expr]
    seconds: dict[Expr, Expr]
    borrowed: list[Expr]
    is_whole: bool


class Cutter:
    """Cuts parts out of two joined graphs.

    Args:
        joined: The graphs.

    Attributes:
        place: Node -> its place in the order of all nodes.
        first: The nodes of the first graph.
        constant: The nodes that depend on no variable.
        settled: Node of the second graph -> the node of the first which it is known to equal.
        taken: Constant -> the computation over other constants that is taken for it.
        shared: The nodes that both graphs have.
    """

    def __init__(self, joined: Joined):
        self.joined = joined
        self.place = {node: place for place, node in enumerate(joined.nodes)}
        self.first = _below(joined.roots[0])
        second = _below(joined.roots[1])
        self.seconds = [node for node in joined.nodes if node in second and node not in self.first]
        self.constant: set[Expr] = set()
        for node in joined.nodes:
            children = region_children(node)
            if isinstance(node, Constant) or (children and self.constant.issuperset(children)):
                self.constant.add(node)
        self.settled: dict[Expr, Expr] = {}
        self.taken: dict[Expr, Expr] = {}
        self.shared = self.first & second

    def cut(self, firsts: Iterable[Expr], seconds: Iterable[Expr], depth: int | None) -> Part:
        """The part that computes some nodes of both graphs.

        Args:
            firsts, seconds: Nodes of the first and of the second graph.
            depth: How many levels are kept below nodes that both graphs have; None for all.
        """
        known = self.shared.union(self.settled.values())
        frontier: dict[Expr, None] = {}
        borrowed: dict[Expr, None] = {}
        cones: list[set[Expr]] = []
        for roots in (list(firsts), list(seconds)):
            cone: set[Expr] = set()
            agenda = list(roots)
            while agenda:
                node = agenda.pop()
                if node in self.settled:
                    borrowed[node] = None
                    node = self.settled[node]
                if node in known:
                    frontier[node] = None
                elif node not in cone:
                    cone.add(node)
                    agenda += region_children(node)
            cones.append(cone)
        kept, cuts = self._levels(frontier, depth)
        inside = sorted({*cones[0], *cones[1], *kept, *cuts}, key=self.place.__getitem__)
        new: dict[Expr, Expr] = {}
        types: dict[Expr, Type] = {}
        for node in inside:
            is_cut = node in cuts and node not in cones[0]
            made = self._made(node, new, is_cut)
            new[node], types[made] = made, self.joined.types[node]
            if node in self.taken:
                extend_types(types, made)
        one = [new[node] for node in self._tops(firsts)]
        two = [new[self.settled.get(node, node)] for node in self._tops(seconds)]
        root = Tuple([*dict.fromkeys([*one, *two])])
        types[root] = TupleType([types[field] for field in root.fields])
        first = {node: new[node] for node in inside if node in self.first}
        second = {node: new[node] for node in inside if node not in self.first}
        return Part(root, types, first, second, list(borrowed), not cuts)

    def _levels(self, frontier: Iterable[Expr], depth: int | None) -> tuple[set[Expr], set[Expr]]:
        """The nodes of the first graph that are kept below a frontier, and those that are cut off there."""
        kept: set[Expr] = set()
        level = list(frontier)
        count = 0
        while level and (depth is None or count < depth):
            kept.update(level)
            level = [*dict.fromkeys(child for node in level for child in region_children(node) if child not in kept)]
            count += 1
        cuts = {node for node in level if node not in kept and not isinstance(node, Var)}
        kept.update(node for node in level if isinstance(node, Var))
        agenda = [node for node in cuts if node in self.constant]  # what is computed from constants stays whole
        while agenda:
            node = agenda.pop()
            cuts.discard(node)
            if node not in kept:
                kept.add(node)
                agenda += region_children(node)
        return kept, cuts

    def _made(self, node: Expr, new: Mapping[Expr, Expr], is_cut: bool) -> Expr:
        if is_cut:
            return Var(f"cut{self.place[node]}", self.joined.types[node])
        if node in self.taken:
            return self.taken[node]
        children = region_children(node)
        parts = [new[self.settled.get(child, child)] for child in children]
        if all(part is child for part, child in zip(parts, children, strict=True)):
            return node
        old = node.children()
        return node.with_children([node.op, *parts] if isinstance(node, Call) and len(parts) < len(old) else parts)

    def _tops(self, nodes: Iterable[Expr]) -> Sequence[Expr]:
        """Those that are not operands of others."""
        given = list(dict.fromkeys(nodes))
        used = {child for node in given for child in region_children(node)}
        return [node for node in given if node not in used] or given


def _below(root: Expr) -> set[Expr]:
    found, agenda = {root}, [root]
    while agenda:
        for child in region_children(agenda.pop()):
            if child not in found:
                found.add(child)
                agenda.append(child)
    return found

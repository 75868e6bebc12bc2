"""What is told of the nodes of two graphs: what was removed and made, by which rule, and which nodes have one value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.egraph.build import input_nodes
from eqsat.egraph.lower import is_opaque, region_children
from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import Result
from eqsat.pipeline.explain import INPUT, Change
from eqsat.pipeline.extract import Extraction
from eqsat.pipeline.problem import RegionProblem
from eqsat.relay.expr import Expr
from eqsat.relay.module import IRModule
from eqsat.relay.visitor import children_first
from eqsat.report_page.alternatives import Alternatives
from eqsat.report_page.graph import Drawing

MADE = "a rule"
"""What is told of a node that rules made, where it is not known which."""


class Told:
    """What is known of the nodes of a given graph and of the chosen one.

    Args:
        extraction: The choice.
        result: The chosen graph.
        made_by: Node of the result -> the rule that made it, or ``input``; where it is not known the e-graph tells
            whether the given graph had the node.
        changes: The steps from the one graph to the other.

    Attributes:
        before: Node of the given graph -> the rule that removed it, ``a rule`` where that is not known, or ``input``.
        after: Node of the result -> the rule that made it, likewise.
        partners: Node of the result -> one of the given graph with the same value.
        alternatives: What else was found for the values of both graphs.
        kernels: What several nodes of the result are computed by: the operators, and the nodes.
    """

    def __init__(
        self,
        extraction: Extraction,
        result: Expr | IRModule,
        made_by: Mapping[Expr, str] | None,
        changes: Sequence[Change],
    ):
        self.before: dict[Expr, str] = {}
        self.after: dict[Expr, str] = {}
        self.partners: dict[Expr, Expr] = {}
        self.alternatives = Alternatives()
        self.kernels: list[tuple[str, list[Expr]]] = []
        self._class: dict[Expr, int] = {}
        self._changes = changes
        remover = {place: change.rule for change in reversed(changes) for place in change.places}
        for posed, chosen, expr in zip(extraction.problems, extraction.results, extraction.exprs, strict=True):
            self._tell(posed, chosen, expr, remover)
        if made_by:
            self.after = dict(made_by)

    def _tell(self, posed: RegionProblem, chosen: Result, expr: Expr, remover: Mapping[str, str]) -> None:
        region, choice = posed.region, chosen.choice
        snapshot, real = region.snapshot, _real_classes(posed)
        classes = children_first([region.root], lambda of: snapshot.children(int(choice[of])))
        kept = {_key(snapshot, real, int(choice[of])) for of in classes}
        places, class_of = input_nodes(snapshot, region.lowered), snapshot.handle_class
        given: dict[int, Expr] = {}
        keys = set()
        for node, handle in region.lowered.handles.items():
            key = _key(snapshot, real, int(places[handle]))
            keys.add(key)
            given.setdefault(int(class_of[handle]), node)
            self.before[node] = INPUT if key in kept else remover.get(str(node.span), MADE)
        classes_listed = self.alternatives.add(posed, chosen, given, real)
        for node, handle in region.lowered.handles.items():
            self._class[node] = classes_listed.get(int(class_of[handle]), -1)
        pairs, seen, found = [(region.root, expr)], set(), dict[int, Expr]()
        while pairs:
            of, node = pairs.pop()
            if node in seen:
                continue
            seen.add(node)
            found[of] = node
            place = int(choice[of])
            self.after[node] = INPUT if _key(snapshot, real, place) in keys else MADE
            self._class[node] = classes_listed.get(real[of], -1)
            if real[of] in given:
                self.partners[node] = given[real[of]]
            children, below = list(snapshot.children(place)), list(region_children(node))
            if not is_opaque(node) and len(children) == len(below):
                pairs += zip(children, below, strict=True)

        for placed in posed.kernels:
            of = int(posed.problem.node_class[placed.outer])
            nodes = [found.get(inner) for inner in [*[of for of, _ in placed.inner], of]]
            if choice[of] == placed.outer and all(nodes):
                symbols = [snapshot.symbols[snapshot.node_symbol[node]].name for node in placed.kernel.nodes]
                self.kernels.append((f"one kernel: {', '.join(symbols)}", [node for node in nodes if node is not None]))

    def columns(self, before: Drawing, after: Drawing) -> list[dict[str, Any]]:
        """The columns of both graphs, with what was removed, the partners and the steps."""
        at = {node: place for place, node in enumerate(before.exprs)}
        partners = [at.get(self.partners.get(node, node), -1) for node in after.exprs]
        back = {partner: place for place, partner in reversed([*enumerate(partners)])}
        after.frame(self.kernels)
        gone = [self.before.get(node, INPUT) != INPUT for node in before.exprs]
        return [
            before.columns
            | {
                "partner": [back.get(place, -1) for place in range(len(at))],
                "gone": [*map(int, gone)],
                "steps": self._steps(before, after),
                "classes": self.alternatives.classes,
                "class": [self._class.get(node, -1) for node in before.exprs],
            },
            after.columns | {"partner": partners, "class": [self._class.get(node, -1) for node in after.exprs]},
        ]

    def _steps(self, before: Drawing, after: Drawing) -> list[dict[str, Any]]:
        """What each step tells, and the nodes of both graphs that it removed or made."""
        named: defaultdict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(before.exprs):
            named[str(node.span)].append(place)
        made: defaultdict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(after.exprs):
            made[self.after.get(node, INPUT)].append(place)
        return [
            {
                "told": _words(change),
                "nodes": [sorted({node for each in change.places for node in named.get(each, ())}), made[change.rule]],
            }
            for change in self._changes
        ]


def _words(change: Change) -> str:
    way = "" if change.forward else ", from right to left"
    removed, added = (" ".join(names) or "nothing" for names in (change.removed, change.added))
    return f"{change.rule}{way}, {change.count} ×: {removed} → {added}"


def _real_classes(posed: RegionProblem) -> list[int]:
    """Class -> the class that holds its value: values inside kernels have classes of their own."""
    snapshot = posed.region.snapshot
    real = [*range(snapshot.class_count)]
    for placed in posed.kernels:
        for (of, _), node in zip(placed.inner, placed.kernel.nodes, strict=False):
            real[of] = int(snapshot.node_class[node])
    return real


def _key(snapshot: Snapshot, real: Sequence[int], node: int) -> tuple[int, ...]:
    """The operator, the attributes and the child classes of an e-node, whichever kernel computes it."""
    return (
        int(snapshot.node_symbol[node]),
        int(snapshot.node_atom[node]),
        *[real[of] for of in snapshot.children(node)],
    )

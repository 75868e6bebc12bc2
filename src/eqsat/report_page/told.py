"""What is told of the nodes of two graphs: what was removed and made, by which rule, and which nodes have one value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eqsat.egraph.build import input_nodes
from eqsat.egraph.lower import is_opaque, region_children
from eqsat.egraph.snapshot import Snapshot
from eqsat.extraction import Result
from eqsat.pipeline.explain import INPUT
from eqsat.pipeline.extract import Copies, Extraction
from eqsat.pipeline.problem import RegionProblem
from eqsat.pipeline.provenance import Derived, owners
from eqsat.relay.expr import Call, Expr, Function
from eqsat.relay.module import IRModule
from eqsat.report_page.alternatives import Alternatives
from eqsat.report_page.graph import Drawing
from eqsat.report_page.steps import Side, steps_between

MADE = "a rule"
"""What is told of a node that rules made, where it is not known which."""

ONCE = "computed once"
"""What removed a node that computes what another one computes in the same way."""

Value = tuple[int, int, int]
"""A value: the number of a region, an e-class of it, and a layer as :class:`eqsat.pipeline.extract.Copies` has it."""


class Told:
    """What is known of the nodes of a given graph and of the chosen one.

    Args:
        extraction: The choice.
        result: The chosen graph.
        made_by: Node of the result -> the rule that made it, or ``input``; where it is not known the matches that were
            noted tell, or at least the e-graph whether the given graph had the node.

    Attributes:
        before: Node of the given graph -> the rule that removed it, ``a rule`` where that is not known, or ``input``.
        after: Node of the result -> the rule that made it, likewise.
        values: Node of either graph -> its value.
        kept: Node of the result -> the node of the given graph that it is.
        alternatives: What else was found for the values of both graphs.
        kernels: What several nodes of the result are computed by: the operators, and the nodes.
    """

    def __init__(self, extraction: Extraction, result: Expr | IRModule, made_by: Mapping[Expr, str] | None):
        self.before: dict[Expr, str] = {}
        self.after: dict[Expr, str] = {}
        self.values: dict[Expr, Value] = {}
        self.kept: dict[Expr, Expr] = {}
        self.alternatives = Alternatives()
        self.kernels: list[tuple[str, list[Expr]]] = []
        self._class: dict[Expr, int] = {}
        self._made_by = made_by or {}
        copies = extraction.copies
        parts = zip(extraction.problems, extraction.results, extraction.exprs, strict=True)
        for index, (posed, chosen, expr) in enumerate(parts):
            self._tell(index, posed, chosen, expr, copies)

    def _tell(self, index: int, posed: RegionProblem, chosen: Result, expr: Expr, copies: Copies | None) -> None:
        region, choice = posed.region, chosen.choice
        snapshot, real = region.snapshot, _real_classes(posed)
        places, class_of = input_nodes(snapshot, region.lowered), snapshot.handle_class
        handles = region.lowered.handles
        lowered = {node: (node, 0) for node in handles} if copies is None else copies.given
        first: dict[int, Expr] = {}
        given: dict[tuple[Value, tuple[int, ...]], Expr] = {}
        keys: dict[Expr, tuple[int, ...]] = {}
        for node, (stand, layer) in lowered.items():
            of = int(class_of[handles[stand]])
            value = self.values[node] = (index, of, layer)
            keys[node] = _key(snapshot, real, int(places[handles[stand]]))
            given.setdefault((value, keys[node]), node)
            if not layer:
                first.setdefault(of, node)
        listed = self.alternatives.add(posed, chosen, first, real)
        found: dict[tuple[int, int], Expr] = {}
        result: dict[Value, Expr] = {}
        for node, of, layer in _built(posed, chosen, expr) if copies is None else _copied(copies):
            found[of, layer] = node
            value = self.values[node] = (index, real[of], layer)
            result[value] = node
            same = given.get((value, _key(snapshot, real, int(choice[of]))))
            if same is not None:
                self.kept[node] = same
            self.after[node] = self._maker(node)
            self._class[node] = -1 if layer else listed.get(real[of], -1)
        for node, value in [(node, self.values[node]) for node in lowered]:
            self._class[node] = -1 if value[2] else listed.get(value[1], -1)
        self._tell_removed([*lowered], keys, result)
        for placed in posed.kernels:
            of = int(posed.problem.node_class[placed.outer])
            if choice[of] != placed.outer:
                continue
            symbols = [snapshot.symbols[snapshot.node_symbol[node]].name for node in placed.kernel.nodes]
            for layer in [layer for one, layer in found if one == of]:
                nodes = [found.get((inner, layer)) for inner in [*[of for of, _ in placed.inner], of]]
                if all(nodes):
                    known = [node for node in nodes if node is not None]
                    self.kernels.append((f"one kernel: {', '.join(symbols)}", known))

    def _maker(self, node: Expr) -> str:
        """The rule that made a node of the result."""
        if node in self._made_by:
            return self._made_by[node]
        if isinstance(node.span, Derived):
            return node.span.maker or INPUT
        return INPUT if node in self.kept else MADE

    def rules_of(self, node: Expr) -> list[str]:
        """The rules that led to a node of the result, in order."""
        if isinstance(node.span, Derived) and node.span.steps:
            return [*dict.fromkeys(rule for _, rule in node.span.steps)]
        maker = self.after.get(node, INPUT)
        return [] if maker == INPUT else [maker]

    def _tell_removed(
        self, nodes: list[Expr], keys: Mapping[Expr, tuple[int, ...]], result: Mapping[Value, Expr]
    ) -> None:
        """Tell which rule removed each node of a region.

        It is the last that led to what has the node's value, or else the one that made what comes from the node and few
        others; where that was not noted, what removed a user of the node.
        """
        owner, nearest = owners(nodes), _nearest(result.values())
        users: defaultdict[Expr, list[Expr]] = defaultdict(list)
        for node in nodes:
            for child in region_children(node):
                users[child].append(node)
        for node in reversed(nodes):
            chosen = result.get(self.values[node])
            if chosen is None and owner.get(node) in nearest:
                self.before[node] = nearest[owner[node]]
            elif chosen is None:
                removed = (self.before.get(user, INPUT) for user in users[node])
                self.before[node] = next((rule for rule in removed if rule != INPUT), MADE)
            elif self.kept.get(chosen) is node:
                self.before[node] = INPUT
            elif chosen in self.kept and keys[self.kept[chosen]] == keys[node]:
                self.before[node] = ONCE
            else:
                rules = self.rules_of(chosen)
                self.before[node] = rules[-1] if rules else MADE

    @property
    def made(self) -> Counter[str]:
        """Rule -> how many operators of the result it made."""
        return Counter(rule for node, rule in self.after.items() if isinstance(node, Call))

    def columns(self, before: Drawing, after: Drawing) -> list[dict[str, Any]]:
        """The columns of both graphs, with what was removed, the partners and the steps."""
        values = [self._values(drawing) for drawing in (before, after)]
        place: dict[Value, int] = {}
        for number, value in enumerate(values[0]):
            if value is not None:
                place.setdefault(value, number)
        partners = [-1 if value is None else place.get(value, -1) for value in values[1]]
        back = {partner: number for number, partner in reversed([*enumerate(partners)])}
        after.frame(self.kernels)
        at = {node: number for number, node in enumerate(before.exprs)}
        gone = [self.before.get(node, INPUT) != INPUT for node in before.exprs]
        kept = [at.get(self.kept[node], -1) if node in self.kept else -1 for node in after.exprs]
        steps = steps_between(
            Side.of(before, values[0]), Side.of(after, values[1]), kept, [*map(self.rules_of, after.exprs)]
        )
        return [
            before.columns
            | {
                "partner": [back.get(number, -1) for number in range(len(before.exprs))],
                "gone": [*map(int, gone)],
                "steps": steps,
                "classes": self.alternatives.classes,
                "class": [self._class.get(node, -1) for node in before.exprs],
            },
            after.columns
            | {"partner": partners, "kept": kept, "class": [self._class.get(node, -1) for node in after.exprs]},
        ]

    def _values(self, drawing: Drawing) -> list[Value | None]:
        """The value of each node of a drawing; what is drawn of a function that is called is the result of its body."""
        found = {node: self.values[node] for node in drawing.exprs if node in self.values}
        for node, value in self.values.items():
            while isinstance(node, Call) and isinstance(node.op, Function):
                node = node.op.body
                found.setdefault(node, value)
        return [found.get(node) for node in drawing.exprs]


def _built(posed: RegionProblem, chosen: Result, expr: Expr) -> Iterator[tuple[Expr, int, int]]:
    """The nodes of a chosen graph, with their e-classes, outer ones first."""
    snapshot = posed.region.snapshot
    pairs, seen = [(posed.region.root, expr)], set[Expr]()
    while pairs:
        of, node = pairs.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node, of, 0
        children, below = list(snapshot.children(int(chosen.choice[of]))), list(region_children(node))
        if not is_opaque(node) and len(children) == len(below):
            pairs += zip(children, below, strict=True)


def _nearest(nodes: Iterable[Expr]) -> dict[Any, str]:
    """Span of a given node -> the rule that made the one of some nodes that comes from it and the fewest others."""
    spans = [node.span for node in nodes if isinstance(node.span, Derived)]
    made = [(span.origins, span.maker) for span in spans if span.maker is not None]
    found: dict[Any, str] = {}
    for origins, maker in sorted(made, key=lambda pair: len(pair[0])):
        for origin in origins:
            found.setdefault(origin, maker)
    return found


def _copied(copies: Copies) -> Iterator[tuple[Expr, int, int]]:
    for node, (of, layer) in copies.built.items():
        yield node, of, layer


def _real_classes(posed: RegionProblem) -> list[int]:
    """Class -> the class that holds its value: values inside kernels have classes of their own."""
    snapshot = posed.region.snapshot
    real = [*range(snapshot.class_count)]
    for placed in posed.kernels:
        for (of, _), node in zip(placed.inner, placed.kernel.nodes, strict=False):
            real[of] = int(snapshot.node_class[node])
    return real


def _key(snapshot: Snapshot, real: list[int], node: int) -> tuple[int, ...]:
    """The operator, the attributes and the child classes of an e-node, whichever kernel computes it."""
    return (
        int(snapshot.node_symbol[node]),
        int(snapshot.node_atom[node]),
        *[real[of] for of in snapshot.children(node)],
    )

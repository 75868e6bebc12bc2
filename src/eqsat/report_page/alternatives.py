"""The e-graph around the nodes of a graph: the other e-nodes of a class, and what each would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eqsat.extraction import Result
from eqsat.extraction.costs import as_tuple
from eqsat.extraction.greedy import cheapest_trees
from eqsat.pipeline.problem import RegionProblem
from eqsat.relay.expr import Call, Expr, Op, Var
from eqsat.relay.visitor import children_first

LISTED = 12
"""E-nodes of a class that are listed."""

FOLLOWED = 200
"""Classes that a choice may need besides the chosen graph until its cost is left open."""


@dataclass
class Alternatives:
    """Classes that hold more than one e-node, of all regions of an extraction.

    Attributes:
        classes: For each, its e-nodes: what is computed from what, the e-node's own cost, the cost of what it would
            need besides the chosen graph (None where that is much), and whether it was chosen.
    """

    classes: list[list[tuple[str, float, float | None, bool]]] = field(default_factory=list)

    def add(self, posed: RegionProblem, chosen: Result, given: Mapping[int, Expr], real: list[int]) -> dict[int, int]:
        """Add the classes of a region; class -> its place in ``classes``.

        Args:
            posed: The problem.
            chosen: What was chosen.
            given: Class -> a node of the given graph in it.
            real: Class -> the class whose value it holds.
        """
        problem, snapshot = posed.problem, posed.region.snapshot
        cheapest, _ = cheapest_trees(problem)
        choice = [int(one) if one >= 0 else int(other) for one, other in zip(chosen.choice, cheapest, strict=True)]
        costs = [as_tuple(cost)[0] for cost in problem.costs]
        children, left_out = problem.children, problem.excluded
        used = {*children_first([posed.region.root], lambda of: children[choice[of]])}

        def besides(node: int) -> float | None:
            needed = {of for of in children[node] if of not in used}
            agenda, cost = [*needed], 0.0
            while agenda:
                one = choice[agenda.pop()]
                if one < 0 or len(needed) > FOLLOWED:
                    return None
                cost += costs[one]
                new = {of for of in children[one] if of not in used and of not in needed}
                needed |= new
                agenda += new
            return cost

        def word(of: int) -> str:
            node = given.get(real[of])
            if node is not None:
                return _word(node)
            some = choice[of] if choice[of] >= 0 else problem.class_nodes[of][0]
            return f"{snapshot.symbols[snapshot.node_symbol[some]].name}(…)" if some < snapshot.node_count else "…"

        def told(node: int) -> str:
            name = snapshot.symbols[snapshot.node_symbol[node]].name
            below = ", ".join(map(word, snapshot.children(node)))
            return f"{name}({below})" if below else name

        places: dict[int, int] = {}
        members: dict[int, dict[str, int]] = {}
        for node in range(snapshot.node_count):
            of = int(snapshot.node_class[node])
            if real[of] == of and not left_out[node]:
                same = members.setdefault(of, {})
                if same.setdefault(told(node), node) != node and choice[of] == node:
                    same[told(node)] = node  # of a kernel and its e-node alone, the chosen one
        for of, nodes in members.items():
            if len(nodes) < 2:
                continue
            rows = [(words, costs[node], besides(node), choice[of] == node) for words, node in nodes.items()]
            rows.sort(key=lambda row: (not row[3], row[2] is None, row[1] + (row[2] or 0.0), row[0]))
            places[of] = len(self.classes)
            self.classes.append(rows[:LISTED])
        return places


def _word(node: Expr) -> str:
    """What a node is called where it is an operand."""
    if isinstance(node, Var):
        return f"%{node.name_hint}"
    if node.span is not None:
        return str(node.span)
    return f"{node.op.name}(…)" if isinstance(node, Call) and isinstance(node.op, Op) else node.kind

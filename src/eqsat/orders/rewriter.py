"""Rewriting in place until nothing changes, as a compiler without an e-graph does.

One pass of a rule replaces all matches that do not overlap, as :func:`eqsat.relay.dataflow_pattern.rewrite` does.
Constants are folded after each pass, as they are in an extracted graph.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from eqsat.egraph.report import Limits
from eqsat.relay.dataflow_pattern import DFPatternCallback
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.rewriter import PASS_LIMIT, replace_matches
from eqsat.relay.expr import Expr
from eqsat.relay.fold import fold_constants
from eqsat.relay.infer import infer_type
from eqsat.relay.module import IRModule
from eqsat.relay.structural import structural_equal, structural_hash

Step = tuple[str, DFPatternCallback]
"""The name of a rule, and the function that applies it."""


@dataclass(frozen=True)
class OrderRow:
    """One way to apply the rules, and its result.

    Attributes:
        kind: ``order`` (of rules), ``phases`` (of rule sets), ``random`` or ``saturation``.
        order: Names of the rules or rule sets in order. For random runs, the rules that changed the graph.
        cost: The cost of the final graph; equal computations count once.
        passes: The number of passes of single rules; for saturation, the number of iterations.
        seconds: The time of the run, in seconds.
        stop: Why the run ended: ``settled`` or ``saturated`` if no rule changes anything, ``loop`` if an earlier graph
            came back, or the limit that was reached.
        expr: The final graph.
    """

    kind: str
    order: tuple[str, ...]
    cost: float
    passes: int
    seconds: float
    stop: str
    expr: Expr = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data for JSON, without the graph."""
        names = ("kind", "order", "cost", "passes", "seconds", "stop")
        return {name: getattr(self, name) for name in names} | {"order": list(self.order)}


@dataclass
class Rewritten:
    """The result of a rewriting.

    Attributes:
        expr: The final graph, typed.
        passes: Number of passes of single rules.
        stop: ``settled`` if no rule changes the graph any more; ``loop`` if an earlier graph came back;
            ``passes``, ``nodes`` or ``seconds`` if a limit was reached.
        order: Names of the rules that changed the graph, in the order in which they did.
    """

    expr: Expr
    passes: int
    stop: str
    order: list[str]


class Graphs:
    """A set of different graphs."""

    def __init__(self) -> None:
        self._by_hash: dict[int, list[Expr]] = {}

    def find(self, expr: Expr) -> Expr:
        """Return the graph of the set that equals ``expr``; if there is none, ``expr`` is added."""
        alike = self._by_hash.setdefault(structural_hash(expr), [])
        for known in alike:
            if structural_equal(known, expr):
                return known
        alike.append(expr)
        return expr


class _Stop(Exception):
    """Raised to end a run; the argument is the reason."""


class Rewriter:
    """Rewrites a graph by rules, within limits.

    Args:
        source: The graph.
        module: The module of the functions that it calls.
        limits: The limits of nodes and seconds of one run, which has at most ``PASS_LIMIT`` rounds.
    """

    def __init__(self, source: Expr, module: IRModule | None, limits: Limits):
        self.module = module
        self.limits = limits
        self.source = self.folded(source)

    def folded(self, expr: Expr) -> Expr:
        """Return a graph with its constants folded, typed."""
        return infer_type(fold_constants(infer_type(expr, self.module)), self.module)

    def in_order(self, phases: Sequence[Sequence[Step]]) -> Rewritten:
        """Apply one pass of each rule of a phase in their order, until no rule changes the graph; phase by phase."""
        run = _Run(self)
        try:
            for phase in phases:
                run.settle(phase)
        except _Stop as stop:
            run.result.stop = str(stop)
        return run.result

    def at_random(self, steps: Sequence[Step], random: Random) -> Rewritten:
        """Apply one pass of a rule chosen at random among those that change the graph, until there is none."""
        run = _Run(self)
        try:
            for _ in range(PASS_LIMIT):
                if not any(run.apply(step) for step in random.sample(steps, len(steps))):
                    return run.result
            run.result.stop = "passes"
        except _Stop as stop:
            run.result.stop = str(stop)
        return run.result


class _Run:
    """One run of a rewriter, with its clock."""

    def __init__(self, rewriter: Rewriter):
        self.rewriter = rewriter
        self.deadline = time.perf_counter() + rewriter.limits.seconds
        self.result = Rewritten(rewriter.source, 0, "settled", [])
        self.graph = DataflowGraph(rewriter.source)  # one for all rules that do not change it

    def settle(self, phase: Sequence[Step]) -> None:
        """Apply the rules of a phase until they change nothing."""
        seen = Graphs()
        seen.find(self.result.expr)
        for _ in range(PASS_LIMIT):
            changed = [self.apply(step) for step in phase]
            if not any(changed):
                return
            if seen.find(self.result.expr) is not self.result.expr:
                raise _Stop("loop")
        raise _Stop("passes")

    def apply(self, step: Step) -> bool:
        """Make one pass of a rule and return whether it changed the graph."""
        name, callback = step
        before = self.result.expr
        self.result.passes += 1
        after = replace_matches(callback, self.graph)
        changed = after is not before and not structural_equal(before, after)
        if changed:
            self.result.expr = self.rewriter.folded(after)
            self.graph = DataflowGraph(self.result.expr)
            self.result.order.append(name)
            if len(self.graph.order) > self.rewriter.limits.nodes:
                raise _Stop("nodes")
        if time.perf_counter() > self.deadline:
            raise _Stop("seconds")
        return changed

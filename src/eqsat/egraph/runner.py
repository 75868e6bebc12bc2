"""The saturation loop: every rule in every iteration, between limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eqsat.egraph.compile import RewriteCompiler
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.facts import ConstantFacts, TypeFacts
from eqsat.egraph.lower import Lowered, lower
from eqsat.egraph.python_rules import Names, PythonRuleRunner
from eqsat.egraph.report import IterationReport, Limits, Report
from eqsat.egraph.rule import FoldConstants, PythonRule, Rewrite, Rule, swapped_operator
from eqsat.relay.expr import Expr
from eqsat.relay.ty import Type

OnIteration = Callable[[Report], None]

MATCH_LIMIT = 1000
"""Matches in one iteration (or as many as the input has nodes) above which a rule is banned for a while."""
BAN_LENGTH = 5
"""Iterations of a first ban; limit and length double with each ban of a rule (egg's figures)."""


class StopRun(Exception):
    """Ends a run; the argument is the stop reason."""


@dataclass
class _Turn:
    """A rule's place in the loop."""

    runner: RewriteCompiler | PythonRuleRunner
    name: str
    banned_until: int = 0
    bans: int = 0


class Runner:
    """Saturates the e-graph of one graph.

    Args:
        root: the graph.
        types: type of every node of it.
        rules: what to apply.
        limits: when to stop.
        on_iteration: called with the report after every iteration; an exception it raises ends the run.
    """

    def __init__(
        self,
        root: Expr,
        types: dict[Expr, Type],
        rules: Sequence[Rule],
        limits: Limits,
        on_iteration: OnIteration | None = None,
    ):
        self.limits = limits
        self.on_iteration = on_iteration
        self.on_rule: Callable[[Runner, str], None] | None = None
        self.report = Report()
        self.egraph = EGraph()
        self.root = root
        self.types = types
        fold = [rule.limit for rule in rules if isinstance(rule, FoldConstants)]
        self.egraph.commutative = frozenset(filter(None, map(swapped_operator, rules)))
        TypeFacts(self.egraph)
        ConstantFacts(self.egraph, max(fold, default=0))
        self.names = Names(self.egraph, types) if any(isinstance(rule, PythonRule) for rule in rules) else None
        self.native: list[_Turn] = []
        self.python: list[_Turn] = []
        for index, rule in enumerate(rules):
            self._enter(rule, index)
        self.lowered = self._lower()
        self._symbols = 0

    def run(self) -> None:
        """Run until saturated or stopped; ``report`` says which. A KeyboardInterrupt stops it cleanly."""
        self._deadline = time.perf_counter() + self.limits.seconds
        start = time.perf_counter()
        try:
            self._settle()
            self.report.stop_reason = self._loop()
        except StopRun as stop:
            self.report.stop_reason = str(stop)
        except KeyboardInterrupt:
            self.report.stop_reason = "interrupted"
        self.report.add_seconds("saturate", time.perf_counter() - start)

    def _lower(self) -> Lowered:
        start = time.perf_counter()
        lowered = lower(self.egraph, self.root, self.types)
        self.egraph.flush()
        if self.names is not None:
            self.names.add(lowered.handles)
        self.report.add_seconds("lower", time.perf_counter() - start)
        return lowered

    def _enter(self, rule: Rule, index: int) -> None:
        if isinstance(rule, Rewrite):
            self.native.append(_Turn(RewriteCompiler(self.egraph, rule, index, self.report.refuse), rule.name))
        elif isinstance(rule, PythonRule) and self.names is not None:
            runner = PythonRuleRunner(self.egraph, rule, index, self.names, self.report.refuse)
            self.python.append(_Turn(runner, rule.name))
        if not isinstance(rule, FoldConstants):
            self.report.rule(rule.name)

    def _loop(self) -> str:
        for iteration in range(self.limits.iterations):
            start = time.perf_counter()
            self._activate()
            changed = self._run_native(iteration)
            changed |= self._settle()
            changed |= self._run_applies()
            changed |= self._settle()
            if self.python:
                changed |= self._run_python()
                changed |= self._settle()
            changed |= len(self.egraph.symbols) > self._symbols
            self._record(time.perf_counter() - start)
            if not changed and not self._unban(iteration):
                return "saturated"
        return "iterations"

    def _activate(self) -> None:
        """Let rules see the symbols that are new since the last iteration."""
        while len(self.egraph.symbols) > self._symbols:
            self._symbols = len(self.egraph.symbols)
            for turn in (*self.native, *self.python):
                turn.runner.update()
            self.egraph.flush()

    def _run_native(self, iteration: int) -> bool:
        changed = False
        limit = max(MATCH_LIMIT, self.egraph.handle_count)
        for turn in self.native:
            if turn.banned_until <= iteration:
                matches, updated = self._timed_run(turn, turn.runner.ruleset)
                changed |= updated
                if matches > limit << turn.bans:
                    turn.banned_until = iteration + 1 + (BAN_LENGTH << turn.bans)
                    turn.bans += 1
                    self.report.rule(turn.name).bans += 1
        return changed

    def _run_applies(self) -> bool:
        """The second half of rules that asked Python something."""
        changed = False
        for turn in self.native:
            if isinstance(turn.runner, RewriteCompiler) and turn.runner.asks:
                changed |= self._timed_run(turn, turn.runner.apply_ruleset)[1]
        return changed

    def _run_python(self) -> bool:
        names = self.names
        if names is None:
            return False
        names.name_all()
        self.egraph.engine.saturate("names")
        changed = False
        for turn in self.python:
            if isinstance(turn.runner, PythonRuleRunner):
                start = time.perf_counter()
                before = turn.runner.matches
                self.egraph.engine.run(turn.runner.ruleset)
                applied = turn.runner.apply()
                changed |= applied
                entry = self.report.rule(turn.name)
                entry.seconds += time.perf_counter() - start
                entry.matches += turn.runner.matches - before
                entry.updates += applied
                self._after_rule(turn.name)
        return changed

    def _timed_run(self, turn: _Turn, ruleset: str) -> tuple[int, bool]:
        start = time.perf_counter()
        run = self.egraph.engine.run(ruleset)
        entry = self.report.rule(turn.name)
        entry.seconds += time.perf_counter() - start
        asked = isinstance(turn.runner, RewriteCompiler) and turn.runner.asks and ruleset == turn.runner.ruleset
        if not asked:
            entry.matches += run.matches
            entry.updates += run.updated
        self._after_rule(turn.name)
        return run.matches, run.updated

    def _settle(self) -> bool:
        """Derive facts and answer questions until there are no new ones; whether anything came of it."""
        changed = False
        while True:
            changed |= self.egraph.engine.saturate("facts")
            if not self.egraph.settle_questions():
                return changed
            changed = True
            if time.perf_counter() > self._deadline:
                raise StopRun("seconds")

    def _after_rule(self, name: str) -> None:
        if self.on_rule is not None:
            self._settle()
            self.on_rule(self, name)
        self._check_limits()

    def _check_limits(self) -> None:
        if time.perf_counter() > self._deadline:
            raise StopRun("seconds")
        if self.egraph.node_count() > self.limits.nodes:
            raise StopRun("nodes")

    def _record(self, seconds: float) -> None:
        classes = self.egraph.engine.sizes()["ty"]
        self.report.iterations.append(IterationReport(self.egraph.node_count(), classes, seconds))
        if self.on_iteration is not None:
            self.on_iteration(self.report)

    def _unban(self, iteration: int) -> bool:
        """When nothing changed but rules are banned, let the first of them back in."""
        banned = [turn for turn in self.native if turn.banned_until > iteration + 1]
        if banned:
            shift = min(turn.banned_until for turn in banned) - (iteration + 1)
            for turn in banned:
                turn.banned_until -= shift
        return bool(banned)

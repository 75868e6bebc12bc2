"""The saturation loop: every rule in every iteration, between limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from eqsat.egraph.bases import AFFINE, Bases
from eqsat.egraph.compile import RewriteCompiler, VariadicCompiler
from eqsat.egraph.composing import compose
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.facts import ConstantFacts
from eqsat.egraph.forms import Edge
from eqsat.egraph.group_rules import GroupRule, GroupRuleRunner
from eqsat.egraph.injectivity import InjectivityRunner
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import Lowered, lower, places_among
from eqsat.egraph.numbers import Numbers
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.python_rules import ClassExpressions, PythonRuleRunner
from eqsat.egraph.report import IterationReport, Limits, Report, RuleReport
from eqsat.egraph.rule import (
    ComposeChains,
    FoldConstants,
    Injectivity,
    PythonRule,
    Rewrite,
    Rule,
    identity,
    refs_of,
)
from eqsat.egraph.schedule import Phase, Schedule
from eqsat.egraph.snapshot import Snapshot, take_snapshot
from eqsat.egraph.symbols import SymbolHead
from eqsat.egraph.trace import Noted, Trace, Traced, read_trace
from eqsat.egraph.variadic import is_variadic
from eqsat.errors import RuleError
from eqsat.memory import resident_bytes
from eqsat.relay.expr import Expr
from eqsat.relay.ty import Type

OnIteration = Callable[[Report], None]


class StopRun(Exception):
    """Ends a run; the argument is the stop reason."""


_WATCHED = 30
"""E-nodes for each rule up to which rules wait until they may match: to look costs less than to compile them."""

_ROOM = 10
"""As long as the e-graph could grow this many times, rules run together."""

_FEW = 16
"""E-nodes for each match, from which what an iteration found is followed up."""

_FOLLOWED = 16
"""Steps by which it is followed at most."""


@dataclass(eq=False)
class _Turn:
    """A rule's place in the loop."""

    runner: RewriteCompiler | PythonRuleRunner | InjectivityRunner
    entry: RuleReport
    kind: str = ""
    """``early`` or ``meets`` for a rule that runs to its end before others."""
    banned_until: int = 0
    bans: int = 0
    pending: int = 0
    """Matches put aside that are not applied yet."""
    is_awake: bool = False
    """Whether the e-graph had the heads, and pairs of them, without which the rule matches nowhere."""


class Runner:
    """Saturates the e-graph of one graph.

    Args:
        egraph: an empty e-graph, which the caller closes.
        root: the graph.
        types: type of every node of the graph.
        schedule: which rules to apply when.
        limits: when to stop.
        on_iteration: called with the report after every iteration; an exception it raises ends the run.
        explain: whether to keep a journal of all that rules equate.
        on_error: whether a rule's failing Python part ends the run (``raise``) or is reported (``skip``).
        has_inputs: whether variables are inputs of a program, and not what another graph computes.
        goal: two nodes of the graph: once they are known to be equal, the run is over.
        traces: whether to note by which matches e-nodes came about; see :meth:`traced`.
    """

    def __init__(
        self,
        egraph: EGraph,
        root: Expr,
        types: dict[Expr, Type],
        schedule: Schedule,
        limits: Limits,
        on_iteration: OnIteration | None = None,
        explain: bool = False,
        on_error: str = "raise",
        has_inputs: bool = True,
        goal: tuple[Expr, Expr] | None = None,
        traces: bool = False,
    ):
        self.schedule = schedule
        self.limits = limits
        self.on_iteration = on_iteration
        self.on_rule: Callable[[Runner, str], None] | None = None
        self.report = Report()
        self.fail = self.report.fail if on_error == "skip" else _raise
        self.egraph = egraph
        self.root = root
        self.types = types
        rules = schedule.rules
        folding = max((rule for rule in rules if isinstance(rule, FoldConstants)), key=lambda r: r.limit, default=None)
        self.journal = Journal(self.egraph.vocabulary) if explain else None
        self.trace = Trace(self.egraph.engine) if traces else None
        self._watchers = [each for each in (self.journal, self.trace) if each is not None]
        self.egraph.commutative = schedule.commutative
        limit, given, told = 0, 0, None
        if folding is not None:
            limit, given = folding.limit, folding.given
            told = None if self.journal is None else partial(self.journal.fold, folding.name)
        self.constants = ConstantFacts(self.egraph, limit, given, told)
        named = explain or any(isinstance(rule, PythonRule) for rule in rules)
        self.names = ClassExpressions(self.egraph, types, self.journal, self.trace) if named else None
        self.turns = {identity(rule): turn for index, rule in enumerate(rules) if (turn := self._turn(rule, index))}
        self.lowered = self._lower()
        self._goal = None if goal is None else [self.lowered.handles[node] for node in goal]
        self.bases = Bases(self.egraph)
        self.numbers = Numbers(self.egraph, has_inputs)
        self._symbols = 0  # that rules were told of, once they no longer wait
        self._there: set[SymbolHead | Edge] = set()  # when rules were woken
        self._is_stale = True
        self._snapshot: Snapshot | None = None  # while nothing has changed since
        self._nodes = self.egraph.handle_count  # e-nodes at most

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
        if self.journal is not None:
            self.journal.collect(self.egraph.engine)
        self.report.add_seconds("saturate", time.perf_counter() - start)

    def snapshot(self) -> Snapshot:
        """The e-graph as it is now."""
        return take_snapshot(self.egraph) if self._snapshot is None else self._snapshot

    def traced(self) -> tuple[Snapshot, Traced | None]:
        """The e-graph as it is now, and by which matches e-nodes came about if that was noted."""
        return (self.snapshot(), None) if self.trace is None else read_trace(self.egraph, self.trace)

    def _lower(self) -> Lowered:
        start = time.perf_counter()
        lowered = lower(self.egraph, self.root, self.types)
        self.egraph.flush()
        self.egraph.given_count = self.egraph.handle_count
        if "uses" in self.schedule.asked:
            self.egraph.count_uses(lowered.nodes, lowered.root)
        if "place" in self.schedule.asked:
            refs = [ref for rule in self.schedule.rules for ref in refs_of(rule)]
            places = places_among(lowered.handles, [ref.pattern for ref in refs if ref.kind == "place"])
            self.egraph.number_places((lowered.handles[node], place) for node, place in places.items())
        if self.names is not None:
            self.names.add(lowered)
        self._compose(lowered)
        self.report.add_seconds("lower", time.perf_counter() - start)
        return lowered

    def _compose(self, lowered: Lowered) -> None:
        """Compose chains of operators with constants, where a rule says so and nobody asks for single steps."""
        composing = [rule for rule in self.schedule.rules if isinstance(rule, ComposeChains)]
        if composing and self.egraph.fold is not None:
            found = compose(self.egraph, lowered.nodes, lowered.root, self.egraph.fold)
            name = composing[0].name
            self.report.rule(name).matches += len(found)
            for composed in found:
                if self.names is not None:
                    self.names.learn(composed.made)
            if self.trace is not None and found:
                for end, links, made, result in found:
                    self.trace.note(Noted(name, end, result, [links], made))
                self.trace.tick()

    def _turn(self, rule: Rule, index: int) -> _Turn | None:
        runner: RewriteCompiler | PythonRuleRunner | InjectivityRunner
        if isinstance(rule, Rewrite):
            compile_rule = VariadicCompiler if any(map(is_variadic, rule.lhs)) else RewriteCompiler
            runner = compile_rule(self.egraph, rule, index, self.report.refuse, self.fail, self._watchers)
        elif isinstance(rule, Injectivity):
            runner = InjectivityRunner(self.egraph, rule, index, self._watchers)
        elif isinstance(rule, PythonRule) and rule.saturates and self.names is not None:
            make = GroupRuleRunner if isinstance(rule, GroupRule) else PythonRuleRunner
            runner = make(self.egraph, rule, index, self.names, self.report.refuse, self.fail)
        else:
            return None
        is_early = isinstance(rule, Injectivity) or (isinstance(rule, Rewrite) and (rule.contracts or rule.early))
        meets = isinstance(rule, Rewrite) and rule.moves_scalars
        return _Turn(runner, self.report.rule(rule.name), "meets" if meets else "early" if is_early else "")

    def _loop(self) -> str:
        """Go through the schedule; the stop reason."""
        for _ in range(self.schedule.repeat):
            changed = False
            for phase in self.schedule.phases:
                named = map(identity, phase.rules)
                self.current = [self.turns[name] for name in named if name in self.turns]
                changed |= self._phase(phase)
            if not changed:
                return "saturated"
        return "iterations" if changed and self.unfinished else "saturated"

    def _phase(self, phase: Phase) -> bool:
        """Iterate over a phase; whether anything changed. Sets ``unfinished`` unless it was saturated."""
        changed = False
        self.unfinished = True
        first = len(self.report.iterations)
        while phase.iterations is None or len(self.report.iterations) < first + phase.iterations:
            if len(self.report.iterations) >= self.limits.iterations:
                raise StopRun("iterations")
            if not self._iteration(len(self.report.iterations)):
                self.unfinished = False
                break
            changed = True
        return changed

    def _iteration(self, iteration: int) -> bool:
        """Every rule once; whether there may be more to find."""
        start = time.perf_counter()
        self._activate(None if iteration else self._fold_given())
        self.numbers.find()
        self.egraph.share_places()
        snapshot, self._snapshot = self._snapshot, None
        if self.journal is not None and self.names is not None:
            self.names.name_all()
        changed = self._contract()
        before = self._matches()
        changed |= self._run_native(iteration)
        changed |= self._settle()
        for act in (partial(self._run_applies, iteration), self._run_python):
            if act():
                changed = True
                self._settle()
        if self.on_rule is None:
            self._follow_up(iteration, before)
        if self.journal is not None:
            self.journal.collect(self.egraph.engine)
        self._is_stale |= changed
        if not changed and self.names is None:  # names are handles, which a snapshot has too
            self._snapshot = snapshot
        self._record(time.perf_counter() - start)
        if changed and self._goal is not None and len({*take_snapshot(self.egraph).handle_class[self._goal]}) == 1:
            raise StopRun("goal")
        return changed or self._unban(iteration)

    def _matches(self) -> int:
        """How often the rules of the phase have matched so far."""
        return sum([turn.entry.matches for turn in self.current])

    def _follow_up(self, iteration: int, before: int) -> None:
        """Run the rules that have ever matched a few steps further, as long as they match in few places.

        What moves through a graph link by link takes as many steps as there are links. A step of these rules takes a
        small part of an iteration, which looks at the whole e-graph for all rules. After some steps, the others must
        have their turn, for one of them may end a circle of these.

        Args:
            iteration: The number of the iteration.
            before: How often rules had matched when it began.
        """
        for _ in range(_FOLLOWED):
            found = self._matches() - before
            if found == 0 or found * _FEW > self._nodes:
                break
            before += found
            matched = [turn for turn in self.current if turn.entry.matches]
            if not self._step([turn for turn in matched if turn.banned_until <= iteration]):
                break
            self._check_time()
            self._check_size()

    def _fold_given(self) -> Prefilter | None:
        """Compute the constant expressions of the given graph, also larger ones than of those that rules make.

        Returns:
            The e-graph as it is then, as rules see it that wait until they may match; None if they do not wait.
        """
        with self.constants.of_given():
            prefilter = self._looked()
            while self.constants.update(prefilter) and self._settle():
                prefilter = self._looked()
        return prefilter

    def _looked(self) -> Prefilter | None:
        return self._look() if self._is_watched else None

    def _look(self) -> Prefilter:
        return Prefilter(take_snapshot(self.egraph), self.egraph.vocabulary)

    def _activate(self, prefilter: Prefilter | None) -> None:
        """Let rules, and facts of constants, see what is new since the last iteration.

        Args:
            prefilter: The e-graph as it is now, if that is known.
        """
        if self._is_stale and self._is_watched:
            prefilter = prefilter or self._look()
            if self.constants.update(prefilter) and self._settle():
                prefilter = self._look()
            self._snapshot = None if self._update(prefilter, self.turns.values()) else prefilter.snapshot
            self._is_stale = False
        elif not self._is_watched:
            while len(self.egraph.vocabulary.symbols) > self._symbols:
                self._symbols = len(self.egraph.vocabulary.symbols)
                self._snapshot = None
                self.constants.update(None)
                self._settle()
                self._update(None, self.turns.values())
            self._look_at_fields()

    @property
    def _is_watched(self) -> bool:
        """Whether rules wait until they may match."""
        return self._nodes <= _WATCHED * len(self.turns)

    def _update(self, prefilter: Prefilter | None, turns: Iterable[_Turn]) -> bool:
        """Let rules see what is new; whether facts came of it."""
        self._wake(prefilter)
        for turn in turns:
            if turn.is_awake:
                turn.runner.update(prefilter)
        self.egraph.flush()
        return self.egraph.engine.saturate("facts")

    def _wake(self, prefilter: Prefilter | None) -> None:
        """Wake the rules that may match by what is new."""
        there = set() if prefilter is None else prefilter.heads | prefilter.edges
        if prefilter is None or not there <= self._there:
            self._there |= there
            for turn in self.turns.values():
                turn.is_awake = turn.is_awake or prefilter is None or all(map(prefilter.may_have, turn.runner.roots))

    def _look_at_fields(self) -> None:
        """Let rules with repetitions see new layouts, in an e-graph that is too large to watch it for all rules."""
        runners = [turn.runner for turn in self.turns.values() if isinstance(turn.runner, VariadicCompiler)]
        waiting = [runner for runner in runners if runner.may_have_layouts()]
        if waiting and self._is_stale:
            prefilter = self._look()
            for runner in waiting:
                runner.update(prefilter)
            self.egraph.flush()  # what they ask of types and constants
            self._is_stale = False

    def _contract(self) -> bool:
        """Run the rules that contract, and those by which constants meet, to their end; whether anything changed.

        Constants meet after each step of the others: each step then halves a chain, of which it would else take the
        links one by one.
        """
        early = [turn for turn in self.current if turn.kind == "early"]
        meeting = [turn for turn in self.current if turn.kind == "meets"]
        changed, is_seen, is_new = False, True, True
        while is_new:
            if not is_seen and self._is_watched:
                self._update(self._look(), [*early, *meeting])  # to see what they made
            is_seen = True
            if any(turn.runner.growth for turn in [*early, *meeting]) and self.constants.watch(AFFINE):
                self._settle()  # the constants that they make are folded at once
            nodes = self._nodes
            if self._repeat(early):
                is_seen = False
                if self._is_watched and not self.report.iterations:
                    changed = True
                    continue  # others that contract may wait for what they made of the given graph
            while self._meet(meeting, early):
                is_seen = False
            changed |= not is_seen
            is_new = nodes < self._nodes or self.bases.settle()
        self._is_stale |= changed
        return changed

    def _meet(self, turns: list[_Turn], early: list[_Turn]) -> bool:
        """Run the rules by which constants meet to their end; whether anything changed."""
        if not self.bases.find() or not turns:
            return False
        return self._repeat([*turns, *early], self.bases.follow)

    def _repeat(self, turns: list[_Turn], afterwards: Callable[[], object] = bool) -> bool:
        """Run rules until they change nothing; whether anything changed. After each change ``afterwards`` is called."""
        changed = False
        while self._step(turns):
            afterwards()
            changed = True
        return changed

    def _step(self, turns: list[_Turn]) -> bool:
        """Run rules once, with what they ask Python; whether anything changed."""
        live = [(turn, turn.runner) for turn in turns if turn.is_awake and turn.runner.is_live]
        native = [(turn, runner) for turn, runner in live if not isinstance(runner, PythonRuleRunner)]
        matched, updated = self._run_together({turn: runner.ruleset for turn, runner in native})
        asking = {turn: runner for turn, runner in native if runner.asks}
        acted = {turn: count for turn, count in matched.items() if turn not in asking}
        changed = self._count(acted, updated)
        if any(matched.get(turn) for turn in asking):
            if changed:
                self._settle()
            else:  # nothing new that facts would follow from
                self.egraph.settle_questions()
            applied = {turn: r.apply_ruleset for turn, r in asking.items() if r.apply_ruleset and matched.get(turn)}
            found, updated = self._act(applied)
            changed |= updated
            acted |= found
        if changed:
            self._settle()
            hiding = {turn: runner.hide_ruleset for turn, runner in native if runner.hide_ruleset and acted.get(turn)}
            if self._run_together(hiding)[1]:
                self.egraph.engine.saturate("facts")  # they hide what is commutative
        return changed

    def _live(self) -> list[_Turn]:
        """The turns of the phase for which the e-graph has what their rules speak of."""
        return [turn for turn in self.current if turn.is_awake and turn.runner.is_live]

    def _run_native(self, iteration: int) -> bool:
        """Run the rules without Python parts, search for the others."""
        active = [t for t in self._live() if t.banned_until <= iteration and not t.kind]
        native = [(turn, turn.runner) for turn in active if isinstance(turn.runner, RewriteCompiler)]
        found, changed = self._act({turn: runner.ruleset for turn, runner in native if not runner.asks})
        for turn, matches in found.items():
            self._hold_back(turn, matches, iteration)
        asked, _ = self._run_together({turn: runner.ruleset for turn, runner in native if runner.asks})
        for turn, matches in asked.items():
            turn.pending += matches
            self._hold_back(turn, turn.pending, iteration)
        self._check_time()
        return changed

    def _act(self, rulesets: dict[_Turn, str]) -> tuple[dict[_Turn, int], bool]:
        """Run rulesets that make e-nodes: matches of each, and whether anything changed.

        While there is room they run in one go: that is quick, but limits are looked at only afterwards.
        """
        together = self.on_rule is None and self._nodes * _ROOM < self.limits.nodes
        found: dict[_Turn, int] = {}
        changed = False
        for batch in [rulesets] if together else [{turn: ruleset} for turn, ruleset in rulesets.items()]:
            matched, updated = self._run_together(batch)
            changed |= updated
            found |= matched
            self._count(matched, updated)
            self._after_rules([turn.entry.name for turn in batch], updated)
        return found, changed

    def _count(self, matched: dict[_Turn, int], updated: bool) -> bool:
        """Report what rules matched that acted; whether they may have changed anything."""
        for turn, matches in matched.items():
            entry = turn.entry
            entry.matches += matches
            entry.updates += updated and matches > 0
            self._nodes += matches * turn.runner.growth
        return updated and any(matched.values())

    def _run_together(self, rulesets: dict[_Turn, str]) -> tuple[dict[_Turn, int], bool]:
        """Search all, then act: matches of each, and whether anything changed."""
        if not rulesets:
            return {}, False
        run = self.egraph.engine.run(*rulesets.values())
        self._tick(run.updated)
        turn_of = {turn.runner.ruleset: turn for turn in rulesets}
        found: dict[_Turn, int] = {}
        for name, matches in run.matches.items():
            turn = turn_of[name.split("_")[0]]
            found[turn] = found.get(turn, 0) + matches
            turn.entry.seconds += run.seconds.get(name, 0.0)
        return found, run.updated

    def _tick(self, updated: bool) -> None:
        if self.trace is not None and updated:
            self.trace.tick()

    def _hold_back(self, turn: _Turn, matches: int, iteration: int) -> None:
        backoff = self.schedule.backoff
        if backoff is not None and matches > max(backoff.match_limit, self.egraph.handle_count) << turn.bans:
            turn.banned_until = iteration + 1 + (backoff.ban_length << turn.bans)
            turn.bans += 1
            turn.entry.bans += 1

    def _run_applies(self, iteration: int) -> bool:
        """The second half of rules that asked Python something; a rule banned just now keeps its matches."""
        rulesets = {}
        for turn in self.current:
            runner = turn.runner
            if turn.banned_until > iteration or not isinstance(runner, RewriteCompiler):
                continue
            if turn.pending or runner.waits:
                turn.pending = 0
                if runner.apply_ruleset:
                    rulesets[turn] = runner.apply_ruleset
        if not self.numbers.are_found:
            self.numbers.find()  # a rule may have asked for them since the iteration began
        return self._act(rulesets)[1]

    def _run_python(self) -> bool:
        runners = [(turn, turn.runner) for turn in self._live()]
        live = {turn: runner for turn, runner in runners if isinstance(runner, PythonRuleRunner)}
        if self.names is None or not live:
            return False
        looked = self.egraph.engine.run(*[runner.look_ruleset for runner in live.values()])
        if not any(looked.matches.values()):
            return False  # to name all classes takes reading the whole e-graph
        self.names.name_all()
        changed = False
        found, _ = self._run_together({turn: runner.ruleset for turn, runner in live.items()})
        for turn in [turn for turn in live if found.get(turn)]:
            start = time.perf_counter()
            before = live[turn].matches
            applied = live[turn].apply()
            self._tick(applied)
            changed |= applied
            entry = turn.entry
            entry.seconds += time.perf_counter() - start
            entry.matches += live[turn].matches - before
            entry.updates += applied
            self._after_rules([turn.entry.name], applied)
        return changed

    def _settle(self) -> bool:
        """Derive facts and answer questions until there are no new ones; whether anything came of it."""
        changed = False
        while True:
            changed |= self.egraph.engine.saturate("facts")
            if not self.egraph.settle_questions():
                return changed
            changed = True
            self._check_time()

    def _after_rules(self, names: list[str], changed: bool) -> None:
        if self.on_rule is not None:
            self._settle()
            for name in names:
                self.on_rule(self, name)
        self._check_time()
        if changed:
            self._check_size()

    def _check_time(self) -> None:
        if time.perf_counter() > self._deadline:
            raise StopRun("seconds")

    def _check_size(self) -> None:
        if self._nodes > self.limits.nodes:
            self._nodes, _ = self.egraph.counts()
            if self._nodes > self.limits.nodes:
                raise StopRun("nodes")
        if self.limits.memory is not None and resident_bytes() > self.limits.memory:
            raise StopRun("memory")

    def _record(self, seconds: float) -> None:
        self._nodes, classes = self.egraph.counts()
        self.report.iterations.append(IterationReport(self._nodes, classes, seconds))
        if self.on_iteration is not None:
            self.on_iteration(self.report)

    def _unban(self, iteration: int) -> bool:
        """When nothing changed but rules are banned, let the first of them back in."""
        banned = [turn for turn in self.current if turn.banned_until > iteration]
        if banned:
            shift = min(turn.banned_until for turn in banned) - (iteration + 1)
            for turn in banned:
                turn.banned_until -= shift
        return bool(banned)


def _raise(name: str, error: RuleError) -> None:
    raise error

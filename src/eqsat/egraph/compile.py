"""Rules become engine rules, one alternative of their pattern at a time, when their symbols exist.

A rewrite without Python parts is one engine rule. One with guards or computed values is two: the first puts
each match aside and asks the question, the second acts on the matches whose question has an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from eqsat.egraph.action import Action, Fail, Refuse
from eqsat.egraph.bases import AFFINE, derived, linear
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.facts import find_types
from eqsat.egraph.forms import needed_heads
from eqsat.egraph.join import WIDE, by_operand, by_root, in_blocks
from eqsat.egraph.layouts import find_layouts
from eqsat.egraph.prefilter import Dependencies, Prefilter
from eqsat.egraph.query import Query, QueryCompiler
from eqsat.egraph.rule import PythonRule, Rewrite, roots_of
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.trace import Watcher
from eqsat.egraph.variadic import expanded, widest_tuple
from eqsat.egraph.vocabulary import WIDEST_TUPLE
from eqsat.relay.dataflow_pattern import DFPattern

_KEYS = {
    "type": "type",
    "attrs": "atom",
    "index": "atom",
    "value": "atom",
    "known": "atom",
    "uses": "number",
    "place": "number",
}
"""What the keys of questions are that stand for what a rule refers to."""


class RuleRunner:
    """Keeps the engine rules of one rule up to date with what is in an e-graph.

    Args:
        index: distinguishes the tables of this rule from others'.

    Attributes:
        growth: e-nodes that the engine may add for a match.
    """

    def __init__(self, egraph: EGraph, rule: Rewrite | PythonRule, index: int, refuse: Refuse, fail: Fail):
        self.egraph = egraph
        self.rule: Any = rule
        self.refuse = refuse
        self.fail = fail
        self.roots = roots_of(rule)
        self.ruleset = f"rule{index}"
        self.growth = 0
        self._compiled: set[tuple[object, ...]] = set()
        self._awaited: dict[tuple[DFPattern, ...], Dependencies] = {}

    @property
    def is_live(self) -> bool:
        """Whether the e-graph has the symbols that the rule speaks of."""
        return bool(self._compiled)

    def update(self, prefilter: Prefilter | None) -> None:
        """Add engine rules for the alternatives that may match now (without ``prefilter``: ever)."""
        raise NotImplementedError

    def _update(
        self,
        roots: tuple[DFPattern, ...],
        prefilter: Prefilter | None,
        add: Callable[[Query, str], None],
        either_order: Callable[[int], str] | None = None,
    ) -> None:
        """Call ``add(query, name)``, with a name for engine rules, for each new way to match ``roots``."""
        awaited = self._awaited.get(roots)
        if prefilter is None:
            may_come = True
        elif awaited is None:
            may_come = all(map(prefilter.may_match, roots))
        else:
            may_come = awaited.has_come(prefilter)
        if not may_come:
            return
        compiler = QueryCompiler(self.egraph, self.rule.name, either_order, prefilter)
        for query in compiler.queries(roots):
            if (roots, query.key) not in self._compiled:
                if not self._compiled:
                    self.egraph.engine.declare(f"(ruleset {self.ruleset})")
                self._compiled.add((roots, query.key))
                add(query, f"{self.ruleset}_{len(self._compiled)}")
        self._awaited[roots] = compiler.dependencies


class RewriteCompiler(RuleRunner):
    """Keeps the engine rules of one rewrite up to date; the watchers are told of each match."""

    rule: Rewrite

    def __init__(
        self, egraph: EGraph, rule: Rewrite, index: int, refuse: Refuse, fail: Fail, watchers: Sequence[Watcher] = ()
    ):
        super().__init__(egraph, rule, index, refuse, fail)
        self.watchers = watchers
        self.apply_ruleset = ""  # declared when a question has an answer
        self.hide_ruleset = ""  # declared when a match could be hidden
        self.asks = bool(rule.when)  # whether its engine rules come in two halves
        self.waits = bool(rule.numbers or rule.derived)  # whether matches may wait for more than answers

    def update(self, prefilter: Prefilter | None) -> None:
        self._update_rewrite(self.rule, prefilter)

    def _update_rewrite(self, rule: Rewrite, prefilter: Prefilter | None) -> None:
        self._update(rule.lhs, prefilter, partial(self._add, rule), self.egraph.either_order)

    def _add(self, rule: Rewrite, query: Query, name: str) -> None:
        query = query.where(*self._conditions(rule, query))
        action = self._action(rule, query)
        every = [action] if action.otherwise is None else [action, action.otherwise]
        self.egraph.declare_symbols()
        logged: dict[str, str] = {}
        for number, each in enumerate(every):
            logged |= self._log(f"{name}_{number}", query, each)
        needed = _needed([*query.premises, *action.premises])
        hidings = [list(self._hidings(rule, query, each)) for each in every]
        told = [*[line for each in every for line in each.actions], *action.keys]
        used = " ".join([*told, *[text for each in hidings for hiding in each for text in hiding]])
        if len(rule.lhs) > 1 and rule.when and not rule.contracts:
            roots = [query.classes[root] for root in rule.lhs]
            needed = by_root(self.egraph, query, roots, needed, used)
        elif len(rule.lhs) == 1 and rule.moves_scalars:
            root = query.classes[rule.lhs[0]]
            needed = by_operand(self.egraph, query, root, needed, used)
        elif len(needed) > WIDE:
            needed = in_blocks(self.egraph, query, needed, used)
        premises = " ".join(needed)
        declare = self.egraph.engine.rule
        self.growth = max(self.growth, *[len(each.made) for each in every])
        if not action.asks:
            self._tell_made(action)
            premises = " ".join([premises, *self._late_conditions(rule, query)])
            declare(self.ruleset, premises, " ".join(action.actions), name)
            # what the last run of the rule made may match, too, and is to act before it is hidden
            done = [f"(= {root} {result})" for root, result in action.pairs]
            done += [
                f"(= {each.variable} (n{each.symbol} {' '.join((each.atom, *each.children))}))" for each in action.made
            ]
            self._declare_hidings(hidings[0], " ".join([premises, *done]), name)
            return
        self.asks = True
        keys = " ".join(action.keys)
        kinds = [_KEYS[kind] for kind in action.keys.values()]

        def compile_half(asked: Sequence[int], found: Sequence[int]) -> None:
            """Compile what is done with answers when the first has come: most questions have none."""
            if not self.apply_ruleset:
                self.apply_ruleset = f"apply_{self.ruleset}"
                self.egraph.engine.declare(f"(ruleset {self.apply_ruleset})")
            number = [len(each.sites) for each in every].index(len(found))
            act, answer = every[number], [question.answered, question.otherwise][number]
            self._tell_made(act)
            row = " ".join([answer, *act.keys, *act.sites])
            answered = " ".join([match, f"({row})", *self._late_conditions(rule, query)])
            declare(self.apply_ruleset, answered, " ".join(act.actions), f"{name} apply {number}")
            self._declare_hidings(hidings[number], f"{premises} {answered}", f"{name} {number}")

        computed = {name for act in every for name in (*act.sites, *[each.variable for each in act.made])}
        other = None if action.otherwise is None else len(action.otherwise.sites)
        question = self.egraph.question(kinds, len(action.sites), "atom", action.answer, compile_half, other)
        columns = dict.fromkeys([each for act in every for each in act.used(query.class_variables)], "Expr")
        late = [each.pattern for each in rule.numbers]
        late += [each for condition in rule.derived for each in (condition.pattern, condition.operand)]
        columns |= dict.fromkeys([query.classes[each] for each in late], "Expr")
        columns |= dict.fromkeys([each for act in every for each in act.used(query.atom_variables)], "i64")
        columns |= dict.fromkeys(action.keys, "i64")
        columns |= {column: kind for column, kind in logged.items() if column not in computed}
        self.egraph.engine.relation(f"{name}_match", *columns.values())
        match = f"({name}_match {' '.join(columns)})"
        declare(self.ruleset, premises, f"{put(match)} {put(f'({question.ask} {keys})')}", f"{name} ask")

    def _action(self, rule: Rewrite, query: Query) -> Action:
        """What is done with a match; where what it makes of constants has no value, otherwise as without folding."""
        action = Action(self.egraph.vocabulary, rule, query, self.refuse, self.fail)
        action.build()
        if action.asks and not rule.numbers and self.egraph.fold is not None:
            folding = Action(self.egraph.vocabulary, rule, query, self.refuse, self.fail, fold=self.egraph.fold)
            folding.build()
            if folding.folds:
                action.keys = dict(folding.keys)
                folding.otherwise = action
                action = folding
        if "known" in action.keys.values():
            self.egraph.ask_known()
        return action

    def _log(self, name: str, query: Query, action: Action) -> dict[str, str]:
        """Have matches put down for those who watch; the variables that they need, and their sorts."""
        needed: dict[str, str] = {}
        for watcher in self.watchers:
            log = watcher.watch(self.egraph.engine, self.rule.name, name, query, action.made, action.pairs)
            action.premises += log.premises
            action.actions.append(log.action)
            needed |= log.columns
        return needed

    def _conditions(self, rule: Rewrite, query: Query) -> Iterator[str]:
        """Premises that roots, and what the rule says is distinct, are different classes, and some no constants."""
        for group in (rule.lhs, *(distinct.patterns for distinct in rule.distinct)):
            classes = [query.classes[pattern] for pattern in group if pattern in query.classes]
            yield from (f"(!= {one} {other})" for one, other in combinations(classes, 2))
        for pattern in rule.varying:
            self.egraph.ask_non_constant()
            yield f"(varies {query.classes[pattern]})"
        for base in rule.bases:
            self.egraph.ask_bases()
            variable = query.classes[base.pattern]
            yield f"(= level_{variable} (level {variable}))"
            for each in self._forms(rule, query, variable):
                # they are compared: a join would be of all classes that come from one base with each other
                yield f"(= origin_{each} (origin {each}))"
                yield from (f"({order} level_{variable} origin_{each})" for order in ("<=", ">="))
            if base.after is not None:
                yield f"(<= level_{query.classes[base.after]} level_{variable})"
        if rule.settled or rule.derived:
            self.egraph.ask_bases()
        for settled in rule.settled:
            yield f"({settled.place} {query.classes[settled.pattern]})"

    def _late_conditions(self, rule: Rewrite, query: Query) -> Iterator[str]:
        """Premises that are looked at once a match has passed the guards, as what they say may change until then."""
        for condition in rule.derived:
            yield derived(query.classes[condition.pattern], query.classes[condition.operand])
        for each in rule.numbers:
            self.egraph.ask_numbers()
            variable = query.classes[each.pattern]
            yield f"(= num_{variable} (num {variable})) (>= num_{variable} {each.level})"

    def _forms(self, rule: Rewrite, query: Query, base: str) -> list[str]:
        """The variables of the classes below the roots that come from ``base`` by sums and products.

        Only the last of each chain of them is told: the origin of none before it can be an earlier one.
        """
        symbols = self.egraph.vocabulary.symbols
        by_class = [(query.classes[pattern], node) for pattern, node in query.nodes.items()]
        affine = [(each, _linear(symbols[node.symbol], node.children)) for each, node in by_class]
        found = [base]
        for form in found:
            found += [each for each, children in affine if form in children and each not in found]
        inside = [each for each in found if each in _inside(rule, query)]
        before = {child for each, children in affine if each in inside for child in children}
        return [each for each in inside if each not in before]

    def _hidings(self, rule: Rewrite, query: Query, action: Action) -> Iterator[tuple[str, str]]:
        """Actions that hide what a rule contracts, each with a premise under which it does, if there is one.

        What is hidden is not the very e-node that it is equated to, nor may it become that: if ``clip(clip(x, 1), 2)``
        is ``clip(x, 2)``, it may be found later that ``clip(x, 1)`` is ``x``. So where the rule computes attributes
        that turn out the same, it is hidden until then.
        """
        if not rule.contracts:
            return
        made = {each.variable: each for each in action.made}
        heads = query.heads
        for root, result in dict.fromkeys(action.pairs):
            node, other = heads[root], made.get(result)
            columns = node.atom, *node.children
            hide = self.egraph.hide(node.symbol, " ".join(columns), root, node.swapped)
            if other is None or other.symbol != node.symbol or not made.keys().isdisjoint(other.children):
                yield hide, ""
                # x[i][j] = x[i[j]]: what is inside of one match may be what another one's result reads
                if other is None or other.symbol != node.symbol or made.keys() >= {*other.children}:
                    yield from self._inside(root, query, action)
                continue
            pairs = [*zip(node.children, other.children, strict=True)]
            differing = [f"(!= {mine} {theirs})" for mine, theirs in pairs if mine != theirs]
            if other.atom != node.atom:
                yield hide, f"(!= {node.atom} {other.atom})"
            if other.atom in action.sites:
                hide = self.egraph.hide_unless(node.symbol, node.atom, node.children, other.children, root)
                differing = [] if node.swapped else [f"(= {node.atom} {other.atom}) {each}" for each in differing]
            yield from ((hide, each) for each in differing)

    def _inside(self, root: str, query: Query, action: Action) -> Iterator[tuple[str, str]]:
        """The action that hides what only the hidden e-node of a root reads, where the given graph reads it once."""
        kept = {result for _, result in action.pairs}.union(*[each.children for each in action.made])
        heads, inside = query.heads, list(query.heads[root].children)
        for each in inside:
            if each in heads and each not in kept:
                inside += [child for child in heads[each].children if child not in inside]
        found = {each: heads[each] for each in inside if each in heads and each not in kept and heads[each].children}
        if self.egraph.has_uses and found:
            hide = [
                self.egraph.hide(node.symbol, " ".join([node.atom, *node.children]), each, node.swapped)
                for each, node in found.items()
            ]
            yield " ".join(hide), " ".join([f"(= 1 (uses {each}))" for each in found])

    def _declare_hidings(self, hidings: Sequence[tuple[str, str]], premises: str, name: str) -> None:
        """Hide what a rule matched, in a ruleset of its own: it runs when what the rule made has its class."""
        if hidings and not self.hide_ruleset:
            self.hide_ruleset = f"hide_{self.ruleset}"
            self.egraph.engine.declare(f"(ruleset {self.hide_ruleset})")
        for number, (hide, unless) in enumerate(hidings):
            self.egraph.engine.rule(self.hide_ruleset, f"{premises} {unless}", hide, f"{name} hide {number}")

    def _tell_made(self, action: Action) -> None:
        """Have the types of what is made found, where they are not known from what it equals."""
        for made in action.untyped.values():
            find_types(self.egraph, len(made.children))


def _linear(symbol: Symbol, children: Sequence[str]) -> Sequence[str]:
    """The children of which an e-node is a sum or product if the others are constants; none of other operators."""
    return linear(symbol.op.name, children) if symbol.op is not None and symbol.op.name in AFFINE else ()


def _inside(rule: Rewrite, query: Query) -> list[str]:
    """The variables of the classes of e-nodes that a rule matches below its roots."""
    roots = [query.classes[root] for root in rule.lhs]
    matched = dict.fromkeys(query.classes[pattern] for pattern in query.nodes)
    return [variable for variable in matched if variable not in roots]


class VariadicCompiler(RewriteCompiler):
    """Keeps the engine rules of a rewrite with repetitions: those for each layout that the e-graph's tuples have."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._members: dict[Hashable, Rewrite | None] = {}  # None where a tuple would be too wide

    def update(self, prefilter: Prefilter | None) -> None:
        """Add engine rules for the layouts and alternatives that may match now; none without ``prefilter``."""
        if prefilter is None or not all(map(prefilter.may_match, self.roots)):
            return
        for layout in find_layouts(self.roots, prefilter):
            key = tuple(layout.items())
            if key not in self._members:
                fixed = expanded(self.rule, layout)
                self._members[key] = fixed if widest_tuple(fixed) <= WIDEST_TUPLE else None
            member = self._members[key]
            if member is not None:
                self._update_rewrite(member, prefilter)

    def may_have_layouts(self) -> bool:
        """Whether the e-graph has the symbols without which the rule matches nowhere."""
        return all(needed_heads(root) <= self.egraph.vocabulary.symbols_of.keys() for root in self.roots)


def _needed(premises: Sequence[str]) -> list[str]:
    """Premises without those that others say: what has a value is constant."""
    found = dict.fromkeys(premises)
    known = {f"(isc {match[1]})": None for match in map(_VALUE.fullmatch, found) if match}
    return [premise for premise in found if premise not in known]


_VALUE = re.compile(r"\(= (?:val|known)_\w+ \((?:val|known) (\w+)\)\)")

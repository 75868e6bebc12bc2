"""Rules become engine rules, one alternative of their pattern at a time, when their symbols exist.

A rewrite without Python parts is one engine rule. One with guards or computed values is two: the first puts
each match aside and asks the question, the second acts on the matches whose question has an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.egraph.dependencies import Awaited, Dependencies, Whenever
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.journal import Journal, Log, Made
from eqsat.egraph.layouts import find_layouts
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.query import MatchedNode, Query, QueryCompiler
from eqsat.egraph.required_heads import needs
from eqsat.egraph.rule import Compute, Like, Ref, Refusal, Rewrite
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.variadic import Expansion, expanded
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.errors import EqsatError, RuleError
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import (
    AttrPattern,
    CallPattern,
    DFPattern,
    ExprPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs

Refuse = Callable[[str, str], None]
"""Told of each refusal: rule name and reason."""

Fail = Callable[[str, RuleError], None]
"""Told of each failure of a rule's Python part: rule name and error. It raises the error, or the run goes on."""

_KEYS = {"type": "type", "attrs": "atom", "index": "atom", "value": "atom", "uses": "number"}
"""What the keys of questions are that stand for what a rule refers to."""


class RewriteCompiler:
    """Keeps the engine rules of one rewrite up to date with the symbols of an e-graph.

    Args:
        egraph: where the rule runs.
        rule: the rule.
        index: distinguishes the tables of this rule from others'.
        refuse: told of each refusal.
        fail: told of each failure.
        journal: told of each match, when the run is to be explained.
    """

    def __init__(
        self, egraph: EGraph, rule: Rewrite, index: int, refuse: Refuse, fail: Fail, journal: Journal | None = None
    ):
        self.egraph = egraph
        self.rule = rule
        self.journal = journal
        self.refuse = refuse
        self.fail = fail
        self.roots = rule.lhs
        self.ruleset = f"rule{index}"
        self.apply_ruleset = ""  # declared when a question has an answer
        self.asks = bool(rule.when)  # whether its engine rules come in two halves
        self.growth = 0  # e-nodes that a match may add
        self._compiled: set[tuple[object, ...]] = set()

    @property
    def is_live(self) -> bool:
        """Whether the e-graph has the symbols that the rule speaks of."""
        return bool(self._compiled)

    def update(self, prefilter: Prefilter | None) -> Awaited:
        """Add engine rules for the alternatives that may match now (without ``prefilter``: ever).

        Returns:
            What further alternatives wait for.
        """
        return self._update(self.rule, prefilter)

    def _update(self, rule: Rewrite, prefilter: Prefilter | None) -> Dependencies:
        egraph = self.egraph
        compiler = QueryCompiler(egraph, rule.name, egraph.either_order, prefilter)
        queries = compiler.queries(rule.lhs)
        new = [query for query in queries if (rule.lhs, query.key) not in self._compiled]
        if new and not self._compiled:
            egraph.engine.declare(f"(ruleset {self.ruleset})")
        for query in new:
            self._compiled.add((rule.lhs, query.key))
            self._add(rule, query, len(self._compiled))
        return compiler.dependencies

    def _add(self, rule: Rewrite, query: Query, number: int) -> None:
        query = self._non_constant(rule, _distinct(rule, query))
        action = _Action(self.egraph.vocabulary, rule, query, self.refuse, self.fail)
        action.build()
        self.egraph.declare_symbols()
        name = f"{self.ruleset}_{number}"
        log = self._log(f"{name}_log", query, action)
        premises = " ".join(_needed([*query.premises, *action.premises]))
        actions = " ".join(action.actions)
        declare = self.egraph.engine.declare
        self.growth = max(self.growth, len(action.made))
        if not action.asks:
            self._tell_made(action)
            declare(f'(rule ({premises}) ({actions}) :ruleset {self.ruleset} :name "{name}")')
            return
        self.asks = True
        log_columns = [] if log is None else [name for name in log.handles + log.atoms if name not in action.sites]
        keys = " ".join(action.keys)
        kinds = [_KEYS[kind] for kind, _ in action.keys.values()]
        half: list[str] = []  # the second, until it is compiled
        question = self.egraph.question(
            kinds, len(action.sites), "atom", action.answer, lambda keys, found: self._compile_half(action, half)
        )
        columns = dict.fromkeys(action.used_classes(), "Expr") | dict.fromkeys(action.used_atoms(), "i64")
        columns |= dict.fromkeys([*action.keys, *log_columns], "i64")
        self.egraph.engine.relation(f"{name}_match", *columns.values())
        match = f"({name}_match {' '.join(columns)})"
        asking = f"{put(match)} {put(f'({question.ask} {keys})')}"
        declare(f'(rule ({premises}) ({asking}) :ruleset {self.ruleset} :name "{name} ask")')
        answers = " ".join([*action.keys, *action.sites])
        half.append(
            f"(rule ({match} ({question.answered} {answers})) ({actions})"
            f' :ruleset apply_{self.ruleset} :name "{name} apply")'
        )

    def _log(self, table: str, query: Query, action: _Action) -> Log | None:
        """Have matches put down, when the run is to be explained."""
        if self.journal is None:
            return None
        log = Log(self.rule.name, table, query, action.made, action.pairs)
        self.egraph.engine.relation(log.table, *["i64"] * (len(log.handles) + len(log.atoms)))
        self.journal.logs.append(log)
        action.premises += log.premises
        action.actions.append(log.action)
        return log

    def _non_constant(self, rule: Rewrite, query: Query) -> Query:
        """The query where no constants matched what the rule says is none."""
        for non_constant in rule.non_constant:
            self.egraph.ask_non_constant()
            query = query.where(f"(varies {query.classes[non_constant.pattern]})")
        return query

    def _compile_half(self, action: _Action, half: list[str]) -> None:
        """Compile what is done with answers when the first has come: most questions have none."""
        if not half:
            return
        declare = self.egraph.engine.declare
        if not self.apply_ruleset:
            self.apply_ruleset = f"apply_{self.ruleset}"
            declare(f"(ruleset {self.apply_ruleset})")
        self._tell_made(action)
        declare(half.pop())

    def _tell_made(self, action: _Action) -> None:
        """Have the types of what is made found, where they are not known from what it equals."""
        for made in action.untyped.values():
            self.egraph.made(len(made.children))


class VariadicCompiler(RewriteCompiler):
    """Keeps the engine rules of a rewrite with repetitions: those for each layout that the e-graph's tuples have."""

    def __init__(
        self, egraph: EGraph, rule: Rewrite, index: int, refuse: Refuse, fail: Fail, journal: Journal | None = None
    ):
        super().__init__(egraph, rule, index, refuse, fail, journal)
        self._members: dict[Hashable, tuple[Rewrite, Dependencies]] = {}

    def update(self, prefilter: Prefilter | None) -> Awaited:
        """Add engine rules for the layouts and alternatives that may match now; none without ``prefilter``."""
        if prefilter is None:
            return Whenever(self.roots)
        for layout in find_layouts(self.roots, prefilter):
            key = tuple(layout.items())
            if key not in self._members:
                member = expanded(self.rule, Expansion(self.roots, layout))
            elif self._members[key][1].has_come(prefilter):
                member, _ = self._members[key]
            else:
                continue
            self._members[key] = member, self._update(member, prefilter)
        return Whenever(self.roots)

    def may_have_layouts(self) -> bool:
        """Whether the e-graph has the symbols without which the rule matches nowhere."""
        heads = [need for root in self.roots for need in needs(root) if isinstance(need[0], str)]
        return all(head in self.egraph.vocabulary.symbols_of for head in heads)


def _distinct(rule: Rewrite, query: Query) -> Query:
    """The query where roots, and what the rule says is distinct, are different classes."""
    groups = [rule.lhs, *(distinct.patterns for distinct in rule.distinct)]
    for group in groups:
        classes = [query.classes[pattern] for pattern in group if pattern in query.classes]
        query = query.where(*[f"(!= {a} {b})" for i, a in enumerate(classes) for b in classes[i + 1 :]])
    return query


def _needed(premises: Sequence[str]) -> list[str]:
    """Premises without those that others say: what has a value is constant."""
    found = dict.fromkeys(premises)
    known = {f"(isc {match[1]})": None for match in map(_VALUE.fullmatch, found) if match}
    return [premise for premise in found if premise not in known]


_VALUE = re.compile(r"\(= val_\w+ \(val (\w+)\)\)")


@dataclass
class _Action:
    """The right side of a rule for one query: engine actions, and what must be asked first."""

    vocabulary: Vocabulary
    rule: Rewrite
    query: Query
    refuse: Refuse
    fail: Fail
    premises: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    keys: dict[str, tuple[str, DFPattern]] = field(default_factory=dict)
    sites: dict[str, Callable[[dict[str, int]], Any]] = field(default_factory=dict)
    built: dict[DFPattern, str] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    untyped: dict[str, Made] = field(default_factory=dict)
    """Of what is made, by its variable, that whose type is not known from what it equals."""
    pairs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def asks(self) -> bool:
        return bool(self.rule.when or self.sites)

    def answer(self, *ids: int) -> Sequence[int] | None:
        """The atoms that a match computes, None where the rule refuses it or its Python part fails.

        Args:
            ids: What :attr:`keys` stand for.
        """
        values = dict(zip(self.keys, ids, strict=True))
        try:
            return self.decide(values)
        except EqsatError as error:
            self.refuse(self.rule.name, str(error))
        except Exception as error:
            given = ", ".join(str(self.meaning(name, values)) for name in self.keys)
            failure = RuleError(f"rule {self.rule.name}: its Python part failed on {given}: {error!r}")
            failure.__cause__ = error
            self.fail(self.rule.name, failure)
        return None

    def decide(self, values: dict[str, int]) -> Sequence[int] | None:
        for guard in self.rule.when:
            verdict = guard.holds(*(self.value(ref, values) for ref in guard.refs))
            if not verdict:
                self.refuse(self.rule.name, verdict.reason if isinstance(verdict, Refusal) else "guard")
                return None
        atoms = []
        for make in self.sites.values():
            made = make(values)
            if isinstance(made, Refusal):
                self.refuse(self.rule.name, made.reason)
                return None
            atoms.append(made)
        return atoms

    def build(self) -> None:
        for guard in self.rule.when:
            for ref in guard.refs:
                self.key(ref)
        results = [self.template(template) for template in self.rule.rhs]
        roots = [self.query.classes[root] for root in self.rule.lhs]
        if len(results) < len(roots):
            (whole,) = results
            results = [self.project(whole, index) for index in range(len(roots))]
        for root, result in zip(roots, results, strict=True):
            self.equate(root, result)
        for made in self.untyped.values():
            columns = " ".join([str(made.symbol), made.atom, *made.children, made.variable])
            self.actions.append(put(f"(made_{len(made.children)} {columns})"))

    def equate(self, root: str, result: str) -> None:
        """Union; a matched class needs proof that it has the root's very type, a new node is typed later."""
        if result in self.query.classes.values():
            # the types are compared: a join would be of all classes of one type with each other
            self.premises += [
                f"(= ty_{root} (ty {root}))",
                f"(= ty_{result} (ty {result}))",
                f"(<= ty_{root} ty_{result})",
                f"(>= ty_{root} ty_{result})",
                f"(>= ty_{root} 0)",  # an exact type
            ]
        self.untyped.pop(result, None)  # it has its root's type
        self.actions.append(f"(union {root} {result})")
        self.pairs.append((root, result))

    def template(self, template: Any) -> str:
        """The variable that holds the class of a right-side term."""
        if template in self.query.classes:
            return self.query.classes[template]
        if template not in self.built:
            self.built[template] = self.node(template)
        return self.built[template]

    def node(self, template: Any) -> str:
        if isinstance(template, Compute):
            return self.constant(self.site(lambda values: self.computed_constant(template, values), template.refs))
        if isinstance(template, Like):
            return self.like(template)
        if isinstance(template, AttrPattern):
            return self.call(template.pattern, dict(template.attrs))
        if isinstance(template, CallPattern):
            return self.call(template, {})
        if isinstance(template, TuplePattern) and template.fields is not None:
            atom = self.vocabulary.atom("tuple", "tuple", None)
            return self.make("tuple", None, str(atom), [self.template(item) for item in template.fields])
        if isinstance(template, TupleGetItemPattern) and template.index is not None:
            return self.project(self.template(template.tuple), template.index)
        if isinstance(template, ExprPattern) and isinstance(template.expr, Constant):
            atom = self.vocabulary.constant(template.expr)
            return self.constant(str(atom))
        raise RuleError(
            f"rule {self.rule.name}: the right side uses a {type(template).__name__} that the left side"
            " does not match in every alternative"
        )

    def call(self, pattern: Any, given: dict[str, Any]) -> str:
        op = pattern.op.expr if isinstance(pattern.op, ExprPattern) else None
        if not isinstance(op, Op) or pattern.args is None:
            raise RuleError(f"rule {self.rule.name}: a call on the right side needs a known operator and arguments")
        atom = self.attributes(op, given, lambda changes: make_attrs(op, changes), ())
        return self.make("call", op, atom, [self.template(arg) for arg in pattern.args])

    def like(self, template: Like) -> str:
        head = self.head(template.call)
        kind, op, _ = self.vocabulary.symbols[head.symbol]
        children = [self.template(arg) for arg in template.args]
        if kind == "project":
            return self.make(kind, None, head.atom, children)
        if op is None:
            raise RuleError(f"rule {self.rule.name}: like() needs a matched call or field of a tuple")
        if not template.changes:
            return self.make("call", op, head.atom, children)
        ref = Ref("attrs", template.call)
        self.key(ref)

        def make(changes: dict[str, Any], old: Attrs | None = None) -> Attrs | None:
            return make_attrs(op, {**(old or {}), **changes})

        return self.make("call", op, self.attributes(op, template.changes, make, (ref,)), children)

    def attributes(
        self, op: Op, given: dict[str, Any], make: Callable[..., Attrs | None], refs: tuple[Ref, ...]
    ) -> str:
        """The atom of a new call's attributes: known now, or computed per match."""
        computed = {name: value for name, value in given.items() if isinstance(value, Compute)}
        if not computed and not refs:
            return str(self.vocabulary.attributes(make(given)))

        def compute(values: dict[str, int]) -> Any:
            changes = dict(given)
            for name, template in computed.items():
                changes[name] = self.run(template, values)
                if isinstance(changes[name], Refusal):
                    return changes[name]
            return self.vocabulary.attributes(make(changes, *(self.value(ref, values) for ref in refs)))

        return self.site(compute, tuple(ref for template in computed.values() for ref in template.refs))

    def computed_constant(self, template: Compute, values: dict[str, int]) -> Any:
        result = self.run(template, values)
        if isinstance(result, Refusal):
            return result
        constant = Constant(np.asarray(result))
        return self.vocabulary.constant(constant)

    def run(self, template: Compute, values: dict[str, int]) -> Any:
        return template.function(*(self.value(ref, values) for ref in template.refs))

    def site(self, compute: Callable[[dict[str, int]], Any], refs: Sequence[Ref]) -> str:
        for ref in refs:
            self.key(ref)
        variable = f"s{len(self.sites)}"
        self.sites[variable] = compute
        return variable

    def make(self, kind: str, op: Op | None, atom: str, children: list[str]) -> str:
        index = self.vocabulary.symbol(Symbol(kind, op, len(children)))
        variable = f"r{len(self.built)}_{len(self.actions)}"
        self.actions.append(f"(let {variable} (n{index} {' '.join((atom, *children))}))")
        self.made.append(Made(variable, index, atom, tuple(children)))
        self.untyped[variable] = self.made[-1]
        return variable

    def constant(self, atom: str) -> str:
        variable = self.make("constant", None, atom, [])
        self.actions += [f"(set (val {variable}) {atom})", put(f"(isc {variable})")]
        return variable

    def project(self, of: str, index: int) -> str:
        atom = self.vocabulary.atom("project", ("project", index), index)
        return self.make("project", None, str(atom), [of])

    def head(self, pattern: DFPattern) -> MatchedNode:
        head = self.query.heads.get(pattern)
        if head is None:
            raise RuleError(f"rule {self.rule.name}: it asks for the attributes of a pattern that matched no call")
        return head

    def key(self, ref: Ref) -> str:
        """The variable that holds the id of what ``ref`` refers to."""
        if ref.pattern not in self.query.classes:
            raise RuleError(f"rule {self.rule.name}: it refers to a pattern that the left side does not match")
        variable = self.query.classes[ref.pattern]
        if ref.kind in ("attrs", "index"):
            name = self.head(ref.pattern).atom
        else:
            table = {"type": "ty", "value": "val", "uses": "uses"}[ref.kind]
            name = f"{table}_{variable}"
            if name not in self.keys:
                self.premises.append(f"(= {name} ({table} {variable}))")
        self.keys[name] = (ref.kind, ref.pattern)
        return name

    def value(self, ref: Ref, values: dict[str, int]) -> Any:
        return self.meaning(self.key(ref), values)

    def meaning(self, key: str, values: dict[str, int]) -> Any:
        """The type, attributes, array or number that the variable ``key`` stands for."""
        kind, _ = self.keys[key]
        if kind == "uses":
            return values[key]
        if kind == "type":
            return self.vocabulary.types[values[key]]
        value = self.vocabulary.atoms[values[key]].value
        return value.data.numpy() if kind == "value" else value

    def used_classes(self) -> list[str]:
        """Class variables of the match that the actions mention, in order."""
        text = set(" ".join(self.actions).replace("(", " ").replace(")", " ").split())
        found = dict.fromkeys(self.query.classes.values()) | {
            child: None for head in self.query.heads.values() for child in head.children
        }
        return [variable for variable in found if variable in text]

    def used_atoms(self) -> list[str]:
        """Atom variables of the match that the actions mention, in order."""
        text = set(" ".join(self.actions).replace("(", " ").replace(")", " ").split())
        atoms = dict.fromkeys(head.atom for head in self.query.heads.values())
        return [atom for atom in atoms if atom in text]

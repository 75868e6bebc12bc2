"""Rules whose right side is Python: matches are read out, expressions are built, results are added in bulk."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from eqsat.egraph.action import Fail, Refuse
from eqsat.egraph.compile import RuleRunner
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import Lowered, lower
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.query import Query
from eqsat.egraph.rule import PythonRule, Refusal
from eqsat.egraph.snapshot import take_snapshot
from eqsat.egraph.symbols import Atom, Symbol
from eqsat.egraph.variadic import is_variadic
from eqsat.errors import RuleError, TypeCheckError
from eqsat.relay.dataflow_pattern import CallPattern, ConstantPattern, DFPattern
from eqsat.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem
from eqsat.relay.infer import extend_types
from eqsat.relay.interpreter import evaluate
from eqsat.relay.ty import Type
from eqsat.relay.visitor import children_first


class ClassExpressions:
    """An expression for every class: the input graph's own nodes first, built ones for what rules made.

    Args:
        types: type of every expression here; grows with them.
        journal: told of the e-node of each handle, when the run is to be explained.
    """

    def __init__(self, egraph: EGraph, types: dict[Expr, Type], journal: Journal | None = None):
        self.egraph = egraph
        self.types = types
        self.journal = journal
        self.exprs: dict[int, Expr] = {}
        self.handles: dict[Expr, int] = {}
        self._constants: dict[int, Constant] = {}
        declare = egraph.engine.declare
        declare("(function hd (Expr) i64 :merge (min old new))")
        declare("(ruleset names)")
        egraph.engine.rule("names", "(= e (N i))", "(set (hd e) i)")

    def add(self, lowered: Lowered) -> None:
        """Learn expressions that were lowered."""
        if self.journal is not None:
            self.journal.name(lowered.nodes)
        handles = lowered.handles
        for expr, handle in handles.items():
            if handle not in self.exprs:
                self.exprs[handle] = expr
                if expr._checked_type is None and expr in self.types:
                    expr._checked_type = self.types[expr]
        self.handles.update(handles)

    def name_all(self) -> None:
        """Give a handle to every class that a native rule made, and an expression to the handle."""
        egraph, snapshot = self.egraph, take_snapshot(self.egraph)
        handle_of = {int(c): h for h, c in reversed(list(enumerate(snapshot.handle_class))) if h in self.exprs}
        waiting: dict[int, list[int]] = {}
        todo = list(reversed(range(snapshot.node_count)))
        while todo:
            node = todo.pop()
            of = int(snapshot.node_class[node])
            if of in handle_of:
                continue
            children = snapshot.children(node)
            missing = next((child for child in children if child not in handle_of), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(node)
                continue
            symbol = int(snapshot.node_symbol[node])
            atom = int(snapshot.node_atom[node])
            below = [handle_of[c] for c in children]
            expr = build_node(snapshot.symbols[symbol], snapshot.atoms[atom], [self.exprs[h] for h in below])
            expr._checked_type = snapshot.class_type[of]
            if expr._checked_type is not None:
                self.types[expr] = expr._checked_type
            handle_of[of] = handle = egraph.add(symbol, atom, below)
            self.exprs[handle], self.handles[expr] = expr, handle
            if self.journal is not None:
                self.journal.name([(handle, symbol, atom, below)])
            todo += reversed(waiting.pop(of, []))
        egraph.flush()
        egraph.engine.saturate("names")

    def constant(self, handle: int) -> Constant:
        """The constant that a handle's class equals."""
        expr = self.exprs[handle]
        if isinstance(expr, Constant):
            return expr
        if handle not in self._constants:
            constant = self._constants[handle] = Constant(evaluate(expr))
            constant._checked_type = expr._checked_type
            self.handles[constant] = handle
            if constant._checked_type is not None:
                self.types[constant] = constant._checked_type
        return self._constants[handle]


def build_node(symbol: Symbol, atom: Atom, children: list[Expr]) -> Expr:
    """The expression of an e-node over expressions; what an opaque function captures is left as it is."""
    if symbol.kind == "call" and symbol.op is not None:
        return Call(symbol.op, children, atom.value)
    if symbol.kind == "tuple":
        return Tuple(children)
    if symbol.kind == "project":
        return TupleGetItem(children[0], atom.value)
    example: Expr = atom.value
    if symbol.kind == "function" or not children:
        return example
    copy = example.with_children(children)
    copy._checked_type = copy.span = None
    return copy


class Alternative(NamedTuple):
    """One way to match, the table of its matches, and the variables of classes and atoms that its columns are for."""

    query: Query
    table: str
    columns: list[str]


class PythonRuleRunner(RuleRunner):
    """Keeps the match tables of one Python rule and applies it to expressions that ``names`` gives to classes."""

    rule: PythonRule

    def __init__(
        self, egraph: EGraph, rule: PythonRule, index: int, names: ClassExpressions, refuse: Refuse, fail: Fail
    ):
        if is_variadic(rule.lhs):
            raise RuleError(
                f"rule {rule.name}: a rule whose right side is Python cannot have many() on its left side; write it as"
                " rewrite(), which can compute what differs from match to match"
            )
        super().__init__(egraph, rule, index, refuse, fail)
        self.names = names
        self.matches = 0
        self._alternatives: list[Alternative] = []

    def update(self, prefilter: Prefilter | None) -> None:
        self._update(self.roots, prefilter, self._declare)

    def apply(self) -> bool:
        """Apply the rule to every match not seen before (after a run of its ruleset); whether it did anything.

        Raises:
            RuleError: the rule's function fails or returns something of another type than the match.
        """
        changed = False
        for alternative in self._alternatives:
            for row in self.egraph.engine.new_integers(alternative.table):
                self.matches += 1
                values = dict(zip(alternative.columns, row, strict=True))
                changed |= self._guard(partial(self._apply, alternative.query, values))
        self.egraph.flush()
        return changed

    def _guard(self, act: Callable[[], bool]) -> bool:
        try:
            return act()
        except RuleError as error:
            self.fail(self.rule.name, error)
            return False

    def _declare(self, query: Query, name: str) -> None:
        table = f"{name}_match"
        root = query.classes[self.rule.lhs]
        heads = query.heads
        classes = dict.fromkeys([root, *query.class_variables])
        columns = {name: f"h_{name}" for name in classes if name == root or name not in heads}
        named = " ".join(f"(= h_{name} (hd {name}))" for name in columns)
        columns |= {name: name for name in query.atom_variables}
        row = f"({table} {' '.join(columns.values())})"
        self.egraph.engine.relation(table, *["i64"] * len(columns))
        self.egraph.engine.rule(self.ruleset, f"{' '.join(query.premises)} {named}", put(row), table)
        self._alternatives.append(Alternative(query, table, list(columns)))

    def _apply(self, query: Query, values: dict[str, int]) -> bool:
        root, node_map = self._rebuild(query, values)
        result = self.rule.result(root, node_map)
        if isinstance(result, Refusal):
            self.refuse(self.rule.name, result.reason)
            return False
        if result is root:
            return False
        self._add(values[query.classes[self.rule.lhs]], root, result)
        return True

    def _add(self, handle: int, root: Expr, result: Expr) -> None:
        types = self.names.types
        try:
            extend_types(types, result)
        except TypeCheckError as error:
            raise RuleError(f"rule {self.rule.name} made a graph that does not type-check: {error}") from error
        expected, found = root._checked_type, types.get(result)
        if expected is not None and found != expected:
            raise RuleError(
                f"rule {self.rule.name} would join a class of type {expected} with one of type {found}:"
                " a rule must keep the type"
            )
        lowered = lower(self.egraph, result, types, self.names.handles)
        self.names.add(lowered)
        self.egraph.union(handle, lowered.root)
        journal = self.names.journal
        if journal is not None:
            matched = lower(self.egraph, root, types, self.names.handles)
            self.names.add(matched)
            journal.equate(self.rule.name, journal.of_handle[matched.root], journal.of_handle[lowered.root])

    def _rebuild(self, query: Query, values: dict[str, int]) -> tuple[Expr, dict[DFPattern, list[Expr]]]:
        """The matched expression and what each pattern matched in it."""
        heads = query.heads
        constants = {query.classes[p] for p in query.classes if isinstance(p, ConstantPattern)}
        start = query.classes[self.rule.lhs]
        built: dict[str, Expr] = {}
        variables = children_first(
            [start, *query.classes.values()], lambda one: heads[one].children if one in heads else ()
        )
        for variable in variables:
            if variable in heads:
                head = heads[variable]
                built[variable] = self._node(head.symbol, values[head.atom], [built[c] for c in head.children])
            else:
                handle = values[variable]
                built[variable] = self.names.constant(handle) if variable in constants else self.names.exprs[handle]
        root = built[start]
        if root._checked_type is None:
            root._checked_type = self.names.exprs[values[start]]._checked_type
        node_map = {pattern: [built[variable]] for pattern, variable in query.classes.items()}
        for pattern in query.nodes:
            if isinstance(pattern, CallPattern):
                call = node_map[pattern][0]
                if isinstance(call, Call):
                    node_map[pattern.op] = [call.op]
        return root, node_map

    def _node(self, symbol: int, atom: int, children: list[Expr]) -> Expr:
        expr = build_node(self.egraph.vocabulary.symbols[symbol], self.egraph.vocabulary.atoms[atom], children)
        try:
            extend_types(self.names.types, expr)
        except TypeCheckError:
            return expr
        expr._checked_type = self.names.types[expr]
        return expr

"""Rules whose right side is Python: matches are read out, expressions are built, results are added in bulk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from eqsat.egraph.action import Fail, Refuse
from eqsat.egraph.compile import RuleRunner
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.journal import Journal
from eqsat.egraph.lower import Lowered, lower
from eqsat.egraph.nodes import NO_TYPE, Nodes
from eqsat.egraph.prefilter import Prefilter
from eqsat.egraph.query import MatchedNode, Query
from eqsat.egraph.rule import PythonRule, Refusal
from eqsat.egraph.snapshot import take_snapshot
from eqsat.egraph.symbols import Atom, Symbol
from eqsat.egraph.trace import Key, Noted, Trace, matched_keys
from eqsat.egraph.variadic import is_variadic
from eqsat.errors import EqsatError, RuleError, TypeCheckError
from eqsat.relay.dataflow_pattern import CallPattern, ConstantPattern, DFPattern
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.dataflow_pattern.rewriter import Matched
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from eqsat.relay.infer import extend_types
from eqsat.relay.interpreter import evaluate
from eqsat.relay.ty import Type
from eqsat.relay.visitor import children_first


class ClassExpressions:
    """An expression for every class: the input graph's own nodes first, built ones for what rules made.

    Args:
        types: type of every expression here; grows with them.
        journal: told of the e-node of each handle, when the run is to be explained.
        trace: told of what rules match and make, when that is to be noted.
    """

    def __init__(
        self,
        egraph: EGraph,
        types: dict[Expr, Type],
        journal: Journal | None = None,
        trace: Trace | None = None,
    ):
        self.egraph = egraph
        self.types = types
        self.journal = journal
        self.trace = trace
        self.exprs: dict[int, Expr] = {}
        self.handles: dict[Expr, int] = {}
        self._constants: dict[int, Constant] = {}
        self._class_of: list[int] = []
        self._is_current = False  # whether classes are as they were then
        self._written: set[tuple[Op, int, int, int]] | None = None
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

    def learn(self, nodes: Nodes) -> None:
        """Learn e-nodes that were made of what was lowered, as expressions."""
        vocabulary = self.egraph.vocabulary
        for (handle, symbol, atom, children), type_id in zip(nodes, nodes.type_id.tolist(), strict=True):
            below = [self.exprs[child] for child in children]
            expr = build_node(vocabulary.symbols[symbol], vocabulary.atoms[atom], below)
            if type_id != NO_TYPE:
                expr._checked_type = self.types[expr] = vocabulary.types[type_id]
            self.exprs[handle], self.handles[expr] = expr, handle

    def name_all(self) -> None:
        """Give a handle to every class that a native rule made, and an expression to the handle."""
        egraph, snapshot = self.egraph, take_snapshot(self.egraph)
        handle_of = {int(c): h for h, c in reversed(list(enumerate(snapshot.handle_class))) if h in self.exprs}
        self._class_of, self._written, self._is_current = snapshot.handle_class.tolist(), None, True
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
            self._class_of.append(of)
            self.exprs[handle], self.handles[expr] = expr, handle
            if self.journal is not None:
                self.journal.name([(handle, symbol, atom, below)])
            todo += reversed(waiting.pop(of, []))
        egraph.flush()
        egraph.engine.saturate("names")

    def union(self, handle: int, other: int) -> None:
        """Have the classes of two handles made one."""
        self.egraph.union(handle, other)
        self._is_current = False

    def class_of_handles(self) -> list[int]:
        """The class of each handle now."""
        return self._class_of if self._is_current else take_snapshot(self.egraph).handle_class.tolist()

    def is_exchanged(self, op: Op, handle: int, operands: Sequence[int]) -> bool:
        """Whether the call that was written in the class of ``handle`` has the two ``operands`` the other way round.

        Rules that exchange operands make both calls; only one of them is in the given graph or a result of Python.
        """
        of, left, right = [self._class_of[each] for each in (handle, *operands)]
        written = self._written_calls()
        return (op, of, right, left) in written and (op, of, left, right) not in written

    def _written_calls(self) -> set[tuple[Op, int, int, int]]:
        """Operator, class and classes of the operands of each call that has a name."""
        if self._written is None:
            self._written = set()
            for expr, handle in self.handles.items():
                if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in SWAPPED:
                    left, right = (self._class_of[self.handles[arg]] for arg in expr.args)
                    self._written.add((expr.op, self._class_of[handle], left, right))
        return self._written

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
    if symbol.kind == "joined":
        return Tuple(
            [field for child, count in zip(children, atom.value, strict=True) for field in _fields(child, count)]
        )
    if symbol.kind == "project":
        return TupleGetItem(children[0], atom.value)
    example: Expr = atom.value
    if symbol.kind == "function" or not children:
        return example
    copy = example.with_children(children)
    copy._checked_type = copy.span = None
    return copy


def _fields(expr: Expr, count: int) -> Sequence[Expr]:
    """The fields of a tuple that has so many."""
    return expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, index) for index in range(count)]


class Alternative(NamedTuple):
    """One way to match, the table of its matches, and the variables of classes and atoms that its columns are for."""

    query: Query
    table: str
    columns: list[str]


class PythonRuleRunner(RuleRunner):
    """Keeps the match tables of one Python rule and applies it to expressions that ``names`` gives to classes.

    Attributes:
        look_ruleset: Matches where the rule does, before classes have names.
    """

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
        self.look_ruleset = f"look_{self.ruleset}"
        self._exchanges = rule.callback is not None and any(map(_may_exchange, subpatterns(rule.lhs)))
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
        needed = classes if self._exchanges else [name for name in classes if name == root or name not in heads]
        columns = {name: f"h_{name}" for name in needed}
        named = " ".join(f"(= h_{name} (hd {name}))" for name in columns)
        columns |= {name: name for name in query.atom_variables}
        row = f"({table} {' '.join(columns.values())})"
        if not self._alternatives:
            self.egraph.engine.declare(f"(ruleset {self.look_ruleset})")
            self.egraph.engine.relation(f"{self.ruleset}_seen")
        self.egraph.engine.rule(
            self.look_ruleset, " ".join(query.premises), put(f"({self.ruleset}_seen)"), f"{name} look"
        )
        self.egraph.engine.relation(table, *["i64"] * len(columns))
        self.egraph.engine.rule(self.ruleset, f"{' '.join(query.premises)} {named}", put(row), table)
        self._alternatives.append(Alternative(query, table, list(columns)))

    def _apply(self, query: Query, values: dict[str, int]) -> bool:
        root, node_map = self._rebuild(query, values)
        if self._exchanges and not self._is_bound_so(root, node_map):
            return False
        self.matches += 1
        result = self.rule.result(root, node_map)
        if isinstance(result, Refusal):
            self.refuse(self.rule.name, result.reason)
            return False
        if result is root:
            return False
        self._add(values[query.classes[self.rule.lhs]], root, result, [self._matched(query, values)])
        return True

    def _matched(self, query: Query, values: Mapping[str, int]) -> Sequence[Key]:
        """The e-nodes of a match, where they are to be noted."""
        return () if self.names.trace is None else matched_keys(query, query.classes[self.rule.lhs], values)

    def _is_bound_so(self, root: Expr, node_map: dict[DFPattern, list[Expr]]) -> bool:
        """Whether Relay's matcher binds no pattern in ``root`` to something else.

        Where it does, the match is one of exchanged operands that match as they are written, which is another match.
        """
        matcher = Matcher(self.rule.lhs, DataflowGraph(root))
        try:
            bound = matcher.bound if matcher.match(root) else {}
        except EqsatError:  # of a type pattern in a graph that has types only as a whole
            return True
        return all(nodes[0] is node_map[pattern][0] for pattern, nodes in bound.items() if pattern in node_map)

    def _add(self, handle: int, root: Expr, result: Expr, matched: Sequence[Sequence[Key]]) -> None:
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
        self.names.union(handle, lowered.root)
        if self.names.trace is not None:
            self.names.trace.note(Noted(self.rule.name, handle, lowered.root, matched, lowered.nodes))
        journal = self.names.journal
        if journal is not None:
            given = lower(self.egraph, root, types, self.names.handles)
            self.names.add(given)
            journal.equate(self.rule.name, journal.of_handle[given.root], journal.of_handle[lowered.root])

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
                children = self._as_written(variable, head, values)
                built[variable] = self._node(head.symbol, values[head.atom], [built[c] for c in children])
            else:
                handle = values[variable]
                built[variable] = self.names.constant(handle) if variable in constants else self.names.exprs[handle]
        root = built[start]
        if root._checked_type is None:
            root._checked_type = self.names.exprs[values[start]]._checked_type
        node_map = Matched((pattern, [built[variable]]) for pattern, variable in query.classes.items())
        for pattern in query.nodes:
            if isinstance(pattern, CallPattern):
                call = node_map[pattern][0]
                if isinstance(call, Call):
                    node_map[pattern.op] = [call.op]
        return root, node_map

    def _as_written(self, variable: str, head: MatchedNode, values: dict[str, int]) -> tuple[str, ...]:
        """The children of a matched e-node, in the order in which they were written if operands are exchanged."""
        op = self.egraph.vocabulary.symbols[head.symbol].op
        if not self._exchanges or op is None or op.name not in SWAPPED:
            return head.children
        exchanged = self.names.is_exchanged(op, values[variable], [values[child] for child in head.children])
        return head.children[::-1] if exchanged else head.children

    def _node(self, symbol: int, atom: int, children: list[Expr]) -> Expr:
        expr = build_node(self.egraph.vocabulary.symbols[symbol], self.egraph.vocabulary.atoms[atom], children)
        try:
            extend_types(self.names.types, expr)
        except TypeCheckError:
            return expr
        expr._checked_type = self.names.types[expr]
        return expr


def _may_exchange(pattern: DFPattern) -> bool:
    """Whether a pattern's operands also match in the other order."""
    return isinstance(pattern, CallPattern) and pattern.named is not None and pattern.named.name in SWAPPED

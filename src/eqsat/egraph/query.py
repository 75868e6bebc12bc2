"""Patterns become queries: every way in which a class of the e-graph can match.

A query is a list of egglog premises. Where Relay's matcher commits to its first choice (the side of an
alternative, the order of a commutative call, an association), each choice is a query of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import put
from eqsat.egraph.forms import (
    NodeForm,
    attrs_test,
    called_operators,
    function_form,
    identity_test,
    may_be_function,
    method_for,
    node_form,
    pattern_of_expr,
    reassociations,
    type_test,
    untyped,
    value_test,
)
from eqsat.egraph.prefilter import Dependencies, Prefilter
from eqsat.egraph.symbols import SymbolHead
from eqsat.errors import RuleError
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    LetPattern,
    TypedPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.analysis import SWAPPED
from eqsat.relay.dataflow_pattern.language import subpatterns
from eqsat.relay.expr import Constant, Expr, Op, Var

MAX_QUERIES = 1024
"""Most alternatives that one rule may have."""


class MatchedNode(NamedTuple):
    """The e-node that a pattern matched: index of its symbol, variable of its atom, those of its children.

    ``swapped``: its children are in this order or the other.
    """

    symbol: int
    atom: str
    children: tuple[str, ...]
    swapped: bool = False


class Query(NamedTuple):
    """One way to match.

    Args:
        premises: egglog facts, joined.
        classes: pattern -> variable of the class it matched.
        nodes: pattern -> e-node it matched, for patterns of calls, tuples and so on.
        used: how many variables are in use.
        key: premises and the variable of each pattern of the rule; tells ways to match apart, also those
            that differ only in which pattern matched which class.
    """

    premises: tuple[str, ...] = ()
    classes: Mapping[DFPattern, str] = {}
    nodes: Mapping[DFPattern, MatchedNode] = {}
    used: int = 0
    key: tuple[object, ...] = ()

    @property
    def heads(self) -> dict[str, MatchedNode]:
        """Variable of a class -> the e-node that a pattern matched in it."""
        return {self.classes[pattern]: node for pattern, node in self.nodes.items()}

    @property
    def class_variables(self) -> list[str]:
        """The variables of classes that patterns matched, and of children of matched e-nodes."""
        children = [child for node in self.nodes.values() for child in node.children]
        return list(dict.fromkeys([*self.classes.values(), *children]))

    @property
    def atom_variables(self) -> list[str]:
        """The variables of the atoms of matched e-nodes."""
        return list(dict.fromkeys([node.atom for node in self.nodes.values()]))

    def fresh(self, prefix: str, number: int = 1) -> tuple[list[str], Query]:
        """New variables, and the query that knows them."""
        names = [f"{prefix}{self.used + i}" for i in range(number)]
        return names, self._replace(used=self.used + number)

    def where(self, *premises: str) -> Query:
        """This query with more premises."""
        return self._replace(premises=self.premises + premises) if premises else self

    def bind(self, pattern: DFPattern, variable: str, node: MatchedNode | None = None) -> Query:
        """This query with what ``pattern`` matched."""
        nodes = self.nodes if node is None else {**self.nodes, pattern: node}
        return self._replace(classes={**self.classes, pattern: variable}, nodes=nodes)


class QueryCompiler:
    """Expands the patterns of one rule over the symbols that an e-graph has now.

    Args:
        egraph: whose symbols and predicates are used. No symbol is declared: a pattern over one that is
            not there cannot match yet.
        rule: its name, for messages.
        either_order: the table of a commutative symbol's e-nodes with operands in either order, which spares a
            query for each order; the children in :class:`MatchedNode` are then in the order of the pattern. Without it
            they are as in the e-node.
        prefilter: what is in the e-graph: patterns that match nowhere in it are left out.

    Attributes:
        dependencies: what would make more queries of the same patterns.
    """

    def __init__(
        self,
        egraph: EGraph,
        rule: str,
        either_order: Callable[[int], str] | None = None,
        prefilter: Prefilter | None = None,
    ):
        self.egraph = egraph
        self.dependencies = Dependencies(egraph, prefilter)
        self._above: SymbolHead | None = None  # of the e-node whose children are being matched
        self.either_order = either_order
        self.rule = rule
        self.commuted = [name for name in SWAPPED if name not in egraph.commutative]

    def queries(self, roots: Sequence[DFPattern]) -> list[Query]:
        """All ways to match the root patterns together; the variable of root ``i`` is in ``classes``."""
        variables, opened = Query().fresh("e", len(roots))
        found = self._all(roots, variables, opened)
        if not found:
            return []  # as for most rules: their operators are not in the graph
        patterns = list(dict.fromkeys(pattern for root in roots for pattern in subpatterns(root)))
        keyed = {(query.premises, *map(query.classes.get, patterns)): query for query in found}
        return [query._replace(key=key) for key, query in keyed.items()]

    def _match(self, pattern: DFPattern, variable: str, query: Query) -> list[Query]:
        if pattern in query.classes:
            known = query.classes[pattern]
            return [query if variable == known else query.where(f"(= {variable} {known})")]
        if not self.dependencies.may_match(pattern):
            return []
        if isinstance(pattern, LetPattern):
            raise RuleError(f"rule {self.rule}: an e-graph has no lets, they are dissolved: match the bound value")
        method = method_for(pattern, _METHODS)
        form = node_form(pattern)
        if method is not None:
            matches = method(self, pattern, variable, query)
        elif form is not None:
            matches = self._one_node(pattern, form, variable, query)
        else:
            raise RuleError(f"rule {self.rule}: a {type(pattern).__name__} cannot be matched in an e-graph")
        return [found if pattern in found.classes else found.bind(pattern, variable) for found in matches]

    def _all(
        self, patterns: Iterable[DFPattern], variables: Iterable[str], query: Query, above: int | None = None
    ) -> list[Query]:
        """Match several patterns together, the children of an e-node of symbol ``above`` or any classes."""
        found = [query]
        outer, self._above = self._above, None if above is None else self.egraph.vocabulary.symbols[above][:2]
        for pattern, variable in zip(patterns, variables, strict=True):
            found = [deeper for one in found for deeper in self._match(pattern, variable, one)]
            if len(found) > MAX_QUERIES:
                raise RuleError(f"rule {self.rule}: its pattern has over {MAX_QUERIES} alternatives: split it")
        self._above = outer
        return found

    def _node(
        self,
        pattern: DFPattern,
        variable: str,
        index: int,
        query: Query,
        either_order: Callable[[int], str] | None = None,
    ) -> tuple[MatchedNode, Query]:
        """The premise that ``variable`` holds an e-node of symbol ``index``."""
        (atom,), query = query.fresh("a")
        children, query = query.fresh("c", self.egraph.vocabulary.symbols[index].arity)
        head = MatchedNode(index, atom, tuple(children), either_order is not None)
        columns = " ".join((atom, *children))
        if either_order is None:
            query = query.where(f"(= {variable} (n{index} {columns}))")
        else:
            query = query.where(f"({either_order(index)} {columns} {variable})")
        return head, query.bind(pattern, variable, head)

    def _one_node(self, pattern: DFPattern, form: NodeForm, variable: str, query: Query) -> list[Query]:
        """A pattern of e-nodes of one kind."""
        found = []
        for index in self.dependencies.symbols(form.kind, arity=None if form.below is None else len(form.below)):
            matched, one = self._node(pattern, variable, index, query)
            if form.test is not None:
                one = one.where(f"({self.egraph.predicate(form.test)} {matched.atom})")
            found += [one] if form.below is None else self._all(form.below, matched.children, one, index)
        return found

    # ---- one method for each pattern class that is more than the e-nodes of one kind

    def _wildcard(self, pattern: WildcardPattern, variable: str, query: Query) -> list[Query]:
        if pattern.pattern is not None:
            raise RuleError(f"rule {self.rule}: recursive patterns (redirect_to) cannot be matched in an e-graph")
        return [query]

    def _constant(self, pattern: ConstantPattern, variable: str, query: Query) -> list[Query]:
        holds = pattern.predicate
        if holds is None:
            self.egraph.ask_constness()
            return [query.where(f"(isc {variable})")]
        table = self.egraph.predicate(value_test(holds))
        return [query.where(f"(= val_{variable} (val {variable}))", f"({table} val_{variable})")]

    def _expr(self, pattern: ExprPattern, variable: str, query: Query) -> list[Query]:
        expr: Expr = pattern.expr
        if isinstance(expr, Constant):
            atom = self.egraph.vocabulary.constant(expr)
            return [query.where(f"(= {atom} (val {variable}))")]
        if isinstance(expr, Var):
            return self._one_node(pattern, NodeForm("var", (), identity_test(expr)), variable, query)
        if isinstance(expr, Op):
            raise RuleError(f"rule {self.rule}: {expr.name} is matched as a value: call the pattern, is_op(..)(..)")
        return self._match(pattern_of_expr(expr), variable, query)

    def _call(self, pattern: CallPattern, variable: str, query: Query) -> list[Query]:
        found = self._as_written(pattern, variable, query)
        for other in reassociations(pattern):
            found += [one.bind(pattern, variable) for one in self._as_written(other, variable, query)]
        return found

    def _as_written(self, pattern: CallPattern, variable: str, query: Query) -> list[Query]:
        found = self._applied(pattern, variable, query) if may_be_function(pattern.op) else []
        arity = None if pattern.args is None else len(pattern.args)
        for op in self._operators(pattern.op):
            if not self.dependencies.is_under(self._above, op):
                continue
            for index in self.dependencies.symbols("call", op, arity):
                found += self._call_of(pattern, variable, index, query)
        return found

    def _call_of(self, pattern: CallPattern, variable: str, index: int, query: Query) -> list[Query]:
        commutes = pattern.args is not None and pattern.named is not None and pattern.named.name in self.commuted
        both = self.either_order if commutes else None
        head, opened = self._node(pattern, variable, index, query, both)
        if pattern.args is None:
            return [opened]
        found = self._all(pattern.args, head.children, opened, index)
        if commutes and both is None:
            found += self._all(tuple(reversed(pattern.args)), head.children, opened, index)
        return found

    def _applied(self, pattern: CallPattern, variable: str, query: Query) -> list[Query]:
        """Calls of functions."""
        found = []
        for index in self.dependencies.symbols("apply"):
            head, opened = self._node(pattern, variable, index, query)
            callee, *arguments = head.children
            if pattern.args is None:
                found += self._all([pattern.op], [callee], opened, index)
            elif len(pattern.args) == len(arguments):
                found += self._all((pattern.op, *pattern.args), (callee, *arguments), opened, index)
        return found

    def _operators(self, callee: DFPattern) -> list[Op]:
        found = called_operators(callee, self._present)
        if found is None:
            raise RuleError(
                f"rule {self.rule}: a call of a {type(callee).__name__} cannot be matched in an e-graph:"
                " match the operator, or a FunctionPattern"
            )
        return found

    def _present(self) -> list[Op]:
        """The operators that are called in the e-graph."""
        calls = [self.egraph.vocabulary.symbols[index].op for index in self.dependencies.symbols()]
        return list(dict.fromkeys(op for op in calls if op is not None))

    def _alt(self, pattern: AltPattern, variable: str, query: Query) -> list[Query]:
        return self._match(pattern.left, variable, query) + self._match(pattern.right, variable, query)

    def _dominator(self, pattern: DominatorPattern, variable: str, query: Query) -> list[Query]:
        """``child``, and ``parent`` somewhere below it along ``path``: dominance itself speaks of one graph."""
        self.dependencies.symbols()  # new symbols may make new steps
        reach, step = self.egraph.reach(pattern)
        rule = self.egraph.engine.rule
        for one in QueryCompiler(self.egraph, self.rule).queries([pattern.parent]):
            start = one.classes[pattern.parent]
            for premises in [one.premises] if one.premises else self._anything(start):
                rule("facts", " ".join(premises), put(f"({reach} {start} {start})"))
        for one in QueryCompiler(self.egraph, self.rule).queries([pattern.path]):
            top = one.classes[pattern.path]
            for inputs, premises in self._inputs(one, top):
                rule("facts", " ".join(premises), " ".join([put(f"({step} {top} {below})") for below in inputs]))
        found = []
        for one in self._match(pattern.child, variable, query):
            for inputs, premises in self._inputs(one, variable):
                for below in inputs:
                    (parent,), opened = one._replace(premises=premises).fresh("p")
                    opened = opened.where(f"({reach} {below} {parent})")
                    found += self._all([pattern.parent], [parent], opened)
        return found

    def _anything(self, variable: str) -> list[tuple[str, ...]]:
        """Premises that hold for every class, one e-node symbol each."""
        every = self.dependencies.symbols()
        return [self._node(WildcardPattern(), variable, index, Query())[1].premises for index in every]

    def _inputs(self, query: Query, variable: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Variables of the children of what matched at ``variable``, and the premises that bind them."""
        matched = [head for pattern, head in query.nodes.items() if query.classes[pattern] == variable]
        if matched:
            return [(matched[0].children, query.premises)]
        found = []
        for index in self.dependencies.symbols():
            if self.egraph.vocabulary.symbols[index].arity:
                head, opened = self._node(WildcardPattern(), variable, index, query)
                found.append((head.children, opened.premises))
        return found

    def _attr(self, pattern: AttrPattern, variable: str, query: Query) -> list[Query]:
        if isinstance(untyped(pattern.pattern), FunctionPattern):
            return self._one_node(pattern, function_form(pattern), variable, query)
        found = []
        for one in self._match(pattern.pattern, variable, query):
            head = one.nodes.get(untyped(pattern.pattern))
            if head is None:
                raise RuleError(f"rule {self.rule}: has_attr needs a call pattern inside, not a leaf")
            op = self.egraph.vocabulary.symbols[head.symbol].op
            if op is None:
                continue
            table = self.egraph.predicate(attrs_test(op, pattern.attrs))
            found.append(one.where(f"({table} {head.atom})").bind(pattern, variable, head))
        return found

    def _typed(self, pattern: TypedPattern, variable: str, query: Query) -> list[Query]:
        table = self.egraph.predicate(type_test(pattern))
        typed = f"(= ty_{variable} (ty {variable}))"
        return [one.where(typed, f"({table} ty_{variable})") for one in self._match(pattern.pattern, variable, query)]


_METHODS: dict[type[DFPattern], Callable[..., list[Query]]] = {
    WildcardPattern: QueryCompiler._wildcard,
    ConstantPattern: QueryCompiler._constant,
    ExprPattern: QueryCompiler._expr,
    CallPattern: QueryCompiler._call,
    AltPattern: QueryCompiler._alt,
    AttrPattern: QueryCompiler._attr,
    DominatorPattern: QueryCompiler._dominator,
    TypedPattern: QueryCompiler._typed,
}


def speaks_of_one_graph(pattern: DFPattern) -> bool:
    """Whether a pattern cannot be a query: it dominates, recurs, or looks into functions or lets."""
    return any(_is_of_one_graph(part) for part in subpatterns(pattern))


def _is_of_one_graph(pattern: DFPattern) -> bool:
    if isinstance(pattern, WildcardPattern):
        return pattern.pattern is not None
    if isinstance(pattern, CallPattern) and isinstance(pattern.op, CallPattern):
        return True
    if isinstance(pattern, (DominatorPattern, FunctionPattern)):
        return True
    return method_for(pattern, _METHODS) is None and node_form(pattern) is None

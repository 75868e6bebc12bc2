"""Kernels in an e-graph: e-nodes that are written as one node, or that a runtime computes as one.

Pairs that are written as one node are found by asking the target. What a runtime fuses is found by matching its
pattern table in the e-graph. A kernel computes its inner values for itself alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from eqsat.cost.kernels import kernel_node
from eqsat.cost.prices import Price, Prices, Row
from eqsat.cost.target import Objectives
from eqsat.egraph.python_rules import build_node
from eqsat.egraph.symbols import Atom, Symbol
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    ExprPattern,
    WildcardPattern,
)
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Constant, Expr, Op, Var
from eqsat.relay.traits import Trait
from eqsat.relay.transform.merge_composite import checked_table

_MATCHES = 64
"""Matches of one pattern at one e-node that are looked at."""


class Kernel(NamedTuple):
    """Several e-nodes that are computed as one.

    Attributes:
        nodes: Their numbers, children first; the last one gives the result.
        children: The child classes of each; ``~k`` is the e-node ``nodes[k]``, computed for this kernel alone.
        arguments: The classes that inputs of helpers of the price are numbers of.
        price: What the kernel costs.
        fused: Whether it is the runtime that makes one kernel of several written nodes.
    """

    nodes: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    arguments: tuple[int, ...]
    price: Price
    fused: bool

    def key(self, nodes: Sequence[int], class_of: Sequence[int] | None = None) -> tuple[object, ...]:
        """Return what is equal for equal kernels: their e-nodes, here called ``nodes``, and their child classes."""
        children = self.children
        if class_of is not None:
            children = tuple([tuple([class_of[c] if c >= 0 else c for c in below]) for below in children])
        return (*nodes, children)


def find_kernels(
    rows: Sequence[Row], class_count: int, prices: Prices, uses: Sequence[int] | None = None
) -> list[Kernel]:
    """Return the kernels that cost less than their e-nodes one by one.

    Of a given graph that is priced as it runs also the others that a runtime makes.

    Args:
        rows, class_count: The e-nodes, and the number of their classes.
        prices: Prices of e-nodes.
        uses: How often each class is used, where all of them are computed; then a runtime fuses no value that is
            used elsewhere too. None in an e-graph, where that is not known.
    """
    members: list[list[int]] = [[] for _ in range(class_count)]
    for number, row in enumerate(rows):
        members[row.of].append(number)
    found = [*_pairs(rows, members, prices)]
    if prices.model.kernels:
        found += _Fusions(rows, members, prices, uses).kernels()
    return found


def _pairs(rows: Sequence[Row], members: Sequence[Sequence[int]], prices: Prices) -> Iterator[Kernel]:
    for outer, row in enumerate(rows):
        for index, operators in prices.partners(row.view).items():
            for inner in members[row.children[index]]:
                below = rows[inner]
                seen = prices.views.nodes[below.view]
                if seen.op not in operators or seen.constant:
                    continue
                price = prices.pair(row.view, index, below.view)
                if price is not None and _total(price) < _apart([prices(row.view), prices(below.view)]):
                    before, after = row.children[:index], row.children[index + 1 :]
                    yield Kernel(
                        (inner, outer),
                        (tuple(below.children), (*before, ~0, *after)),
                        (*before, *below.children, *after),
                        price,
                        fused=False,
                    )


def _total(price: Price) -> Objectives:
    return _sums([price.cost, *[cost for _, _, cost in price.helpers]])


def _apart(prices: Sequence[Price | None]) -> Objectives:
    """Return the costs of several e-nodes one by one, more than any where one cannot be written."""
    known = [_total(price) for price in prices if price is not None]
    return _sums(known) if len(known) == len(prices) else (math.inf,)


def _sums(costs: Sequence[Objectives]) -> Objectives:
    return tuple(map(math.fsum, zip(*costs, strict=True)))


# ---- what a runtime fuses

_Part = int | tuple[int, tuple["_Part", ...]]
"""A class, or an e-node that the kernel computes with what it takes."""


class _Fusions:
    """Matches of a pattern table in an e-graph."""

    def __init__(
        self, rows: Sequence[Row], members: Sequence[Sequence[int]], prices: Prices, uses: Sequence[int] | None
    ):
        self.rows = rows
        self.members = members
        self.prices = prices
        self.uses = uses
        self.snapshot = prices.views.snapshot
        self.by_operator: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            seen = prices.views.nodes[row.view]
            if not seen.constant:
                self.by_operator.setdefault(seen.op, []).append(number)

    def kernels(self) -> Iterator[Kernel]:
        """Yield the kernels of all entries; of those over the same inputs, the first of each entry."""
        for name, pattern, check in checked_table(self.prices.model.kernels):
            for operator in _operators(pattern):
                for number in self.by_operator.get(operator, ()):
                    known: set[tuple[int, ...]] = set()
                    for part, _ in islice(self._at_node(pattern, number, {}), _MATCHES):
                        kernel = self._kernel(name, pattern, check, part, known)
                        if kernel is not None:
                            yield kernel

    def _kernel(
        self, name: str, pattern: DFPattern, check: Callable[[Expr], bool], part: _Part, known: set[tuple[int, ...]]
    ) -> Kernel | None:
        nodes: dict[tuple[int, tuple[_Part, ...]], int] = {}
        children: list[tuple[int, ...]] = []
        _flatten(part, nodes, children)
        numbers = tuple([number for number, _ in nodes])
        inputs = tuple([child for below in children for child in below if child >= 0])
        if inputs in known or (self.uses is not None and self._escapes(numbers, children)):
            return None
        parts = [self.prices(self.rows[number].view) for number in numbers]
        if None in parts:
            return None
        root = self._expr(numbers, children)
        if not Matcher(pattern, DataflowGraph(root)).match(root) or not check(root):
            return None
        known.add(inputs)
        price = self.prices.kernel(kernel_node(name, root))
        if _total(price) >= _apart(parts) and (self.uses is None or not self.prices.model.fuses_all):
            return None
        return Kernel(numbers, tuple(children), (), price, fused=True)

    def _escapes(self, numbers: Sequence[int], children: Sequence[Sequence[int]]) -> bool:
        """Tell whether something outside uses what the kernel computes inside."""
        inside = [~child for below in children for child in below if child < 0]
        return any(self.uses[self.rows[number].of] > inside.count(k) for k, number in enumerate(numbers[:-1]))  # type: ignore[index]

    def _expr(self, numbers: Sequence[int], children: Sequence[Sequence[int]]) -> Expr:
        """Return the kernel as an expression, typed, over variables and constants."""
        leaves: dict[int, Expr] = {}
        made: list[Expr] = []
        for number, below in zip(numbers, children, strict=True):
            args = [made[~child] if child < 0 else leaves.setdefault(child, self._leaf(child)) for child in below]
            symbol, atom = self._head(number)
            made.append(build_node(symbol, atom, args))
            made[-1]._checked_type = self.prices.views.nodes[self.rows[number].view].type
        return made[-1]

    def _leaf(self, of: int) -> Expr:
        value = self._constant(of)
        ty = self.prices.views.nodes[self.rows[self.members[of][0]].view].type
        leaf = Var(f"x{of}", ty) if value is None else Constant(value.data)
        leaf._checked_type = ty
        return leaf

    def _constant(self, of: int) -> Constant | None:
        for number in self.members[of]:
            symbol, atom = self._head(number)
            if symbol.kind == "constant":
                return atom.value  # type: ignore[no-any-return]
        return None

    def _head(self, number: int) -> tuple[Symbol, Atom]:
        row = self.rows[number]
        return self.snapshot.symbols[row.symbol], self.snapshot.atoms[row.atom]

    # ---- matching; patterns are small, so recursion over them is too

    def _at_class(self, pattern: DFPattern, of: int, bound: _Bound) -> Iterator[tuple[_Part, _Bound]]:
        if pattern in bound:
            part = bound[pattern]
            if part == of or (isinstance(part, tuple) and self.rows[part[0]].of == of):
                yield part, bound
        elif isinstance(pattern, WildcardPattern) and pattern.pattern is None:
            yield of, {**bound, pattern: of}
        elif isinstance(pattern, ConstantPattern):
            value = self._constant(of)
            if value is not None and (pattern.predicate is None or pattern.predicate(value.data.numpy())):
                yield of, bound
        elif isinstance(pattern, AltPattern):
            for one in (pattern.left, pattern.right):
                yield from self._at_class(one, of, bound)
        else:
            for number in self.members[of]:
                yield from self._at_node(pattern, number, bound)

    def _at_node(self, pattern: DFPattern, number: int, bound: _Bound) -> Iterator[tuple[_Part, _Bound]]:
        if isinstance(pattern, AltPattern):
            for one in (pattern.left, pattern.right):
                yield from self._at_node(one, number, bound)
        elif isinstance(pattern, CallPattern):
            row, seen = self.rows[number], self.prices.views.nodes[self.rows[number].view]
            if pattern.args is None or seen.constant or seen.op not in _callees(pattern):
                return
            for order in self._orders(row.children, seen.op):
                if len(order) == len(pattern.args):
                    for below, then in self._at_all(pattern.args, order, bound):
                        part = (number, below)
                        yield part, {**then, pattern: part}
        elif len(pattern.children()) == 1:  # a condition, which is tested of the whole match
            yield from self._at_node(pattern.children()[0], number, bound)

    def _at_all(
        self, patterns: Sequence[DFPattern], classes: Sequence[int], bound: _Bound
    ) -> Iterator[tuple[tuple[_Part, ...], _Bound]]:
        if not patterns:
            yield (), bound
            return
        for part, then in self._at_class(patterns[0], classes[0], bound):
            for rest, last in self._at_all(patterns[1:], classes[1:], then):
                yield (part, *rest), last

    def _orders(self, children: Sequence[int], operator: str) -> Iterator[Sequence[int]]:
        yield children
        if Op.get(operator).has(Trait.COMMUTATIVE) and len(children) == 2 and children[0] != children[1]:
            yield children[::-1]


_Bound = Mapping[DFPattern, _Part]


def _flatten(part: _Part, nodes: dict[tuple[int, tuple[_Part, ...]], int], children: list[tuple[int, ...]]) -> int:
    """Enter an e-node of a match after those it takes; what stands for it as a child."""
    if isinstance(part, int):
        return part
    if part not in nodes:
        below = tuple([_flatten(each, nodes, children) for each in part[1]])
        nodes[part] = len(nodes)
        children.append(below)
    return ~nodes[part]


def _operators(pattern: DFPattern) -> list[str]:
    """Names of the operators that a match may have at its root, each once."""
    if isinstance(pattern, AltPattern):
        return list(dict.fromkeys([*_operators(pattern.left), *_operators(pattern.right)]))
    if isinstance(pattern, CallPattern):
        return list(_callees(pattern))
    below = pattern.children()
    return _operators(below[0]) if len(below) == 1 else []


def _callees(pattern: CallPattern) -> dict[str, None]:
    """Names of the operators that a pattern matches calls of."""
    found: dict[str, None] = {}
    agenda = [pattern.op]
    while agenda:
        one = agenda.pop()
        if isinstance(one, ExprPattern) and isinstance(one.expr, Op):
            found[one.expr.name] = None
        else:
            agenda += reversed(one.children())
    return found

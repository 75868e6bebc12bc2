"""How many arguments a fused function would take, where the target limits that: an estimate, the same as Relay's."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from eqsat.relay.expr import Call, Expr, Tuple, TupleGetItem, Var
from eqsat.relay.transform.fusion_graph import FusionGraph
from eqsat.relay.ty import Any, TensorType
from eqsat.relay.visitor import children_first


class ArgumentLimit:
    """Counts arguments of groups.

    A group takes the variables and projections that its nodes use, and what the groups before it take; the count of
    a group that takes any stands for all before it. A tensor of unknown sizes is passed with its sizes and strides.

    Args:
        graph: The graph.
        most: The most arguments that the target's functions take, those for results included.
        root: Gives the number that stands for a node's group.
    """

    def __init__(self, graph: FusionGraph, most: int, root: Callable[[int], int]):
        self._graph = graph
        self._most = most
        self._root = root
        self._taken = [_taken(node) for node in graph.nodes]
        self._first = list(range(len(graph.nodes)))  # the lowest number in the group of a root
        self._totals: dict[int, int] = {}  # what is remembered of total()
        self._remembered: list[int] = []  # a heap of the negated keys of _totals

    def unite(self, child: int, parent: int) -> None:
        """The group of the root ``child`` becomes a part of that of the root ``parent``."""
        self._taken[parent] += self._taken[child]
        self._first[parent] = first = min(self._first[parent], self._first[child])
        while self._remembered and -self._remembered[0] >= first:  # others depend on lower numbers only
            del self._totals[-heappop(self._remembered)]

    def allowed(self, number: int) -> int:
        """How many arguments the function may take that computes what uses a node, beside its results."""
        users = [self._graph.nodes[user] for user, _ in self._graph.users[number]]
        results = sum([1 + (_unknown_dims(user) if isinstance(user, Call) else 0) for user in users])
        return max(self._most - results, 0)

    def at_uses(self, number: int) -> tuple[int, int | None]:
        """Return the most arguments of a user of a node, and the last user for which that is not known yet, if any."""
        most, open_user = 0, None
        for user, _ in self._graph.users[number]:
            found = [self._taken[root] for root in self._before(user)]
            most = max(most, self._taken[user] + sum(found))
            if 0 in found:
                open_user = user
        return most, open_user

    def total(self, number: int) -> int:
        """How many arguments a node's group takes with all that is before it, where that is more than allowed, some
        number that is more too."""
        for node in children_first([number], self._open_operands, stop=self._totals):
            before = [self._taken[root] or self._totals[operand] for root, operand in self._before(node).items()]
            self._totals[node] = min(self._taken[node] + sum(before), self._most + 1)
            heappush(self._remembered, -node)
        return self._totals[number]

    def _open_operands(self, number: int) -> list[int]:
        return [operand for root, operand in self._before(number).items() if not self._taken[root]]

    def _before(self, number: int) -> dict[int, int]:
        """The roots of the groups whose results a node takes -> the node's first operand among their nodes."""
        found: dict[int, int] = {}
        for operand in _operands(self._graph.nodes[number]):
            known = None if isinstance(operand, Var) else self._graph.number.get(operand)
            if known is not None:
                found.setdefault(self._root(known), known)
        found.pop(self._root(number), None)
        return found


def _operands(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Call):
        return node.args
    return node.fields if isinstance(node, Tuple) else ()


def _taken(node: Expr) -> int:
    if isinstance(node, Var):
        return _passed(node)
    return sum([_passed(operand) for operand in _operands(node) if isinstance(operand, (Var, TupleGetItem))])


def _passed(node: Expr) -> int:
    """How many arguments pass a value: itself, and where sizes are not known, those and its strides."""
    unknown = _unknown_dims(node)
    return 1 + unknown + (len(node.checked_type.shape) if unknown and isinstance(node.checked_type, TensorType) else 0)


def _unknown_dims(node: Expr) -> int:
    ty = node.checked_type
    return sum([isinstance(dim, Any) for dim in ty.shape]) if isinstance(ty, TensorType) else 0

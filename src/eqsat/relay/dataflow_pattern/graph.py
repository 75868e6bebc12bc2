"""The dataflow graph of an expression: post-order index, users of each node, post-dominators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from functools import cached_property, reduce
from typing import Generic, TypeVar
from weakref import WeakSet

from eqsat.relay.adt import Match
from eqsat.relay.expr import Call, Expr, Function, Let, Var
from eqsat.relay.visitor import post_order

T = TypeVar("T", bound=Hashable)


class AncestorTree(Generic[T]):
    """A forest that grows downwards and answers ancestor questions in logarithmic time.

    Beside its parent each node holds a jump to a higher ancestor, spaced as in a skew-binary number
    (E. Myers, An applicative random-access stack, 1983). ``None`` is the root above all trees.
    """

    def __init__(self) -> None:
        self._parent: dict[T | None, T | None] = {None: None}
        self._jump: dict[T | None, T | None] = {None: None}
        self.depth: dict[T | None, int] = {None: 0}

    def add(self, node: T, parent: T | None) -> None:
        """Add ``node`` below ``parent``, which must be in the forest already."""
        depth, jump = self.depth, self._jump
        near = jump[parent]
        far = jump[near]
        self._parent[node] = parent
        jump[node] = far if depth[parent] - depth[near] == depth[near] - depth[far] else parent
        depth[node] = depth[parent] + 1

    def common_ancestor(self, nodes: Iterable[T]) -> T | None:
        """The lowest node that is above or equal to all of ``nodes`` (those not in the forest stand alone)."""
        known = [node if node in self.depth else None for node in nodes]
        return reduce(self._meet, known) if known else None

    def is_above(self, ancestor: T, node: T) -> bool:
        """Whether ``node`` lies strictly below ``ancestor``."""
        level = self.depth.get(ancestor)
        if level is None or self.depth.get(node, 0) <= level:
            return False
        return self._ancestor_at(node, level) is ancestor

    def _ancestor_at(self, node: T | None, level: int) -> T | None:
        depth, jump, parent = self.depth, self._jump, self._parent
        while depth[node] > level:
            far = jump[node]
            node = far if depth[far] >= level else parent[node]
        return node

    def _meet(self, a: T | None, b: T | None) -> T | None:
        depth, jump, parent = self.depth, self._jump, self._parent
        a, b = self._ancestor_at(a, depth[b]), self._ancestor_at(b, depth[a])
        while a is not b:
            if jump[a] is jump[b]:
                a, b = parent[a], parent[b]
            else:
                a, b = jump[a], jump[b]
        return a


class DataflowGraph:
    """The graph below ``root``. Everything but the root is computed when first asked for."""

    def __init__(self, root: Expr):
        self.root = root

    @cached_property
    def order(self) -> list[Expr]:
        """Every node once, inputs before users."""
        return post_order(self.root)

    @cached_property
    def users(self) -> dict[Expr, list[Expr]]:
        """The users of each node that has any, one entry for each use.

        Data flows from an operand to its node, from a function's body to the function, from a let's value to
        its variable and from its body to the let, from what is matched to the variables of the clauses and from
        their right sides to the match. A recursive call, inside the value of the let
        that binds the callee, is no use of the callee: the graph is acyclic.
        """
        users: defaultdict[Expr, list[Expr]] = defaultdict(list)
        recursive = self._recursive_calls
        for node in self.order:
            if type(node) is Let:
                users[node.value].append(node.var)
                users[node.body].append(node)
                continue
            if type(node) is Match:
                users[node.data].extend(node.binds)
                for clause in node.clauses:
                    users[clause.rhs].append(node)
                continue
            operands: tuple[Expr, ...] = node.children()
            if type(node) is Function:
                operands = operands[-1:]
            elif recursive and node in recursive:
                operands = operands[1:]
            for operand in operands:
                users[operand].append(node)
        return users

    def inputs(self, node: Expr) -> tuple[Expr, ...]:
        """The nodes that data flows from into ``node``, the callee of a call included."""
        kind = type(node)
        if kind is Var:
            value = self._bound_values.get(node)
            return () if value is None else (value,)
        if kind is Function or kind is Let:
            return node.children()[-1:]
        if isinstance(node, Match):
            return tuple(clause.rhs for clause in node.clauses)
        return node.children()

    def dominates(self, above: Expr, node: Expr) -> bool:
        """Whether all data flowing from ``node`` to the root passes through ``above``, another node."""
        if above is self.root and is_straight(self.root):
            return node is not above
        return self._post_dominators.is_above(above, node)

    @cached_property
    def _post_dominators(self) -> AncestorTree[Expr]:
        tree: AncestorTree[Expr] = AncestorTree()
        users = self.users
        for node in reversed(self.order):
            tree.add(node, tree.common_ancestor(users.get(node, ())))
        return tree

    @cached_property
    def _lets(self) -> list[Let]:
        return [node for node in self.order if type(node) is Let]

    @cached_property
    def _bound_values(self) -> dict[Expr, Expr]:
        values: dict[Expr, Expr] = {let.var: let.value for let in self._lets}
        for node in self.order:
            if type(node) is Match:
                values.update(dict.fromkeys(node.binds, node.data))
        return values

    @cached_property
    def _recursive_calls(self) -> set[Expr]:
        return {
            node
            for let in self._lets
            if type(let.value) is Function
            for node in post_order(let.value.body)
            if type(node) is Call and node.op is let.var
        }


_straight: WeakSet[Expr] = WeakSet()
BINDERS = frozenset({Function, Let, Match})


def is_straight(root: Expr) -> bool:
    """Whether no let, function or match lies in ``root``, so that all data of its graph flows to the root.

    Remembered for every node below, so that asking at each node of a graph takes linear time in all.
    """
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen or node in _straight:
            continue
        if type(node) in BINDERS:
            return False
        seen.add(node)
        stack.extend(node.children())
    _straight.update(seen)
    return True

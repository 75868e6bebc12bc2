"""Walks over graphs, without recursion, and the visitor classes TVM's users subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, TypeVar

from eqsat.relay.adt import Constructor, Match
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.order import children_first as children_first
from eqsat.relay.references import RefCreate, RefRead, RefWrite

T = TypeVar("T")


def post_order(
    *roots: Expr, stop: Iterable[Expr] = (), children: Callable[[Expr], Sequence[Expr]] = lambda node: node.children()
) -> list[Expr]:
    """List every node that is reachable from ``roots`` once, each after its children.

    Args:
        roots: Where to start.
        stop: Nodes that are neither listed nor visited.
        children: A function that returns the sub-expressions of a node to visit; by default all.
    """
    return children_first(roots, children, stop)


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Call ``fvisit`` on every node of ``expr``, children first."""
    for node in post_order(expr):
        fvisit(node)


def rewrite_post_order(root: Expr, visit: Callable[[Expr, Expr], Expr]) -> Expr:
    """Rebuild a graph from its leaves up; what was shared stays shared.

    Args:
        root: The graph.
        visit: A function that is called once for each node, after its children, with the node and with the node over
            its rewritten children (the same object if none of them changed). It returns the replacement of the node.
    """
    new: dict[Expr, Expr] = {}
    for node in post_order(root):
        new[node] = visit(node, rebuild(node, new))
    return new[root]


def rebuild(node: Expr, new: dict[Expr, Expr]) -> Expr:
    """Return ``node`` with ``new[child]`` for each child that ``new`` has; ``node`` itself if none changes."""
    children = node.children()
    replaced = [new.get(child, child) for child in children]
    return node if all(map(is_, children, replaced)) else node.with_children(replaced)


def substitute(root: Expr, replacements: Mapping[Any, Expr]) -> Expr:
    """Return a graph in which some nodes are replaced.

    Args:
        root: The graph.
        replacements: Node -> its replacement. Replaced nodes are not visited.
    """
    new: dict[Expr, Expr] = dict(replacements)
    for node in post_order(root, stop=replacements):
        new[node] = rebuild(node, new)
    return new[root]


class ExprFunctor:
    """Calls the method for a node's class once for each node: ``visit_call``, ``visit_var`` and so on.

    Subclasses define these methods; what is not defined raises NotImplementedError. The methods call each other, as
    deep as the graph: for graphs that are deeper than Python's recursion limit use :func:`post_order`.
    """

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        if expr not in self.memo_map:
            method = getattr(self, _METHODS.get(type(expr), "visit_other"))
            self.memo_map[expr] = method(expr)
        return self.memo_map[expr]

    def visit_other(self, expr: Expr) -> Any:
        name = _METHODS.get(type(expr), "visit_other")
        raise NotImplementedError(f"{type(self).__name__} does not define {name}")

    def _default(self, expr: Expr) -> Any:
        return self.visit_other(expr)

    visit_var = visit_global_var = visit_constant = visit_op = visit_constructor = _default
    visit_call = visit_tuple = visit_tuple_getitem = visit_function = visit_let = visit_if = visit_match = _default
    visit_ref_create = visit_ref_read = visit_ref_write = _default


class ExprVisitor(ExprFunctor):
    """Visits every node once. Subclasses override ``visit_call`` and so on."""

    def visit_other(self, expr: Expr) -> Any:
        return self._result(expr, [self.visit(child) for child in expr.children()])

    def _result(self, expr: Expr, children: list[Any]) -> Any:
        """Return what visiting a node gives, from what visiting its children gave."""


class ExprMutator(ExprVisitor):
    """Like :class:`ExprVisitor`, but what a method returns takes the node's place."""

    def _result(self, expr: Expr, children: list[Any]) -> Any:
        return expr if all(map(is_, expr.children(), children)) else expr.with_children(children)


_METHODS: dict[type, str] = {
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    Constant: "visit_constant",
    Op: "visit_op",
    Call: "visit_call",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Function: "visit_function",
    Let: "visit_let",
    If: "visit_if",
    Match: "visit_match",
    Constructor: "visit_constructor",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
}

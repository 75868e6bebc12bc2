"""Walks over graphs, without recursion, and the visitor classes TVM's users subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from eqsat.relay.adt import Constructor, Match
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.references import RefCreate, RefRead, RefWrite

T = TypeVar("T")


def post_order(
    *roots: Expr, stop: Iterable[Expr] = (), children: Callable[[Expr], Sequence[Expr]] = lambda node: node.children()
) -> list[Expr]:
    """Every node reachable from ``roots``, once, children first and in order.

    Args:
        roots: where to start.
        stop: nodes that are neither listed nor looked into.
        children: which sub-expressions of a node to follow; by default all.
    """
    return children_first(roots, children, stop)


def children_first(roots: Sequence[T], children: Callable[[T], Sequence[T]], stop: Iterable[T] = ()) -> list[T]:
    """:func:`post_order` of anything that can be hashed: terms, classes, variables."""
    order: list[T] = []
    seen: set[T] = set(stop)
    stack: list[Any] = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node is _BELOW_DONE:
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            below = children(node)
            if below:
                stack += (node, _BELOW_DONE)
                stack += [child for child in reversed(below) if child not in seen]
            else:
                order.append(node)
    return order


_BELOW_DONE = object()
"""On the stack of a walk: what is under it is a node whose children were listed."""


def rewrite_post_order(root: Expr, visit: Callable[[Expr, Expr], Expr]) -> Expr:
    """Rebuild ``root`` bottom-up, sharing kept.

    Args:
        root: the graph.
        visit: called once per node, children first, with the node and the node over its rewritten
            children (the same object when none changed); what it returns takes the node's place.
    """
    new: dict[Expr, Expr] = {}
    for node in post_order(root):
        new[node] = visit(node, rebuild(node, new))
    return new[root]


def rebuild(node: Expr, new: dict[Expr, Expr]) -> Expr:
    """``node`` with each child that ``new`` maps replaced; ``node`` itself when none changes."""
    children = node.children()
    replaced = [new.get(child, child) for child in children]
    for child, replacement in zip(children, replaced, strict=True):
        if child is not replacement:
            return node.with_children(replaced)
    return node


def substitute(root: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """``root`` with every node that is a key replaced by its value; keys are not looked into."""
    new = dict(replacements)
    for node in post_order(root, stop=replacements):
        new[node] = rebuild(node, new)
    return new[root]


class ExprVisitor:
    """Visits every node once; subclasses override ``visit_call`` and so on.

    ``visit`` calls the overridden methods on the Python stack, as deep as the graph: for graphs deeper
    than the recursion limit use :func:`post_order`.
    """

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        if expr not in self.memo_map:
            method = getattr(self, _METHODS.get(type(expr), "visit_other"))
            self.memo_map[expr] = method(expr)
        return self.memo_map[expr]

    def visit_other(self, expr: Expr) -> Any:
        for child in expr.children():
            self.visit(child)

    visit_var = visit_global_var = visit_constant = visit_op = visit_constructor = visit_other
    visit_call = visit_tuple = visit_tuple_getitem = visit_function = visit_let = visit_if = visit_match = visit_other
    visit_ref_create = visit_ref_read = visit_ref_write = visit_other


class ExprMutator(ExprVisitor):
    """Like :class:`ExprVisitor`; what a method returns takes the node's place. See there on depth."""

    def visit_other(self, expr: Expr) -> Any:
        children = expr.children()
        replaced = [self.visit(child) for child in children]
        if all(old is new for old, new in zip(children, replaced, strict=True)):
            return expr
        return expr.with_children(replaced)

    visit_var = visit_global_var = visit_constant = visit_op = visit_constructor = visit_other
    visit_call = visit_tuple = visit_tuple_getitem = visit_function = visit_let = visit_if = visit_match = visit_other
    visit_ref_create = visit_ref_read = visit_ref_write = visit_other


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

"""Where the text form puts the line of each node: the innermost scope around all its uses."""

from __future__ import annotations

from typing import TypeAlias

from eqsat.relay.adt import Match
from eqsat.relay.expr import Expr, Function, If, Let
from eqsat.relay.visitor import post_order

Rope: TypeAlias = str | list["Rope"]
"""Text in pieces, joined once at the end: nested scopes are not copied level by level."""


class Scope:
    """A stretch of text between braces, or after a ``let``.

    Args:
        parent: the scope around it.
        indent: spaces before each line.

    ``jump`` leads far up, so that a common ancestor is found in logarithmically many steps.
    """

    __slots__ = ("depth", "indent", "jump", "lines", "parent")

    def __init__(self, parent: Scope | None, indent: int):
        self.indent = indent
        self.lines: list[Rope] = []
        self.parent: Scope = parent or self
        self.depth: int = 0 if parent is None else parent.depth + 1
        over = self.parent if parent is None else parent.jump
        even = parent is not None and parent.depth - over.depth == over.depth - over.jump.depth
        self.jump: Scope = over.jump if even else self.parent

    @property
    def newline(self) -> str:
        return "\n" + " " * self.indent


class Layout:
    """The scopes of the text of ``root`` and the nodes' places in them.

    Attributes:
        place: node -> the scope its line goes to.
        inner: function -> its body's scope; if -> those of its branches; let -> those of value and body;
            match -> those of its clauses.

    What several branches of an if or clauses of a match use is defined in the first of them.
    """

    def __init__(self, root: Expr):
        self.top = Scope(None, 0)
        self.place: dict[Expr, Scope] = {root: self.top}
        self.inner: dict[Expr, tuple[Scope, ...]] = {}
        self._uses: dict[Expr, int] = {root: 0}
        self._last: set[Expr] = {root}
        for node in reversed(post_order(root)):
            here = self.place[node]
            if isinstance(node, (Function, If, Let, Match)):
                self._open(node, here)
                continue
            for child in node.children():
                self._use(child, here)

    def is_unique(self, node: Expr) -> bool:
        """Whether ``node`` has at most one use."""
        return self._uses[node] <= 1

    def is_last(self, node: Expr) -> bool:
        """Whether ``node`` is the last expression of a scope and used nowhere else."""
        return node in self._last and self.is_unique(node)

    def _open(self, node: Function | If | Let | Match, here: Scope) -> None:
        if isinstance(node, Function):
            body = Scope(here, here.indent + 2)
            self.inner[node] = (body,)
            for param in node.params:
                self._use(param, body)
            self._use(node.body, body, last=True)
        elif isinstance(node, If):
            true = Scope(here, here.indent + 2)
            false = Scope(true, true.indent)
            self.inner[node] = (true, false)
            self._use(node.cond, here)
            self._use(node.true_branch, true, last=True)
            self._use(node.false_branch, false, last=True)
        elif isinstance(node, Match):
            self._use(node.data, here)
            scope, scopes = here, []
            for clause in node.clauses:
                scope = Scope(scope, here.indent + 4)
                scopes.append(scope)
                for variable in clause.lhs.variables:
                    self._use(variable, scope)
                self._use(clause.rhs, scope, last=True)
            self.inner[node] = tuple(scopes)
        else:
            value = here if self.is_last(node) else Scope(here, here.indent + 2)
            body = Scope(value, value.indent)
            self.inner[node] = (value, body)
            self._use(node.value, value)
            self._use(node.var, body)
            self._use(node.body, body, last=True)

    def _use(self, node: Expr, scope: Scope, last: bool = False) -> None:
        place = self.place.get(node)
        self.place[node] = scope if place is None else _common(place, scope)
        self._uses[node] = self._uses.get(node, 0) + 1
        if last:
            self._last.add(node)


def _common(left: Scope, right: Scope) -> Scope:
    """The innermost scope around both."""
    if left.depth < right.depth:
        left, right = right, left
    while left.depth > right.depth:
        left = left.jump if left.jump.depth >= right.depth else left.parent
    while left is not right:
        if left.jump is right.jump:
            left, right = left.parent, right.parent
        else:
            left, right = left.jump, right.jump
    return left

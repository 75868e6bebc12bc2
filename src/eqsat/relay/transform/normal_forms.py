"""ToANormalForm: every value gets a name, in the order in which values are computed."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.relay.adt import Constructor
from eqsat.relay.blocks import Block, common_block
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Let, Op, Var
from eqsat.relay.transform.base import FunctionPass, Pass, PassInfo
from eqsat.relay.visitor import children_first, rebuild

_ATOMIC = (Constructor, GlobalVar, Op, Var)
"""The classes of expressions that are names already."""


def ToANormalForm() -> Pass:
    """Bind the value of every expression by a ``let``, so that operands are variables only.

    What several branches or functions share is computed in the innermost scope around all of them.
    """
    return FunctionPass(lambda function, mod, context: ToANormalFormExpr(function), PassInfo(1, "ToANormalForm"))


def ToANormalFormExpr(expr: Expr) -> Expr:
    """Do :func:`ToANormalForm` to an expression; a function is not bound itself, only what is in it."""
    return _NormalForm(expr).run()


class _NormalForm:
    """One expression on its way into normal form.

    Attributes:
        top: The scope of the whole expression.
        place: Expression -> the innermost scope around its uses.
        inner: Expression with scopes -> their blocks.
        lets: Scope -> its variables and their values, in order.
        names: Expression -> the variable that some ``let`` of the given expression binds it to.
    """

    def __init__(self, root: Expr):
        self.root = root
        self.order = children_first([root], _below)
        self.top = Block(None, 0)
        self.place: dict[Expr, Block] = {root: self.top}
        self.inner: dict[Expr, list[Block]] = {}
        self.lets: dict[Block, list[tuple[Var, Expr]]] = {self.top: []}
        self.names: dict[Expr, Var] = {}
        for node in reversed(self.order):
            self._open(node, self.place[node])

    def _open(self, node: Expr, here: Block) -> None:
        if isinstance(node, Let):
            self.names.setdefault(node.value, node.var)
        if _is_whole(node):
            return
        for child in node.outside:
            self._use(child, here)
        blocks = self.inner[node] = [Block(here, 0) for _ in node.scopes]
        for scope, block in zip(node.scopes, blocks, strict=True):
            self.lets[block] = []
            self._use(scope.body, block)

    def _use(self, node: Expr, block: Block) -> None:
        place = self.place.get(node)
        self.place[node] = block if place is None else common_block(place, block)

    def run(self) -> Expr:
        new: dict[Expr, Expr] = {}
        for node in self.order:
            if isinstance(node, Let):
                new[node] = self._let(node, new)
            elif isinstance(node, _ATOMIC):
                new[node] = node
            else:
                value = self._over(node, new)
                kept = node is self.root and isinstance(node, Function)
                new[node] = value if kept else self._bind(node, value)
        return self._closed(self.top, new[self.root])

    def _let(self, node: Let, new: dict[Expr, Expr]) -> Expr:
        """Put the body of a let into the scope that the let is in."""
        here = self.lets[self.place[node]]
        if new[node.value] is not node.var:
            here.append((node.var, new[node.value]))
        here += self.lets[self.inner[node][0]]
        return self._bind(node, new[node.body])

    def _over(self, node: Expr, new: dict[Expr, Expr]) -> Expr:
        """Return a node over the names of its operands, and over bodies that are complete."""
        if _is_whole(node):
            return node
        bodies = {
            scope.body: self._closed(block, new[scope.body])
            for scope, block in zip(node.scopes, self.inner[node], strict=True)
        }
        return rebuild(node, {child: new.get(child, child) for child in node.children()} | bodies)

    def _bind(self, node: Expr, value: Expr) -> Var:
        variable = self.names.get(node) or Var("x")
        self.lets[self.place[node]].append((variable, value))
        return variable

    def _closed(self, block: Block, result: Expr) -> Expr:
        for variable, value in reversed(self.lets[block]):
            result = Let(variable, value, result)
        return result


def _is_whole(node: Expr) -> bool:
    """Whether a node stays as it is: the body of a primitive function is one kernel."""
    return isinstance(node, (*_ATOMIC, Constant)) or (isinstance(node, Function) and bool(node.attrs.get("Primitive")))


def _below(node: Expr) -> Sequence[Expr]:
    """The children whose values are computed, arguments before what is called."""
    if _is_whole(node):
        return ()
    if isinstance(node, Call) and not isinstance(node.op, Op):
        return (*node.args, node.op)
    return node.evaluated

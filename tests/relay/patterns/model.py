"""The matching rules written down as plainly as possible, recursive and slow: what the matcher must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat import ir, relay
from eqsat.relay.dataflow_pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)
from eqsat.relay.visitor import post_order


class Ambiguous(Exception):
    """A pattern with several matches is looked up."""


class Model:
    def __init__(self, root: relay.Expr):
        self.root = root
        self.order = post_order(root)
        self.memo: dict[DFPattern, list[relay.Expr]] = {}
        self.done: list[DFPattern] = []
        self.memoize = True

    def match(self, pattern: DFPattern, expr: relay.Expr) -> bool:
        self.memo, self.done, self.memoize = {}, [], True
        return self.visit(pattern, expr)

    def visit(self, pattern: DFPattern, expr: relay.Expr) -> bool:
        if self.memoize and pattern in self.memo:
            if len(self.memo[pattern]) != 1:
                raise Ambiguous
            return self.memo[pattern][0] is expr
        mark = len(self.done)
        if self.rule(pattern, expr):
            self.memo.setdefault(pattern, []).append(expr)
            self.done.append(pattern)
            return True
        self.roll_back(mark)
        return False

    def roll_back(self, mark: int) -> None:
        for pattern in self.done[mark:]:
            self.memo.pop(pattern, None)
        del self.done[mark:]

    def visit_all(self, patterns: Sequence[DFPattern], exprs: Sequence[relay.Expr]) -> bool:
        return len(patterns) == len(exprs) and all(self.visit(p, e) for p, e in zip(patterns, exprs, strict=True))

    def rule(self, p: Any, e: Any) -> bool:
        match p:
            case WildcardPattern():
                return p.pattern is None or self.visit(p.pattern, e)
            case VarPattern():
                return isinstance(e, relay.Var) and p.name in ("", e.name_hint)
            case ConstantPattern():
                return isinstance(e, relay.Constant)
            case ExprPattern():
                return ir.structural_equal(p.expr, e)
            case TuplePattern():
                return isinstance(e, relay.Tuple) and (p.fields is None or self.visit_all(p.fields, e.fields))
            case TupleGetItemPattern():
                return (
                    isinstance(e, relay.TupleGetItem)
                    and p.index in (-1, e.index)
                    and self.visit(p.tuple, e.tuple_value)
                )
            case IfPattern():
                return isinstance(e, relay.If) and self.visit_all(p.children(), e.children())
            case LetPattern():
                return isinstance(e, relay.Let) and self.visit_all(p.children(), (e.var, e.value, e.body))
            case FunctionPattern():
                return (
                    isinstance(e, relay.Function)
                    and (p.params is None or self.visit_all(p.params, e.params))
                    and self.visit(p.body, e.body)
                )
            case AltPattern():
                return self.visit(p.left, e) or self.visit(p.right, e)
            case AttrPattern():
                return self.visit(p.pattern, e) and self.has_kind(e, p.attrs["TOpPattern"])
            case CallPattern():
                return isinstance(e, relay.Call) and self.call(p, e)
            case DominatorPattern():
                return self.dominator(p, e)
        raise AssertionError(p)

    def has_kind(self, e: relay.Expr, kind: int) -> bool:
        return isinstance(e, relay.Op) and e.get_attr("TOpPattern") == kind

    def call(self, p: CallPattern, e: relay.Call) -> bool:
        before = len(self.done)
        name = op_name(p)
        if self.visit(p.op, e.op):
            mark = len(self.done)
            if p.args is None:
                return True
            orders = [p.args, p.args[::-1]] if name in ("add", "multiply") else [p.args]
            for args in orders:
                if self.visit_all(args, e.args):
                    return True
                self.roll_back(mark)
            return False
        self.roll_back(before)
        if name == "divide":
            product = p.args[0]
            if op_name(product) == "multiply" and calls(e, "multiply") and any(calls(a, "divide") for a in e.args):
                for i in (0, 1):
                    quotient = CallPattern(p.op, [product.args[i], p.args[1]])
                    if self.visit(CallPattern(product.op, [product.args[1 - i], quotient]), e):
                        return True
                    self.roll_back(before)
        if name == "multiply":
            for i in (0, 1):
                quotient = p.args[i]
                if op_name(quotient) == "divide" and calls(e, "divide") and any(calls(a, "multiply") for a in e.args):
                    product = CallPattern(p.op, [quotient.args[0], p.args[1 - i]])
                    return self.visit(CallPattern(quotient.op, [product, quotient.args[1]]), e)
        return False

    def dominator(self, p: DominatorPattern, e: relay.Expr) -> bool:
        if not self.visit(p.child, e):
            return False
        found = self.paths_lead_to_parent(p, e)
        self.memoize = True
        return found and self.below(e, self.memo[p.parent][0])

    def paths_lead_to_parent(self, p: DominatorPattern, e: relay.Expr) -> bool:
        count = 0
        for node in self.inputs(e):
            if isinstance(e, relay.Call) and (node is e.op or isinstance(node, (relay.Constant, relay.Var))):
                continue
            count += 1
            self.memoize = True
            if self.visit(p.parent, node):
                continue
            self.memoize = False
            if not (self.visit(p.path, node) and self.paths_lead_to_parent(p, node)):
                return False
        return count > 0

    def inputs(self, node: relay.Expr) -> list[relay.Expr]:
        return [source for source, user in self.edges() if user is node]

    def edges(self) -> list[tuple[relay.Expr, relay.Expr]]:
        found: list[tuple[relay.Expr, relay.Expr]] = []
        for node in self.order:
            if isinstance(node, relay.Let):
                found += [(node.value, node.var), (node.body, node)]
            elif isinstance(node, relay.Function):
                found.append((node.body, node))
            else:
                found += [(child, node) for child in node.children()]
        return found

    def below(self, top: relay.Expr, node: relay.Expr) -> bool:
        """Whether every way from `node` to the end of the data flow passes through `top`, another node."""
        if top is node or top not in self.order:
            return False
        users: dict[relay.Expr, list[relay.Expr]] = {}
        for source, user in self.edges():
            users.setdefault(source, []).append(user)
        seen: set[relay.Expr] = set()
        todo = [node]
        reached = False
        while todo:
            current = todo.pop()
            if current is top:
                reached = True
            elif current not in seen:
                seen.add(current)
                if current not in users:
                    return False  # an end of the data flow, not through `top`
                todo += users[current]
        return reached


def op_name(p: DFPattern) -> str | None:
    if isinstance(p, CallPattern) and isinstance(p.op, ExprPattern) and isinstance(p.op.expr, relay.Op):
        return p.op.expr.name
    return None


def calls(e: relay.Expr, name: str) -> bool:
    return isinstance(e, relay.Call) and isinstance(e.op, relay.Op) and e.op.name == name

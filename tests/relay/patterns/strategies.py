"""Random graphs of a small vocabulary, and patterns made from their nodes so that matches are common."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import strategies as st

from eqsat import relay
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    FunctionPattern,
    dominates,
    is_constant,
    is_elemwise,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from eqsat.relay.visitor import post_order

BINARY = ["add", "multiply", "subtract", "divide"]
UNARY = ["nn.relu", "tanh"]

generators = st.integers(0, 2**32 - 1).map(random.Random)
"""Sources of randomness: graph and pattern shapes drawn uniformly match more often than shrinking ones."""


def random_graph(rng: random.Random, size: int = 12, scopes: bool = True, tuples: bool = True) -> relay.Expr:
    """An expression of about `size` nodes, with functions, lets and ifs when `scopes`.

    Without `tuples` all values are scalars, so that it can be evaluated.
    """
    kinds = ["binary"] * 6 + ["quotient"] + ["unary"] * 3 + ["tuple", "projection"] * tuples
    kinds += ["let", "if", "call"] * scopes
    return _grow(rng, [relay.var("x"), relay.var("y"), relay.const(1.0)], rng.randint(2, size), kinds)


def _grow(rng: random.Random, pool: list[relay.Expr], size: int, kinds: list[str]) -> relay.Expr:
    flat = [kind for kind in kinds if kind not in ("let", "if", "call")]
    for _ in range(size):
        a, b, c = (_recent(rng, pool) for _ in range(3))
        match rng.choice(kinds):
            case "binary":
                pool.append(relay.Call(relay.op.get(rng.choice(BINARY)), [a, b]))
            case "quotient":
                pool.append(rng.choice([lambda a, b, c: a * b / c, lambda a, b, c: a * (b / c)])(a, b, c))
            case "unary":
                pool.append(relay.Call(relay.op.get(rng.choice(UNARY)), [a]))
            case "tuple":
                pool.append(relay.Tuple([a, b]))
            case "projection":
                pool.append(relay.TupleGetItem(a, rng.randint(0, 1)))
            case "let":
                variable = relay.var("v")
                pool.append(relay.Let(variable, a, _grow(rng, [*pool, variable], rng.randint(0, 3), flat)))
            case "if":
                pool.append(relay.If(a, b, c))
            case "call":
                param = relay.var("p")
                pool.append(
                    relay.Call(relay.Function([param], _grow(rng, [*pool, param], rng.randint(0, 3), flat)), [a])
                )
    return pool[-1]


def _recent(rng: random.Random, pool: list[relay.Expr]) -> relay.Expr:
    return pool[max(rng.randrange(len(pool)), rng.randrange(len(pool)))]


def random_pattern(rng: random.Random, root: relay.Expr) -> DFPattern:
    """A pattern that follows some node of `root` downwards for some way."""
    nodes = [node for node in post_order(root) if not isinstance(node, (relay.Op, relay.Var))]
    start = max(rng.choice(nodes), rng.choice(nodes), key=nodes.index)
    return _Copier(rng).node(start, depth=rng.randint(1, 5))


class _Copier:
    def __init__(self, rng: random.Random):
        self.rng = rng
        self.known: dict[relay.Expr, DFPattern] = {}

    def one_in(self, n: int) -> bool:
        return self.rng.randrange(n) == 0

    def copy(self, expr: relay.Expr, depth: int) -> DFPattern:
        """A pattern for `expr`; often the one used for it before, sometimes with a second alternative."""
        if expr in self.known and not self.one_in(3):
            return self.known[expr]
        leaf = depth <= 0 or self.one_in(6)
        pattern = self.leaf(expr) if leaf else self.node(expr, depth)
        if self.one_in(10):
            pattern = pattern.optional(lambda p: is_op(self.rng.choice(UNARY))(p))
        elif self.one_in(8):
            pattern = self.node(expr, depth - 1) | pattern
        self.known[expr] = pattern
        return pattern

    def leaf(self, expr: relay.Expr) -> DFPattern:
        if isinstance(expr, relay.Var):
            return self.rng.choice([is_var, wildcard])()
        make: Callable[[], DFPattern] = self.rng.choice(
            [wildcard, wildcard, wildcard, is_constant, lambda: is_expr(expr)]
        )
        return make()

    def node(self, expr: relay.Expr, depth: int) -> DFPattern:
        rng = self.rng

        def sub(child: relay.Expr) -> DFPattern:
            return self.copy(child, depth - 1)

        match expr:
            case relay.Call(op=relay.Op(name=name)):
                if self.one_in(6):
                    return self.region(expr, depth)
                args = [sub(arg) for arg in expr.args]
                if self.one_in(3):
                    args.reverse()
                if name in ("multiply", "divide") and self.one_in(3):
                    return self.turned(args)
                return is_op(name if not self.one_in(8) else rng.choice(BINARY + UNARY))(*args)
            case relay.Call():
                return sub(expr.op)(*map(sub, expr.args)) if self.one_in(2) else sub(expr.op)(None)
            case relay.Tuple():
                return is_tuple([*map(sub, expr.fields)] if self.one_in(2) else None)
            case relay.TupleGetItem():
                return is_tuple_get_item(sub(expr.tuple_value), rng.choice([None, 0, 1]))
            case relay.Let():
                return is_let(sub(expr.var), sub(expr.value), sub(expr.body))
            case relay.If():
                return is_if(sub(expr.cond), sub(expr.true_branch), sub(expr.false_branch))
            case relay.Function():
                return FunctionPattern([*map(sub, expr.params)] if self.one_in(2) else None, sub(expr.body))
        return self.leaf(expr)

    def turned(self, args: list[DFPattern]) -> DFPattern:
        """A product with a quotient, or a quotient of a product."""
        a, b, c = args[0], args[1], wildcard()
        return self.rng.choice([lambda: a * b / c, lambda: a * (b / c), lambda: (a / c) * b, lambda: c * a / b])()

    def region(self, expr: relay.Call, depth: int) -> DFPattern:
        """A region from `expr` up to some node that it depends on."""
        below = [node for node in post_order(expr) if not isinstance(node, (relay.Op, relay.Var))]
        parent = self.copy(self.rng.choice(below), depth - 2)
        child = is_op(expr.op.name)(*[wildcard() for _ in expr.args])
        elementwise = wildcard().has_attr({"TOpPattern": 0})(None)
        path = self.rng.choice([wildcard(), is_elemwise, elementwise | is_op("add")(wildcard(), wildcard())])
        return dominates(parent, path, child)

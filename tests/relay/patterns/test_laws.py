"""Laws of rewriting and partitioning on random graphs and patterns."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import assume, given, settings

from eqsat import relay
from eqsat.errors import PatternError
from eqsat.ir import structural_equal
from eqsat.relay.dataflow_pattern import DFPattern, FunctionPattern, rewrite
from eqsat.relay.dataflow_pattern.analysis import analyse
from eqsat.relay.visitor import post_order, rewrite_post_order, substitute

from .strategies import generators, random_graph, random_pattern
from .test_rewrite import Recorder


def drawn(rng: random.Random) -> tuple[relay.Expr, DFPattern]:
    root = random_graph(rng, size=15)
    return root, random_pattern(rng, root)


def inline(expr: relay.Expr) -> relay.Expr:
    """Every call of a function that partitioning made replaced by its body."""

    def visit(old: relay.Expr, node: relay.Expr) -> relay.Expr:
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            function = node.op
            if "PartitionedFromPattern" in function.attrs:
                return substitute(function.body, dict(zip(function.params, node.args, strict=True)))
        return node

    return rewrite_post_order(expr, visit)


def renamed(expr: relay.Expr) -> tuple[relay.Expr, dict[relay.Expr, relay.Expr]]:
    """A copy with other variable names, and which node became which."""
    new: dict[relay.Expr, relay.Expr] = {}

    def visit(old: relay.Expr, node: relay.Expr) -> relay.Expr:
        new[old] = relay.Var(f"other_{len(new)}") if isinstance(node, relay.Var) else node
        return new[old]

    return rewrite_post_order(expr, visit), new


@settings(deadline=None)
@given(generators)
def test_the_identity_callback_keeps_the_graph(rng: random.Random) -> None:
    root, pattern = drawn(rng)
    try:
        assert rewrite(Recorder(pattern), root) is root
    except PatternError:
        return


@settings(max_examples=150, deadline=None)
@given(generators)
def test_partitioning_then_inlining_gives_the_graph_back(rng: random.Random) -> None:
    root, pattern = drawn(rng)
    assume(not isinstance(pattern, FunctionPattern))
    try:
        parted = pattern.partition(root)
    except PatternError:
        return
    assert unshared(inline(parted)) == unshared(root)
    assert scoped(parted)


@settings(deadline=None)
@given(generators)
def test_partitioned_graphs_compute_the_same(rng: random.Random) -> None:
    root = random_graph(rng, size=15, tuples=False)
    pattern = random_pattern(rng, root)
    assume(not isinstance(pattern, FunctionPattern))
    try:
        parted = pattern.partition(root)
    except PatternError:
        return
    names = [variable.name_hint for variable in relay.analysis.free_vars(root)]
    values = {name: np.float32(rng.uniform(0.5, 2)) for name in names}
    expected, found = (relay.interpreter.evaluate(graph, values) for graph in (root, parted))
    assert expected.tobytes() == found.tobytes()


def unshared(root: relay.Expr) -> Any:
    """The graph as a value without sharing: interior values used by two groups are computed twice."""
    keys: dict[Any, int] = {}
    number: dict[relay.Expr, int] = {}
    for node in post_order(root):
        leaf = () if node.children() else (node,)
        key = (type(node), getattr(node, "index", None), leaf, tuple(number[child] for child in node.children()))
        number[node] = keys.setdefault(key, len(keys))
    return number[root], len(keys)


def scoped(root: relay.Expr) -> bool:
    """Whether no variable bound in the graph is used where its binder does not reach."""
    free = {node for node in post_order(root) if isinstance(node, relay.Var)} - set(relay.analysis.bound_vars(root))
    unbound: dict[relay.Expr, frozenset[relay.Expr]] = {}
    for node in post_order(root):
        below = frozenset().union(*(unbound[child] for child in node.children()))
        if isinstance(node, relay.Var):
            below = frozenset([node])
        elif isinstance(node, relay.Function):
            below -= set(node.params)
        elif isinstance(node, relay.Let):
            below = (unbound[node.body] - {node.var}) | unbound[node.value]
        unbound[node] = below
    return unbound[root] <= free


@settings(deadline=None)
@given(generators)
def test_matching_does_not_depend_on_the_names_of_variables(rng: random.Random) -> None:
    root, pattern = drawn(rng)
    copy, new = renamed(root)
    for node in post_order(root):
        if not mentions_expressions(pattern):
            assert outcome(pattern, node) == outcome(pattern, new[node])
    assert structural_equal(root, copy, map_free_vars=True)


def mentions_expressions(pattern: DFPattern) -> bool:
    exprs = [getattr(p, "expr", None) for p in analyse(pattern).order]
    return any(expr is not None and not isinstance(expr, (relay.Op, relay.Constant)) for expr in exprs)


def outcome(pattern: DFPattern, expr: relay.Expr) -> Any:
    try:
        return pattern.match(expr)
    except PatternError:
        return "error"

"""Deep and highly shared graphs and patterns, where a plain matcher overflows its stack or never ends."""

from __future__ import annotations

from typing import Any

import pytest

from eqsat import relay
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    dominates,
    is_constant,
    is_elemwise,
    is_op,
    rewrite,
    wildcard,
)
from eqsat.relay.dataflow_pattern import matcher as matcher_module
from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.groups import find_groups
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.visitor import post_order

from .helpers import matches, variables
from .test_rewrite import Recorder

DEPTH = 10_000


def conv_chain(blocks: int) -> relay.Expr:
    x, w, b = variables("x w b")
    for _ in range(blocks):
        x = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w), b))
    return x


def conv_bias_relu() -> DFPattern:
    return is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))


def unary_chain(leaf: Any, call: Any, depth: int) -> Any:
    for _ in range(depth):
        leaf = call(leaf)
    return leaf


class TestDepth:
    def test_deep_patterns(self) -> None:
        expr = unary_chain(relay.var("x"), relay.tanh, DEPTH)
        pattern = unary_chain(wildcard(), is_op("tanh"), DEPTH)
        assert matches(pattern, expr)
        assert not matches(is_op("tanh")(pattern), expr)
        assert len(find_groups(pattern, DataflowGraph(expr))) == 1

    def test_deep_sums(self) -> None:
        expr = unary_chain(relay.var("x"), lambda e: e + relay.const(1.0), DEPTH)
        pattern = unary_chain(wildcard(), lambda p: is_constant() + p, DEPTH)
        assert matches(pattern, expr)

    def test_deep_options(self) -> None:
        pattern = unary_chain(is_op("nn.relu")(wildcard()), lambda p: p.optional(is_op("tanh")), 600)
        expr = unary_chain(relay.nn.relu(relay.var("x")), relay.tanh, 300)
        assert matches(pattern, expr)

    def test_partition_of_a_deep_graph(self) -> None:
        result = conv_bias_relu().partition(conv_chain(DEPTH // 3))
        calls = [n for n in post_order(result) if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)]
        assert len(calls) == DEPTH // 3

    def test_rewriting_a_deep_graph(self) -> None:
        x = wildcard()
        drop = Recorder(x + is_constant(), lambda pre, post, node_map: node_map[x][0])
        expr = unary_chain(relay.var("x"), lambda e: e + relay.const(0.0), DEPTH)
        assert isinstance(rewrite(drop, expr), relay.Var)

    def test_a_region_over_many_nodes(self) -> None:
        x, w = variables("x w")
        expr = relay.nn.relu(unary_chain(relay.nn.conv2d(x, w), relay.tanh, DEPTH))
        region = is_op("nn.relu")(wildcard()).dominates(is_op("nn.conv2d")(None), is_elemwise)
        result: Any = region.partition(expr)
        assert result.args == (x, w)

    def test_long_let_chains(self) -> None:
        body: relay.Expr = relay.var("z")
        for _ in range(DEPTH):
            body = relay.Let(relay.var("v"), relay.tanh(body), body)
        assert is_op("nn.relu")(wildcard()).partition(body) is body


class TestSharing:
    def test_stacked_diamonds(self) -> None:
        expr: relay.Expr = relay.nn.conv2d(*variables("x w"))
        for _ in range(200):
            expr = relay.nn.relu(expr) + relay.tanh(expr)
        path = is_elemwise | is_op("add")(wildcard(), wildcard())
        region = dominates(is_op("nn.conv2d")(None), path, is_op("add")(wildcard(), wildcard()))
        assert matches(region, expr)

    def test_sums_of_shared_sums(self) -> None:
        expr: relay.Expr = relay.var("x")
        pattern: DFPattern = is_constant()
        for _ in range(200):
            expr = expr + expr
            pattern = pattern + wildcard()
        assert not matches(pattern, expr)

    def test_options_on_shared_patterns(self) -> None:
        pattern = unary_chain(is_constant(), lambda p: p.optional(is_op("tanh")), 200)
        expr = unary_chain(relay.var("x"), relay.tanh, 100)
        assert not matches(pattern, expr)


class CountingGraph(DataflowGraph):
    """Counts how often the data flow below a node is asked for."""

    asked = 0

    def inputs(self, node: relay.Expr) -> tuple[relay.Expr, ...]:
        self.asked += 1
        return super().inputs(node)


class TestGrowth:
    def test_a_region_without_parent_is_searched_once(self) -> None:
        """Every relu of the chain may end a region; none starts one. The walks up share what they find."""
        expr = unary_chain(relay.var("x"), relay.nn.relu, 500)
        graph = CountingGraph(expr)
        region = is_op("nn.relu")(wildcard()).dominates(is_op("nn.conv2d")(None), is_elemwise)
        assert find_groups(region, graph) == {}
        assert graph.asked <= 2 * 500

    def test_matching_builds_no_index(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> Any:
            raise AssertionError("the graph was walked")

        expr = conv_chain(10)
        monkeypatch.setattr("eqsat.relay.dataflow_pattern.graph.post_order", fail)
        assert matches(conv_bias_relu(), expr)

    def test_steps_grow_with_the_number_of_matches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        visits = 0
        plain = matcher_module._visit

        def counting(*args: Any) -> Any:
            nonlocal visits
            visits += 1
            return plain(*args)

        monkeypatch.setattr(matcher_module, "_visit", counting)
        counts = []
        for blocks in (100, 200):
            visits = 0
            find_groups(conv_bias_relu(), DataflowGraph(conv_chain(blocks)))
            counts.append(visits)
        assert counts[1] == 2 * counts[0]


def test_many_routes_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "ROUTES", 3)
    conv = relay.nn.conv2d(*variables("x w"))
    stray = relay.tanh(relay.var("y"))
    path = is_elemwise | is_op("add")(wildcard(), wildcard())
    region = dominates(is_op("nn.conv2d")(None), path, is_op("add")(wildcard(), wildcard()))
    for bottom, expected in ((conv, True), (stray, False)):
        expr = conv
        for _ in range(4):
            expr = relay.nn.relu(expr) + relay.tanh(expr)
        matcher = Matcher(region, DataflowGraph(expr + relay.nn.relu(bottom)))
        assert matcher.match(matcher.graph.root) is expected

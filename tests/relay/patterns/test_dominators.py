"""Regions between a parent and the child that post-dominates it."""

from __future__ import annotations

import pytest

from eqsat import relay
from eqsat.relay.dataflow_pattern import (
    K_BROADCAST,
    K_ELEMWISE,
    DFPattern,
    dominates,
    is_constant,
    is_elemwise,
    is_op,
    is_var,
    wildcard,
)
from eqsat.relay.dataflow_pattern.graph import DataflowGraph

from .helpers import bindings, matches, variables

relu, tanh, leaky = relay.nn.relu, relay.tanh, relay.nn.leaky_relu


def conv2d() -> relay.Expr:
    return relay.nn.conv2d(*variables("x w"))


def conv_pattern() -> DFPattern:
    return is_op("nn.conv2d")(is_var(), is_var())


def elemwise() -> DFPattern:
    return wildcard().has_attr({"TOpPattern": K_ELEMWISE})(None)


def diamond(path: DFPattern | None = None) -> DFPattern:
    reduction = is_op("add")(wildcard(), wildcard())
    return dominates(conv_pattern(), path or elemwise(), reduction)


class TestDiamonds:
    def test_a_classic_diamond(self) -> None:
        conv = conv2d()
        assert matches(diamond(), relu(conv) + leaky(conv))

    def test_a_deeper_branch(self) -> None:
        conv = conv2d()
        assert matches(diamond(), relu(relu(relu(tanh(conv)))) + leaky(conv))

    def test_one_branch_that_uses_the_parent_twice(self) -> None:
        conv = conv2d()
        path = elemwise() | is_op("add")(wildcard(), wildcard())
        assert matches(dominates(conv_pattern(), path, is_op("nn.relu")(wildcard())), relu(tanh(conv) + tanh(conv)))

    def test_a_nested_diamond(self) -> None:
        conv = conv2d()
        inner = relu(conv) + tanh(conv)
        path = elemwise() | is_op("add")(wildcard(), wildcard())
        assert matches(diamond(path), tanh(inner) + relu(inner))
        assert not matches(diamond(), tanh(inner) + relu(inner))

    def test_two_convolutions_are_not_one_parent(self) -> None:
        assert not matches(diamond(), relu(conv2d()) + leaky(conv2d()))

    def test_a_branch_from_elsewhere(self) -> None:
        conv = conv2d()
        assert not matches(diamond(), relu(conv) + relu(relay.var("z")))

    def test_no_parent_at_all(self) -> None:
        x = relay.var("x")
        assert not matches(diamond(), relu(x) + leaky(x))

    def test_the_parent_right_below_the_child_on_one_side(self) -> None:
        a, b = conv2d(), conv2d()
        assert not matches(diamond(), a + relu(b))
        assert matches(diamond(), a + relu(a))

    def test_at_most_one_parent(self) -> None:
        x, w = variables("x w")
        one, two = relu(relay.nn.conv2d(x, w)), tanh(x)
        parent = is_op("nn.conv2d")(wildcard(), wildcard()) | is_op("tanh")(wildcard())
        assert not matches(dominates(parent, elemwise(), is_op("add")(None)), one + two)


class TestPaths:
    @pytest.mark.parametrize(
        ("build", "expected"),
        [
            (lambda conv, y: relu(conv), True),
            (lambda conv, y: relu(tanh(conv)), True),
            (lambda conv, y: relu(conv + relay.const(1.0)), True),
            (lambda conv, y: relu(conv + y), True),
            (lambda conv, y: relu(conv + tanh(y)), False),
            (lambda conv, y: relu(relay.concatenate([conv, conv], 0)), True),
            (lambda conv, y: relu(relay.concatenate([conv, y], 0)), False),
        ],
    )
    def test_every_input_but_leaves_of_calls_must_lead_to_the_parent(self, build, expected: bool) -> None:
        region = is_op("nn.relu")(wildcard()).dominates(is_op("nn.conv2d")(wildcard(), wildcard()))
        assert matches(region, build(conv2d(), relay.var("y"))) is expected

    def test_paths_of_any_kind_with_a_bias_beside_them(self) -> None:
        broadcast = wildcard().has_attr({"TOpPattern": K_BROADCAST})(None)
        region = dominates(conv_pattern(), elemwise() | broadcast, is_op("nn.relu")(wildcard()))
        conv, bias = conv2d(), relay.var("b")
        assert matches(region, relu(relay.nn.bias_add(tanh(conv), bias)))

    def test_a_node_on_two_routes_is_listed_twice(self) -> None:
        conv = conv2d()
        middle = relu(conv)
        one, two = tanh(middle), relay.sigmoid(middle)
        any_argument = wildcard()
        path = wildcard().has_attr({"TOpPattern": 0})(any_argument)
        parent = conv_pattern()
        bound = bindings(dominates(parent, path, is_op("add")(wildcard(), wildcard())), one + two)
        assert bound is not None
        assert bound[path] == [one, middle, two, middle]
        assert len(bound[any_argument]) == 4
        assert bound[parent] == [conv]

    def test_path_nodes_may_have_other_users(self) -> None:
        conv = conv2d()
        middle = tanh(conv)
        region = is_op("nn.relu")(wildcard()).dominates(conv_pattern(), is_elemwise)
        both = is_op("subtract")(region, wildcard())
        assert matches(both, relu(middle) - middle) is False  # conv then reaches the end past the relu
        assert matches(both, relu(middle) - relay.var("z"))

    def test_typed_paths_and_children(self) -> None:
        x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
        conv = relay.nn.conv2d(x, w)
        expr = relu(conv) + leaky(conv)

        def typed(dtype: str, shape: tuple[int, ...]) -> DFPattern:
            path = elemwise().has_dtype(dtype)
            return dominates(conv_pattern(), path, is_op("add")(None).has_shape(shape))

        assert matches(typed("float32", (1, 4, 6, 6)), expr)
        assert not matches(typed("float16", (1, 4, 6, 6)), expr)
        assert not matches(typed("float32", (1, 4, 6, 7)), expr)


class TestDomination:
    def test_a_user_outside_of_the_region_prevents_a_match(self) -> None:
        conv = conv2d()
        region = diamond()
        inside = relu(conv) + leaky(conv)
        assert matches(is_op("tanh")(region), tanh(inside))
        assert not matches(is_op("subtract")(region, wildcard()), inside - conv)

    def test_users_are_those_below_the_expression_matched(self) -> None:
        conv = conv2d()
        inside = relu(conv) + leaky(conv)
        graph = inside - conv
        assert matches(diamond(), inside)
        assert diamond().partition(graph) is graph

    def test_a_let_inside_is_seen_through_to_its_body(self) -> None:
        conv, v = conv2d(), relay.var("v")
        region = is_op("nn.relu")(wildcard()).dominates(conv_pattern())
        assert matches(region, relu(relay.Let(v, relay.const(1.0), tanh(conv))))
        # a second use of the convolution, as the value of a variable that nothing reads, goes elsewhere
        assert not matches(region, relu(relay.Let(v, conv, tanh(conv))))

    def test_constants_are_no_end_of_a_path(self) -> None:
        region = is_op("nn.relu")(wildcard()).dominates(is_constant(), wildcard())
        assert not matches(region, relu(relay.const(1.0)))


class TestPostDominators:
    def test_every_path_passes_through(self) -> None:
        x = relay.var("x")
        top = relu(x)
        left, right = tanh(top), leaky(top)
        join = left + right
        out = relu(join)
        graph = DataflowGraph(out + relu(x))
        assert graph.dominates(join, top)
        assert graph.dominates(out, top)
        assert not graph.dominates(left, top)
        assert not graph.dominates(join, join)
        assert not graph.dominates(join, x)
        assert graph.dominates(graph.root, x)

    def test_what_no_output_needs_is_dominated_by_nothing(self) -> None:
        v, x = variables("v x")
        value = tanh(x)
        let = relay.Let(v, value, relu(x))
        graph = DataflowGraph(let)
        assert not graph.dominates(let, value)
        assert graph.dominates(v, value)
        assert graph.dominates(let, let.body)

    def test_a_recursive_call_is_no_use_of_the_function_it_calls(self) -> None:
        f, x = variables("f x")
        loop = relay.Function([x], relay.Call(f, [tanh(x)]))
        outer = relay.Call(f, [relay.var("y")])
        graph = DataflowGraph(relay.Let(f, loop, outer))
        assert graph.users[f] == [outer]

"""Sibling products are merged at once: what becomes of small networks."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import extraction, relay, rules
from eqsat.egraph.author import variables
from eqsat.egraph.group_rules import GroupRule
from eqsat.errors import RuleError
from eqsat.relay import nn
from eqsat.relay.expr import Call, Expr, Tuple
from eqsat.relay.interpreter import evaluate
from eqsat.rules.merge import merge


class Launches(extraction.Roofline):
    """A device on which every operator costs its launch; splits are views."""

    def __call__(self, node: Any) -> float:
        return self.device.view if node.op == "split" and node.runs else super().__call__(node)


GPU = Launches("tensorrt")


numbers = count()


def constant(*shape: int) -> Any:
    """Random weights, others every time."""
    rng = np.random.default_rng(next(numbers))
    return relay.const((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"))


def image(channels: int = 4) -> Any:
    return relay.var("x", shape=(1, channels, 6, 6))


def layer(x: Any, channels: int, kernel: int) -> Any:
    conv = nn.conv2d(x, constant(channels, 4, kernel, kernel), padding=kernel // 2)
    return nn.relu(nn.bias_add(conv, constant(channels)))


def merged(body: Expr) -> Any:
    return eqsat.extract(eqsat.saturate(body, [rules.fold, merge]), GPU)


def operators(body: Expr) -> Counter[str]:
    return Counter(node.op.name for node in relay.visitor.post_order(body) if isinstance(node, Call))


def assert_same_values(left: Expr, right: Expr) -> None:
    rng = np.random.default_rng(0)
    inputs = {
        variable.name_hint: rng.standard_normal(variable.type_annotation.concrete_shape).astype("float32")
        for variable in relay.analysis.free_vars(left)
    }
    for one, two in zip(_flat(evaluate(left, inputs)), _flat(evaluate(right, inputs)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def _flat(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def test_sibling_convolutions_become_one_and_their_concatenation_vanishes():
    x = image()
    body = relay.concatenate([layer(x, channels, 1) for channels in (3, 5, 2)], axis=1)
    best = merged(body)
    assert operators(best.expr) == {"nn.conv2d": 1, "nn.bias_add": 1, "nn.relu": 1}
    assert_same_values(body, best.expr)


def test_a_small_kernel_is_enlarged_to_join_a_large_one():
    x = image()
    body = relay.concatenate([layer(x, 8, 1), layer(x, 8, 3)], axis=1)
    best = merged(body)
    assert operators(best.expr) == {"nn.conv2d": 1, "nn.bias_add": 1, "nn.relu": 1}
    assert_same_values(body, best.expr)


@pytest.mark.parametrize("attrs", [{"strides": 2}, {"padding": 0}, {"dilation": 2}])
def test_convolutions_that_differ_otherwise_stay_apart(attrs):
    x, w = image(), (4, 4, 3, 3)
    plain = nn.conv2d(x, constant(*w), padding=1)
    other = nn.conv2d(x, constant(*w), **{"padding": 1, **attrs})
    assert operators(merged(Tuple([plain, other])).expr)["nn.conv2d"] == 2


def test_queries_keys_and_values_are_one_product():
    x = relay.var("x", shape=(5, 8))
    body = Tuple([nn.bias_add(nn.dense(x, constant(8, 8)), constant(8), axis=-1) for _ in range(3)])
    best = merged(body)
    assert operators(best.expr) == {"nn.dense": 1, "nn.bias_add": 1, "split": 1}
    assert_same_values(body, best.expr)


def test_the_gates_of_a_recurrent_cell_are_one_product():
    x, state = relay.var("x", shape=(1, 16)), relay.var("state", shape=(1, 16))
    gates = [nn.dense(x, constant(16, 16)) + nn.dense(state, constant(16, 16)) for _ in range(4)]
    forget, keep, out = map(relay.sigmoid, gates[:3])
    body = out * relay.tanh(forget * state + keep * relay.tanh(gates[3]))
    best = merged(body)
    assert operators(best.expr)["nn.dense"] <= 2
    assert best.cost < 0.8 * best.input_cost
    assert_same_values(body, best.expr)


def test_a_sum_of_convolutions_is_one_of_more_channels():
    left, right = image(), relay.var("y", shape=(1, 4, 6, 6))
    weights = [constant(4, 4, 1, 1) for _ in range(2)]
    body = relay.add(nn.conv2d(left, weights[0]), nn.conv2d(right, weights[1]))
    found = eqsat.saturate(body, [rules.fold, merge])
    assert any(symbol.name == "concatenate" for region in found.regions for symbol in region.snapshot.symbols)
    assert_same_values(body, eqsat.extract(found, _only("concatenate")).expr)


def _only(operator: str) -> Any:
    """A model on which everything but one operator is dear."""
    return lambda node: 0.0 if node.op == operator or not node.runs else 2.0 if node.op == "add" else 1.0


def test_layers_without_anything_between_are_one_layer():
    x = relay.var("x", shape=(3, 8))
    body = x
    for _ in range(4):
        body = nn.dense(body, constant(8, 8))
    best = merged(body)
    assert operators(best.expr) == {"nn.dense": 1}
    assert_same_values(body, best.expr)


def test_e_nodes_grow_linearly_with_the_number_of_siblings():
    sizes = []
    for many in (8, 16, 32):
        x = relay.var("x", shape=(2, 4))
        body = Tuple([nn.dense(x, constant(3, 4)) for _ in range(many)])
        sizes.append(eqsat.saturate(body, [rules.fold, merge]).node_count)
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


x, y = variables("x y")


@pytest.mark.parametrize(
    ("key", "merge_all", "message"),
    [
        (lambda node_map: 1 / 0, lambda node_maps: [], "failed: ZeroDivisionError"),
        (lambda node_map: None, lambda node_maps: [1] * len(node_maps), "return an expression for each match"),
        (lambda node_map: None, lambda node_maps: [node_maps[0][x][0]], "returned 1 results for 2 matches"),
    ],
)
def test_group_rules_that_misbehave_are_named(key, merge_all, message):
    data = relay.var("data", shape=(2, 2))
    body = Tuple([data + relay.var("a", shape=(2, 2)), data + relay.var("b", shape=(2, 2))])
    rule = GroupRule("odd", x + y, shared=(x,), key=key, merge=merge_all)
    with pytest.raises(RuleError, match=f"rule odd.*{message}"):
        eqsat.saturate(body, [rule])

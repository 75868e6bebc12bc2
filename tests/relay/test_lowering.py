"""A graph that goes into an e-graph and out of it again, with no rules in between, is the same graph.

An e-graph has no lets and holds equal parts once: graphs are compared up to that.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from eqsat import relay
from eqsat.egraph.build import build_expr, input_choice
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.lower import lower
from eqsat.egraph.snapshot import take_snapshot
from eqsat.ir import assert_structural_equal, structural_equal, structural_hash
from eqsat.relay.expr import Expr
from eqsat.relay.visitor import post_order, rebuild

from .graphs import exprs, modules_with_matches

X, Y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))


def read_back(root: Expr) -> Expr:
    """``root`` lowered into an e-graph, and the same nodes read out again."""
    egraph = EGraph()
    lowered = lower(egraph, root, {})
    egraph.flush()
    snapshot = take_snapshot(egraph)
    return build_expr(snapshot, input_choice(snapshot, lowered), int(snapshot.handle_class[lowered.root]))


def normal(root: Expr) -> Expr:
    """``root`` without lets, none of which is recursive, and with one node for all that are equal."""
    order = post_order(root)
    bound = {node.var: node.value for node in order if isinstance(node, relay.Let)}
    new: dict[Expr, Expr] = {}
    alike: dict[int, list[Expr]] = {}
    for node in order:
        if isinstance(node, relay.Let):
            new[node] = new[node.body]
        elif node in bound:
            new[node] = new[bound[node]]
        else:
            made = rebuild(node, new)
            others = alike.setdefault(structural_hash(made), [])
            others.append(made)
            new[node] = next(other for other in others if structural_equal(other, made))
    return new[root]


@settings(deadline=None)
@given(exprs())
def test_every_graph_without_effects_is_read_back_as_it_was(graph: Expr) -> None:
    effects = (relay.RefCreate, relay.RefRead, relay.RefWrite)
    assume(not any(isinstance(node, effects) for node in post_order(graph)))
    assert_structural_equal(normal(read_back(graph)), normal(graph))


@settings(deadline=None)
@given(modules_with_matches())
def test_matches_are_read_back_as_they_were(module: relay.IRModule) -> None:
    body = module["function"].body
    assert_structural_equal(normal(read_back(body)), normal(body))


CONV = relay.nn.conv2d(X, Y, strides=2).attrs
PAIRS = {
    "operators with equal attributes": (relay.nn.bias_add(X, Y, axis=1), relay.concatenate([X, Y], axis=1)),
    "schemas of equal values": (relay.Call(X, [Y], CONV), relay.Call(X, [Y], dict(CONV))),
    "type arguments": (relay.Call(X, [Y]), relay.Call(X, [Y], type_args=[relay.TensorType((2, 3))])),
    "attributes and none": (relay.Call(X, [Y], {}), relay.Call(X, [Y])),
    "kinds of numbers": (relay.Call(X, [Y], {"n": 1}), relay.Call(X, [Y], {"n": 1.0})),
    "a dictionary and pairs": (relay.Call(X, [Y], {"n": {"a": 1}}), relay.Call(X, [Y], {"n": (dict, ("a", 1))})),
    "a dictionary and attributes": (
        relay.Call(X, [Y], {"n": {"a": 1}}),
        relay.Call(X, [Y], {"n": relay.attrs.Attrs({"a": 1})}),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_calls_that_differ_in_their_attributes_only_stay_different(pair: tuple[Expr, Expr]) -> None:
    assert not structural_equal(*pair)
    assert_structural_equal(read_back(relay.Tuple(pair)), relay.Tuple(pair))

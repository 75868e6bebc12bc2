"""Random expressions and changed copies of them: what ``equal`` says agrees with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import relay
from eqsat.relay.expr import Call, Constant, Expr, Op
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order, substitute

x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
UNARY = [relay.tanh, relay.nn.relu, relay.negative, relay.sigmoid, lambda a: relay.nn.softmax(a, axis=-1)]
BINARY = [relay.add, relay.subtract, relay.multiply, relay.maximum]
NUMBERS = [0.5, 2.0, -1.0, 0.3]


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    nodes: list[Expr] = [x, y]
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.integers(0, 2))
        operand = draw(st.sampled_from(nodes[-3:]))
        if kind == 0:
            nodes.append(draw(st.sampled_from(UNARY))(operand))
        elif kind == 1:
            nodes.append(draw(st.sampled_from(BINARY))(operand, draw(st.sampled_from(nodes))))
        else:
            nodes.append(operand * relay.const(np.float32(draw(st.sampled_from(NUMBERS)))))
    return nodes[-1]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Expr, Expr]:
    """An expression, and the same with one node changed, which may change nothing of its value."""
    whole = draw(expressions())
    inner = [node for node in post_order(whole) if isinstance(node, (Call, Constant))]
    node = draw(st.sampled_from(inner))
    if isinstance(node, Constant):
        return whole, substitute(whole, {node: relay.const(np.float32(draw(st.sampled_from(NUMBERS))))})
    if isinstance(node.op, Op) and len(node.args) == 2 and draw(st.booleans()):
        return whole, substitute(whole, {node: Call(node.op, node.args[::-1], node.attrs)})
    return whole, substitute(whole, {node: draw(st.sampled_from(UNARY))(node.args[0])})


def values(whole: Expr, seed: int) -> tuple[Any, ...]:
    """What the fields of a tuple are on a random input."""
    random = np.random.default_rng(seed)
    feed = {"x": random.standard_normal((2, 3)), "y": 3 * random.standard_normal((2, 3))}
    bound = relay.Function([x, y], whole)
    found: tuple[Any, ...] = evaluate(bound, {name: array.astype("float32") for name, array in feed.items()})
    return found


def are_near(first: Expr, second: Expr) -> list[bool]:
    """Whether the fields of two tuples agree on several inputs, one by one."""
    sides = [[values(whole, seed) for whole in (first, second)] for seed in range(5)]
    return [
        all(np.allclose(one[place], other[place], rtol=1e-3, atol=1e-4, equal_nan=True) for one, other in sides)
        for place in range(len(sides[0][0]))
    ]


@given(st.lists(pairs(), min_size=25, max_size=25))
@settings(max_examples=4, deadline=None, derandomize=True)
def test_what_is_proved_equal_agrees_and_what_differs_does_not(given: list[tuple[Expr, Expr]]) -> None:
    first, second = [relay.Tuple([pair[side] for pair in given]) for side in (0, 1)]
    found = eqsat.equal(*[relay.Function([x, y], whole) for whole in (first, second)])
    proved = {one: other for one, other in found.partners.items() if one is not other}
    assert all(are_near(relay.Tuple([*proved]), relay.Tuple([*proved.values()])))
    near = are_near(first, second)
    if not all(near):
        assert found.difference is not None
        assert not near[found.difference.output]
        assert found.pairs
    assert eqsat.equal(first, first)

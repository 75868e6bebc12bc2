"""Why patterns do not match: of graphs with one change, the change is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import PatternError
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import (
    DFPattern,
    is_constant,
    is_expr,
    is_if,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    many,
    wildcard,
)
from eqsat.relay.expr import Call, Expr, Op, Tuple, TupleGetItem

X = relay.var("x", shape=(1, 3, 8, 8))
Y = relay.var("y", shape=(1, 4, 8, 8))
V = relay.var("v", shape=(4, 3, 3, 3))
W = relay.const(np.ones((4, 3, 3, 3), "float32"))
BIAS = relay.const(np.ones(4, "float32"))
TWO = relay.const(2.0)


def conv(weight: Expr = W, x: Expr = X, **attrs: object) -> Expr:
    return nn.conv2d(x, weight, **{"padding": (1, 1), **attrs})


CONV = is_op("nn.conv2d")(wildcard(), is_constant())
FUSED = is_op("nn.relu")(is_op("nn.bias_add")(CONV, is_constant()))
SAME = wildcard(label="x")
SPLIT = is_op("split")(wildcard())

CASES: list[tuple[str, DFPattern, Expr, str]] = [
    ("operator", FUSED, relay.sigmoid(nn.bias_add(conv(), BIAS)), "nn.relu is wanted, sigmoid is there"),
    ("inner operator", FUSED, nn.relu(nn.bias_add(nn.relu(X), BIAS)), "nn.conv2d is wanted, nn.relu is there"),
    ("between", FUSED, nn.relu(relay.tanh(conv())), "nn.bias_add is wanted, tanh is there"),
    ("variable weight", FUSED, nn.relu(nn.bias_add(conv(V), BIAS)), "a constant is wanted, the variable %v is there"),
    ("computed weight", CONV, conv(relay.tanh(V)), "a constant is wanted, tanh is there"),
    ("attribute", CONV.has_attr({"groups": 2}), conv(), "groups=2 is wanted, groups=1 is there"),
    ("sequence", CONV.has_attr({"strides": [2, 2]}), conv(), "strides=(2, 2) is wanted, strides=(1, 1) is there"),
    ("two", CONV.has_attr({"groups": 2, "kernel_layout": "HWIO"}), conv(), "groups=2, kernel_layout='HWIO' is wanted"),
    ("no attribute", CONV.has_attr({"colour": 1}), conv(), "colour=1 is wanted, no colour is there"),
    ("operator's attribute", is_op("tanh").has_attr({"TOpPattern": 8})(SAME), relay.tanh(X), "TOpPattern=8 is wanted"),
    ("shape", CONV.has_shape((1, 4, 7, 8)), conv(), "shape (1, 4, 7, 8) is wanted, (1, 4, 8, 8) is there"),
    ("dtype", CONV.has_dtype("float16"), conv(), "dtype float16 is wanted, float32 is there"),
    ("type", CONV.has_type(relay.TensorType((1,), "int8")), conv(), "type Tensor[(1), int8] is wanted"),
    ("inner dtype", is_op("tanh")(wildcard().has_dtype("float16")), relay.tanh(X), "dtype float16 is wanted, float32"),
    ("arguments", is_op("nn.batch_flatten")(SAME, SAME), nn.batch_flatten(X), "of 2 arguments is wanted, one of 1"),
    ("same", SAME * relay.const(1.0) + SAME, X * relay.const(1.0) + Y, "x, which stands in several places"),
    ("value", SAME * is_expr(TWO), X * relay.const(3.0), "2.0 is wanted, the constant 3.0 is there"),
    ("predicate", SAME * is_constant(predicate=lambda a: a == 2), X * relay.const(3.0), "a constant of another value"),
    ("variable", is_op("tanh")(is_var()), relay.tanh(relay.tanh(X)), "a variable is wanted, tanh is there"),
    ("name", is_op("tanh")(is_var("z")), relay.tanh(X), "the variable %z is wanted, the variable %x is there"),
    ("either", is_op("tanh")(is_op("nn.relu")(SAME) | is_op("exp")(SAME)), relay.tanh(relay.sin(X)), "is wanted, sin"),
    ("option", CONV.optional(lambda x: is_op("tanh")(x)), relay.tanh(conv(V)), "a constant is wanted, the variable %v"),
    ("swapped", is_op("add")(CONV, is_constant()), TWO + conv(V), "a constant is wanted, the variable %v is there"),
    ("fields", is_tuple([SAME, SAME]), Tuple([X, X, X]), "2 fields is wanted, 3 fields is there"),
    ("field", is_tuple([is_op("tanh")(SAME), wildcard()]), Tuple([X, X]), "tanh is wanted, the variable %x is there"),
    ("index", is_tuple_get_item(SPLIT, 1), relay.split(X, 3, 1)[2], "field 1 of a tuple is wanted, field 2 of a"),
    ("no tuple", is_tuple_get_item(SPLIT, 1), relay.tanh(X), "field 1 of a tuple is wanted, tanh is there"),
    (
        "repeated",
        is_op("concatenate")(is_tuple([many(is_op("tanh")(wildcard()))])),
        relay.concatenate([relay.tanh(X), relay.sin(X)], 1),
        "tanh is wanted, sin is there",
    ),
    (
        "region",
        is_op("add")(wildcard(), wildcard()).dominates(CONV, is_op("nn.relu")(wildcard())),
        nn.relu(conv()) + relay.sigmoid(conv()),
        "a region from nn.conv2d",
    ),
    ("condition", is_if(is_var("c"), SAME, wildcard()), relay.tanh(X), "a if is wanted, tanh is there"),
    ("callee", wildcard()(SAME, SAME), relay.tanh(X), "a call of 2 arguments is wanted, one of 1"),
]


@pytest.mark.parametrize(("pattern", "expr", "told"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_differs_is_told_and_nothing_else(pattern: DFPattern, expr: Expr, told: str) -> None:
    assert not pattern.match(expr)
    found = pattern.explain(expr)
    assert not found.matches
    (mismatch,) = found.root.mismatches
    assert told in str(mismatch)


def test_a_pattern_that_matches_is_said_to() -> None:
    found = FUSED.explain(nn.relu(nn.bias_add(conv(), BIAS)))
    assert found.matches
    assert str(found) == "the pattern matches"


def test_nearer_places_inside_are_told() -> None:
    graph = relay.tanh(nn.relu(nn.bias_add(conv(V), BIAS)))
    found = FUSED.explain(graph)
    (near,) = found.nearest[:1]
    assert isinstance(near.expr, Call)
    assert near.expr.op is Op.get("nn.relu")
    assert "nearest inside of it" in str(found)
    assert "the variable %v is there" in str(found)


def test_where_a_node_was_written_is_told() -> None:
    call = relay.tanh(X)
    call.span = "line 7"
    assert "(line 7)" in str(is_op("exp")(wildcard()).explain(call))


def test_fields_are_told_by_their_index() -> None:
    told = is_op("tanh")(wildcard()).explain(TupleGetItem(relay.var("t", relay.TupleType([X.type_annotation])), 0))
    assert "tanh is wanted, field 0 of a tuple is there" in str(told)


def test_only_expressions_are_explained() -> None:
    with pytest.raises(PatternError, match="a pattern matches expressions"):
        CONV.explain(3)  # type: ignore[arg-type]


def test_deep_graphs_are_explained_in_linear_time(count_calls: Callable[..., int]) -> None:
    def explain(depth: int) -> None:
        graph: Expr = relay.sin(X)
        for _ in range(depth):
            graph = relay.tanh(graph)
        found = is_op("exp")(is_op("tanh")(wildcard())).explain(graph)
        assert "exp is wanted, tanh is there" in str(found.root)

    assert count_calls(partial(explain, 4000)) < 3 * count_calls(partial(explain, 2000))

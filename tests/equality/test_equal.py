"""``eqsat.equal`` proves graphs equal, finds inputs on which they differ, or says what is left to prove."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.errors import ArgumentError
from eqsat.relay.expr import Expr
from eqsat.rules import Soundness, algebra

x = relay.var("x", shape=(2, 3))
y = relay.var("y", shape=(2, 3))
image = relay.var("image", shape=(1, 4, 3, 3))


def test_a_graph_is_equal_to_itself_by_structure_alone() -> None:
    found = eqsat.equal(relay.nn.relu(x + y), relay.nn.relu(x + y))
    assert found
    assert not found.rules
    assert found.soundness is Soundness.EXACT


def test_a_proof_names_its_rules_and_what_they_keep() -> None:
    product = relay.nn.dense(x, relay.const(np.eye(3, dtype="float32"))) + y
    found = eqsat.equal(product * relay.const(2.0), product + product)
    assert found
    assert "add-itself" in found.rules
    assert str(found).startswith("equal: ")


def test_a_graph_is_equal_to_what_it_is_optimized_to() -> None:
    """Rules name the root of 2 by which they scale both weights; the result holds the scaled weights."""
    numbers = np.random.default_rng(0)
    first, second = (relay.const(numbers.standard_normal(shape).astype("float32")) for shape in ((3, 4), (4, 3)))
    inner = relay.nn.matmul(x, first)
    half, root, one = (relay.const(np.float32(number)) for number in (0.5, 1.4142135, 1.0))
    given = relay.Function([x], relay.nn.matmul(half * inner * (relay.erf(inner / root) + one), second))
    best = eqsat.optimize(given)
    assert "gelu" in str(best)
    found = eqsat.equal(given, best)
    assert found
    assert found.soundness is Soundness.ROUNDING


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (relay.nn.softmax(x), relay.nn.softmax(x, axis=1)),
        (relay.sum(x, axis=[-1, 0]), relay.sum(x)),
        (relay.transpose(x, axes=[-1, 0]), relay.transpose(x)),
        (relay.concatenate([x, y], axis=-1), relay.concatenate([x, y], axis=1)),
        (relay.stack([x, y], axis=-1), relay.stack([x, y], axis=2)),
        (relay.argmax(x, axis=-1), relay.argmax(x, axis=1)),
        (relay.nn.dense(x, y), relay.transpose(relay.nn.dense(y, x))),
        (
            relay.strided_slice(relay.strided_slice(x, begin=[1], end=[2], axes=[0]), begin=[1], end=[99], axes=[1]),
            relay.strided_slice(x, begin=[1, 1], end=[9, 9], axes=[1, 0]),
        ),
        (
            relay.concatenate([-x, y], axis=1) * relay.const(np.arange(1, 7, dtype="float32")),
            relay.concatenate([x, y], axis=1) * relay.const(np.asarray([-1, -2, -3, 4, 5, 6], "float32")),
        ),
        (
            relay.nn.conv2d(image * relay.const(2.0), relay.const(np.ones((4, 2, 1, 1), "float32")), groups=2),
            relay.nn.conv2d(image, relay.const(np.full((4, 2, 1, 1), 2, "float32")), groups=2),
        ),
        (relay.sigmoid(x), relay.tanh(x * relay.const(0.5)) * relay.const(0.5) + relay.const(0.5)),
    ],
)
def test_what_is_spelled_in_another_way_is_equal(first: Expr, second: Expr) -> None:
    assert eqsat.equal(first, second).answer == "equal"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (x - y, y - x),
        (relay.exp(x - y) * x, relay.exp(y - x) * x),
        (relay.sum(x, axis=0), relay.sum(x * relay.const(1.01), axis=0)),
        (relay.log(x), relay.log(relay.abs(x))),
        (relay.power(x, relay.const(2.0)) * y, relay.power(x, relay.const(2.0)) * (y + y)),
    ],
)
def test_graphs_that_differ_do_so_on_the_input_that_is_told(first: Expr, second: Expr) -> None:
    found = eqsat.equal(first, second)
    assert found.answer == "different"
    assert not found
    difference = found.difference
    assert difference is not None
    one, other = (relay.interpreter.evaluate(each, difference.inputs) for each in (first, second))
    np.testing.assert_array_equal(one, difference.results[0])
    np.testing.assert_array_equal(other, difference.results[1])
    assert difference.difference > difference.bound


def test_what_is_equal_only_where_all_values_are_finite_is_told_so() -> None:
    """The sum of exponentials overflows where the logarithm of a softmax does not."""
    found = eqsat.equal(relay.nn.log_softmax(x), relay.log(relay.nn.softmax(x)))
    assert found.answer == "unknown"
    assert found.needed == {"log-of-softmax": Soundness.FINITE}
    assert "where all values are finite on the way, they are equal: by log-of-softmax" in str(found)
    assert eqsat.equal(relay.nn.log_softmax(x), relay.log(relay.nn.softmax(x)), rules.finite).answer == "equal"


def test_the_first_nodes_that_differ_are_told() -> None:
    def graph(inner: Expr) -> Expr:
        return relay.nn.softmax(relay.tanh(inner) + y)

    found = eqsat.equal(graph(relay.sum(x, axis=0)), graph(relay.sum(x, axis=1, keepdims=True)))
    (pair,) = found.pairs
    assert pair.first is not None
    assert pair.second is not None
    assert pair.first.expr.brief(1).startswith("sum")
    assert pair.second.expr.brief(1).startswith("sum")


def test_agreement_without_a_proof_is_unknown() -> None:
    found = eqsat.equal(relay.nn.relu(x) - relay.nn.relu(-x), x, rules=[algebra])
    assert found.answer == "unknown"
    assert "agree on all inputs" in str(found)


def test_a_weight_that_differs_in_its_last_bit_is_not_equal() -> None:
    weight = np.random.default_rng(0).standard_normal((3, 3)).astype("float32")
    changed = weight.copy()
    changed[1, 2] = np.nextafter(changed[1, 2], np.float32(9))
    first, second = [relay.nn.dense(relay.nn.relu(x), relay.const(each)) + y for each in (weight, changed)]
    found = eqsat.equal(first, second)
    assert found.answer != "equal"
    (pair,) = found.pairs
    assert pair.second is not None
    assert pair.second.expr.brief(1).startswith("nn.dense")


def test_graphs_of_one_form_are_compared_before_anything_is_proved() -> None:
    numbers = [np.asarray([0.3, 0.7, each], "float32") for each in (0.1, np.nextafter(np.float32(0.1), 1))]
    changed = eqsat.equal(*[relay.tanh(x * relay.const(each)) for each in numbers])
    assert changed.answer == "unknown"
    assert "in double precision they differ" in changed.reason
    assert "prove" not in changed.seconds
    (pair,) = changed.pairs
    assert pair.second is not None
    assert pair.second.expr.brief(1).startswith("multiply")
    assert "prove" not in eqsat.equal(relay.tanh(x - y) * y, relay.tanh(y - x) * y).seconds
    assert eqsat.equal(x * relay.const(2.0) * relay.const(4.0), x * relay.const(4.0) * relay.const(2.0))


def test_where_a_form_of_a_graph_leaves_something_out_its_next_node_is_told() -> None:
    data = relay.var("data", shape=(2, 5, 8))
    weight, bias = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ((8, 8), (8,))]
    linear = relay.nn.matmul(data, relay.const(weight)) + relay.const(bias)
    dense = relay.nn.dense(relay.reshape(data, newshape=(-1, 8)), relay.const(weight.T.copy()))

    def heads(layer: Expr) -> Expr:
        return relay.tanh(relay.transpose(relay.reshape(layer, newshape=(2, 5, 2, 4)), axes=(0, 2, 1, 3)))

    (pair,) = eqsat.equal(heads(linear), heads(dense)).pairs
    assert pair.first is not None
    assert pair.second is not None
    assert pair.first.expr.brief(1).startswith("add(nn.matmul")
    assert pair.second.expr.brief(1).startswith("reshape(nn.dense")


def test_what_stands_beside_a_large_mask_is_told() -> None:
    mask = np.where(np.tri(3, dtype=bool), 0, -1e9).astype("float32")
    z = relay.var("z", shape=(3, 3))

    def share(scores: Expr) -> Expr:
        return relay.nn.softmax(scores + relay.const(mask))

    found = eqsat.equal(share(relay.tanh(z) * relay.const(0.5)), share(relay.const(0.6) * relay.tanh(z)))
    assert [pair.second.expr.brief(1) for pair in found.pairs if pair.second] == ["multiply(0.6, tanh(...))"]


def test_a_constant_that_another_tool_computed_is_within_rounding() -> None:
    weight = relay.const(np.random.default_rng(0).standard_normal((4, 3)).astype("float32"))
    scale = relay.const(np.float32(0.3))
    folded = relay.const(np.nextafter(weight.data.numpy() * np.float32(0.3), np.float32(9)))
    found = eqsat.equal(relay.nn.dense(x, weight) * scale, relay.nn.dense(x, folded))
    assert found
    assert "constants-within-rounding" in found.rules
    assert found.soundness is Soundness.ROUNDING
    (rounded,) = found.rounded
    assert (rounded.size, rounded.differing) == (12, 12)
    assert "12 of 12 elements" in str(found).splitlines()[1]
    exactly = eqsat.equal(relay.nn.dense(x, weight) * scale, relay.nn.dense(x, folded), exact_constants=True)
    assert exactly.answer == "unknown"


def test_a_constant_that_another_tool_computed_may_be_laid_out_in_another_way() -> None:
    data = relay.var("data", shape=(1, 5, 8))
    weight, scale, bias = [np.random.default_rng(0).standard_normal(n).astype("float32") for n in ((8, 8), 8, 8)]
    first = (relay.nn.matmul(data, relay.const(weight)) + relay.const(bias)) * relay.const(scale)
    dense = relay.nn.dense(relay.reshape(data, newshape=(5, 8)), relay.const((weight * scale).T.copy()))
    second = relay.reshape(relay.nn.bias_add(dense, relay.const(bias * scale)), newshape=(1, 5, 8))
    found = eqsat.equal(first, second, exact_constants=True)
    assert found
    assert not found.rounded


def test_variables_correspond_by_name_by_order_or_as_told() -> None:
    a, b = relay.var("a", shape=(2, 3)), relay.var("b", shape=(2, 3))
    first = relay.Function([x, y], x - y)
    assert eqsat.equal(first, relay.Function([a, b], a - b))
    assert eqsat.equal(first, relay.Function([y, x], x - y))
    assert not eqsat.equal(first, relay.Function([a, b], b - a))
    assert eqsat.equal(first, relay.Function([a, b], b - a), match={"a": "y", "b": "x"})


def test_a_free_variable_of_one_expression_is_an_input_of_both() -> None:
    mine, other = relay.var("mine", shape=(3,)), relay.var("other", shape=(4,))
    with pytest.raises(ArgumentError, match=r"their results differ: .*%mine.*%other.* gives Tensor\[\(4\), float32\]"):
        eqsat.equal(mine, other)
    assert eqsat.equal(mine, relay.nn.relu(relay.var("others", shape=(3,)))).answer == "different"


def test_graphs_of_other_signatures_are_refused_with_both() -> None:
    with pytest.raises(ArgumentError, match=r"results differ: .*2, 3.*3, 2"):
        eqsat.equal(x, relay.transpose(x))
    with pytest.raises(ArgumentError, match=r"variables differ: the first takes \(%x.*the second takes \(%x.*%y"):
        eqsat.equal(relay.Function([x], x), relay.Function([x, y], x + y))
    with pytest.raises(ArgumentError, match="not a variable"):
        eqsat.equal(x, y, match={"z": "x"})


def test_lets_calls_and_modules_are_seen_through() -> None:
    v = relay.var("v")
    assert eqsat.equal(relay.Let(v, x + y, v * v), (x + y) * (x + y))
    module = eqsat.IRModule.from_expr(relay.Function([x, y], relay.nn.relu(x) + y))
    assert eqsat.equal(module, relay.Function([x, y], y + relay.nn.relu(x)))


def test_nothing_is_lost_in_a_deep_graph() -> None:
    def tower(step: Expr) -> Expr:
        for _ in range(5000):
            step = relay.tanh(step)
        return step

    assert eqsat.equal(tower(x + y), tower(x + y))


def test_linear_layers_are_equal_however_they_are_spelled() -> None:
    data = relay.var("data", shape=(2, 5, 3))
    weight, bias = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in ((3, 4), (4,))]
    rows = relay.reshape(data, newshape=(-1, 3))
    dense = relay.nn.dense(rows, relay.const(weight.T.copy()))
    joined = relay.nn.matmul(data, relay.const(np.concatenate([weight, weight], axis=1)))
    first = relay.nn.matmul(data, relay.const(weight)) + relay.const(bias)
    second = relay.reshape(relay.nn.bias_add(dense, relay.const(bias)), newshape=(2, 5, 4))
    third = relay.split(joined, 2, axis=2)[1] + relay.const(np.broadcast_to(bias, (1, 5, 4)).copy())
    assert eqsat.equal(first, second)
    assert eqsat.equal(first, third)


def test_a_graph_may_be_equal_to_a_part_of_the_other() -> None:
    assert eqsat.equal(relay.nn.relu(relay.nn.relu(x + y)), relay.nn.relu(x + y))
    assert eqsat.equal(relay.nn.relu(x + y), relay.nn.relu(relay.nn.relu(x + y)))

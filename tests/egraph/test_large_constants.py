"""Large results of constant expressions, which are computed again when they are asked for."""

import gc

import numpy as np

import eqsat
from eqsat import relay
from eqsat.egraph.large_constants import LargeConstants
from eqsat.nd import NDArray
from eqsat.relay.expr import Op

RANDOM = np.random.default_rng(0)
WEIGHT, SCALE = RANDOM.standard_normal((300, 200)).astype("float32"), RANDOM.standard_normal(200).astype("float32")
ADD, MULTIPLY, DIVIDE, TRANSPOSE = (Op.get(name) for name in ("add", "multiply", "divide", "transpose"))


def data(array: np.ndarray) -> NDArray:
    return relay.const(array).data


def test_they_are_computed_again_and_not_kept() -> None:
    weights = [data(WEIGHT + index) for index in range(400)]
    large = LargeConstants({})
    results = [large.result(TRANSPOSE, None, [weight]).data for weight in weights]
    turned = [large.result(ADD, None, [weight, weight]).data for weight in results]
    gc.collect()
    assert sum(each._seen() is not None for each in turned) < 200
    np.testing.assert_array_equal(turned[0].numpy(), 2 * WEIGHT.T)
    np.testing.assert_array_equal(turned[-1].numpy(), 2 * (WEIGHT + 399).T)


def test_the_order_of_factors_makes_no_difference() -> None:
    large = LargeConstants({})
    weight, scale, other = data(WEIGHT), data(SCALE), data(np.float32(0.3) * np.ones(200, "float32"))
    first = large.result(MULTIPLY, None, [large.result(MULTIPLY, None, [weight, scale]).data, other]).data
    second = large.result(MULTIPLY, None, [large.result(MULTIPLY, None, [weight, other]).data, scale]).data
    wide = WEIGHT.astype("float64") * SCALE * np.float64(np.float32(0.3))
    np.testing.assert_array_equal(first.numpy(), wide.astype("float32"))
    assert first.has_data_of(second)


def test_rounded_factors_are_taken_as_they_were() -> None:
    x = relay.var("x", shape=(2, 300))
    factors = [relay.const(np.float32(each)) for each in (0.3, 0.7)]
    scaled = relay.nn.matmul(x, relay.const(WEIGHT) * factors[0] * factors[1])
    found = eqsat.equal(scaled, relay.nn.matmul(x, relay.const(WEIGHT) * (factors[0] * factors[1])))
    assert found.answer == "equal"


def test_what_is_not_finite_is_computed_as_ever() -> None:
    zeros = data(np.zeros((300, 200), "float32"))
    found = LargeConstants({}).result(DIVIDE, None, [data(WEIGHT), zeros]).data
    np.testing.assert_array_equal(found.numpy(), np.copysign(np.inf, WEIGHT))


def test_deep_results_are_kept() -> None:
    large, one = LargeConstants({}), data(WEIGHT)
    for _ in range(3000):
        one = large.result(TRANSPOSE, None, [one]).data
    np.testing.assert_array_equal(one.numpy(), WEIGHT)


def test_weights_that_differ_in_one_bit_are_two() -> None:
    x, wrong = relay.var("x", shape=(2, 300)), WEIGHT.T.copy()
    wrong[7, 123] = np.nextafter(wrong[7, 123], 9)
    product = relay.nn.matmul(x, relay.const(WEIGHT))
    assert eqsat.equal(product, relay.nn.dense(x, relay.const(WEIGHT.T.copy())))
    assert eqsat.equal(product, relay.nn.dense(x, relay.const(wrong))).answer == "unknown"


def test_zeros_that_are_moved_are_zeros() -> None:
    x, mask = relay.var("x", shape=(2, 3)), relay.var("mask", shape=(1, 3), dtype="bool")
    zeros = relay.broadcast_to(relay.const(np.float32(0)), shape=(2, 3))
    first = relay.where(mask, zeros, relay.tanh(x))
    assert eqsat.equal(first, relay.where(mask, relay.const(np.zeros((2, 3), "float32")), relay.tanh(x)))


def test_a_small_result_of_large_constants_is_known_to_rules() -> None:
    x = relay.var("x", shape=(4,))
    number = relay.max(relay.nn.relu(relay.const(np.ones((64, 64), "float32"))))
    assert eqsat.optimize(x * number, cost_model=eqsat.extraction.OpCount()) == x

"""Chains of operations with constants: saturated, at their optimum, with e-nodes in proportion to their length."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eqsat
from eqsat import relay, rules
from eqsat.egraph.author import distinct, non_constant
from eqsat.egraph.exact_constants import ExactConstants
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.relay.dataflow_pattern import is_constant, is_op, wildcard
from eqsat.relay.interpreter import evaluate
from eqsat.relay.visitor import post_order
from eqsat.rules import rewrite

RNG = np.random.default_rng(5)
FLOATS = RNG.normal(size=200).astype("float32")
ARRAYS = RNG.normal(size=(200, 8)).astype("float32")
SCALES = np.asarray([-1.2, -1.1, -1.0, -0.9, 0.9, 1.0, 1.1, 1.2], dtype="float32")


def number(value: Any) -> Any:
    return relay.const(np.float32(value))


def doubled(x: Any, link: int) -> Any:
    return relay.nn.relu(x * number(2) + number(0))


def shifted(x: Any, link: int) -> Any:
    return x + number(FLOATS[link])


def shifted_by_whole(x: Any, link: int) -> Any:
    return x + number(link + 1)


def scaled_and_shifted(x: Any, link: int) -> Any:
    return x + number(FLOATS[link]) if link % 2 else x * number(1 + abs(FLOATS[link]) / 10)


def by_arrays(x: Any, link: int) -> Any:
    return x + relay.const(ARRAYS[link]) if link % 2 else x * relay.const(ARRAYS[link])


def shifted_and_divided(x: Any, link: int) -> Any:
    return (x + number(0.7)) / number(3)


def parted(x: Any, link: int) -> Any:
    return x * number(0.5) + x * number(0.5 + link / 100)


def subtracted(x: Any, link: int) -> Any:
    return number(FLOATS[link]) - x


def inverted(x: Any, link: int) -> Any:
    return number(2) / x * number(3) * number(5) + number(7) + number(11)


def bounded(x: Any, link: int) -> Any:
    return relay.minimum(relay.maximum(x, number(-link)), number(link + 1))


def doubled_activation(x: Any, link: int) -> Any:
    return relay.nn.relu(x) + relay.nn.relu(x)


def gelu(x: Any, link: int) -> Any:
    return number(0.5) * x * (number(1) + relay.erf(x * number(0.5**0.5)))


def square(x: Any, link: int) -> Any:
    return x * x * number(0.5)


def bounded_by_more(x: Any, link: int) -> Any:
    return relay.maximum(x, number(link))


def leaky_by_choice(x: Any, link: int) -> Any:
    return relay.where(relay.greater(x, number(0)), x, x * number(0.5 + link / 100))


def scaled_leaky(x: Any, link: int) -> Any:
    return relay.nn.leaky_relu(x * number(1.1), alpha=0.1)


def affine_relu(x: Any, link: int) -> Any:
    return relay.nn.relu(x * number(1.1) + number(0.1))


def biased_relu(x: Any, link: int) -> Any:
    return relay.nn.relu(relay.nn.bias_add(x, relay.const(ARRAYS[link]))) * relay.const(abs(ARRAYS[link + 1]))


def chain(link: Callable[[Any, int], Any], length: int) -> Any:
    x = relay.var("x", shape=(4, 8))
    for place in range(length):
        x = link(x, place)
    return x


OPTIMUM = {
    doubled: 2,
    shifted: 1,
    shifted_by_whole: 1,
    scaled_and_shifted: 2,
    by_arrays: 1,  # a batch normalization
    shifted_and_divided: 2,
    parted: 1,
    subtracted: 2,
    inverted: 3 * 30,
    bounded: 1,
    doubled_activation: 2,
    square: 35,  # scalars of many squares would vanish where their products do not
    gelu: 30,  # each an operator
    bounded_by_more: 1,
    leaky_by_choice: 1,
    scaled_leaky: 2,
    affine_relu: 3,
    biased_relu: 2,
}


@pytest.mark.parametrize("link", OPTIMUM, ids=lambda link: link.__name__)
def test_a_chain_reaches_its_optimum_with_few_nodes_a_link(link: Callable[[Any, int], Any]) -> None:
    length = 30
    saturation = eqsat.saturate(chain(link, length))
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 20 * length
    assert eqsat.extract(saturation).cost <= OPTIMUM[link]


def test_nodes_grow_with_the_length_of_a_chain_and_not_faster() -> None:
    counts = [eqsat.saturate(chain(scaled_and_shifted, length)).node_count for length in (20, 40, 80)]
    assert all(longer <= 2.2 * shorter for shorter, longer in pairwise(counts))


def halved_gelu(x: Any, link: int) -> Any:
    return x * ((relay.erf(x * number(0.5**0.5)) + number(1)) * number(0.5))


def shifted_sum(x: Any, link: int) -> Any:
    return (x + number(0.3)) + (x + number(link / 10))


def cube(x: Any, link: int) -> Any:
    return x * x * x * number(0.1)


def quadratic(x: Any, link: int) -> Any:
    return x * x * number(0.1) + x * number(0.5) + number(0.2)


def multiples(x: Any, link: int) -> Any:
    """A sum of two multiples is one, from the start: what it is a factor of is no base."""
    product = x * relay.var(f"z{link}", shape=(4, 8))
    return (product * number(0.5) + product * number(0.25)) * relay.var(f"y{link}", shape=(4, 8)) * number(1.1)


CHAINS = [(halved_gelu, 24), (shifted_sum, 2), (cube, 56), (quadratic, 5 * 24)]


@pytest.mark.parametrize(("link", "cost"), CHAINS)
def test_products_and_sums_of_what_has_constants_have_linearly_many_forms(
    link: Callable[[Any, int], Any], cost: int
) -> None:
    saturation = eqsat.saturate(chain(link, 24))
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 20 * 24
    assert eqsat.extract(saturation).cost <= cost


def test_a_gelu_by_a_quotient_is_recognised_before_constants_meet_in_it() -> None:
    """Else both halves of it would take in what scales and shifts the data."""

    def gelu_of_affine(x: Any, link: int) -> Any:
        y = x * number(1.1) + number(0.1)
        return y * number(0.5) * (number(1) + relay.erf(y / number(2**0.5)))

    saturation = eqsat.saturate(chain(gelu_of_affine, 24))
    assert saturation.node_count <= 10 * 24
    assert eqsat.extract(saturation).cost == 3 * 24


def halves(x: Any, link: int) -> Any:
    return (x + number(0.3)) * number(0.5) + (x + number(link / 10)) * number(0.5)


def twice_and_once(x: Any, link: int) -> Any:
    return (x + number(0.3)) * number(0.75) + x * number(0.5)


def normalized(x: Any, link: int) -> Any:
    return relay.nn.batch_norm(x, *map(relay.const, [*ARRAYS[link : link + 3], abs(ARRAYS[link + 3])]))[0]


def turned(x: Any, link: int) -> Any:
    return relay.transpose(x * number(1.1) + number(0.3), axes=(1, 0)) * number(0.9)


def ramp_of_normalized(x: Any, link: int) -> Any:
    """Scales of either sign, so that bounds are lower ones for some elements, and upper ones for others."""
    return relay.nn.relu(x * relay.const(SCALES) + relay.const(ARRAYS[link]))


def between_arrays(x: Any, link: int) -> Any:
    return relay.minimum(relay.maximum(x, relay.const(ARRAYS[link])), relay.const(ARRAYS[link] + np.float32(link)))


def clipped(x: Any, link: int) -> Any:
    return relay.transpose(relay.clip(number(1) - x * number(1.25), -2.0, 2.0 + link / 100), axes=(1, 0))


def reshaped(x: Any, link: int) -> Any:
    return relay.reshape(x * number(1.01) + number(0.3), ((2, 16), (8, 4), (32,), (4, 8))[link % 4])


def turned_anew(x: Any, link: int) -> Any:
    """Each link moves elements another way, and views stand between transposes."""
    return relay.nn.relu(relay.reshape(relay.transpose(x, axes=(1, 0)), (4, 8)) * number(1.1))


def rolled(x: Any, link: int) -> Any:
    return relay.take(x * number(1.01), relay.const(np.roll(np.arange(8), 1)), axis=1) + number(0.3)


def mirrored(x: Any, link: int) -> Any:
    return relay.reverse(x * number(1.01) + number(0.3), axis=1)


def softmax_of_columns(x: Any, link: int) -> Any:
    columns = relay.transpose(x, axes=(1, 0)) * number(1 + link / 100)
    return relay.transpose(relay.nn.softmax(columns, axis=0), axes=(1, 0))


def chosen(x: Any, link: int) -> Any:
    """A choice by a condition that is known, or by which shift is greater."""
    if link % 2:
        return relay.maximum(x + relay.const(ARRAYS[link]), x + number(FLOATS[link]))
    return relay.where(relay.const(ARRAYS[link] > 0), x * number(1 + abs(FLOATS[link]) / 10), x + number(0.1))


LONG_CHAINS = [
    (reshaped, 2),
    (halves, 1),
    (twice_and_once, 2),
    (normalized, 1),
    (turned, 2),
    (ramp_of_normalized, 3),
    (between_arrays, 2),
    (clipped, 3),
    (doubled_activation, 2),
    (chosen, 1),
    (rolled, 3),
    (mirrored, 2),
    (softmax_of_columns, 2 * 60 - 1),
]


@pytest.mark.parametrize(("link", "cost"), LONG_CHAINS, ids=lambda given: getattr(given, "__name__", None))
def test_a_long_chain_is_composed_in_one_walk(link: Callable[[Any, int], Any], cost: int) -> None:
    saturation = eqsat.saturate(chain(link, 60))
    assert saturation.report.rule("compose-chains").matches
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 9 * 60
    best = eqsat.extract(saturation)
    assert best.cost == cost
    data = RNG.normal(size=(4, 8)).astype("float32")
    given_value = evaluate(chain(link, 60), {"x": data})
    np.testing.assert_allclose(evaluate(best.expr, {"x": data}), given_value, rtol=1e-4, atol=1e-6)


def variable(link: int) -> Any:
    return relay.var(f"z{link}", shape=(4, 8))


def hardswish(x: Any, link: int) -> Any:
    return x * relay.clip(x + number(3), 0.0, 6.0) / number(6)


SCALARS_LEAVE: dict[str, tuple[Callable[[Any, int], Any], int]] = {
    "sums": (lambda x, link: x + variable(link) + number(0.1), 40 + 1),
    "differences": (lambda x, link: number(0.1) - (variable(link) - x), 40 + 1),
    "products": (lambda x, link: x * variable(link) * number(1.01), 40 + 1),
    "quotients": (lambda x, link: x / variable(link) * number(1.01), 40 + 1),
    "scaled sums": (lambda x, link: (x + variable(link)) * number(1.01) + number(0.1), 2 * 40 + 1),
    "polynomials": (quadratic, 5 * 40),
    "powers that are shared": (lambda x, link: (lambda y: y * y + y * number(0.3))(x + number(0.1)), 4 * 40),
    "products of matrices": (
        lambda x, link: relay.nn.matmul(x * number(1.01), relay.var(f"w{link}", shape=(8, 8))),
        40 + 1,
    ),
    "sums that are scaled alike": (
        lambda x, link: x * variable(link) * number(0.9) + x * variable(-link) * number(0.9),
        3 * 40 + 1,
    ),
    "greater ones of what is scaled alike": (
        lambda x, link: relay.maximum(x * number(1.1), variable(link) * number(1.1)),
        2 * 40,
    ),
    "but not gates": (hardswish, 40),
}


@pytest.mark.parametrize("what", SCALARS_LEAVE)
def test_scalars_leave_a_long_chain_of_sums_and_products_in_one_walk(what: str) -> None:
    link, cost = SCALARS_LEAVE[what]
    graph = chain(link, 40)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 12 * 40
    assert saturation.report.rule("shift-outward").matches + saturation.report.rule("scalar-outward").matches < 40
    best = eqsat.extract(saturation)
    assert best.cost == cost
    shapes = {var: var.type_annotation.concrete_shape for var in relay.analysis.free_vars(graph)}
    values = {var: RNG.uniform(0.05, 0.2 + 0.7 / shape[0], shape).astype("float32") for var, shape in shapes.items()}
    np.testing.assert_allclose(evaluate(best.expr, values), evaluate(graph, values), rtol=1e-4)


BOUNDED = [affine_relu, biased_relu, ramp_of_normalized, between_arrays, bounded, doubled]


@pytest.mark.parametrize("link", BOUNDED, ids=lambda link: link.__name__)
def test_a_short_chain_costs_no_more_than_a_long_one(link: Callable[[Any, int], Any]) -> None:
    """Bounds pass scales and shifts, however few there are."""
    longest = eqsat.extract(eqsat.saturate(chain(link, 40))).cost
    for length in (2, 9):
        assert eqsat.extract(eqsat.saturate(chain(link, length))).cost <= longest + (length % 2)


def filter_of(link: int) -> Any:
    return relay.const(ARRAYS[link : link + 18].reshape(4, 4, 3, 3) / np.float32(6))


def convolved(x: Any, link: int) -> Any:
    """A convolution that is shifted, divided and scaled along its channels."""
    shift, scale, factor = (relay.const(ARRAYS[link + i][:4].reshape(4, 1, 1)) for i in range(3))
    return relay.nn.relu((relay.nn.conv2d(x, filter_of(link), padding=(1, 1)) - shift) / (scale * scale) * factor)


def convolved_by_rows(x: Any, link: int) -> Any:
    """The same where channels lie last for a while."""
    shift, scale = (relay.const(ARRAYS[link + i][:4]) for i in range(2))
    rows = relay.transpose(relay.nn.conv2d(x, filter_of(link), padding=(1, 1)), axes=(0, 2, 3, 1))
    return relay.transpose(rows * scale + shift, axes=(0, 3, 1, 2))


@pytest.mark.parametrize(("link", "cost"), [(convolved, 3 * 34), (convolved_by_rows, 2 * 34)])
def test_weights_take_in_what_is_behind_many_products(link: Callable[[Any, int], Any], cost: int) -> None:
    x = graph = relay.var("x", shape=(1, 4, 3, 3))
    for place in range(34):
        graph = link(graph, place)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 17 * 34
    best = eqsat.extract(saturation)
    assert best.cost == cost
    given_value, value = (evaluate(each, {x: np.ones((1, 4, 3, 3), "float32")}) for each in (graph, best.expr))
    np.testing.assert_allclose(value, given_value, rtol=1e-3, atol=1e-3 * abs(given_value).max())


INTEGERS: dict[str, tuple[Callable[[Any, int, str], Any], int]] = {
    "lines": (lambda x, link, dtype: relay.const(link, dtype) - x * relay.const(3, dtype), 2),
    "multiples": (lambda x, link, dtype: x * relay.const(3, dtype) + x * relay.const(link, dtype), 1),
    "bounds": (
        lambda x, link, dtype: relay.minimum(
            relay.maximum(x, relay.const(link, dtype)), relay.const(100 - link, dtype)
        ),
        1,
    ),
    "clips": (lambda x, link, dtype: relay.clip(x, -1000.0, 100.5 - link / 2), 1),
    "bounds of sums": (lambda x, link, dtype: relay.maximum(x + relay.const(9, dtype), relay.const(link, dtype)), 80),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("what", INTEGERS)
def test_chains_of_integers_are_exact(what: str, dtype: str) -> None:
    """Sums and products wrap, so that bounds do not pass them."""
    link, cost = INTEGERS[what]
    x = graph = relay.var("x", shape=(64,), dtype=dtype)
    for place in range(40):
        graph = link(graph, place, dtype)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 5 * 40
    best = eqsat.extract(saturation)
    assert best.cost <= cost
    limits = np.iinfo(dtype)
    data = {x: RNG.integers(limits.min, limits.max, 64, dtype=dtype, endpoint=True)}
    np.testing.assert_array_equal(evaluate(best.expr, data), evaluate(graph, data))


def test_multiples_of_integers_meet_whatever_their_signs() -> None:
    x = relay.var("x", shape=(4, 8), dtype="int32")
    graph = x
    for link in range(12):
        three, two = (relay.const(factor, "int32") for factor in (3, -2 if link % 2 else 2))
        graph = (graph * three + graph * two if link % 2 else graph * three - graph * two) + relay.const(link, "int32")
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    best = eqsat.extract(saturation)
    assert best.cost == 1
    data = RNG.integers(-(2**31), 2**31, (4, 8), dtype="int32")
    np.testing.assert_array_equal(evaluate(best.expr, {"x": data}), evaluate(graph, {"x": data}))


@pytest.mark.parametrize("length", [4, 12])
def test_shifts_leave_short_chains_of_differences(length: int) -> None:
    saturation = eqsat.saturate(chain(lambda x, link: x - variable(link) - number(0.1), length))
    assert saturation.stop_reason == "saturated"
    assert eqsat.extract(saturation).cost == length + 1


def test_one_scalar_is_left_of_sums_of_multiples() -> None:
    saturation = eqsat.saturate(chain(multiples, 10))
    assert saturation.stop_reason == "saturated"
    assert eqsat.extract(saturation).cost == 2 * 10 + 1


def test_a_scale_may_vanish_beside_a_shift_but_does_not_become_0() -> None:
    best = eqsat.extract(eqsat.saturate(chain(shifted_and_divided, 100)))
    assert best.cost == 2
    data = np.resize(np.asarray([np.inf, -np.inf, 1, 1e30], dtype="float32"), (4, 8))
    np.testing.assert_array_equal(
        evaluate(best.expr, {"x": data}), evaluate(chain(shifted_and_divided, 100), {"x": data})
    )


@pytest.mark.parametrize("link", [square, cube], ids=lambda link: link.__name__)
def test_scalars_stay_where_what_they_leave_would_overflow(link: Callable[[Any, int], Any]) -> None:
    graph = chain(link, 30)
    data = np.linspace(-1.99, 1.99, 32, dtype="float32").reshape(4, 8)
    np.testing.assert_allclose(evaluate(eqsat.optimize(graph), {"x": data}), evaluate(graph, {"x": data}), rtol=1e-4)


def test_constants_do_not_meet_where_they_would_overflow_or_vanish() -> None:
    x = relay.var("x", shape=(4, 8))
    for large, small in ((1e30, 1e-30), (1e-30, 1e30)):
        for graph in (x * number(large) * number(large), (x * number(large) + number(1)) * number(large) + number(2)):
            data = np.full((4, 8), small, "float32")
            with np.errstate(over="ignore"):
                best, given_value = evaluate(eqsat.optimize(graph), {"x": data}), evaluate(graph, {"x": data})
            np.testing.assert_allclose(best, given_value, rtol=1e-5)


@pytest.mark.parametrize("link", [shifted_sum, twice_and_once, scaled_and_shifted], ids=lambda link: link.__name__)
def test_rules_find_step_by_step_what_is_composed(link: Callable[[Any, int], Any]) -> None:
    """An explained run has single steps to tell."""
    explained = eqsat.saturate(chain(link, 12), explain=True)
    assert explained.report.rule("compose-chains").matches == 0
    assert eqsat.extract(explained).cost == eqsat.extract(eqsat.saturate(chain(link, 12))).cost


def test_what_else_is_read_of_a_chain_is_composed_for_itself() -> None:
    middle = chain(twice_and_once, 20)
    end = middle
    for place in range(20):
        end = twice_and_once(end, place)
    (x,) = relay.analysis.free_vars(end)
    again = chain(twice_and_once, 20)  # the same e-nodes as the middle, written once more
    graph = relay.Tuple([relay.exp(middle), end, relay.bind(relay.log(again), {relay.analysis.free_vars(again)[0]: x})])
    saturation = eqsat.saturate(graph)
    assert saturation.report.rule("compose-chains").matches
    assert eqsat.extract(saturation).cost == 2 + 2 + 2


def test_matrices_that_are_added_and_subtracted_leave_nothing() -> None:
    x, matrix = relay.var("x", shape=(4, 8)), RNG.normal(size=(4, 8)).astype("float32")
    assert eqsat.extract(eqsat.saturate(relay.tanh(x + relay.const(matrix) + relay.const(-matrix)))).cost == 1


def test_scales_leave_a_ramp_of_a_ramp_once() -> None:
    ramp = relay.clip(relay.var("x", shape=(4, 8)) * number(64) + number(0), 0.0, np.inf)
    saturation = eqsat.saturate(doubled(ramp, 0))
    assert saturation.stop_reason == "saturated"
    assert eqsat.extract(saturation).cost == 2


def test_a_chain_ends_where_its_constants_overflow() -> None:
    def tripled(x: Any, link: int) -> Any:
        return x * number(3)

    saturation = eqsat.saturate(chain(tripled, 160), [rules.ComposeChains(), rules.FoldConstants()])
    best = eqsat.extract(saturation)
    assert best.cost == 2
    np.testing.assert_array_equal(evaluate(best.expr, {"x": np.zeros((4, 8), "float32")}), 0)


def test_what_was_hidden_is_seen_again_once_it_is_the_e_node_that_took_its_place() -> None:
    x = relay.var("x", shape=(4, 8))
    positive = relay.exp(x)
    clipped = relay.clip(
        relay.clip(positive, 0.0, np.inf), 0.0, 6.0
    )  # the inner clip is nothing, as a later rule finds
    saturation = eqsat.saturate(clipped)
    (region,) = saturation.regions
    (root,) = np.flatnonzero(region.snapshot.node_class == region.root)
    assert not region.snapshot.hidden[root]
    assert eqsat.extract(saturation).cost == 2


def test_slices_that_are_written_in_two_ways_are_joined_in_one() -> None:
    x = relay.var("x", shape=(4, 12))
    halves = [relay.strided_slice(x, [0, 6 * half], [4, 6 * half + 6]) for half in range(2)]
    parts = [relay.strided_slice(half, [0, 2 * i], [4, 2 * i + 2]) for half in halves for i in range(3)]
    given = [relay.strided_slice(x, [0, 2 * i], [4, 2 * i + 2]) for i in range(6)]
    saturation = eqsat.saturate(relay.concatenate(given, axis=1) + relay.concatenate(parts, axis=1))
    assert saturation.report.rule("concat-of-slices").matches <= 4
    assert eqsat.extract(saturation).cost == 1


def test_what_a_rule_without_guards_makes_is_matched_before_it_is_hidden() -> None:
    bitwise_or, one, other = relay.op.get("bitwise_or"), is_constant(), is_constant()
    data = wildcard()
    inner = is_op("bitwise_or")(data, one)
    twice = is_op("bitwise_or")(inner, other)
    met = rewrite(
        "or-of-or",
        twice,
        is_op("bitwise_or")(data, is_op("bitwise_or")(one, other)),
        distinct(twice, inner, data),
        non_constant(data),
        contracts=True,
    )
    graph = relay.var("x", shape=(4,), dtype="uint8")
    for link in range(7):
        graph = relay.Call(bitwise_or, [graph, relay.const(np.uint8(1 << link), "uint8")])
    assert eqsat.extract(eqsat.saturate(graph, [met, rules.fold])).cost == 1


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bits_meet(name: str, dtype: str) -> None:
    of = getattr(relay, f"{'logical' if dtype == 'bool' else 'bitwise'}_{name}")
    x = graph = relay.var("x", shape=(4, 8), dtype=dtype)
    for _ in range(11):
        graph = of(graph, relay.const(RNG.integers(0, 256, 8).astype("uint8") & 129, dtype))
    best = eqsat.extract(eqsat.saturate(graph))
    assert best.cost <= 1
    data = {x: RNG.integers(0, 256, (4, 8)).astype(dtype)}
    np.testing.assert_array_equal(evaluate(best.expr, data), evaluate(graph, data))


def test_what_is_elementwise_passes_moves_that_stay() -> None:
    saturation = eqsat.saturate(chain(turned_anew, 40))
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 14 * 40
    assert eqsat.extract(saturation).cost == 2 * 40 + 2


@pytest.mark.parametrize("length", [3, 7])
def test_gathers_of_an_odd_number_are_one_too(length: int) -> None:
    """What one match hides inside of its root may be what another one reads."""
    x = relay.tanh(relay.var("x", shape=(4, 8)))
    for shift in range(length):
        x = relay.take(x, relay.const(np.roll(np.arange(8), shift % 3 + 1)), axis=1)
    assert eqsat.extract(eqsat.saturate(x)).cost == 2


def permuted(x: Any, link: int) -> Any:
    return relay.take(x, relay.const(np.roll(np.arange(8), link)), axis=1) * relay.const(ARRAYS[link])


def mirrored_beside_arrays(x: Any, link: int) -> Any:
    return relay.reverse(x, axis=1) * relay.const(ARRAYS[link]) + relay.const(ARRAYS[link + 1])


def shuffled(x: Any, link: int) -> Any:
    rows = relay.reshape(relay.transpose(relay.reshape(x, (2, 2, 8)), axes=(1, 0, 2)), (4, 8))
    return rows * relay.const(ARRAYS[link][:4, None]) + number(FLOATS[link])


def repeating(x: Any, link: int) -> Any:
    """What takes an element twice lets no constant pass that says something else of each."""
    return relay.take(x, relay.const(np.asarray([0, 0, 1, 2, 3, 4, 5, 6])), axis=1) * relay.const(ARRAYS[link])


@pytest.mark.parametrize(
    ("link", "cost"), [(permuted, 2), (mirrored_beside_arrays, 1), (shuffled, 2), (repeating, 2 * 12)]
)
def test_constants_that_vary_along_what_is_moved_are_laid_out_anew(link: Callable[[Any, int], Any], cost: int) -> None:
    graph = chain(link, 12)
    best = eqsat.extract(eqsat.saturate(graph))
    assert best.cost == cost
    data = RNG.normal(size=(4, 8)).astype("float32")
    np.testing.assert_allclose(evaluate(best.expr, {"x": data}), evaluate(graph, {"x": data}), rtol=1e-4, atol=1e-6)


def gathers(orders: list[list[int]]) -> tuple[Any, list[int]]:
    """Gathers of all columns, one after another, and which columns they give."""
    x, places = relay.tanh(relay.var("x", shape=(2, 4))), np.arange(4)
    for order in orders:
        x, places = relay.take(x, relay.const(np.asarray(order)), axis=1), places[order]
    return x, places.tolist()


@given(st.lists(st.permutations(range(4)), min_size=8, max_size=12))
@settings(max_examples=20, deadline=None)
def test_many_gathers_of_all_places_are_one_or_none(orders: list[list[int]]) -> None:
    x, places = gathers(orders)
    assert eqsat.extract(eqsat.saturate(x)).cost == (1 if places == [0, 1, 2, 3] else 2)


def test_gathers_that_begin_anew_where_others_cancel_are_one() -> None:
    turn, nothing = [2, 0, 1, 3], [0, 1, 2, 3]
    x, _ = gathers([turn, nothing, turn, nothing])
    assert eqsat.extract(eqsat.saturate(x)).cost == 2


def part(x: Any, *ranges: tuple[int, int]) -> Any:
    return relay.strided_slice(x, *map(list, zip(*ranges, strict=True)))


def biased_parts(x: Any, link: int) -> Any:
    """Constants of each part of the columns, which vary along them."""
    parts = [part(x, (0, 4), (4 * j, 4 * j + 4)) for j in range(2)]
    arrays = [relay.const(ARRAYS[link + j][:4]) for j in range(3)]
    return relay.concatenate([relay.nn.relu(each * arrays[j] + arrays[j + 1]) for j, each in enumerate(parts)], axis=1)


def quadrants(x: Any, link: int) -> Any:
    """Parts of both axes, each with a constant of its own."""
    return relay.concatenate(
        [
            relay.concatenate(
                [part(x, (2 * i, 2 * i + 2), (4 * j, 4 * j + 4)) * number(1 + i + j / 10) for j in range(2)], axis=1
            )
            for i in range(2)
        ],
        axis=0,
    )


def rolled_by_parts(x: Any, link: int) -> Any:
    return relay.concatenate([part(x, (0, 4), (3, 8)), part(x, (0, 4), (0, 3))], axis=1) * number(1.1) + number(0.2)


def rolled_by_arrays(x: Any, link: int) -> Any:
    """What varies along the axis of a roll is rolled back, and meets others."""
    rolled = relay.concatenate([part(x, (0, 4), (3, 8)), part(x, (0, 4), (0, 3))], axis=1)
    scale, shift = (relay.const(ARRAYS[link + i][:8] / np.float32(4) + np.float32(1)) for i in range(2))
    return rolled * scale + shift


def rolled_both_ways(x: Any, link: int) -> Any:
    down = relay.concatenate([part(x, (1, 4), (0, 8)), part(x, (0, 1), (0, 8))], axis=0)
    across = relay.concatenate([part(down, (0, 4), (5, 8)), part(down, (0, 4), (0, 5))], axis=1)
    return across * relay.const(abs(ARRAYS[link : link + 4]) + np.float32(0.5))


@pytest.mark.parametrize(
    ("link", "cost"),
    [(biased_parts, 6), (quadrants, 1), (rolled_by_parts, 5), (rolled_by_arrays, 5), (rolled_both_ways, 4)],
)
def test_parts_that_are_joined_again_become_one(link: Callable[[Any, int], Any], cost: int) -> None:
    graph = chain(link, 12)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    best = eqsat.extract(saturation)
    assert best.cost <= cost
    data = RNG.normal(size=(4, 8)).astype("float32")
    np.testing.assert_allclose(evaluate(best.expr, {"x": data}), evaluate(graph, {"x": data}), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("link", [shifted, scaled_and_shifted, by_arrays, subtracted], ids=lambda link: link.__name__)
def test_constants_that_meet_are_rounded_once(link: Callable[[Any, int], Any]) -> None:
    """The result is no further from an evaluation in double precision than the given graph's."""
    given_graph = chain(link, 40)
    best = eqsat.extract(eqsat.saturate(given_graph)).expr
    data = RNG.normal(size=(4, 8)).astype("float32")

    class Wide(relay.ExprMutator):  # type: ignore[misc]
        def visit_constant(self, constant: Any) -> Any:
            return relay.const(constant.data.numpy().astype("float64"))

        def visit_var(self, var: Any) -> Any:
            return wide_input

    wide_input = relay.var("wide", shape=(4, 8), dtype="float64")
    exact = evaluate(Wide().visit(given_graph), {"wide": data.astype("float64")})
    before, after = (np.abs(evaluate(graph, {"x": data}) - exact).max() for graph in (given_graph, best))
    assert after <= before + 4 * np.spacing(np.abs(exact).max().astype("float32"))


@st.composite
def trees(draw: st.DrawFn, operator: Callable[[Any, Any], Any]) -> tuple[Any, int]:
    """A sum or product of variables and scalars in any arrangement, and how many variables it has."""
    parts: list[Any] = [relay.var(f"x{i}", shape=(2, 3)) for i in range(draw(st.integers(1, 4)))]
    count = len(parts)
    scalars = draw(st.lists(st.sampled_from([0.25, 0.5, 2.0, 3.0]), min_size=1, max_size=4))
    places = draw(st.lists(st.integers(0, 100), min_size=len(scalars), max_size=len(scalars)))
    for scalar, place in zip(scalars, places, strict=True):
        parts[place % count] = operator(parts[place % count], number(scalar))
    while len(parts) > 1:
        part = operator(parts.pop(), parts.pop(draw(st.integers(0, len(parts) - 1))))
        parts.append(operator(part, number(4.0)) if draw(st.booleans()) else part)
    return operator(parts[0], number(8.0)), count


@given(st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("operator", [relay.multiply, relay.add], ids=["product", "sum"])
def test_scalars_of_a_product_or_sum_meet_wherever_they_stand(operator: Callable[[Any, Any], Any], data: Any) -> None:
    tree, variables = data.draw(trees(operator))
    saturation = eqsat.saturate(tree)
    assert saturation.stop_reason == "saturated"
    assert eqsat.extract(saturation).cost <= variables


finite = st.floats(-1e6, 1e6, width=32)


@given(st.lists(finite, min_size=3, max_size=6), st.randoms(use_true_random=False))
@example([4.0, 0.5, 2.0**-149], Random(0))
@example([4.0, 0.5, 2.0**-149], Random(1))
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", ["add", "multiply"])
def test_the_order_in_which_constants_meet_makes_no_difference(name: str, values: list[float], random: Any) -> None:
    vocabulary = Vocabulary()
    exact, op = ExactConstants(vocabulary), relay.op.get(name)

    def meet(numbers: list[float]) -> int | None:
        atoms = [vocabulary.constant(number(value)) for value in numbers]
        while len(atoms) > 1:
            first, second = (atoms.pop(random.randrange(len(atoms))) for _ in range(2))
            met = exact.result(op, None, [first, second])
            if met is None or vocabulary.atoms[met].value.data.numpy() == 1:
                return None  # it overflows, or is taken for 1 if it rounds to it
            atoms.append(met)
        return atoms[0]

    orders = [meet(random.sample(values, len(values))) for _ in range(4)]
    assert len({order for order in orders if order is not None}) <= 1


def test_what_cancels_is_gone() -> None:
    vocabulary = Vocabulary()
    exact, add, subtract = ExactConstants(vocabulary), relay.op.get("add"), relay.op.get("subtract")
    large, small = (vocabulary.constant(number(value)) for value in (1e8, 1.0))
    total = exact.result(add, None, [large, small])
    assert total is not None
    assert total != large, "the sum rounds to the large number, but is another"
    assert exact.result(subtract, None, [total, large]) == small


def test_what_is_used_elsewhere_stays_in_sight() -> None:
    """x / 3 is also shown as a product; other uses of it are not touched."""
    x = relay.var("x", shape=(4, 8))
    third = x / number(3)
    result = eqsat.optimize(relay.Tuple([third, relay.exp(third)]))
    assert sum(isinstance(node, relay.Call) for node in post_order(result)) == 2

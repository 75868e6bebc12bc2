"""Runs that are told in another way before rules see them: views, shifts, parts and pools leave them in one walk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.egraph import compile
from eqsat.egraph.join import in_blocks
from eqsat.relay import nn
from eqsat.relay.interpreter import evaluate

RNG = np.random.default_rng(7)


def number(value: float) -> Any:
    return relay.const(np.float32(value))


def array(*shape: int) -> Any:
    return relay.const(RNG.uniform(0.4, 0.9, shape).astype("float32"))


def gelu(x: Any) -> Any:
    return number(0.5) * x * (number(1) + relay.erf(x * number(0.5**0.5)))


def turned(x: Any, link: int) -> Any:
    return gelu(relay.transpose(x, axes=(0, 2, 3, 1)))


def reshaped(x: Any, link: int) -> Any:
    return relay.tanh(relay.reshape(x, ((16, 16), (4, 64), (256,), (1, 4, 8, 8))[link % 4])) + number(0.1)


def turned_and_normalized(x: Any, link: int) -> Any:
    return relay.sigmoid(nn.batch_norm(relay.transpose(x, axes=(0, 1, 3, 2)), *[array(4)] * 4)[0])


def turned_beside_an_array(x: Any, link: int) -> Any:
    return relay.exp(nn.bias_add(relay.transpose(x, axes=(0, 1, 3, 2)), array(8), axis=-1)) * array(8, 1)


def biased_product(x: Any, link: int) -> Any:
    return nn.bias_add(nn.dense(x, array(8, 8)), array(8), axis=-1)


def scaled_product(x: Any, link: int) -> Any:
    return (nn.matmul(x, array(8, 8) * number(0.3)) - array(1, 8)) / array(8)


def parts_of_split(x: Any, link: int) -> Any:
    return relay.concatenate([relay.tanh(part) + number(0.1) for part in relay.split(x, 4, axis=2)], axis=2)


def parts_of_different_scale(x: Any, link: int) -> Any:
    slices = [relay.strided_slice(x, (2 * i,), (2 * i + 2,), axes=(2,)) for i in range(4)]
    return relay.concatenate([part * number(1 + i / 10) for i, part in enumerate(slices)], axis=2)


def pooled_ramp(x: Any, link: int) -> Any:
    return nn.max_pool2d(nn.relu(x * array(4, 1, 1) + number(0.2)), pool_size=(3, 3), padding=(1, 1))


def averaged(x: Any, link: int) -> Any:
    return nn.avg_pool2d(x, pool_size=(3, 3), padding=(1, 1)) * number(1.1) + number(0.3)


LENGTH = 40
RUNS: list[tuple[Callable[[Any, int], Any], int]] = [
    (turned, LENGTH + 1),
    (reshaped, 2 * LENGTH),
    (turned_and_normalized, 2 * LENGTH),
    (turned_beside_an_array, 3 * LENGTH),
    (biased_product, LENGTH + 1),
    (scaled_product, LENGTH + 1),
    (parts_of_split, 2 * LENGTH),
    (parts_of_different_scale, 1),
    (pooled_ramp, LENGTH + 3),
    (averaged, LENGTH + 2),
]


def run(link: Callable[[Any, int], Any], length: int) -> Any:
    x = relay.var("x", shape=(1, 4, 8, 8))
    for place in range(length):
        x = link(x, place)
    return x


@pytest.mark.parametrize(("link", "cost"), RUNS, ids=lambda given: getattr(given, "__name__", None))
def test_a_run_has_few_forms_and_the_least_one_is_found(link: Callable[[Any, int], Any], cost: int) -> None:
    graph = run(link, LENGTH)
    saturation = eqsat.saturate(graph)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count <= 20 * LENGTH
    best = eqsat.extract(saturation)
    assert best.cost <= cost
    data = RNG.normal(size=(1, 4, 8, 8)).astype("float32")
    np.testing.assert_allclose(evaluate(best.expr, {"x": data}), evaluate(graph, {"x": data}), rtol=2e-4, atol=1e-5)


def test_two_products_share_a_bias_however_large_their_weights_are() -> None:
    x = relay.var("x", shape=(2, 64))
    graph = nn.dense(nn.dense(x, array(128, 64)) + array(128), array(64, 128)) + array(64)
    assert eqsat.extract(eqsat.saturate(graph)).cost == 3


def test_what_is_read_elsewhere_stays() -> None:
    """The first product is computed with its bias in any case, so that nothing is won."""
    x = relay.var("x", shape=(2, 8))
    first = nn.dense(x, array(8, 8)) + array(8)
    graph = relay.Tuple([relay.tanh(first), nn.dense(first, array(8, 8)) + array(8)])
    best = eqsat.extract(eqsat.saturate(graph))
    assert best.cost == 5
    data = RNG.normal(size=(2, 8)).astype("float32")
    for one, other in zip(evaluate(best.expr, {"x": data}), evaluate(graph, {"x": data}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_products_of_one_value_stay_siblings() -> None:
    """The shift of what they have in common passes none of them: they may become one product."""
    x = relay.var("x", shape=(2, 8))
    shared = nn.dense(x, array(8, 8)) + array(8)
    graph = relay.Tuple([nn.dense(shared, array(8, 8)) + array(8) for _ in range(3)])
    saturation = eqsat.saturate(graph)
    assert saturation.report.rule("compose-chains").matches == 0


def test_a_window_of_padding_only_is_not_bounded() -> None:
    """The greatest number of no data is minus infinity, which a bound before the pool does not see."""
    graph = relay.var("x", shape=(1, 1, 4))
    for _ in range(40):
        graph = nn.max_pool1d(nn.relu(graph * number(1.1)), 1, padding=(1, 0))
    data = RNG.normal(size=(1, 1, 4)).astype("float32")
    found = evaluate(eqsat.extract(eqsat.saturate(graph)).expr, {"x": data})
    np.testing.assert_allclose(found, evaluate(graph, {"x": data}), rtol=1e-4)


@pytest.mark.parametrize(
    ("product", "scale"),
    [
        (lambda x: nn.dense(x, array(8, 8)), (8,)),
        (lambda x: nn.conv2d(relay.reshape(x, (1, 4, 2, 8)), array(4, 4, 1, 1)), (4, 1, 1)),
    ],
)
def test_a_scale_goes_forward_where_others_read_the_product(product: Callable[[Any], Any], scale: Any) -> None:
    """Scaled for one reader, the first weight would be another one than for the other reader."""
    x = relay.var("x", shape=(4, 8) if len(scale) == 1 else (8, 8))
    first = product(x)
    scaled = first * array(*scale)
    second = nn.dense(scaled, array(8, 8)) if len(scale) == 1 else nn.conv2d(scaled, array(4, 4, 1, 1))
    best = eqsat.extract(eqsat.saturate(relay.Tuple([relay.tanh(first), second])))
    assert sum(isinstance(node, relay.Call) for node in relay.visitor.post_order(best.expr)) == best.cost
    assert best.cost == 3 + (len(scale) > 1)


def test_constants_that_are_too_large_to_be_computed_are_no_runs() -> None:
    x = relay.var("x", shape=(64, 64))
    large = relay.sqrt(relay.transpose(array(64, 64))) * number(2)
    for _ in range(10):
        x = relay.tanh(relay.transpose(x)) + large
    joined = relay.concatenate([part + large for part in (x, x)], axis=0)
    assert eqsat.extract(eqsat.saturate(joined)).optimal


@pytest.mark.parametrize("count", [12, 50, 300])
def test_slices_of_a_tensor_that_are_joined_are_that_tensor(count: int) -> None:
    x = relay.var("x", shape=(2, 2 * count))
    slices = [relay.strided_slice(x, (2 * i,), (2 * i + 2,), axes=(1,)) for i in range(count)]
    assert eqsat.extract(eqsat.saturate(nn.relu(relay.concatenate(slices, axis=1)))).cost == 1


@pytest.mark.parametrize("order", [(3, 0, 1, 2), (2, 2, 0, 1), (1, 0)], ids=str)
def test_parts_of_a_constant_that_are_joined_in_another_order_are_a_constant(order: tuple[int, ...]) -> None:
    """As the gates of a recurrent cell are, whose order is another in each framework."""
    weight, x = array(512, 128), relay.var("x", shape=(2, 128))
    parts = [relay.strided_slice(weight, (128 * i,), (128 * i + 128,), axes=(0,)) for i in order]
    graph = nn.dense(x, relay.concatenate(parts, axis=0))
    found = eqsat.extract(eqsat.saturate(graph))
    assert found.cost == 1
    feed = {"x": RNG.uniform(size=(2, 128)).astype("float32")}
    np.testing.assert_allclose(evaluate(found.expr, feed), evaluate(graph, feed), rtol=1e-5)


def test_rules_match_many_fields_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a join costs the engine grows with the cube of its premises."""
    joined = []

    def counted(egraph: Any, query: Any, premises: Any, used: str) -> list[str]:
        found = in_blocks(egraph, query, premises, used)
        joined.append((len(premises), len(found)))
        return found

    monkeypatch.setattr(compile, "in_blocks", counted)
    x = relay.var("x", shape=(2, 200))
    parts = relay.split(x, 100, axis=1)
    graph = relay.concatenate([nn.relu(parts[i]) for i in reversed(range(100))], axis=1)
    assert eqsat.extract(eqsat.saturate(graph)).cost == 3
    assert joined
    assert all(after < before / 5 for before, after in joined)


def test_fields_of_tuples_that_are_no_splits_begin_no_part() -> None:
    x = relay.var("x", shape=(2, 4))
    pair = relay.Tuple([x, relay.tanh(x)])
    graph = relay.concatenate([relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1)], axis=1)
    assert eqsat.extract(eqsat.saturate(graph)).cost == 2


def test_rules_in_python_see_what_runs_became() -> None:
    """Each class has an expression that they can be given."""
    seen = []

    class Seen(relay.dataflow_pattern.DFPatternCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.pattern = relay.dataflow_pattern.is_op("multiply")(
                relay.dataflow_pattern.wildcard(), relay.dataflow_pattern.wildcard()
            )

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            seen.append(post)
            return post

    eqsat.saturate(run(averaged, LENGTH), [*eqsat.rules.default, Seen()])
    assert seen

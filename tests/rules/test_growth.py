"""The default rules end, whatever constants a graph holds: zeros make classes that equal parts of themselves."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat
from eqsat import relay, rules
from eqsat.relay import nn
from eqsat.relay.expr import Expr

MOST = 450
"""E-nodes; each graph has about ten."""


def array(*shape: int) -> Expr:
    return relay.const(np.random.default_rng(0).uniform(-1, 1, shape).astype("float32"))


def scaled_by_zero() -> Expr:
    image = relay.var("image", shape=(1, 3, 5, 5))
    product = nn.conv2d(image, array(3, 3, 3, 3), padding=1) * relay.const(0.0)
    statistics = [relay.const(np.asarray([0.5, 1.5, 2.5], "float32")) for _ in range(4)]
    return nn.batch_norm(product, *statistics)[0]


def shifted_by_zero() -> Expr:
    matrix = relay.var("matrix", shape=(4, 6))
    return nn.dense(nn.dense(matrix, array(3, 6)) + relay.const(0.0), array(3, 3))


def nothing_scaled() -> Expr:
    matrix = relay.var("matrix", shape=(4, 6))
    nothing = relay.negative(matrix - matrix) * relay.const(-0.3)
    return nothing + nothing


def zero_weights() -> Expr:
    matrix = relay.var("matrix", shape=(4, 6))
    return nn.dense(matrix, relay.const(np.zeros((3, 6), "float32"))) * array(3) * relay.const(-2.0)


def scales_in_a_row() -> Expr:
    matrix = relay.var("matrix", shape=(4, 6))
    for factor in (1.5, -2.5, 0.5, 3.0, -1.0):
        matrix = nn.relu(matrix * relay.const(factor)) + relay.const(factor)
    return matrix


def pooled_normalizations() -> Expr:
    image = relay.var("image", shape=(1, 3, 8, 8))
    for pool in (nn.max_pool2d, nn.avg_pool2d, nn.max_pool2d):
        product = pool(nn.conv2d(image * relay.const(0.5), array(3, 3, 3, 3), padding=1), pool_size=3, padding=1)
        statistics = [relay.const(np.asarray([0.5, 1.5, 2.5], "float32")) for _ in range(4)]
        image = nn.relu(nn.batch_norm(product, *statistics)[0]) * relay.const(3.0)
    return image


def scaled_attention() -> Expr:
    tokens = relay.var("tokens", shape=(1, 6, 8))
    for _ in range(2):
        query, key, value = (nn.dense(tokens * relay.const(0.3), array(8, 8)) for _ in range(3))
        scores = nn.matmul(query * relay.const(0.5), relay.transpose(key, axes=(0, 2, 1))) / relay.const(4.0)
        tokens = nn.matmul(nn.softmax(scores) * relay.const(2.0), value * relay.const(0.0)) + tokens
    return tokens


def linear_attention() -> Expr:
    tokens = relay.var("tokens", shape=(6, 6))
    for factor in (0.5, 3.0, 0.25, 2.0):
        tokens = nn.matmul(tokens * relay.const(factor), tokens) * relay.const(factor)
    return tokens


def zero_biases_too_large_to_fold() -> Expr:
    """A bias of zeros makes a product equal to itself with a bias."""
    wide = nn.matmul(relay.var("matrix", shape=(4, 8)), array(8, 2048)) + relay.const(np.zeros(2048, "float32"))
    gelu = wide * relay.const(0.5) * (relay.const(1.0) + relay.erf(wide / relay.const(1.4142135)))
    return nn.matmul(gelu, array(2048, 8))


def gathered_rows() -> Expr:
    rows = relay.take(array(7, 4), relay.var("index", shape=(5,), dtype="int32"), axis=0)
    for factor in (2.0, 0.0, -1.0):
        rows = nn.relu(rows * relay.const(factor) + array(4))
    return nn.dense(rows, array(4, 4)) * relay.const(0.0)


def shifts_that_cancel() -> Expr:
    length = relay.var("length", shape=(), dtype="int64")
    for shift in (8, -8, 3, 5, -9):
        length = length + relay.const(shift, "int64")
    return length + relay.var("offsets", shape=(3, 4), dtype="int64")


def scales_that_cancel() -> Expr:
    image = relay.var("image", shape=(3, 4))
    for factor in (2.0, 4.0, 0.125, 255.0, 1 / 255.0):
        image = image * relay.const(factor)
    return image * relay.var("mask", shape=(3, 4)) / relay.const(2.0)


def weights_by_their_norm() -> Expr:
    """A weight over its norm, times that norm: what is computed of constants alone rounds again and again."""
    weight = array(32, 4, 64)
    norm = relay.sqrt(relay.sum(weight * weight, axis=(0, 1), keepdims=True))
    return nn.conv1d(relay.var("signal", shape=(1, 4, 90)), weight / norm * norm)


def positions_of_zeros() -> Expr:
    """Positions that were not trained, too large to fold, after a convolution that puts channels last."""
    image = nn.conv2d(relay.var("image", shape=(1, 3, 8, 8)), array(32, 3, 1, 1))
    tokens = relay.transpose(image + array(32, 1, 1), axes=(0, 2, 3, 1))
    tokens = tokens + relay.const(np.zeros((1, 8, 8, 32), "float32"))
    return nn.dense(relay.reshape(nn.layer_norm(tokens, array(32), array(32)), (64, 32)), array(8, 32)) + array(8)


def masks_that_hide_nothing() -> Expr:
    """Zeros of a size that is known when the graph runs: sums and multiples of them are zeros, too."""
    query, key, value = (relay.var(name, shape=(relay.Any("batch"), 4, 6, 8)) for name in ("query", "key", "value"))
    batch = relay.strided_slice(relay.shape_of(query, dtype="int64"), begin=(0,), end=(1,))
    sizes = relay.concatenate([batch, relay.const(np.asarray([1, 6, 6], "int64"), "int64")], axis=0)
    shown = relay.broadcast_to(relay.const(np.ones((1, 1, 6, 1), bool)), sizes)
    mask = relay.where(shown, relay.const(0.0), relay.const(np.finfo("float32").min))
    scores = nn.matmul(query, relay.transpose(key, axes=(0, 1, 3, 2))) * relay.const(0.35)
    return nn.matmul(nn.softmax(scores + mask), value)


GRAPHS = [zero_biases_too_large_to_fold, pooled_normalizations, scaled_attention, linear_attention, gathered_rows]
GRAPHS += [masks_that_hide_nothing, scaled_by_zero, shifted_by_zero, nothing_scaled, zero_weights, scales_in_a_row]
GRAPHS += [shifts_that_cancel, scales_that_cancel, weights_by_their_norm, positions_of_zeros]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_the_default_rules_saturate_in_few_nodes(graph) -> None:
    saturation = eqsat.saturate(graph(), rules.default)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count < MOST


def windows_of_one_head() -> Expr:
    """Attention over windows of which there is one, as the exporter writes it: most axes have one element."""
    x, scale = relay.var("x", shape=(1, 7, 7, 8)), relay.const(0.5)
    windows = relay.transpose(relay.reshape(x, (1, 1, 7, 1, 7, 8)), (0, 1, 3, 2, 4, 5))
    joined = nn.matmul(relay.reshape(windows, (1, 1, 49, 8)), array(8, 24)) + array(24)
    parts = relay.transpose(relay.reshape(joined, (1, 1, 49, 3, 1, 8)), (3, 0, 1, 4, 2, 5))
    taken = [relay.strided_slice(parts, begin=[part], end=[part + 1], axes=[0]) for part in range(3)]
    queries, keys, values = [relay.squeeze(part, axis=[0]) for part in taken]
    scores = nn.softmax(nn.matmul(queries * scale, relay.transpose(keys, (0, 1, 2, 4, 3)) * scale))
    heads = relay.transpose(nn.matmul(scores, values), (0, 1, 3, 2, 4))
    back = relay.transpose(relay.reshape(heads, (1, 1, 1, 7, 7, 8)), (0, 1, 3, 2, 4, 5))
    return x + nn.matmul(relay.reshape(back, (1, 7, 7, 8)), array(8, 8))


def test_axes_of_one_element_are_not_transposed_in_every_order() -> None:
    saturation = eqsat.saturate(windows_of_one_head())
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count < 270  # above 320 if transposes that do the same are different e-nodes


def test_a_product_that_is_transposed_twice_has_the_attributes_of_the_given_one() -> None:
    """Else each form of it would be there twice, and rules would pass the one that says its dtype."""
    matrix = relay.var("matrix", shape=(8, 8))
    for _ in range(6):
        matrix = relay.transpose(nn.matmul(relay.transpose(matrix), array(8, 8)) * relay.const(0.5))
    saturation = eqsat.saturate(matrix)
    assert saturation.node_count <= 36 * 6
    mixed = relay.transpose(
        nn.matmul(
            relay.var("a", shape=(2, 3), dtype="int8"), relay.var("b", shape=(3, 4), dtype="int8"), out_dtype="int32"
        )
    )
    assert eqsat.extract(eqsat.saturate(mixed)).cost == 1


def test_what_is_made_of_joined_weights_is_no_sibling_of_them() -> None:
    """Else the scaled product of two weights would be merged with them, and scaled, and merged, and so on."""
    tokens = relay.var("tokens", shape=(6, 32))
    joined = relay.concatenate([array(32, 32), array(32, 32)], axis=1)
    products = [nn.matmul(tokens, weight) for weight in (array(32, 32), joined * relay.const(0.3))]
    done = eqsat.saturate(relay.Tuple(products), rules.sets["merge"]).report.rules["sibling-matmuls"]
    assert done.updates == 0
    assert "it is merged already" in done.refusals


def test_operands_that_are_data_are_not_searched_for_joined_weights() -> None:
    """Written out as a tree the last operand would have 3**40 nodes."""
    tokens = relay.var("tokens", shape=(8, 8))
    for _ in range(40):
        tokens = nn.matmul(tokens, tokens) + tokens
    assert eqsat.saturate(tokens, rules.merge).stop_reason == "saturated"

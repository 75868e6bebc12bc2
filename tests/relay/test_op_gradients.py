"""Gradients, losses and unusual convolutions against their definitions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from eqsat import relay
from eqsat.errors import TypeCheckError
from eqsat.relay.infer import infer_type

from .test_op_detection import bilinear
from .test_op_reference import RNG, close, computed, normal, reference

# ---- gradients: those of a linear function f at x have the sum <g, f(x)> = <gradient, x>


@pytest.mark.parametrize("groups", [1, 2])
def test_gradient_of_a_convolution_by_its_weight(groups: int) -> None:
    data, weight = normal(2, 4, 7, 8), normal(6, 4 // groups, 3, 2)
    attrs = {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": groups}
    result = computed(relay.nn.conv2d, data, weight, **attrs)
    grad = RNG.normal(size=result.shape).astype("float32")
    found = computed(relay.nn.conv2d_backward_weight, grad, data, **attrs, kernel_size=(3, 2), channels=6)
    assert found.shape == weight.shape
    for _ in range(3):
        weight = normal(*weight.shape)
        result = computed(relay.nn.conv2d, data, weight, **attrs)
        np.testing.assert_allclose((grad * result).sum(), (found * weight).sum(), rtol=1e-3, atol=1e-3)
    last = computed(
        lambda g, x: relay.nn.conv2d_backward_weight(
            g, x, **attrs, kernel_size=(3, 2), grad_layout="NHWC", data_layout="NHWC", kernel_layout="HWIO"
        ),
        grad.transpose(0, 2, 3, 1),
        data.transpose(0, 2, 3, 1),
    )
    close(last.transpose(3, 2, 0, 1), found, 1e-4)


def test_layouts_of_a_weights_gradient_have_the_names_of_relay() -> None:
    grad, data = relay.var("g", shape=(1, 6, 6, 8)), relay.var("x", shape=(1, 4, 8, 8))
    call = relay.nn.conv2d_backward_weight(grad, data, kernel_size=3, grad_layout="NHWC", kernel_layout="OHWI")
    layouts = (call.attrs.data_layout, call.attrs.kernel_layout, call.attrs.out_layout)
    assert layouts == ("NHWC", "NCHW", "OHWI")
    assert infer_type(call).checked_type == relay.TensorType((8, 3, 3, 4))


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("ceil", [False, True])
def test_gradients_of_pools(kind: str, ceil: bool) -> None:
    data = normal(2, 3, 8, 8)
    attrs = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 1, 0), "ceil_mode": ceil}
    pool, gradient = (getattr(relay.nn, f"{kind}_pool2d{end}") for end in ("", "_grad"))
    result = computed(pool, data, **attrs)
    grad = RNG.normal(size=result.shape).astype("float32")
    found = computed(gradient, grad, data, **attrs)
    np.testing.assert_allclose((grad * result).sum(), (found * data).sum(), rtol=1e-3, atol=1e-3)
    if kind == "max":  # each window's gradient goes to one element
        assert np.count_nonzero(found) <= grad.size
        close(found.sum(axis=(2, 3)), grad.sum(axis=(2, 3)), 1e-4)
    last = computed(gradient, grad.transpose(0, 2, 3, 1), data.transpose(0, 2, 3, 1), **attrs, layout="NHWC")
    close(last.transpose(0, 3, 1, 2), found)


def test_of_equal_elements_the_first_is_the_maximum() -> None:
    data, grad = np.ones((1, 1, 2, 2), "float32"), np.full((1, 1, 1, 1), 3, "float32")
    assert computed(relay.nn.max_pool2d_grad, grad, data, pool_size=(2, 2)).tolist() == [[[[3, 0], [0, 0]]]]


# ---- losses


def test_cross_entropies() -> None:
    predictions, targets = RNG.uniform(0.1, 1, (5, 4)).astype("float32"), normal(5, 4)
    expected = np.float32(-(np.log(predictions) * targets).sum(axis=1).mean())
    close(computed(relay.nn.cross_entropy, predictions, targets), expected)
    close(computed(relay.nn.cross_entropy_with_logits, np.log(predictions), targets), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss(reduction: str) -> None:
    predictions, weights = normal(3, 4, 5), np.abs(normal(4))
    targets = RNG.integers(0, 4, (3, 5))
    expected = reference(
        "NegativeLogLikelihoodLoss", [predictions, targets, weights], reduction=reduction, ignore_index=1
    )[0]
    close(computed(relay.nn.nll_loss, predictions, targets, weights, reduction=reduction, ignore_index=1), expected)


def test_a_loss_of_targets_that_are_no_integers() -> None:
    x = relay.var("x", shape=(3, 4))
    with pytest.raises(TypeCheckError, match="targets must be integers, not float32"):
        infer_type(relay.nn.nll_loss(x, relay.var("t", shape=(3,)), relay.var("w", shape=(4,))))


# ---- convolutions


def test_deformable_conv2d_without_moves_is_a_convolution() -> None:
    data, weight = normal(2, 4, 6, 7), normal(6, 2, 3, 2)
    attrs = {"strides": (2, 1), "padding": (1, 1, 0, 1), "dilation": (1, 2), "groups": 2}
    expected = computed(relay.nn.conv2d, data, weight, **attrs)
    still = np.zeros((2, 2 * 2 * 6, *expected.shape[2:]), "float32")
    close(computed(relay.nn.deformable_conv2d, data, still, weight, **attrs, deformable_groups=2), expected, 1e-4)


def test_deformable_conv2d() -> None:
    data, weight, offset = normal(1, 4, 5, 6), normal(2, 4, 2, 2), normal(1, 2 * 2 * 4, 5, 6)
    found = computed(relay.nn.deformable_conv2d, data, offset, weight, padding=(0, 0, 1, 1), deformable_groups=2)
    moves = offset.reshape(2, 2, 2, 2, 5, 6)
    for row, column in product(range(5), range(6)):
        total: Any = np.zeros(2)
        for group, i, j in product(range(2), range(2), range(2)):
            y, x = row + i + moves[group, i, j, 0, row, column], column + j + moves[group, i, j, 1, row, column]
            if 0 <= y < 5 and 0 <= x < 6:
                padded = np.pad(data[0, 2 * group : 2 * group + 2], ((0, 0), (0, 1), (0, 1)))
                total = total + weight[:, 2 * group : 2 * group + 2, i, j] @ bilinear(padded, y, x)
        close(found[0, :, row, column], total.astype("float32"), 1e-4)


@pytest.mark.parametrize("multiply", [True, False])
def test_correlation(multiply: bool) -> None:
    first, second = normal(2, 3, 8, 9), normal(2, 3, 8, 9)
    attrs = {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "padding": (1, 1, 1, 1)}
    found = computed(relay.nn.correlation, first, second, **attrs, is_multiply=multiply, layout="NCHW")
    a, b = (np.pad(each, ((0, 0), (0, 0), (1, 1), (1, 1))) for each in (first, second))
    moves = list(product((-2, 0, 2), repeat=2))
    assert found.shape == (2, 9, 2, 3)
    for channel, row, column in product(range(9), range(2), range(3)):
        y, x = 2 + 2 * row, 2 + 2 * column
        down, right = moves[channel]
        left_patch = a[:, :, y : y + 3, x : x + 3]
        right_patch = b[:, :, y + down : y + down + 3, x + right : x + right + 3]
        parts = left_patch * right_patch if multiply else np.abs(left_patch - right_patch)
        close(found[:, channel, row, column], parts.mean(axis=(1, 2, 3)))


def test_fifo_buffer_keeps_the_last_elements() -> None:
    data, buffer = np.array([[7, 8]], "float32"), np.array([[1, 2, 3]], "float32")
    assert computed(relay.nn.fifo_buffer, data, buffer, axis=1).tolist() == [[3, 7, 8]]
    with pytest.raises(TypeCheckError, match="data has 3 elements along axis 1, the buffer only 2"):
        infer_type(relay.nn.fifo_buffer(relay.var("x", shape=(1, 3)), relay.var("b", shape=(1, 2)), axis=1))


def test_bitpack() -> None:
    data = RNG.integers(0, 4, (2, 16, 3)).astype("int32")
    found = computed(relay.nn.bitpack, data, bits=2, pack_axis=1, bit_axis=3, pack_type="uint8")
    assert (found.shape, found.dtype) == ((2, 2, 3, 2), np.uint8)
    for bit in (0, 1):
        expected = np.packbits((data >> bit & 1).astype("uint8"), axis=1)
        assert np.array_equal(found[..., bit], expected)

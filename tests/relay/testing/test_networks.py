"""Networks of ``relay.testing``: their sizes are the published ones, and they compute what they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat
from eqsat import relay
from eqsat.relay import testing
from eqsat.relay.interpreter import evaluate
from eqsat.relay.testing import bert, dcgan, densenet, inception_v3, lstm, mlp, mobilenet, resnet, squeezenet, vgg


def shapes_of(function: relay.Function) -> dict[str, tuple[int, ...]]:
    typed: Any = testing.run_infer_type(function)
    return {param.name_hint: param.checked_type.concrete_shape for param in typed.params if param.name_hint != "data"}


def trained(function: relay.Function) -> int:
    """How many numbers training finds: statistics are not found by it."""
    shapes = shapes_of(function).items()
    return sum(int(np.prod(shape)) for name, shape in shapes if not name.endswith(("_mean", "_var")))


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (squeezenet.get_net(version="1.0"), 1_248_424),
        (squeezenet.get_net(version="1.1"), 1_235_496),
        (vgg.get_net(num_layers=11), 132_863_336),
        (vgg.get_net(num_layers=19, batch_norm=True), 143_678_248),
        (densenet.get_net(121), 7_978_856),
        (densenet.get_net(169), 14_149_480),
        (mobilenet.get_net(), 4_231_976),
        (mlp.get_net(), 109_386),
        (bert.get_net(length=512), 109_482_240 - 768),  # one segment of the two
    ],
    ids=[
        "squeezenet1.0",
        "squeezenet1.1",
        "vgg11",
        "vgg19_bn",
        "densenet121",
        "densenet169",
        "mobilenet",
        "mlp",
        "bert",
    ],
)
def test_networks_have_the_published_number_of_parameters(function: relay.Function, count: int) -> None:
    assert trained(function) == count


@pytest.mark.parametrize(
    ("function", "convolutions"),
    [
        (resnet.get_net(num_layers=18), 17 + 4),  # of units, and where a stage widens
        (resnet.get_net(num_layers=50), 49 + 4),
        (resnet.get_net(num_layers=20, image_shape=(3, 28, 28)), 19 + 3),
        (resnet.get_net(num_layers=164, image_shape=(3, 28, 28)), 163 + 3),
        (mobilenet.get_net(), 27),
        (mobilenet.mobile_net(is_shallow=True), 17),
        (inception_v3.get_net(), 94),
        (densenet.get_net(201), 200),
    ],
)
def test_networks_have_the_published_number_of_convolutions(function: relay.Function, convolutions: int) -> None:
    assert testing.count_ops(function)["nn.conv2d"] == convolutions


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (resnet.get_net(2, 10, 18, (3, 64, 64)), (2, 10)),
        (inception_v3.get_net(1, 7), (1, 7)),
        (dcgan.get_net(3), (3, 3, 64, 64)),
        (dcgan.get_net(3, layout="NHWC", dtype="float16"), (3, 64, 64, 3)),
        (lstm.get_net(2, 5, 3), (3, 5)),
    ],
)
def test_results_have_the_shape_that_was_asked_for(function: relay.Function, shape: tuple[int, ...]) -> None:
    typed: Any = testing.run_infer_type(function)
    assert typed.ret_type.concrete_shape == shape


@pytest.mark.parametrize(
    ("make", "rank"),
    [
        (lambda layout, shape: resnet.resnet([1, 1], 2, [4, 8, 16], 5, shape, True, layout), 8),
        (lambda layout, shape: resnet.resnet([2], 1, [4, 4], 5, shape, False, layout), 40),
        (lambda layout, shape: mobilenet.mobile_net(5, shape, alpha=0.125, layout=layout), 32),
    ],
    ids=["resnet", "wide images", "mobilenet"],
)
def test_a_network_computes_the_same_in_both_layouts(make: Any, rank: int) -> None:
    image = np.random.default_rng(0).random((2, 3, rank, rank), np.float32)
    module, weights = testing.create_workload(make("NCHW", image.shape))
    expected = evaluate(module["main"].body, {"data": image, **weights})
    last, _ = testing.create_workload(make("NHWC", (2, rank, rank, 3)))
    moved = {}
    for param in last["main"].params:
        if param.name_hint != "data":
            value = weights[param.name_hint].numpy()
            wanted = param.checked_type.concrete_shape
            order = (2, 3, 0, 1) if "depthwise" in param.name_hint else (2, 3, 1, 0)
            moved[param.name_hint] = value.transpose(order) if value.ndim == 4 else value
            assert moved[param.name_hint].shape == wanted
    found = evaluate(last["main"].body, {"data": image.transpose(0, 2, 3, 1), **moved})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_a_cell_computes_what_the_paper_says() -> None:
    rng = np.random.default_rng(0)
    x, h, c = (rng.standard_normal((3, 4), np.float32) for _ in range(3))
    weights = [rng.standard_normal(shape, np.float32) for shape in [(16, 4), (16,), (16, 4), (16,)]]
    cell = lstm.lstm_cell(4, 3)
    values = dict(zip(cell.params, [x, (h, c), *weights], strict=True))
    output, (state, memory) = evaluate(cell.body, values)
    i, f, g, o = np.split(x @ weights[0].T + weights[1] + h @ weights[2].T + weights[3], 4, axis=1)
    sigmoid = lambda value: 1 / (1 + np.exp(-value))  # noqa: E731
    expected = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(memory, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output, sigmoid(o) * np.tanh(expected), rtol=1e-5, atol=1e-6)
    assert np.array_equal(state, output)


def test_what_bert_says_of_a_token_depends_on_all_tokens_of_its_text_and_on_no_other_text() -> None:
    module, weights = bert.get_workload(2, length=3, num_layers=2, hidden=8, heads=2, vocabulary=11)
    tokens = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    states, pooled = evaluate(module["main"].body, {"data": tokens, **weights})
    assert (states.shape, pooled.shape) == ((2, 3, 8), (2, 8))
    tokens[1, 2] = 7
    others, _ = evaluate(module["main"].body, {"data": tokens, **weights})
    np.testing.assert_array_equal(others[0], states[0])
    assert np.all(np.abs(others[1] - states[1]).max(axis=-1) > 0)


def test_a_network_can_be_optimized_and_stays_what_it_is() -> None:
    module, weights = resnet.get_workload(num_layers=8, image_shape=(3, 8, 8), num_classes=4)
    image = np.random.default_rng(0).random((1, 3, 8, 8), np.float32)
    expected = evaluate(module["main"].body, {"data": image, **weights})
    main = eqsat.relay.build_module.bind_params_by_name(module["main"], weights)
    optimized: Any = eqsat.optimize(main)
    found = evaluate(optimized.body, {"data": image})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resnet.get_net(num_layers=19), "no ResNet of 19 layers for images of"),
        (lambda: resnet.get_net(num_layers=21, image_shape=(3, 28, 28)), "use 6n \\+ 2 layers"),
        (lambda: resnet.resnet([1], 2, [1, 2], 10, (1, 3, 8, 8)), "2 stages need as many units"),
        (lambda: resnet.get_net(layout="NCWH"), "no layout of kernels goes with 'NCWH'"),
        (lambda: squeezenet.get_net(version="2"), "there is no SqueezeNet '2': use one of"),
        (lambda: vgg.get_net(num_layers=12), "there is no VGG of 12 layers"),
        (lambda: densenet.get_net(100), "there is no DenseNet of 100 layers"),
        (lambda: dcgan.get_net(oshape=(3, 32, 32)), "DCGAN makes images of 64x64"),
        (lambda: bert.get_net(hidden=10, heads=3), "10 numbers cannot be divided among 3 heads"),
    ],
)
def test_what_a_network_cannot_be_is_said(make: Any, message: str) -> None:
    with pytest.raises(eqsat.EqsatError, match=message):
        make()

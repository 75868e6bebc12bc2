"""The networks of the benchmarks: types, sizes, and totals that are public."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import eqsat

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.models import MODELS
from benchmarks.models.weights import Weight, Weights, parameter_count
from eqsat.ir import assert_structural_equal
from eqsat.relay.expr import Call, Constant
from eqsat.relay.infer import infer_type
from eqsat.relay.ty import TensorType
from eqsat.relay.visitor import post_order


@cache
def network(name: str):
    return MODELS[name]()


def operators(function) -> Counter[str]:
    return Counter(node.op.name for node in post_order(function) if isinstance(node, Call))


def result(function):
    return infer_type(function).checked_type.ret_type


IMAGES = {
    "ResNeXt-50": (1, 2048, 7, 7),
    "NasNet-A": (1, 5120, 7, 7),
    "Inception-v3": (1, 1000),
    "SqueezeNet": (1, 1000),
    "VGG-19": (1, 1000),
    "NasRNN": (1, 512),
}


@pytest.mark.parametrize(("name", "shape"), list(IMAGES.items()))
def test_results_have_the_published_shapes(name, shape):
    assert result(network(name)) == TensorType(shape, "float32")


def test_both_berts_give_what_they_should():
    assert [ty.concrete_shape for ty in result(network("BERT")).fields] == [(64, 1024)] * 9
    assert [ty.concrete_shape for ty in result(network("BERT-base")).fields] == [(128, 768), (1, 768)]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("VGG-19", 143_667_240),
        ("SqueezeNet", 1_248_424),
        ("Inception-v3", 23_817_352),
        ("BERT-base", 109_482_240),
        ("BERT", 8 * 4 * 1024 * 1024),
        ("NasRNN", 5 * 8 * 2 * 512 * 512 + 512),
        ("ResNeXt-50", 22_911_680),  # 25,028,904 with 68,224 for batch norms and 2,049,000 for the classifier
    ],
)
def test_parameters_are_as_many_as_published(name, count):
    assert parameter_count(network(name)) == count


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("VGG-19", {"nn.conv2d": 16, "nn.dense": 3, "nn.max_pool2d": 5}),
        ("SqueezeNet", {"nn.conv2d": 26, "concatenate": 8}),
        ("Inception-v3", {"nn.conv2d": 94, "nn.dense": 1, "concatenate": 11}),
        ("ResNeXt-50", {"nn.conv2d": 53, "add": 16}),
        ("BERT-base", {"nn.dense": 73, "nn.batch_matmul": 24, "nn.layer_norm": 25}),
        ("BERT", {"nn.dense": 32, "nn.batch_matmul": 16}),
        ("NasRNN", {"nn.dense": 80, "add": 55, "multiply": 20}),
        ("NasNet-A", {"concatenate": 18, "nn.avg_pool2d": 51}),
    ],
)
def test_operators_are_as_many_as_published(name, expected):
    found = operators(network(name))
    assert {operator: found[operator] for operator in expected} == expected


def test_weights_are_made_when_they_are_read():
    first, second = Weights()(2, 3), Weight(1, (2, 3))
    assert isinstance(first, Constant)
    assert first.data.digest() == second.digest()
    assert first.data.digest() != Weight(2, (2, 3)).digest()
    np.testing.assert_array_equal(first.data.numpy(), second.numpy())


@pytest.mark.parametrize("name", ["SqueezeNet", "ResNeXt-50"])
def test_without_rules_a_network_comes_back_as_it_was(name):
    assert_structural_equal(eqsat.optimize(network(name), rules=[]), network(name))

"""TENSAT's networks: siblings and gates are merged, values stay, and the gains are at least the published ones.

The limits (15 iterations, 50,000 e-nodes) and the published gains are those of the table in the paper (Yang et al.,
"Equality Saturation for Tensor Graph Superoptimization", MLSys 2021, https://arxiv.org/abs/2101.01332), which
``benchmarks/tensat.py`` holds as ``LIMITS`` and ``PUBLISHED``. Numbers of operators follow from the networks
themselves, as each test says.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import tensat
from models import TENSAT

import eqsat
from eqsat import relay
from eqsat.extraction import Roofline
from eqsat.relay.expr import Call
from eqsat.relay.interpreter import evaluate


def optimized(name: str, rules: Any = tensat.MERGING) -> tuple[Any, Any, Any]:
    """Saturation, network and the best network."""
    network = TENSAT[name]()
    saturation = eqsat.saturate(network, rules, tensat.LIMITS)
    return saturation, network, eqsat.extract(saturation, Roofline("tensorrt"), "exact").expr


def operators(network: Any) -> Counter[str]:
    nodes = relay.visitor.post_order(network)
    return Counter(node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, relay.Op))


def test_the_gates_of_nasrnn_are_merged():
    """Eight gates of a step multiply the same two vectors: 80 products, of which two a step, 10 in all, are needed."""
    _, network, best = optimized("NasRNN")
    assert operators(network)["nn.dense"] == 80
    assert operators(best)["nn.dense"] <= 20
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 512)).astype("float32") for _ in network.params]
    one, two = (evaluate(each, dict(zip(each.params, inputs, strict=True))) for each in (network, best))
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)


def test_the_fires_of_squeezenet_are_merged():
    """A fire module joins two convolutions of the same input; merged into one, they spare the concatenation."""
    _, network, best = optimized("SqueezeNet")
    before, after = operators(network), operators(best)
    assert after["nn.conv2d"] < before["nn.conv2d"]
    assert after["concatenate"] < before["concatenate"]
    assert before["nn.conv2d"] - after["nn.conv2d"] == before["concatenate"] - after["concatenate"]


def test_siblings_of_inception_are_merged():
    """Convolutions with 1x1 kernels of one input: three in each of 3 + 4 + 2 blocks, two in a reduction; 19 go."""
    _, network, best = optimized("Inception-v3")
    assert operators(best)["nn.conv2d"] <= operators(network)["nn.conv2d"] - (2 * (3 + 4 + 2) + 1)


@pytest.mark.parametrize("name", list(TENSAT))
def test_saturation_ends_within_a_tenth_of_the_papers_limit_and_gains_at_least_as_much(name):
    saturation = eqsat.saturate(TENSAT[name](), tensat.BOTH, tensat.LIMITS)
    assert saturation.stop_reason == "saturated"
    assert saturation.node_count < tensat.LIMITS.nodes / 10
    _, gain, _ = tensat.extract(saturation, "exact")
    assert gain >= tensat.PUBLISHED[name].tensat_gain


def test_the_table_shows_published_figures_beside_ours():
    row = tensat.measure("VGG-19", TENSAT["VGG-19"]())
    text = tensat.table([row])
    assert row.exact_gain >= row.greedy_gain >= 0
    assert "VGG-19" in text
    assert text.splitlines()[1].endswith("0.4   8.9 |     8.9   8.9")

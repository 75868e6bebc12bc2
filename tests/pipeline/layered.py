"""Networks of layers that are the same but for their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator, default_rng

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Expr, Function, Tuple

SHAPE = (4, 6)

Weights = dict[int, np.ndarray[Any, Any]]
"""Step of a layer -> its weight there."""

STEPS: dict[str, Callable[[Expr, Expr, Any], Expr]] = {
    "relu": lambda x, other, w: nn.relu(x),
    "tanh": lambda x, other, w: relay.tanh(x),
    "negative": lambda x, other, w: relay.negative(x),
    "sigmoid": lambda x, other, w: relay.sigmoid(x),
    "add": lambda x, other, w: x + other,
    "gate": lambda x, other, w: x * relay.tanh(other),
    "transposed": lambda x, other, w: relay.transpose(nn.relu(relay.transpose(x, [1, 0])), [1, 0]),
    "half": lambda x, other, w: x * relay.const(0.5),
    "one": lambda x, other, w: x * relay.const(1.0),
    "dense": lambda x, other, w: nn.dense(x, relay.const(w)),
    "bias": lambda x, other, w: x + relay.const(w),
    "scale": lambda x, other, w: x * relay.const(w),
    "divide": lambda x, other, w: x / relay.const(w),
    "two biases": lambda x, other, w: (x + relay.const(w)) + relay.const(w * np.float32(0.7)),
    "softmax": lambda x, other, w: nn.softmax(x),
    "shape": lambda x, other, w: relay.reshape(relay.reshape(x, [24]), list(SHAPE)),
}
"""What a layer does with a value, another value and a weight."""

WEIGHTS = {"dense": (6, 6), "bias": (6,), "scale": (6,), "divide": (6,), "two biases": (6,)}
"""The shapes of the weights of steps that have one."""


@dataclass
class Network:
    """A network of layers.

    Args:
        steps: of a layer: name, and how far back the other value is.
        weights: of each layer.
        shared: whether a value from before all layers is mixed in in each.
        own: whether each layer has an input and a result of its own.
    """

    steps: list[tuple[str, int]]
    weights: list[Weights]
    shared: bool = False
    own: bool = False

    def function(self) -> Function:
        """The network: something before its layers, the layers, something after."""
        x = relay.var("x", shape=SHAPE)
        mask = relay.var("mask", shape=SHAPE)
        params = [x, mask]
        beside = relay.tanh(mask)
        value = nn.relu(x)
        results: list[Expr] = []
        for number, weights in enumerate(self.weights):
            pool = [beside] if self.shared else []
            if self.own:
                params.append(relay.var(f"past{number}", shape=SHAPE))
                pool.append(relay.tanh(params[-1]))
            pool.append(value)
            for step, (name, back) in enumerate(self.steps):
                other = pool[max(0, len(pool) - 1 - back)]
                pool.append(STEPS[name](pool[-1], other, weights.get(step)))
            if self.own:
                results.append(pool[-3])
            value = value + pool[-1]
        last = nn.softmax(value * relay.const(2.0))
        return Function(params, Tuple([last, *results]) if results else last)


def weights_of(steps: Sequence[tuple[str, int]], rng: Generator) -> Weights:
    """Weights for a layer: below 1, so that values stay small, and not near 0."""

    def weight(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return (rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape)).astype("f4")

    return {step: weight(WEIGHTS[name]) for step, (name, _) in enumerate(steps) if name in WEIGHTS}


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Networks of six to nine layers."""
    steps = draw(st.lists(st.tuples(st.sampled_from(list(STEPS)), st.integers(1, 5)), min_size=7, max_size=11))
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(6, 9))
    return Network(steps, [weights_of(steps, rng) for _ in range(count)], draw(st.booleans()), draw(st.booleans()))

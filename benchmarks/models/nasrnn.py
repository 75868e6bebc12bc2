"""The recurrent cell found by neural architecture search (Zoph and Le, 2016), five steps as in TASO and TENSAT."""

from __future__ import annotations

from typing import Any

from eqsat import relay
from eqsat.relay import nn
from eqsat.relay.expr import Function

from .weights import Weights, function

STEPS = 5
HIDDEN = 512
GATES = 8


def nasrnn() -> Function:
    """Five inputs (1, 512) to a state (1, 512); every step has weights of its own, as in TENSAT's graph."""
    weight = Weights()
    state: Any = weight(1, HIDDEN)
    for step in range(STEPS):
        state = _cell(weight, relay.var(f"x{step}", shape=(1, HIDDEN)), state)
    return function(state)


def _cell(weight: Weights, x: Any, state: Any) -> Any:
    def gate() -> Any:
        return nn.dense(x, weight(HIDDEN, HIDDEN)) + nn.dense(state, weight(HIDDEN, HIDDEN))

    sigmoid, tanh, relu = relay.sigmoid, relay.tanh, nn.relu
    gates = [gate() for _ in range(GATES)]
    first = relu(gates[0]) + sigmoid(gates[3])
    second = sigmoid(gates[1]) + tanh(gates[2])
    third = sigmoid(gates[4]) * tanh(gates[5])
    fourth = sigmoid(gates[6]) * relu(gates[7])
    fifth = sigmoid(second) + tanh(third)
    sixth = tanh(first) * tanh(fourth)
    return tanh(tanh(fifth) * tanh(sixth))

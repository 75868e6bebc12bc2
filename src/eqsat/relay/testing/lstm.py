"""A recurrent network of long short-term memory cells, unrolled (Hochreiter and Schmidhuber, 1997)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, Var, var
from eqsat.relay.op import sigmoid, split, tanh, zeros
from eqsat.relay.testing.init import workload_of
from eqsat.relay.testing.layers import dense_add_bias, function_of
from eqsat.relay.ty import TensorType, TupleType


def _weights(prefix: str, num_hidden: int, dtype: str) -> list[Var]:
    """Weight and bias of what comes from the input, and of what comes from the state."""
    shapes: dict[str, Sequence[int]] = {"weight": (4 * num_hidden, num_hidden), "bias": (4 * num_hidden,)}
    return [
        var(f"{side}{prefix}_{kind}", shape=shape, dtype=dtype)
        for side in ("i2h", "h2h")
        for kind, shape in shapes.items()
    ]


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """Return a cell: a function of the input, a pair of states, and four weights.

    It gives the output, and the pair of the new states.

    Args:
        num_hidden: The size of a state.
        batch_size: The number of inputs.
        dtype: The element type.
    """
    state = TensorType((batch_size, num_hidden), dtype)
    inputs, states = Var("inputs", state), Var("states", TupleType([state, state]))
    weights = _weights("", num_hidden, dtype)
    seen = dense_add_bias(inputs, weights[0], weights[1], 4 * num_hidden, name="i2h")
    kept = dense_add_bias(TupleGetItem(states, 0), weights[2], weights[3], 4 * num_hidden, name="h2h")
    gates = split(seen + kept, 4, axis=1)
    taken, forgotten, given = (sigmoid(gates[index]) for index in (0, 1, 3))
    memory: Any = forgotten * TupleGetItem(states, 1) + taken * tanh(gates[2])
    output = given * tanh(memory)
    return Function([inputs, states, *weights], Tuple([output, Tuple([output, memory])]))


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """Return a network of cells one after another, each with an input ``data`` of its own.

    Args:
        iterations: The number of cells.
        num_hidden: The size of a state.
        batch_size: The number of inputs of each cell.
        dtype: The element type.
    """
    output: Expr = zeros((batch_size, num_hidden), dtype)
    states: Expr = Tuple([output, output])
    for number in range(iterations):
        data = var("data", shape=(batch_size, num_hidden), dtype=dtype)
        cell = lstm_cell(num_hidden, batch_size, dtype)
        result = Call(cell, [data, states, *_weights(f"_{number}", num_hidden, dtype)])
        output, states = TupleGetItem(result, 0), TupleGetItem(result, 1)
    return function_of(output)


get_workload = workload_of(get_net)

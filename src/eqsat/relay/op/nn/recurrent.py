"""Recurrent networks of one layer, beyond Relay, as ONNX has them: LSTM, GRU and RNN, in one or two directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.expr import TupleWrapper
from eqsat.relay.op.nn.activation import softplus_of
from eqsat.relay.op.op import BuilderOf, Field, OpPattern, define
from eqsat.relay.op.tensor import sigmoid_of
from eqsat.relay.op.types import check_dtype, ranked, size, tensor, unify
from eqsat.relay.ty import Dim, TensorType, TupleType, Type

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": sigmoid_of,
    "Softplus": softplus_of,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanh": np.tanh,
}
"""What the gates may be put through: functions without parameters."""

Activations = Sequence[Callable[[Any], Any]]
Step = Callable[[Any, Any, Sequence[Any], Any, Any, Activations, Any], Sequence[Any]]
"""What becomes of the states in one step, from attributes, the gates' products with the input and both biases, the
states, the recurrent weights, the recurrent biases, the activations, and the peepholes or None."""


def directions(attrs: Any) -> int:
    """The number of directions."""
    return 2 if attrs.direction == BIDIRECTIONAL else 1


def _clipped(attrs: Any, gates: Any) -> Any:
    return gates if attrs.clip is None else np.clip(gates, -attrs.clip, attrs.clip)


def _lstm_step(
    attrs: Any, given: Any, states: Sequence[Any], weight: Any, bias: Any, f: Activations, peepholes: Any
) -> Sequence[Any]:
    hidden, cell = states
    enter, leave, forget, new = np.split(given + hidden @ weight.T + bias, 4, axis=-1)
    into, out, over = (0, 0, 0) if peepholes is None else np.split(peepholes, 3)
    enter = f[0](_clipped(attrs, enter + into * cell))
    forget = 1 - enter if attrs.input_forget else f[0](_clipped(attrs, forget + over * cell))
    cell = forget * cell + enter * f[1](_clipped(attrs, new))
    return [f[0](_clipped(attrs, leave + out * cell)) * f[2](cell), cell]


def _gru_step(
    attrs: Any, given: Any, states: Sequence[Any], weight: Any, bias: Any, f: Activations, peepholes: Any
) -> Sequence[Any]:
    (hidden,) = states
    units = attrs.hidden_size
    gates = _clipped(attrs, given[:, : 2 * units] + hidden @ weight[: 2 * units].T + bias[: 2 * units])
    update, reset = (f[0](gate) for gate in np.split(gates, 2, axis=-1))
    last, last_bias = weight[2 * units :], bias[2 * units :]
    if attrs.linear_before_reset:
        again = reset * (hidden @ last.T + last_bias)
    else:
        again = (reset * hidden) @ last.T + last_bias
    new = f[1](_clipped(attrs, given[:, 2 * units :] + again))
    return [(1 - update) * new + update * hidden]


def _rnn_step(
    attrs: Any, given: Any, states: Sequence[Any], weight: Any, bias: Any, f: Activations, peepholes: Any
) -> Sequence[Any]:
    return [f[0](_clipped(attrs, given + states[0] @ weight.T + bias))]


def _define(
    name: str, gates: int, states: int, activations: Sequence[str], step: Step, *fields: Field
) -> BuilderOf[TupleWrapper]:
    def infer(attrs: Any, args: Sequence[Type]) -> Type:
        looks = attrs.get("peepholes", False)
        count = 4 + attrs.lengths + attrs.states * states + looks
        if len(args) != count:
            raise TypeCheckError(f"needs {count} arguments, not {len(args)}")
        data, weight, recurrent = (ranked(arg, 3, "data and weights") for arg in args[:3])
        bias, units, both = ranked(args[3], 2, "the bias"), attrs.hidden_size, directions(attrs)
        dtype = check_dtype(data, weight, recurrent, bias)
        if not dtype.startswith("float"):
            raise TypeCheckError(f"the numbers must be floating-point, not {dtype}")
        length, batch = data.shape[:2][::-1] if attrs.batch_first else data.shape[:2]
        for ty, wanted in (
            (weight, (both, gates * units, data.shape[2])),
            (recurrent, (both, gates * units, units)),
            (bias, (both, 2 * gates * units)),
        ):
            _check_shape(ty, wanted)
        state: Sequence[Dim] = (batch, both, units) if attrs.batch_first else (both, batch, units)
        if attrs.lengths:
            _check_shape(ranked(args[4], 1, "the lengths"), (batch,))
        if looks:
            _check_shape(ranked(args[-1], 2, "the peepholes"), (both, 3 * units))
            check_dtype(data, tensor(args[-1]))
        for arg in args[4 + attrs.lengths : count - looks]:
            _check_shape(ranked(arg, 3, "a state"), state)
            check_dtype(data, tensor(arg))
        known = attrs.activations
        if len(known) not in (0, both * len(activations)) or not all(each in ACTIVATIONS for each in known):
            raise TypeCheckError(f"activations must be {both * len(activations)} of {sorted(ACTIVATIONS)}")
        whole = (batch, length, both, units) if attrs.batch_first else (length, both, batch, units)
        return TupleType([TensorType(shape, dtype) for shape in (whole, *[state] * states)])

    def kernel(attrs: Any, data: Any, weight: Any, recurrent: Any, bias: Any, *rest: Any) -> Any:
        if attrs.batch_first:
            data = data.swapaxes(0, 1)
        length, batch = data.shape[:2]
        lengths = rest[0].astype(np.int64) if attrs.lengths else np.full(batch, length)
        looks = rest[-1] if attrs.get("peepholes", False) else None
        given_states = rest[attrs.lengths :][: states * attrs.states]
        initial = [state.swapaxes(0, 1) if attrs.batch_first else state for state in given_states]
        both, units = directions(attrs), attrs.hidden_size
        initial = initial or [np.zeros((both, batch, units), data.dtype)] * states
        names = attrs.activations or tuple(activations) * both
        every, last = [], []
        for index in range(both):
            backward = attrs.direction == REVERSE or index == 1
            functions = [ACTIVATIONS[each] for each in names[index * len(activations) :][: len(activations)]]
            ahead, back = np.split(bias[index], 2)
            given = data @ weight[index].T + ahead
            now = [state[index] for state in initial]
            rows = np.zeros((length, batch, units), data.dtype)
            for time in range(length)[:: -1 if backward else 1]:
                looking = None if looks is None else looks[index]
                next_states = step(attrs, given[time], now, recurrent[index], back, functions, looking)
                runs = (time < lengths)[:, None]
                now = [np.where(runs, new, old).astype(data.dtype) for new, old in zip(next_states, now, strict=True)]
                rows[time] = np.where(runs, now[0], 0)
            every.append(rows)
            last.append(now)
        whole = np.stack(every, axis=1)
        ends = [np.stack(each) for each in zip(*last, strict=True)]
        if attrs.batch_first:
            whole, ends = whole.transpose(2, 0, 1, 3), [end.swapaxes(0, 1) for end in ends]
        return (whole, *ends)

    def flops(attrs: Any, args: Sequence[Type], ty: Type) -> float:
        steps = size(tensor(args[0])) / max(_known(tensor(args[0]).shape[2]), 1)
        return 2.0 * steps * (size(tensor(args[1])) + size(tensor(args[2])))

    return define(
        f"nn.{name}",
        None,
        Field("hidden_size", "int"),
        Field("direction", "str", FORWARD, choices=(FORWARD, REVERSE, BIDIRECTIONAL)),
        Field("activations", "any", (), tuple),  # of each direction; none for the usual ones
        Field("clip", "float", None),
        Field("batch_first", "bool", False),
        Field("lengths", "bool", False),  # whether the fifth argument is the number of steps of each sequence
        Field("states", "bool", False),  # whether the last arguments are what the states are at first
        *fields,
        infer=infer,
        kernel=kernel,
        kind=OpPattern.OPAQUE,
        outputs=1 + states,
        flops=flops,
    )


def _known(dim: Dim) -> int:
    return dim if isinstance(dim, int) else 1


def _check_shape(ty: TensorType, wanted: Sequence[Dim]) -> None:
    for dim, want in zip(ty.shape, wanted, strict=True):
        unify(dim, want, "the sizes of data, weights and states:")


lstm = _define(
    "lstm",
    4,
    2,
    ("Sigmoid", "Tanh", "Tanh"),
    _lstm_step,
    Field("input_forget", "bool", False),
    Field("peepholes", "bool", False),  # whether the last argument is what gates see of the cells
)
"""``data weight recurrent bias [lengths] [hidden cell] [peepholes]``: data (S, B, I), or (B, S, I) if ``batch_first``;
gates in ONNX's order. All hidden states (S, D, B, H), or (B, S, D, H), and the last ones (D, B, H), or (B, D, H).
Peepholes (D, 3 H) are those of the input, output and forget gates, in this order."""

gru = _define("gru", 3, 1, ("Sigmoid", "Tanh"), _gru_step, Field("linear_before_reset", "bool", False))
rnn = _define("rnn", 1, 1, ("Tanh",), _rnn_step)

__all__ = ["gru", "lstm", "rnn"]

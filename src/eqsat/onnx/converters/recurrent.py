"""Recurrent networks. The IR has biases in any case, and initial states of all or none."""

from __future__ import annotations

import numpy as np

from eqsat.onnx.converters.source import Declined, Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports, op_name
from eqsat.onnx.zeros import is_zero
from eqsat.relay.expr import Call, Constant, TupleGetItem
from eqsat.relay.op.nn.recurrent import ACTIVATIONS

_NAMES = {"LSTM": "nn.lstm", "GRU": "nn.gru", "RNN": "nn.rnn"}
_TYPES = {name: op_type for op_type, name in _NAMES.items()}
_STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}


@imports(*_NAMES)
def _recurrent(source: Source) -> Result:
    count = _STATES[source.op_type]
    data, weight, recurrent, bias, lengths, *rest = source.optional(3, 8 if count == 2 else 6)
    states, peepholes = rest[:count], rest[count:]
    states = [] if all(state is None or is_zero(state) for state in states) else states
    source.require(None not in states, "it has one of two states")
    directions, rows, _ = source.static_shape(weight)
    units = source.static_shape(recurrent)[2]
    source.require(source.int("hidden_size", units) == units, "hidden_size is not the weights'")
    if bias is None:
        bias = Constant(np.zeros((directions, 2 * rows), source.type(weight).dtype))
    said = {
        "hidden_size": units,
        "direction": source.string("direction", "forward"),
        "activations": _activations(source),
        "clip": source.float("clip"),
        "batch_first": bool(source.int("layout", 0)),
        "lengths": lengths is not None,
        "states": bool(states),
    }
    if source.op_type == "LSTM":
        said["input_forget"] = bool(source.int("input_forget", 0))
        said["peepholes"] = peepholes[0] is not None
    elif source.op_type == "GRU":
        said["linear_before_reset"] = bool(source.int("linear_before_reset", 0))
    given = [data, weight, recurrent, bias, *([] if lengths is None else [lengths]), *states]
    given += [part for part in peepholes if part is not None]
    whole = build(_NAMES[source.op_type], *given, **said)
    return [TupleGetItem(whole, index) for index in range(1 + count)]


def _activations(source: Source) -> tuple[str, ...]:
    """The functions that are named, as ONNX spells them: capitals make no difference."""
    spelled = {name.lower(): name for name in ACTIVATIONS}
    names = source.strings("activations") or ()
    if not all(name.lower() in spelled for name in names):
        raise Declined("its activations have parameters")
    found = tuple([spelled[name.lower()] for name in names])
    usual = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}[source.op_type]
    return () if found in (usual, usual * 2) else found


@exports(*_TYPES)
def _to_recurrent(call: Call, target: Target) -> OnnxNode:
    attrs, op_type = attributes(call), _TYPES[op_name(call)]
    target.require(not attrs.batch_first or target.opset >= 14, call, "batches are not first")
    data, weight, recurrent, bias, *rest = call.args
    has_bias = not (isinstance(bias, Constant) and not bias.data.numpy().any())
    inputs: list[Operand] = [data, weight, recurrent, bias if has_bias else None]
    inputs.append(rest.pop(0) if attrs.lengths else None)
    inputs += [*([] if attrs.states else [None] * _STATES[op_type]), *rest]
    while inputs[-1] is None:
        inputs.pop()
    said = {
        "hidden_size": attrs.hidden_size,
        "direction": None if attrs.direction == "forward" else attrs.direction,
        "activations": list(attrs.activations) or None,
        "clip": attrs.clip,
        "layout": int(attrs.batch_first) or None,
        "input_forget": int(attrs.get("input_forget", False)) or None,
        "linear_before_reset": int(attrs.get("linear_before_reset", False)) or None,
    }
    return OnnxNode(op_type, inputs, said, outputs=1 + _STATES[op_type], optional_outputs=True)

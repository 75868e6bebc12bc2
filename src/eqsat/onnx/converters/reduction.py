"""Reductions. Their axes are an attribute in older opsets and an input in newer ones."""

from __future__ import annotations

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports, op_name
from eqsat.onnx.types import element_type
from eqsat.relay.expr import Call
from eqsat.relay.op.types import axes_indices

_OF_NUMBERS = {"ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}
_OF_FLOATS = {
    "ReduceL1": "norm_l1",
    "ReduceL2": "norm_l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMean": "mean",
    "ReduceSumSquare": "sum_of_squares",
}
_NAMES = {**_OF_NUMBERS, **_OF_FLOATS}
_TYPES = {name: op_type for op_type, name in _NAMES.items()}


@imports(*_NAMES)
def _reduce(source: Source) -> Result:
    data, _ = source.optional(1, 2)
    axes = source.ints("axes")
    keepdims = bool(source.int("keepdims", 1))
    if source.int("noop_with_empty_axes", 0) and not axes:
        return data  # type: ignore[no-any-return]
    dtype = source.type(data).dtype
    source.require(dtype != "bool", "it reduces booleans")
    source.require(source.op_type in _OF_NUMBERS or "int" not in dtype, "it is of integers")
    return build(_NAMES[source.op_type], data, axis=axes or None, keepdims=keepdims)


@exports(*_TYPES)
def _to_reduce(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    axes = axes_indices(attrs.axis, target.rank(data), True) if attrs.exclude else attrs.axis
    said = {} if axes is None else {"axes": target.axes(axes, data)}
    return target.node(_TYPES[op_name(call)], data, {"keepdims": int(attrs.keepdims), **said})


@imports("ArgMax", "ArgMin")
def _arg_reduce(source: Source) -> Result:
    (data,) = source.arguments(1)
    name = "argmax" if source.op_type == "ArgMax" else "argmin"
    last = bool(source.int("select_last_index", 0))
    keepdims = bool(source.int("keepdims", 1))
    found = build(name, data, axis=(source.int("axis", 0),), keepdims=keepdims, select_last_index=last)
    return build("cast", found, dtype="int64")


def arg_node(call: Call, target: Target) -> OnnxNode:
    """ArgMax or ArgMin, whose result is int64."""
    attrs = attributes(call)
    target.require(attrs.axis and len(attrs.axis) == 1 and not attrs.exclude, call, "ONNX searches along one axis")
    said = {"axis": attrs.axis[0], "keepdims": int(attrs.keepdims)}
    if attrs.select_last_index:
        said["select_last_index"] = 1
    return OnnxNode("ArgMax" if op_name(call) == "argmax" else "ArgMin", call.args, said)


@exports("argmax", "argmin")
def _to_arg_reduce(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Cast", [arg_node(call, target)], {"to": element_type("int32").value})

"""Operators along axes: reductions, the largest elements, running sums, triangles, sequences turned round."""

from __future__ import annotations

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, cast, exports, op_name
from eqsat.relay.expr import Call, Constant, Op, TupleGetItem
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
    op_type = _TYPES[op_name(call)]
    axes = axes_indices(attrs.axis, target.rank(data), True) if attrs.exclude else attrs.axis
    if axes is not None and not axes:  # ONNX takes none for all
        each = target.unsqueezed(data, [target.rank(data)])
        return target.node(op_type, each, {"axes": [target.rank(data)], "keepdims": 0})
    said = {} if axes is None else {"axes": target.axes(axes, data)}
    return target.node(op_type, data, {"keepdims": int(attrs.keepdims), **said})


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
    return cast(arg_node(call, target), "int32")


# ---- the largest elements, and running sums


@imports("TopK")
def _topk(source: Source) -> Result:
    data, *count = source.arguments(1 if source.opset < 10 else 2)
    k = count[0] if count else Constant(source.int("k"))
    source.require(source.int("sorted", 1), "what it finds is in no order")
    said = {"axis": source.int("axis", -1), "is_ascend": not source.int("largest", 1), "dtype": "int64"}
    is_known = isinstance(k, Constant) and source.scalar(k)
    found = build("topk", data, k=source.scalar(k), **said) if is_known else build("dyn.topk", data, k, **said)
    return [TupleGetItem(found, index) for index in (0, 1)]


@exports("topk", "dyn.topk")
def _to_topk(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    target.require(attrs.ret_type == "both" and attrs.dtype == "int64", call, "ONNX gives values and int64 indices")
    target.require(not attrs.is_ascend or target.opset >= 11, call, "ONNX finds the largest only")
    said = {"axis": attrs.axis, "largest": 0 if attrs.is_ascend else None}
    if len(call.args) > 1:
        return OnnxNode("TopK", call.args, said, outputs=2)
    count = attrs.k if attrs.k > 0 else target.dims([target.type(data).shape[attrs.axis]])[0]
    if target.opset < 10:
        return OnnxNode("TopK", [data], {**said, "k": count}, outputs=2)
    return OnnxNode("TopK", [data, target.integers([count])], said, outputs=2)


@imports("CumSum", "CumProd")
def _scan(source: Source) -> Result:
    data, axis = source.arguments(2)
    source.require(not source.int("reverse", 0), "it runs backward")
    name = "cumsum" if source.op_type == "CumSum" else "cumprod"
    return build(name, data, axis=source.scalar(axis), exclusive=bool(source.int("exclusive", 0)))


@exports("cumsum", "cumprod")
def _to_scan(call: Call, target: Target) -> OnnxNode:
    attrs, (data,) = attributes(call), call.args
    op_type = "CumSum" if call.op is Op.get("cumsum") else "CumProd"
    target.require(attrs.axis is not None and target.has(op_type), call, f"there is no {op_type} of it")
    summed: Operand = data if attrs.dtype in ("", target.type(data).dtype) else cast(data, attrs.dtype)
    axis = target.integers([attrs.axis]).reshape(())
    return OnnxNode(op_type, [summed, axis], {"exclusive": 1 if attrs.exclusive else None})


# ---- triangles, and sequences turned round


@imports("Trilu")
def _trilu(source: Source) -> Result:
    data, k = source.optional(1, 2)
    diagonal = Constant(0 if k is None else source.scalar(k))
    return build("trilu", data, diagonal, upper=bool(source.int("upper", 1)))


@exports("trilu")
def _to_trilu(call: Call, target: Target) -> OnnxNode:
    data, k = call.args
    if not target.has("Trilu") or not isinstance(k, Constant):
        raise target.unwritable(call, "there is no such triangle")
    diagonal = target.integers([int(k.data.numpy())]).reshape(())
    return OnnxNode("Trilu", [data, diagonal], {"upper": int(attributes(call).upper)})


@imports("ReverseSequence")
def _reverse_sequence(source: Source) -> Result:
    axes = {"seq_axis": source.int("time_axis", 0), "batch_axis": source.int("batch_axis", 1)}
    return build("reverse_sequence", *source.arguments(2), **axes)


@exports("reverse_sequence")
def _to_reverse_sequence(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    return OnnxNode("ReverseSequence", call.args, {"time_axis": attrs.seq_axis, "batch_axis": attrs.batch_axis})

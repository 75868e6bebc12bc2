"""Operators along an order: the largest elements, running sums, triangles, sequences turned round."""

from __future__ import annotations

from typing import Any

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports
from eqsat.onnx.types import element_type
from eqsat.relay.expr import Call, Constant, Op, TupleGetItem

# ---- the largest elements, and running sums


@imports("TopK")
def _topk(source: Source) -> Result:
    data, *count = source.arguments(1 if source.opset < 10 else 2)
    k = count[0] if count else Constant(source.int("k"))
    source.require(source.int("sorted", 1), "what it finds is in no order")
    said = {"axis": source.int("axis", -1), "is_ascend": not source.int("largest", 1), "dtype": "int64"}
    if isinstance(k, Constant) and source.scalar(k):
        found = build("topk", data, k=source.scalar(k), **said)
    else:
        found = build("dyn.topk", data, k, **said)
    return [TupleGetItem(found, index) for index in (0, 1)]


@exports("topk", "dyn.topk")
def _to_topk(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    if attrs.ret_type != "both" or attrs.dtype != "int64":
        raise target.unwritable(call, "ONNX gives values and int64 indices")
    said = {"axis": attrs.axis}
    if attrs.is_ascend and target.opset < 11:
        raise target.unwritable(call, "ONNX finds the largest only")
    if attrs.is_ascend:
        said["largest"] = 0
    if len(call.args) > 1:
        return OnnxNode("TopK", [data, call.args[1]], said, outputs=2)
    return _topk_of_number(call, said, target)


def _topk_of_number(call: Call, said: dict[str, Any], target: Target) -> OnnxNode:
    data, count = call.args[0], attributes(call).k
    if count < 1:
        (count,) = target.dims([target.type(data).shape[attributes(call).axis]])
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
    if attrs.axis is None or not target.has(op_type) or target.opset < 11:
        raise target.unwritable(call, f"there is no {op_type} of it")
    if attrs.dtype and attrs.dtype != target.type(data).dtype:
        data_of: Operand = OnnxNode("Cast", [data], {"to": element_type(attrs.dtype).value})
    else:
        data_of = data
    axis = target.integers([attrs.axis]).reshape(())
    return OnnxNode(op_type, [data_of, axis], {"exclusive": 1 if attrs.exclusive else None})


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

"""Changes of dtype."""

from __future__ import annotations

from eqsat.onnx.spelling.reduction import arg_node
from eqsat.onnx.spelling.source import Result, Source, build, imports
from eqsat.onnx.spelling.target import OnnxNode, Target, attributes, exports
from eqsat.onnx.types import DTYPES, element_type
from eqsat.relay.expr import Call
from eqsat.relay.ty import TensorType


@imports("Cast")
def _cast(source: Source) -> Result:
    source.ignore("saturate", "round_mode")  # both speak of types the IR does not have
    (data,) = source.arguments(1)
    name = DTYPES.get(source.int("to"))
    source.require(name, "its target type is not understood")
    return build("cast", data, dtype=name)


@exports("cast")
def _to_cast(call: Call, target: Target) -> OnnxNode:
    found = target.call(call.args[0], "argmax", "argmin")
    if found is not None and attributes(call).dtype == "int64":
        return arg_node(found, target)  # ONNX finds int64 indices, the IR int32 ones
    return OnnxNode("Cast", call.args, {"to": element_type(attributes(call).dtype).value})


@imports("CastLike")
def _cast_like(source: Source) -> Result:
    source.ignore("saturate", "round_mode")
    data, like = source.arguments(2)
    ty = source.types[like]
    return build("cast", data, dtype=ty.dtype) if isinstance(ty, TensorType) else build("cast_like", data, like)


@exports("cast_like")
def _to_cast_like(call: Call, target: Target) -> OnnxNode:
    if target.has("CastLike"):
        return OnnxNode("CastLike", call.args)
    dtype = target.type(call.args[1]).dtype
    return OnnxNode("Cast", call.args[:1], {"to": element_type(dtype).value})

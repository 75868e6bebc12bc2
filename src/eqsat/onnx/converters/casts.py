"""Changes of dtype."""

from __future__ import annotations

from eqsat.onnx.converters.reduction import arg_node
from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports
from eqsat.onnx.types import DTYPES, OnnxType, element_name, element_type
from eqsat.relay.expr import Call, Expr


@imports("Cast")
def _cast(source: Source) -> Result:
    source.ignore("saturate", "round_mode")  # both speak of types the IR does not have
    (data,) = source.arguments(1)
    name = DTYPES.get(source.int("to"))
    if name is None:
        source.decline("its target type is not understood")
    return _cast_to(name, data, source)


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
    name = element_name(source.types[like])
    return build("cast_like", data, like) if name is None else _cast_to(name, data, source)


def _cast_to(name: str, data: Expr, source: Source) -> Expr:
    """``data`` as elements of ``name``, which it may have already though its rank is not known."""
    ty = source.types[data]
    is_same = isinstance(ty, OnnxType) and element_name(ty) == name
    return data if is_same else build("cast", data, dtype=name)


@exports("cast_like")
def _to_cast_like(call: Call, target: Target) -> OnnxNode:
    if target.has("CastLike"):
        return OnnxNode("CastLike", call.args)
    dtype = target.type(call.args[1]).dtype
    return OnnxNode("Cast", call.args[:1], {"to": element_type(dtype).value})

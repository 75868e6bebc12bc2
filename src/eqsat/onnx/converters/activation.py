"""Activations and the softmax family."""

from __future__ import annotations

from math import inf, pi, prod, sqrt
from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, exports, op_name
from eqsat.relay.expr import Call, Constant
from eqsat.relay.op.nn.activation import GATE_SLOPE
from eqsat.relay.op.types import axis_index

# ---- clip


@imports("Clip")
def _clip(source: Source) -> Result:
    data, *_ = source.optional(1, 3)
    low, high = source.float("min"), source.float("max")
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds:
        return data  # type: ignore[no-any-return]
    source.type(data)  # bounds are written in its dtype
    source.require(all(float(bound) == bound for bound in bounds), "a bound is no float")
    source.require(len(bounds) < 2 or low <= high, "its bounds are in the wrong order")
    return build("clip", data, a_min=-inf if low is None else low, a_max=inf if high is None else high)


@exports("clip")
def _to_clip(call: Call, target: Target) -> OnnxNode:
    attrs, data = attributes(call), call.args[0]
    bounds = [None if bound in (-inf, inf) else bound for bound in (attrs.a_min, attrs.a_max)]
    if target.opset < 11:
        return OnnxNode("Clip", [data], dict(zip(("min", "max"), bounds, strict=True)))
    dtype = np.dtype(target.type(data).dtype)
    return OnnxNode("Clip", [data, *(None if bound is None else _bound(bound, dtype) for bound in bounds)])


def _bound(bound: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        bound = int(min(max(bound, info.min), info.max))
    return np.asarray(bound, dtype)


# ---- relatives of relu


@imports("PRelu")
def _prelu(source: Source) -> Result:
    data, slope = source.arguments(2)
    values, rank = source.array(slope), source.rank(data)
    source.require(rank >= 2 and values.ndim <= rank, "its slope does not run along axis 1")
    padded = (1,) * (rank - values.ndim) + values.shape
    source.require(prod(padded) == padded[1], "its slope does not run along axis 1")
    return build("nn.prelu", data, Constant(values.reshape(-1)), axis=1)


@exports("nn.prelu")
def _to_prelu(call: Call, target: Target) -> OnnxNode:
    data, slope = call.args
    rank = target.rank(data)
    axis = axis_index(attributes(call).axis, rank)
    return OnnxNode("PRelu", [data, target.along_axis(slope, axis, rank)])


@exports("hardswish")
def _to_hardswish(call: Call, target: Target) -> OnnxNode:
    if target.has("HardSwish"):
        return OnnxNode("HardSwish", call.args)
    gate = OnnxNode("HardSigmoid", call.args, {"alpha": 1 / 6, "beta": 0.5})
    return OnnxNode("Mul", [*call.args, gate])


@exports("nn.swish")
def _to_swish(call: Call, target: Target) -> OnnxNode:
    (data,), alpha = call.args, attributes(call).alpha
    if target.has("Swish"):
        return OnnxNode("Swish", [data], {"alpha": alpha})
    scaled = data if alpha == 1 else OnnxNode("Mul", [data, np.asarray(alpha, target.type(data).dtype)])
    return OnnxNode("Mul", [data, OnnxNode("Sigmoid", [scaled])])


@exports("nn.mish")
def _to_mish(call: Call, target: Target) -> OnnxNode:
    if target.has("Mish"):
        return OnnxNode("Mish", call.args)
    return OnnxNode("Mul", [*call.args, OnnxNode("Tanh", [OnnxNode("Softplus", call.args)])])


@exports("nn.gelu")
def _to_gelu(call: Call, target: Target) -> OnnxNode:
    (data,), approximate = call.args, attributes(call).approximate
    if target.has("Gelu"):
        return OnnxNode("Gelu", [data], {"approximate": None if approximate == "none" else approximate})
    dtype = np.dtype(target.type(data).dtype)
    if approximate == "tanh":
        cube = OnnxNode("Mul", [data, OnnxNode("Mul", [data, data])])
        inside = OnnxNode("Add", [data, OnnxNode("Mul", [cube, np.asarray(0.044715, dtype)])])
        odd = OnnxNode("Tanh", [OnnxNode("Mul", [inside, np.asarray(sqrt(2 / pi), dtype)])])
    else:
        odd = OnnxNode("Erf", [OnnxNode("Div", [data, np.asarray(sqrt(2), dtype)])])
    twice = OnnxNode("Mul", [data, OnnxNode("Add", [odd, np.asarray(1, dtype)])])
    return OnnxNode("Mul", [twice, np.asarray(0.5, dtype)])


@exports("nn.gelu_gate")
def _to_gelu_gate(call: Call, target: Target) -> OnnxNode:
    (data,) = call.args
    dtype = np.dtype(target.type(data).dtype)
    if attributes(call).approximate == "tanh":
        slope = OnnxNode("Add", [OnnxNode("Mul", [data, data]), np.asarray(GATE_SLOPE, dtype)])
        return OnnxNode("Mul", [data, OnnxNode("Sigmoid", [OnnxNode("Mul", [data, slope])])])
    return OnnxNode("Mul", [data, OnnxNode("Add", [OnnxNode("Erf", [data]), np.asarray(1, dtype)])])


# ---- softmax


@imports("Softmax", "LogSoftmax")
def _softmax(source: Source) -> Result:
    (data,) = source.arguments(1)
    axis = source.int("axis", 1 if source.opset < 13 else -1)
    if source.opset < 13:
        # all dimensions from the axis on count as one
        shape = source.type(data).shape
        place = axis_index(axis, len(shape))
        source.require(all(dim == 1 for dim in shape[place + 1 :]), "it normalizes over several axes")
    return build("nn.softmax" if source.op_type == "Softmax" else "nn.log_softmax", data, axis=axis)


@exports("nn.softmax", "nn.fast_softmax", "nn.log_softmax")
def _to_softmax(call: Call, target: Target) -> OnnxNode:
    op_type = "LogSoftmax" if op_name(call) == "nn.log_softmax" else "Softmax"
    axis, data = attributes(call).axis, call.args[0]
    if target.opset >= 13:
        return OnnxNode(op_type, [data], {"axis": axis})
    # before, all dimensions from the axis on count as one: move the axis last unless they are 1
    shape = target.type(data).shape
    rank = len(shape)
    place = axis_index(axis, rank)
    if all(dim == 1 for dim in shape[place + 1 :]):
        return OnnxNode(op_type, [data], {"axis": place})
    order = list(range(rank))
    order[place], order[-1] = order[-1], order[place]
    moved = OnnxNode("Transpose", [data], {"perm": order})
    return OnnxNode("Transpose", [OnnxNode(op_type, [moved], {"axis": rank - 1})], {"perm": order})

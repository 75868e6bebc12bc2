"""Operators that make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, attributes, cast, exports, op_name
from eqsat.onnx.types import DTYPES
from eqsat.relay.expr import Call, Constant

_LARGEST_RANGE = 1 << 16


@imports("ConstantOfShape")
def _constant_of_shape(source: Source) -> Result:
    (shape,) = source.arguments(1)
    tensor = source.tensor("value")
    value = np.zeros(1, np.float32) if tensor is None else tensor
    source.require(value.dtype.name in DTYPES.values(), "its dtype is not understood")
    fill = Constant(value.reshape(()))
    if isinstance(shape, Constant):
        return build("full", fill, shape=source.integers(shape), dtype=value.dtype.name)
    return build("dyn.full", fill, shape, dtype=value.dtype.name)


@exports("full", "zeros", "ones")
def _to_full(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    return _filled(call, target.integers(attrs.shape), attrs.dtype, target)


@exports("dyn.full", "dyn.zeros", "dyn.ones")
def _to_dynamic_full(call: Call, target: Target) -> OnnxNode:
    return _filled(call, call.args[-1], attributes(call).dtype, target)


def _filled(call: Call, shape: Any, dtype: str, target: Target) -> OnnxNode:
    name = op_name(call).rpartition(".")[2]
    if name != "full":
        return OnnxNode("ConstantOfShape", [shape], {"value": np.full(1, name == "ones", dtype)})
    value = call.args[0]
    dtype = dtype or target.type(value).dtype
    if isinstance(value, Constant):
        return OnnxNode("ConstantOfShape", [shape], {"value": value.data.numpy().astype(dtype).reshape(1)})
    filled = value if target.type(value).dtype == dtype else cast(value, dtype)
    return OnnxNode("Expand", [filled, shape])


@exports("full_like", "zeros_like", "ones_like")
def _to_full_like(call: Call, target: Target) -> OnnxNode:
    name = op_name(call)
    value: Any = call.args[1] if name == "full_like" else np.asarray(name == "ones_like", target.type(call).dtype)
    return OnnxNode("Expand", [value, OnnxNode("Shape", call.args[:1])])


@imports("Range")
def _range(source: Source) -> Result:
    given = source.arguments(3)
    if not all(isinstance(expr, Constant) for expr in given):
        source.require(all(source.rank(expr) == 0 for expr in given), "its bounds are no scalars")
        return build("arange", *given, dtype=source.type(given[0]).dtype)
    start, stop, step = map(source.scalar, given)
    dtype = source.array(given[0]).dtype
    source.require(step and all(map(math.isfinite, (start, stop, step))), "it has no end")
    count = max(0, math.ceil((stop - start) / step))
    source.require(count <= _LARGEST_RANGE, "it is too long to be a constant")
    return Constant(
        (source.array(given[0]).reshape(()) + np.arange(count, dtype=dtype) * dtype.type(step)).astype(dtype)
    )


@exports("arange")
def _to_range(call: Call, target: Target) -> OnnxNode:
    node = OnnxNode("Range", call.args)
    dtype = attributes(call).dtype
    return node if dtype == target.type(call.args[0]).dtype else cast(node, dtype)


@imports("EyeLike")
def _eye_like(source: Source) -> Result:
    (like,) = source.arguments(1)
    dtype = DTYPES.get(source.int("dtype", 0), source.type(like).dtype)
    rows, columns = source.static_shape(like)
    source.require(rows * columns <= _LARGEST_RANGE, "it is too large to be a constant")
    return Constant(np.eye(rows, columns, source.int("k", 0), dtype))

"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Operand, Target, attributes, exports
from eqsat.relay.expr import Call, Expr, TupleGetItem
from eqsat.relay.op.types import axis_index


@imports("BatchNormalization")
def _batch_norm(source: Source) -> Result:
    inputs = source.arguments(5)
    source.ignore("momentum")
    source.require(source.int("spatial", 1) == 1, "spatial is 0")
    source.require(not source.int("training_mode", 0), "it is in training mode")
    source.require(source.used_outputs() == 1, "its training outputs are used")
    _same_dtypes(source, inputs)
    return TupleGetItem(build("nn.batch_norm", *inputs, axis=1, epsilon=source.float("epsilon", 1e-5)), 0)


def _same_dtypes(source: Source, inputs: list[Expr]) -> None:
    source.require(len({source.type(expr).dtype for expr in inputs}) == 1, "its inputs differ in dtype")


@exports("nn.batch_norm")
def _to_batch_norm(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    data, gamma, beta, mean, var = call.args
    if axis_index(attrs.axis, target.rank(data)) != 1:
        center, spread = (_along(vector, call, target) for vector in (mean, var))
        return _written_out(call, OnnxNode("Sub", [data, center]), spread, target)
    inputs = [data, *_affine(attrs, gamma, beta, target), mean, var]
    return OnnxNode("BatchNormalization", inputs, {"epsilon": attrs.epsilon}, outputs=1, same={1: mean, 2: var})


def _affine(attrs: Any, gamma: Expr, beta: Expr, target: Target) -> list[Operand]:
    """Scale and shift, neutral where the operator has none."""
    return [
        gamma if attrs.scale else _filled(1, gamma, target),
        beta if attrs.center else _filled(0, beta, target),
    ]


def _along(vector: Expr, call: Call, target: Target) -> Operand:
    """A vector along the channels of a normalization."""
    rank = target.rank(call.args[0])
    return target.along_axis(vector, axis_index(attributes(call).axis, rank), rank)


def _written_out(call: Call, moved: OnnxNode, variance: Operand, target: Target) -> OnnxNode:
    """A normalization as arithmetic, of the data less its mean, and its variance."""
    attrs, (data, gamma, beta, *_) = attributes(call), call.args
    epsilon = np.asarray(attrs.epsilon, target.type(data).dtype)
    deviation = OnnxNode("Sqrt", [OnnxNode("Add", [variance, epsilon])])
    result = OnnxNode("Div", [moved, deviation])
    if attrs.scale:
        result = OnnxNode("Mul", [result, _along(gamma, call, target)])
    return OnnxNode("Add", [result, _along(beta, call, target)]) if attrs.center else result


def _filled(value: float, like: Expr, target: Target) -> np.ndarray[Any, Any]:
    ty = target.type(like)
    return np.full(target.dims(ty.shape), value, ty.dtype)


@imports("LayerNormalization", "RMSNormalization")
def _norm_of_rows(source: Source) -> Result:
    data, scale, shift = source.optional(2, 3)
    rank, epsilon = source.rank(data), source.float("epsilon", 1e-5)
    source.require(axis_index(source.int("axis", -1), rank) == rank - 1, "it normalizes over several axes")
    source.require(source.int("stash_type", 1) == 1, "its statistics are not float32")
    source.require(source.used_outputs() == 1, "its statistics are used")
    source.require(source.rank(scale) == 1, "its scale is no vector")
    _same_dtypes(source, [data, scale] if shift is None else [data, scale, shift])
    if source.op_type == "RMSNormalization":
        return build("nn.rms_norm", data, scale, epsilon=epsilon)
    is_shifted = shift is not None
    return build("nn.layer_norm", data, scale, shift if is_shifted else scale, epsilon=epsilon, center=is_shifted)


def _mean(data: Operand, axis: int, target: Target) -> OnnxNode:
    return target.node("ReduceMean", data, {"axes": [axis], "keepdims": 1})


def _squared(data: Operand, call: Call, target: Target) -> OnnxNode:
    """Squares as powers: runtimes know written-out normalizations by them."""
    return OnnxNode("Pow", [data, np.asarray(2, target.type(call.args[0]).dtype)])


@exports("nn.layer_norm")
def _to_layer_norm(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    data, gamma, beta = call.args
    axis = axis_index(attrs.axis, target.rank(data))
    if not target.has("LayerNormalization") or axis != target.rank(data) - 1:
        moved = OnnxNode("Sub", [data, _mean(data, axis, target)])
        return _written_out(call, moved, _mean(_squared(moved, call, target), axis, target), target)
    scale, shift = _affine(attrs, gamma, beta, target)
    inputs = [data, scale, shift] if attrs.center else [data, scale]
    return OnnxNode("LayerNormalization", inputs, {"epsilon": attrs.epsilon})


@exports("nn.rms_norm")
def _to_rms_norm(call: Call, target: Target) -> OnnxNode:
    attrs, (data, gamma) = attributes(call), call.args
    axis = axis_index(attrs.axis, target.rank(data))
    if target.has("RMSNormalization") and axis == target.rank(data) - 1:
        scale = gamma if attrs.scale else _filled(1, gamma, target)
        return OnnxNode("RMSNormalization", [data, scale], {"epsilon": attrs.epsilon})
    dtype = np.dtype(target.type(data).dtype)
    squares = _mean(_squared(data, call, target), axis, target)
    root = OnnxNode("Sqrt", [OnnxNode("Add", [squares, np.asarray(attrs.epsilon, dtype)])])
    unscaled = OnnxNode("Div", [data, root])
    return OnnxNode("Mul", [unscaled, _along(gamma, call, target)]) if attrs.scale else unscaled


@imports("InstanceNormalization")
def _instance_norm(source: Source) -> Result:
    inputs = source.arguments(3)
    _same_dtypes(source, inputs)
    return build("nn.instance_norm", *inputs, axis=1, epsilon=source.float("epsilon", 1e-5))


@imports("GroupNormalization")
def _group_norm(source: Source) -> Result:
    inputs = source.arguments(3)
    source.require(source.opset >= 21, "its scale is one number a group")
    source.require(source.int("stash_type", 1) == 1, "its statistics are not float32")
    _same_dtypes(source, inputs)
    groups, epsilon = source.int("num_groups"), source.float("epsilon", 1e-5)
    return build("nn.group_norm", *inputs, num_groups=groups, axis=1, epsilon=epsilon)


@exports("nn.instance_norm", "nn.group_norm")
def _to_norm_of_channels(call: Call, target: Target) -> OnnxNode:
    attrs, (data, gamma, beta) = attributes(call), call.args
    groups = attrs.get("num_groups")
    fits = axis_index(attrs.axis, target.rank(data)) == 1 and (groups is None or target.opset >= 21)
    target.require(fits, call, "channels must be axis 1, and there are groups since opset 21")
    said = {"epsilon": attrs.epsilon, "num_groups": groups}
    op_type = "InstanceNormalization" if groups is None else "GroupNormalization"
    return OnnxNode(op_type, [data, *_affine(attrs, gamma, beta, target)], said)


@imports("LRN")
def _lrn(source: Source) -> Result:
    (data,), size = source.arguments(1), source.int("size")
    source.require(source.rank(data) > 1, "it has no channels")
    source.require(size % 2 == 1, "its window is of even size")  # the two sides of such a window differ
    return build(
        "nn.lrn",
        data,
        size=size,
        axis=1,
        alpha=source.float("alpha", 1e-4),
        beta=source.float("beta", 0.75),
        bias=source.float("bias", 1.0),
    )


@exports("nn.lrn")
def _to_lrn(call: Call, target: Target) -> OnnxNode:
    attrs = attributes(call)
    fits = attrs.size % 2 and axis_index(attrs.axis, target.rank(call.args[0])) == 1
    target.require(fits, call, "the window must be of odd size and run along axis 1")
    said = {"alpha": attrs.alpha, "beta": attrs.beta, "bias": attrs.bias, "size": attrs.size}
    return OnnxNode("LRN", call.args, said)

"""Normalisations. Statistics of float16 data are computed in float32; the result has the data's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from eqsat.errors import TypeCheckError
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.reduce import accumulator, mean_over
from eqsat.relay.op.shape import spread
from eqsat.relay.op.types import along_axis, axes_indices, axis_index, ranked, size, tensor, unify
from eqsat.relay.ty import TensorType, TupleType, Type

EPSILON = Field("epsilon", "float", 1e-5)
CENTER, SCALE = Field("center", "bool", True), Field("scale", "bool", True)


def deduce_per_channel(attrs: Any, args: Sequence[Type | None]) -> Sequence[Type | None]:
    """Vectors of the data's size along ``axis`` for all arguments after the data."""
    data = args[0]
    if not isinstance(data, TensorType):
        return args
    vector = TensorType((data.shape[axis_index(attrs.axis, len(data.shape))],), data.dtype)
    return [data, *(vector if arg is None else arg for arg in args[1:])]


def _channel_vectors(attrs: Any, args: Sequence[Type]) -> TensorType:
    """The data's type, after checking that all other arguments are vectors along its axis."""
    data = tensor(args[0])
    channels = data.shape[axis_index(attrs.axis, len(data.shape))]
    for arg in args[1:]:
        unify(channels, ranked(arg, 1, "a parameter").shape[0], "channels of data and a parameter:")
    return data


def normalized(data: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over ``axes``, in the accumulating dtype."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    centred = wide - mean_over(wide, axes, keepdims=True)
    variance = mean_over(centred * centred, axes, keepdims=True)
    return centred / np.sqrt(variance + wide.dtype.type(epsilon))


def _scaled(attrs: Any, values: Any, gamma: Any, beta: Any, axis: int, dtype: Any) -> Any:
    """``values * gamma + beta`` along ``axis``, as far as ``attrs`` ask for them."""
    if attrs.scale:
        values = values * spread(gamma, axis, values.ndim)
    if attrs.center:
        values = values + spread(beta, axis, values.ndim)
    return values.astype(dtype, copy=False)


# ---- statistics given


bias_add = define(
    "nn.bias_add",
    "data bias",
    Field("axis", "int", 1),
    infer=_channel_vectors,
    deduce=deduce_per_channel,
    kernel=lambda attrs, data, bias: data + spread(bias, attrs.axis, data.ndim),
    kind=OpPattern.BROADCAST,
)


def _batch_norm_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = _channel_vectors(attrs, args)
    return TupleType([data, args[3], args[4]])


def _batch_norm(attrs: Any, data: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    wide = data.astype(accumulator(data.dtype), copy=False)
    factor = 1 / np.sqrt(var.astype(wide.dtype) + wide.dtype.type(attrs.epsilon))
    if attrs.scale:
        factor = factor * gamma
    shift = -mean * factor
    if attrs.center:
        shift = shift + beta
    out = wide * spread(factor, attrs.axis, data.ndim) + spread(shift, attrs.axis, data.ndim)
    return out.astype(data.dtype, copy=False), mean, var


batch_norm = define(
    "nn.batch_norm",
    "data gamma beta moving_mean moving_var",
    Field("axis", "int", 1),
    EPSILON,
    CENTER,
    SCALE,
    infer=_batch_norm_type,
    deduce=deduce_per_channel,
    kernel=_batch_norm,
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    outputs=3,
    flops=lambda attrs, args, ty: 2 * size(args[0]),
)
"""Inference: the statistics given are used, and handed through as outputs 1 and 2."""

# ---- statistics of the data


def _layer_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    values = normalized(data, (attrs.axis,), attrs.epsilon)
    return _scaled(attrs, values, gamma, beta, attrs.axis, data.dtype)


def _instance_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    channel = axis_index(attrs.axis, data.ndim)
    axes = tuple(axis for axis in range(1, data.ndim) if axis != channel)
    return _scaled(attrs, normalized(data, axes, attrs.epsilon), gamma, beta, channel, data.dtype)


def _group_norm_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = _channel_vectors(attrs, args)
    channels = data.shape[axis_index(attrs.axis, len(data.shape))]
    if attrs.num_groups < 1 or (isinstance(channels, int) and channels % attrs.num_groups):
        raise TypeCheckError(f"{channels} channels cannot be divided into {attrs.num_groups} groups")
    return data


def _group_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    channel = axis_index(attrs.axis, data.ndim)
    split = (*data.shape[:channel], attrs.num_groups, -1, *data.shape[channel + 1 :])
    axes = tuple(axis for axis in range(1, data.ndim + 1) if axis != channel)
    values = normalized(data.reshape(split), axes, attrs.epsilon).reshape(data.shape)
    return _scaled(attrs, values, gamma, beta, channel, data.dtype)


def _norm(name: str, kernel: Any, infer: Any, *fields: Field) -> Any:
    return define(
        f"nn.{name}",
        "data gamma beta",
        *fields,
        EPSILON,
        CENTER,
        SCALE,
        infer=infer,
        deduce=deduce_per_channel,
        kernel=kernel,
        flops=lambda attrs, args, ty: 8 * size(args[0]),
    )


layer_norm = _norm("layer_norm", _layer_norm, _channel_vectors, Field("axis", "int", -1))
instance_norm = _norm("instance_norm", _instance_norm, _channel_vectors, Field("axis", "int", 1))
group_norm = _norm("group_norm", _group_norm, _group_norm_type, Field("num_groups", "int"), Field("axis", "int", 1))


def _rms_norm(attrs: Any, data: Any, gamma: Any) -> Any:
    """x / sqrt(mean(x^2) + epsilon) along an axis, times gamma if it scales."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    squares = mean_over(wide * wide, (axis_index(attrs.axis, data.ndim),), keepdims=True)
    values = wide / np.sqrt(squares + wide.dtype.type(attrs.epsilon))
    scaled = values * spread(gamma, attrs.axis, data.ndim) if attrs.scale else values
    return scaled.astype(data.dtype, copy=False)


rms_norm = define(
    "nn.rms_norm",
    "data gamma",
    Field("axis", "int", -1),
    EPSILON,
    SCALE,
    infer=_channel_vectors,
    deduce=deduce_per_channel,
    kernel=_rms_norm,
    flops=lambda attrs, args, ty: 5 * size(args[0]),
)
"""Relay has no such operator."""


def _l2_normalize(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype), copy=False)
    axes = axes_indices(attrs.axis, data.ndim)
    squares = np.sum(wide * wide, axis=axes, keepdims=True)
    return (wide / np.sqrt(np.maximum(squares, wide.dtype.type(attrs.eps)))).astype(data.dtype, copy=False)


l2_normalize = define(
    "nn.l2_normalize",
    "data",
    Field("eps", "float"),
    Field("axis", "ints", None),
    infer=along_axis,
    kernel=_l2_normalize,
    flops=lambda attrs, args, ty: 3 * size(args[0]),
)


def _lrn(attrs: Any, data: Any) -> Any:
    """x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    axis, reach = axis_index(attrs.axis, data.ndim), attrs.size // 2
    beside = [(0, 0)] * data.ndim
    beside[axis] = (reach, attrs.size - reach - 1)
    windows = sliding_window_view(np.pad(wide * wide, beside), (attrs.size,), (axis,))
    scale = attrs.bias + attrs.alpha / attrs.size * np.sum(windows, axis=-1, dtype=np.float64)
    return (wide / scale**attrs.beta).astype(data.dtype, copy=False)


lrn = define(
    "nn.lrn",
    "data",
    Field("size", "int", 5),
    Field("axis", "int", 1),
    Field("bias", "float", 2.0),
    Field("alpha", "float", 1e-5),
    Field("beta", "float", 0.75),
    infer=_channel_vectors,
    kernel=_lrn,
    kind=OpPattern.OPAQUE,
    flops=lambda attrs, args, ty: 6 * size(ty),
)

__all__ = ["batch_norm", "bias_add", "group_norm", "instance_norm", "l2_normalize", "layer_norm", "lrn", "rms_norm"]

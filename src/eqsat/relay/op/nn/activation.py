"""Activations and the softmax family."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from eqsat.relay.op.error_function import erf
from eqsat.relay.op.nn.norm import deduce_per_channel
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.reduce import accumulator
from eqsat.relay.op.types import axis_index, ranked, same_type, size, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Type

relu = define(
    "nn.relu",
    "data",
    infer=same_type,
    kernel=lambda attrs, data: np.maximum(data, data.dtype.type(0)),
    kind=OpPattern.ELEMWISE,
    traits=Trait.ELEMENTWISE,
)
leaky_relu = define(
    "nn.leaky_relu",
    "data",
    Field("alpha", "float", 0.25),
    infer=same_type,
    kernel=lambda attrs, data: np.where(data >= 0, data, data * data.dtype.type(attrs.alpha)),
    kind=OpPattern.ELEMWISE,
    traits=Trait.ELEMENTWISE,
)


def _prelu_type(attrs: Any, args: Sequence[Type]) -> Type:
    data, alpha = map(tensor, args)
    channels = data.shape[axis_index(attrs.axis, len(data.shape))]
    if alpha.shape != (1,):
        unify(channels, ranked(alpha, 1, "alpha").shape[0], "channels of data and alpha:")
    return data


def _prelu(attrs: Any, data: Any, alpha: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return np.where(data >= 0, data, data * alpha.reshape(shape))


prelu = define(
    "nn.prelu",
    "data alpha",
    Field("axis", "int", 1),
    infer=_prelu_type,
    deduce=deduce_per_channel,
    kernel=_prelu,
    kind=OpPattern.BROADCAST,
)


def _hardswish(attrs: Any, data: Any) -> Any:
    gate = np.clip(data + data.dtype.type(3), data.dtype.type(0), data.dtype.type(6))
    return data * (gate / data.dtype.type(6))


hardswish = define(
    "hardswish",
    "data",
    infer=same_type,
    kernel=_hardswish,
    traits=Trait.ELEMENTWISE,
    flops=lambda attrs, args, ty: 4 * size(ty),
)


def _gelu(attrs: Any, data: Any) -> Any:
    """x P(X < x) for a standard normal X, or the usual approximation of it by tanh."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    number = wide.dtype.type
    if attrs.approximate == "tanh":
        inside = number(sqrt(2 / pi)) * (wide + number(0.044715) * wide * wide * wide)
        share = number(0.5) * (1 + np.tanh(inside))
    else:
        share = number(0.5) * (1 + erf(wide * number(sqrt(0.5))))
    return (wide * share).astype(data.dtype, copy=False)


gelu = define(
    "nn.gelu",
    "data",
    Field("approximate", "str", "none"),
    infer=same_type,
    kernel=_gelu,
    kind=OpPattern.ELEMWISE,
    traits=Trait.ELEMENTWISE,
    flops=lambda attrs, args, ty: 8 * size(ty),
)
"""Relay has no such operator. ``approximate`` is ``none`` or ``tanh``, as in ONNX."""

# ---- softmax


def shifted(data: Any, axis: int) -> Any:
    """``data`` in the accumulating dtype, less its maximum along ``axis``."""
    wide = data.astype(accumulator(data.dtype), copy=False)
    return wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)


def softmax_of(data: Any, axis: int) -> Any:
    """Softmax along ``axis``, safe from overflow."""
    exponentials = np.exp(shifted(data, axis))
    return (exponentials / np.sum(exponentials, axis=axis, keepdims=True)).astype(data.dtype, copy=False)


def _log_softmax(attrs: Any, data: Any) -> Any:
    moved = shifted(data, attrs.axis)
    return (moved - np.log(np.sum(np.exp(moved), axis=attrs.axis, keepdims=True))).astype(data.dtype, copy=False)


def _along_axis(attrs: Any, args: Sequence[Type]) -> Type:
    axis_index(attrs.axis, len(tensor(args[0]).shape))
    return args[0]


def _softmax(name: str, kernel: Any) -> Builder:
    return define(
        f"nn.{name}",
        "data",
        Field("axis", "int", -1),
        infer=_along_axis,
        kernel=kernel,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=lambda attrs, args, ty: 5 * size(ty),
    )


softmax = _softmax("softmax", lambda attrs, data: softmax_of(data, attrs.axis))
fast_softmax = _softmax("fast_softmax", lambda attrs, data: softmax_of(data, attrs.axis))
log_softmax = _softmax("log_softmax", _log_softmax)

__all__ = ["fast_softmax", "gelu", "hardswish", "leaky_relu", "log_softmax", "prelu", "relu", "softmax"]

"""Activations and the softmax family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from eqsat.relay.op.denotation import by_name
from eqsat.relay.op.nn.norm import deduce_per_channel
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.reduce import accumulator
from eqsat.relay.op.shape import spread
from eqsat.relay.op.tensor import erf_of, sigmoid_of, truncated_divide
from eqsat.relay.op.types import along_axis, axis_index, ranked, same_type, size, tensor, unify
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
    return np.where(data >= 0, data, data * spread(alpha, attrs.axis, data.ndim))


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
    return data * truncated_divide(gate, data.dtype.type(6))


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
        share = number(0.5) * (1 + erf_of(wide * number(sqrt(0.5))))
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


GATE_SCALES = {"none": sqrt(0.5), "tanh": (2 * 0.044715 * sqrt(2 / pi)) ** (1 / 3)}
"""By ``approximate`` the factor of the data of ``gelu`` that ``gelu_gate`` does without."""
GATE_SLOPE = 2 * sqrt(2 / pi) / GATE_SCALES["tanh"]
"""How steep the inside of the gate by tanh is at 0."""


def _gelu_gate(attrs: Any, data: Any) -> Any:
    wide = data.astype(accumulator(data.dtype), copy=False)
    if attrs.approximate == "tanh":
        gated = wide * sigmoid_of(wide * (wide * wide + wide.dtype.type(GATE_SLOPE)))
    else:
        gated = wide * (1 + erf_of(wide))
    return gated.astype(data.dtype, copy=False)


gelu_gate = define(
    "nn.gelu_gate",
    "data",
    Field("approximate", "str", "none"),
    infer=same_type,
    kernel=_gelu_gate,
    kind=OpPattern.ELEMWISE,
    traits=Trait.ELEMENTWISE,
    flops=lambda attrs, args, ty: 6 * size(ty),
)
"""What is left of ``gelu`` when weights around it take its scales: x (1 + erf x), or x sigmoid(x^3 + c x)."""

# ---- others for which Relay has no operator, with the names, attributes and defaults that ONNX gives them


def _activation(name: str, function: Callable[..., Any], **defaults: float) -> Builder:
    """An elementwise operator; ``function`` takes the data and the values of its attributes, all of one dtype.

    That dtype is float32 for data of float16.
    """

    def kernel(attrs: Any, data: Any) -> Any:
        wide = data.astype(accumulator(data.dtype), copy=False)
        numbers = [wide.dtype.type(attrs[attr]) for attr in defaults]
        return function(wide, *numbers).astype(data.dtype, copy=False)

    return define(
        f"nn.{name}",
        "data",
        *(Field(attr, "float", default) for attr, default in defaults.items()),
        infer=same_type,
        kernel=kernel,
        kind=OpPattern.ELEMWISE,
        traits=Trait.ELEMENTWISE,
        flops=lambda attrs, args, ty: 4 * size(ty),
    )


@by_name("softplus")
def softplus_of(x: Any) -> Any:
    return np.logaddexp(x, x.dtype.type(0))


def _selu(x: Any, alpha: Any, gamma: Any) -> Any:
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Any, bias: Any, lambd: Any) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


celu = _activation("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), alpha=1.0)
elu = _activation("elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), alpha=1.0)
hard_sigmoid = _activation("hard_sigmoid", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.2, beta=0.5)
mish = _activation("mish", lambda x: x * np.tanh(softplus_of(x)))
selu = _activation("selu", _selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
shrink = _activation("shrink", _shrink, bias=0.0, lambd=0.5)
softplus = _activation("softplus", softplus_of)
softsign = _activation("softsign", lambda x: x / (1 + np.abs(x)))
swish = _activation("swish", lambda x, alpha: x * sigmoid_of(alpha * x), alpha=1.0)
thresholded_relu = _activation("thresholded_relu", lambda x, alpha: np.where(x > alpha, x, 0), alpha=1.0)

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


def _softmax(name: str, kernel: Any) -> Builder:
    return define(
        f"nn.{name}",
        "data",
        Field("axis", "int", -1),
        infer=along_axis,
        kernel=kernel,
        kind=OpPattern.OUT_ELEMWISE_FUSABLE,
        flops=lambda attrs, args, ty: 5 * size(ty),
    )


softmax = _softmax("softmax", lambda attrs, data: softmax_of(data, attrs.axis))
fast_softmax = _softmax("fast_softmax", lambda attrs, data: softmax_of(data, attrs.axis))
log_softmax = _softmax("log_softmax", _log_softmax)

__all__ = [
    "celu", "elu", "fast_softmax", "gelu", "gelu_gate", "hard_sigmoid", "hardswish", "leaky_relu", "log_softmax",
    "mish", "prelu", "relu", "selu", "shrink", "softmax", "softplus", "softsign", "swish", "thresholded_relu",
]  # fmt: skip

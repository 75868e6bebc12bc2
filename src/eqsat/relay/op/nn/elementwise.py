"""Activations for which Relay has no operator. Each has the name, the attributes and the defaults that ONNX gives it.

Those of float16 are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.op.reduce import accumulator
from eqsat.relay.op.tensor import sigmoid_of
from eqsat.relay.op.types import same_type, size
from eqsat.relay.traits import Trait


def _activation(name: str, function: Callable[..., Any], **defaults: float) -> Builder:
    """An elementwise operator; ``function`` takes the data and the values of its attributes, all of one dtype."""

    def kernel(attrs: Any, data: Any) -> Any:
        wide = data.astype(accumulator(data.dtype), copy=False)
        numbers = [wide.dtype.type(attrs[attr]) for attr in defaults]
        return np.asarray(function(wide, *numbers)).astype(data.dtype, copy=False)

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


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, x.dtype.type(0))


def _selu(x: Any, alpha: Any, gamma: Any) -> Any:
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Any, bias: Any, lambd: Any) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


celu = _activation("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), alpha=1.0)
elu = _activation("elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), alpha=1.0)
hard_sigmoid = _activation("hard_sigmoid", lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.2, beta=0.5)
mish = _activation("mish", lambda x: x * np.tanh(_softplus(x)))
selu = _activation("selu", _selu, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
shrink = _activation("shrink", _shrink, bias=0.0, lambd=0.5)
softplus = _activation("softplus", _softplus)
softsign = _activation("softsign", lambda x: x / (1 + np.abs(x)))
swish = _activation("swish", lambda x, alpha: x * sigmoid_of(alpha * x), alpha=1.0)
thresholded_relu = _activation("thresholded_relu", lambda x, alpha: np.where(x > alpha, x, 0), alpha=1.0)

__all__ = [
    "celu", "elu", "hard_sigmoid", "mish", "selu", "shrink", "softplus", "softsign", "swish", "thresholded_relu",
]  # fmt: skip

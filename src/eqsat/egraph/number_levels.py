"""What is known of the elements of a value: whether they are real numbers, so that none is NaN or infinite.

Each of these levels says more than the one before it:

    CAPPED       no element is NaN or plus infinity
    REAL         every element is a real number
    ABOVE_LEAST  every element is a real number, and above the least of its dtype
    ABOVE_HALF   every element is a real number, and above half of the least
    MODEST       every element is a real number, and a thousandth of the least or more
    WHOLE        as MODEST, and no larger than any 64-bit integer; for floats, of a dtype that has all of these, rounded
    SMALL        as WHOLE, and so small that the product with a WHOLE number is MODEST

It is said of what is computed barring overflow, but for the sum of two masks, each of which may be the least number,
and in the belief that

* inputs of a graph are CAPPED: a mask may be minus infinity in places;
* what sums of products are made of, and what is normalized, is REAL where it is CAPPED: there minus infinity makes no
  sense; the results are WHOLE, if their dtype has numbers so large: no network computes with larger ones;
* sizes that are open are not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.relay.ty import TensorType, Type

CAPPED, REAL, ABOVE_LEAST, ABOVE_HALF, MODEST, WHOLE, SMALL = LEVELS = (1, 2, 3, 4, 5, 6, 7)
_LARGEST = {WHOLE: 2.0**64, SMALL: 1e16}

DEFINED = frozenset(
    {
        "abs",
        "atan",
        "ceil",
        "clip",
        "cos",
        "cosh",
        "erf",
        "exp",
        "floor",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "round",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "subtract",
        "tan",
        "tanh",
        "trunc",
        "sum",
        "nn.bias_add",
        "nn.elu",
        "nn.gelu",
        "nn.hard_sigmoid",
        "nn.leaky_relu",
        "nn.log_softmax",
        "nn.mish",
        "nn.prelu",
        "nn.relu",
        "nn.selu",
        "nn.softmax",
        "nn.softplus",
        "nn.swish",
    }
)
"""Operators that give real numbers for real numbers."""

BOUNDED = frozenset({"cos", "erf", "nn.hard_sigmoid", "nn.softmax", "sigmoid", "sign", "sin", "tanh"})
"""Operators of those that give numbers between -1 and 1."""

AVERAGING = frozenset(
    {
        "max",
        "mean",
        "min",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        *[f"nn.avg_pool{rank}d" for rank in (1, 2, 3)],
    }
)
"""Operators that give real numbers for some real numbers. (The mean of no numbers is none.)"""

WEIGHING = frozenset(
    {
        "nn.attention",
        "nn.batch_matmul",
        "nn.conv1d",
        "nn.conv2d",
        "nn.conv3d",
        "nn.dense",
        "nn.group_norm",
        "nn.instance_norm",
        "nn.layer_norm",
        "nn.masked_attention",
        "nn.matmul",
        "nn.rms_norm",
    }
)
"""Operators that sum products of their arguments, or normalize them."""


def level_of(array: np.ndarray[Any, Any]) -> int:
    """The level of the elements of a constant of floats; 0 where nothing is known, or it holds none."""
    if not (array.dtype.kind == "f" or array.dtype.name == "bfloat16"):
        return 0
    wide = array.dtype.itemsize > 2 or array.dtype.name == "bfloat16"
    if not array.size:
        return SMALL if wide else MODEST
    lowest, highest = float(array.min()), float(array.max())  # NaN where one of the elements is
    if np.isnan(lowest) or highest == np.inf:
        return 0
    if lowest == -np.inf:
        return CAPPED
    least = float(np.finfo(np.float32 if array.dtype.name == "bfloat16" else array.dtype).min)  # of nearly one range
    if lowest <= 1e-3 * least:
        return ABOVE_HALF if lowest > 0.25 * least else ABOVE_LEAST if lowest > 0.75 * least else REAL
    return max([MODEST, *[level for level, most in _LARGEST.items() if wide and max(-lowest, highest) <= most]])


def are_positive(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements of a constant are real numbers above zero: these scale minus infinity to itself."""
    return array.dtype.kind == "f" and bool(np.all((array > 0) & np.isfinite(array)))


def holds_whole_numbers(ty: Type | None) -> bool:
    """Whether a type is of integers or truth values."""
    return isinstance(ty, TensorType) and ty.dtype.startswith(("int", "uint", "bool"))


def holds_floats(ty: Type | None) -> bool:
    """Whether a type is of floating-point numbers."""
    return isinstance(ty, TensorType) and ty.dtype.startswith(("float", "bfloat"))


def holds_wide_floats(ty: Type | None) -> bool:
    """Whether a type is of floating-point numbers of which every 64-bit integer is, rounded, one."""
    return isinstance(ty, TensorType) and ty.dtype in ("float32", "float64", "bfloat16")


def holds_some(ty: Type | None) -> bool:
    """Whether a type is of one element at least."""
    return isinstance(ty, TensorType) and 0 not in ty.shape

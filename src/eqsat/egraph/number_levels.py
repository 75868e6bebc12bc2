"""What is known of the elements of a value: whether they are real numbers, so that none is NaN or infinite.

Each of these levels says more than the one before it:

    CAPPED       no element is NaN or plus infinity
    REAL         every element is a real number
    ABOVE_LEAST  every element is a real number, and above the least of its dtype
    MODEST       every element is a real number, and a thousandth of the least or more

It is said of what is computed barring overflow, and in the belief that

* inputs of a graph are CAPPED: a mask may be minus infinity in places;
* what sums of products are made of, and what is normalized, is REAL where it is CAPPED: there minus infinity makes no
  sense;
* sizes that are open are not zero.
"""

from __future__ import annotations

CAPPED, REAL, ABOVE_LEAST, MODEST = 1, 2, 3, 4

DEFINED = frozenset(
    {
        "abs",
        "add",
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

AVERAGING = frozenset(
    {
        "max",
        "mean",
        "min",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
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

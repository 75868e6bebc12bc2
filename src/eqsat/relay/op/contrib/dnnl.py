"""What a CPU library in the manner of oneDNN computes in one call (``dnnl``).

A product (convolution, transposed convolution, dense layer or matrix product) takes a bias, the sum with another
tensor and an activation along; GELU, layer normalization and chains of quantized operators are kernels of their own.
The names are those that TVM gives them: the primitive, then what follows it, as in ``dnnl.conv2d_bias_sum_relu``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from eqsat.relay.op.contrib.parts import (
    ACTIVATIONS,
    Entry,
    any_of,
    attribute,
    entry,
    gelu_by_erf,
    layer_norm_written_out,
    of_dtypes,
    product_entry,
    takes_calls,
)
from eqsat.relay.op.contrib.register import register_pattern_table
from eqsat.relay.ty import TensorType

FLOATS = ("float32", "bfloat16", "float16")

PRODUCTS = {
    **{f"conv{rank}d": (f"nn.conv{rank}d",) for rank in (1, 2, 3)},
    **{f"deconv{rank}d": (f"nn.conv{rank}d_transpose",) for rank in (1, 2, 3)},
    "dense": ("nn.dense",),
    "matmul": ("nn.matmul", "nn.batch_matmul"),
}
"""Primitive -> the operators it computes."""

SINGLE = (
    *(name for names in PRODUCTS.values() for name in names),
    *(
        "nn.relu",
        "nn.leaky_relu",
        "tanh",
        "sigmoid",
        "clip",
        "nn.gelu",
        "nn.softmax",
        "abs",
        "exp",
        "log",
        "sqrt",
        "round",
    ),
    *("add", "multiply", "nn.max_pool2d", "nn.avg_pool2d", "nn.global_avg_pool2d", "nn.global_max_pool2d"),
    *("nn.max_pool3d", "nn.avg_pool3d", "nn.batch_norm", "nn.layer_norm", "concatenate"),
)
"""Operators that are offloaded alone too."""


def product_entries(primitive: str) -> Iterator[Entry]:
    """A product with what may follow it."""
    product, floats = any_of(*PRODUCTS[primitive]), of_dtypes(*FLOATS)
    for activation in (None, *ACTIVATIONS):
        for bias, total in ((True, False), (False, False), (True, True), (False, True)):
            if activation or bias or total:
                yield product_entry(
                    "dnnl", primitive, product, floats, with_bias=bias, with_sum=total, activation=activation
                )


def quantized(product: str) -> DFPattern:
    """A quantized product, an int32 bias, requantization, a clip and a cast."""
    value: DFPattern = is_op(product)(wildcard(), wildcard(), *(is_constant() for _ in range(4)))
    value = value | is_op("nn.bias_add")(value, is_constant()) | is_op("add")(value, is_constant())
    value = is_op("qnn.requantize")(value, *(is_constant() for _ in range(4)))
    value = value.optional(is_op("clip"))
    return value.optional(is_op("cast"))


def pattern_table() -> list[Entry]:
    """The table of composites, largest first."""
    entries = [row for primitive in PRODUCTS for row in product_entries(primitive)]
    entries.sort(key=lambda row: -row[0].count("_"))
    return [
        entry("dnnl.qnn.conv2d", quantized("qnn.conv2d"), of_dtypes("int8", "uint8", "int32")),
        entry("dnnl.qnn.dense", quantized("qnn.dense"), of_dtypes("int8", "uint8", "int32")),
        entry("dnnl.layer_norm", layer_norm_written_out(), of_dtypes(*FLOATS)),
        *entries,
        entry("dnnl.gelu", gelu_by_erf(wildcard()), of_dtypes(*FLOATS)),
        entry("dnnl.swish", ACTIVATIONS["swish"](wildcard()), of_dtypes(*FLOATS)),
    ]


def supports(call: Any) -> bool:
    """Whether a single call is offloaded: on floats, and plain layouts where it has one."""
    ty = call.checked_type
    layout = str(attribute(call, "data_layout", "NC"))
    return isinstance(ty, TensorType) and ty.dtype in FLOATS and layout.startswith("NC")


register_pattern_table("dnnl", pattern_table)
takes_calls("dnnl", SINGLE, supports)

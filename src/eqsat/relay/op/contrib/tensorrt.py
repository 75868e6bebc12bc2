"""What an accelerator in the manner of TensorRT computes in one call (``tensorrt``).

Every operator it knows is a composite of its own, named ``tensorrt.<operator>`` as in TVM, so that whole regions can be
offloaded; beyond TVM's table, products fuse with bias and activation, elementwise operators with each other, and
attention is one kernel. Shapes must be known, images NCHW.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, is_tuple_get_item, wildcard
from eqsat.relay.expr import Expr
from eqsat.relay.op.contrib.parts import (
    ACTIVATIONS,
    Condition,
    Entry,
    attention,
    attribute,
    entry,
    layer_norm_written_out,
    of_dtypes,
    product_entry,
    tensor_of,
)
from eqsat.relay.op.contrib.register import register_pattern_table
from eqsat.relay.ty import is_static

DTYPES = ("float32", "float16", "int8")

UNARY = (
    *("nn.relu", "sigmoid", "tanh", "clip", "nn.leaky_relu", "exp", "log", "sqrt", "abs", "negative", "erf"),
    *("nn.gelu", "hardswish", "ceil", "floor", "sin", "cos", "atan"),
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
POOLS = (
    *("nn.max_pool2d", "nn.avg_pool2d", "nn.max_pool3d", "nn.avg_pool3d", "nn.global_max_pool2d"),
    *("nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "nn.adaptive_max_pool2d"),
)
MOVES = (
    *("transpose", "reshape", "squeeze", "expand_dims", "strided_slice", "nn.pad", "nn.batch_flatten", "split"),
    "layout_transform",
)
PRODUCTS = (
    *("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.dense"),
    "nn.batch_matmul",
)
FUSED = ("relu", "clip", "sigmoid", "tanh", "gelu", "swish")


def is_runnable(root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    """Condition: shapes are known, of at most 8 dimensions, and layouts those of NCHW images."""
    ty = tensor_of(root)
    if not is_static(ty) or len(ty.shape) > 8:
        return False
    layouts = [attribute(node, name, "NC") for node in bound.values() for name in ("data_layout", "layout")]
    return all(str(layout).startswith("NC") for layout in layouts)


def is_over_last_axis(root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    """Condition: a softmax or normalization is over the last axis, which kernels keep in registers."""
    return is_static(root._checked_type) and attribute(root, "axis", -1) in (-1, len(root._checked_type.shape) - 1)


def _entry(name: str, pattern: DFPattern, condition: Condition = is_runnable) -> Entry:
    return entry(f"tensorrt.{name}", pattern, of_dtypes(*DTYPES), condition)


def singles() -> Iterator[Entry]:
    """One composite for each operator."""
    for names, arity in ((UNARY, 1), (BINARY, 2), (REDUCTIONS, 1), (POOLS, 1), (MOVES, 1), (PRODUCTS, 2)):
        for name in names:
            yield _entry(name, is_op(name)(*(wildcard() for _ in range(2 if name == "nn.pad" else arity))))
    yield _entry("nn.bias_add", is_op("nn.bias_add")(wildcard(), wildcard()))
    yield _entry("nn.softmax", is_op("nn.softmax")(wildcard()), is_over_last_axis)
    yield _entry("nn.layer_norm", is_op("nn.layer_norm")(wildcard(), wildcard(), wildcard()), is_over_last_axis)
    yield _entry("concatenate", is_op("concatenate")(wildcard()))
    batch_norm = is_op("nn.batch_norm")(wildcard(), *(is_constant() for _ in range(4)))
    yield _entry("nn.batch_norm", is_tuple_get_item(batch_norm, 0))


def fused_products() -> Iterator[Entry]:
    """Convolutions and matrix products with bias, sum and activation."""
    followed = [(True, total, activation) for activation in (*FUSED, None) for total in (True, False)]
    followed += [(False, False, activation) for activation in FUSED]
    for operator in PRODUCTS:
        for bias, total, activation in followed:
            yield product_entry(
                "tensorrt",
                operator,
                is_op(operator),
                of_dtypes(*DTYPES),
                is_runnable,
                with_bias=bias,
                with_sum=total,
                activation=activation,
            )


def pointwise() -> Iterator[Entry]:
    """Pairs and triples of elementwise operators."""
    for activation in ("relu", "sigmoid", "tanh", "clip", "gelu"):
        summed = is_op("add")(wildcard(), wildcard())
        scaled = is_op("add")(is_op("multiply")(wildcard(), wildcard()), wildcard())
        yield _entry(f"add_{activation}", ACTIVATIONS[activation](summed))
        yield _entry(f"multiply_add_{activation}", ACTIVATIONS[activation](scaled))
    yield _entry("swish", ACTIVATIONS["swish"](wildcard()))
    fused = is_op("add")(is_op("multiply")(wildcard(), wildcard()), is_op("multiply")(wildcard(), wildcard()))
    yield _entry("multiply_multiply_add", fused)


def pattern_table() -> list[Entry]:
    """The table of composites, largest first."""
    return [
        _entry("attention", attention()),
        _entry("layer_norm_written_out", layer_norm_written_out()),
        *sorted(fused_products(), key=lambda row: -row[0].count("_")),
        *pointwise(),
        *singles(),
    ]


register_pattern_table("tensorrt", pattern_table)

"""What an accelerator in the manner of TensorRT computes in one call (``tensorrt``).

Every operator it knows is a composite of its own, so that whole regions can be offloaded; products fuse with bias and
activation, elementwise operators with each other, and attention is one kernel. Shapes must be known, images NCHW.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.relay.dataflow_pattern import DFPattern, is_constant, is_op, is_tuple_get_item, wildcard
from eqsat.relay.expr import Expr
from eqsat.relay.op.contrib.parts import (
    ACTIVATIONS,
    Entry,
    attention,
    attribute,
    entry,
    layer_norm_written_out,
    of_dtypes,
    of_shape_of,
    per_channel,
)
from eqsat.relay.op.contrib.register import register_pattern_table
from eqsat.relay.ty import is_static

DTYPES = ("float32", "float16", "int8")

UNARY = (
    *("nn.relu", "sigmoid", "tanh", "clip", "nn.leaky_relu", "exp", "log", "sqrt", "abs", "negative", "erf"),
    *("nn.gelu", "hardswish", "ceil", "floor"),
)
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
REDUCTIONS = ("sum", "mean", "max", "min", "prod")
POOLS = ("nn.max_pool2d", "nn.avg_pool2d", "nn.global_max_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d")
MOVES = ("transpose", "reshape", "squeeze", "expand_dims", "strided_slice", "nn.pad", "nn.batch_flatten")
PRODUCTS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul")
FUSED = ("relu", "clip", "sigmoid", "tanh", "gelu", "swish")


def is_runnable(root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    """Condition: shapes are known, of at most 8 dimensions, and layouts those of NCHW images."""
    if not is_static(root._checked_type) or len(root._checked_type.shape) > 8:
        return False
    layouts = [attribute(node, name, "NC") for node in bound.values() for name in ("data_layout", "layout")]
    return all(str(layout).startswith("NC") for layout in layouts)


def is_over_last_axis(root: Expr, bound: dict[DFPattern, Expr]) -> bool:
    """Condition: a softmax or normalization is over the last axis, which kernels keep in registers."""
    return is_static(root._checked_type) and attribute(root, "axis", -1) in (-1, len(root._checked_type.shape) - 1)


def singles() -> Iterator[Entry]:
    """One composite for each operator."""
    for names, arity in ((UNARY, 1), (BINARY, 2), (REDUCTIONS, 1), (POOLS, 1), (MOVES, 1), (PRODUCTS, 2)):
        for name in names:
            arguments = [wildcard() for _ in range(2 if name == "nn.pad" else arity)]
            yield entry(f"tensorrt.{name}", is_op(name)(*arguments), of_dtypes(*DTYPES), is_runnable)
    yield entry("tensorrt.nn.bias_add", is_op("nn.bias_add")(wildcard(), wildcard()), of_dtypes(*DTYPES), is_runnable)
    yield entry("tensorrt.nn.softmax", is_op("nn.softmax")(wildcard()), of_dtypes(*DTYPES), is_over_last_axis)
    norm = is_op("nn.layer_norm")(wildcard(), wildcard(), wildcard())
    yield entry("tensorrt.nn.layer_norm", norm, of_dtypes(*DTYPES), is_over_last_axis)
    yield entry("tensorrt.concatenate", is_op("concatenate")(wildcard()), of_dtypes(*DTYPES), is_runnable)
    batch_norm = is_op("nn.batch_norm")(wildcard(), *(is_constant() for _ in range(4)))
    yield entry("tensorrt.nn.batch_norm", is_tuple_get_item(batch_norm, 0), of_dtypes(*DTYPES), is_runnable)


def fused_products() -> Iterator[Entry]:
    """Convolutions and matrix products with bias, sum and activation."""
    for operator in PRODUCTS:
        for activation in (*FUSED, None):
            for with_sum in (True, False):
                yield _with_bias(operator, with_sum, activation)
        for activation in FUSED:
            product = is_op(operator)(wildcard(), wildcard())
            name = f"tensorrt.{operator}_{activation}"
            yield entry(name, ACTIVATIONS[activation](product), of_dtypes(*DTYPES), is_runnable)


def _with_bias(operator: str, with_sum: bool, activation: str | None) -> Entry:
    bias, addend = wildcard(), wildcard()
    product = is_op(operator)(wildcard(), wildcard())
    value: DFPattern = is_op("nn.bias_add")(product, bias) | is_op("add")(product, bias)
    conditions = [of_dtypes(*DTYPES), is_runnable, per_channel(bias)]
    if with_sum:
        value = is_op("add")(value, addend)
        conditions.append(of_shape_of(addend))
    if activation:
        value = ACTIVATIONS[activation](value)
    words = [operator, "bias", *["sum"] * with_sum, *[activation] * bool(activation)]
    return entry(f"tensorrt.{'_'.join(map(str, words))}", value, *conditions)


def pointwise() -> Iterator[Entry]:
    """Pairs and triples of elementwise operators."""
    for activation in ("relu", "sigmoid", "tanh", "clip", "gelu"):
        summed = is_op("add")(wildcard(), wildcard())
        scaled = is_op("add")(is_op("multiply")(wildcard(), wildcard()), wildcard())
        yield entry(f"tensorrt.add_{activation}", ACTIVATIONS[activation](summed), of_dtypes(*DTYPES), is_runnable)
        name = f"tensorrt.multiply_add_{activation}"
        yield entry(name, ACTIVATIONS[activation](scaled), of_dtypes(*DTYPES), is_runnable)
    yield entry("tensorrt.swish", ACTIVATIONS["swish"](wildcard()), of_dtypes(*DTYPES), is_runnable)
    fused = is_op("add")(is_op("multiply")(wildcard(), wildcard()), is_op("multiply")(wildcard(), wildcard()))
    yield entry("tensorrt.multiply_multiply_add", fused, of_dtypes(*DTYPES), is_runnable)


def pattern_table() -> list[Entry]:
    """The table of composites, largest first."""
    return [
        entry("tensorrt.attention", attention(), of_dtypes(*DTYPES), is_runnable),
        entry("tensorrt.layer_norm_written_out", layer_norm_written_out(), of_dtypes(*DTYPES), is_runnable),
        *sorted(fused_products(), key=lambda row: -row[0].count("_")),
        *pointwise(),
        *singles(),
    ]


register_pattern_table("tensorrt", pattern_table)

"""What some operators are written as in ONNX, which has no node of their own for them.

No graph gets better by these rules: they serve to prove that a model that was written and read again is the graph that
was written (:mod:`eqsat.onnx.certificates`).
"""

from __future__ import annotations

from eqsat.egraph.author import attrs_of, compute, constants, rewrite, type_of, value_of, variables, when
from eqsat.egraph.rule import Array, RuleSet, Soundness
from eqsat.relay import nn
from eqsat.relay.dataflow_pattern import is_op
from eqsat.relay.op.nn.activation import GATE_SLOPE
from eqsat.relay.ty import TensorType
from eqsat.rules.axes import is_last
from eqsat.rules.types import floats
from eqsat.rules.values import attribute, scalar

x, y = variables("x y")
(c,) = constants("c")


def are_matrices(one: TensorType, other: TensorType) -> bool:
    """Guard: both are matrices."""
    return len(one.shape) == len(other.shape) == 2


def rows(weight: TensorType) -> int | None:
    """The number of rows of a matrix, where it is known."""
    return weight.shape[0] if isinstance(weight.shape[0], int) else None


def is_number_with_axes(value: Array, ty: TensorType) -> bool:
    """Guard: a constant of one element that has axes, but no more than what it meets."""
    return bool(value.size == 1 and 0 < value.ndim <= len(ty.shape))


def number(value: Array) -> Array:
    """The element of a constant of one."""
    return value.reshape(())


biased = nn.bias_add(x, y)
by_columns = nn.matmul(x, y, transpose_a=False, transpose_b=True)

written = RuleSet(
    "written",
    [
        rewrite("bias-as-sum", biased, x + y, when(is_last, attrs_of(biased), type_of(x))),
        rewrite(
            "product-by-columns",
            by_columns,
            nn.dense(x, y, units=compute(rows, type_of(y)), out_dtype=attribute(by_columns, "out_dtype")),
            when(are_matrices, type_of(x), type_of(y)),
        ),
        rewrite(
            "number-without-axes-added",
            x + c,
            x + compute(number, value_of(c)),
            when(is_number_with_axes, value_of(c), type_of(x)),
        ),
        rewrite(
            "number-without-axes-multiplied",
            x * c,
            x * compute(number, value_of(c)),
            when(is_number_with_axes, value_of(c), type_of(x)),
        ),
        # x (1 + erf(x))
        rewrite(
            "gate-by-erf",
            nn.gelu_gate(x, approximate="none"),
            x * (is_op("erf")(x) + scalar(1, x)),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
        # x sigmoid(x (x^2 + slope))
        rewrite(
            "gate-by-sigmoid",
            nn.gelu_gate(x, approximate="tanh"),
            x * is_op("sigmoid")(x * (x * x + scalar(GATE_SLOPE, x))),
            floats(x),
            soundness=Soundness.ROUNDING,
        ),
    ],
)

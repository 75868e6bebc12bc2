"""Operators that ONNX has too: the tables of those that need no importer or exporter of their own.

Such an operator has the inputs of its ONNX namesake, in the same order, and attributes of the same names and kinds.
One line in a table here is all that the front end needs to know of it.
"""

from __future__ import annotations

from functools import partial

from eqsat.onnx.converters.source import Result, Source, imports
from eqsat.onnx.converters.target import OnnxNode, Target, exports
from eqsat.onnx.schemas import schema_of
from eqsat.relay.expr import Call, Op
from eqsat.relay.op.op import make_attrs

ALIKE = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "bitwise_and": "BitwiseAnd",
    "bitwise_not": "BitwiseNot",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "gather": "GatherElements",
    "greater": "Greater",
    "isnan": "IsNaN",
    "less": "Less",
    "log": "Log",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "multiply": "Mul",
    "negative": "Neg",
    "nn.celu": "Celu",
    "nn.elu": "Elu",
    "nn.hard_sigmoid": "HardSigmoid",
    "nn.leaky_relu": "LeakyRelu",
    "nn.relu": "Relu",
    "nn.selu": "Selu",
    "nn.shrink": "Shrink",
    "nn.softplus": "Softplus",
    "nn.softsign": "Softsign",
    "nn.thresholded_relu": "ThresholdedRelu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "where": "Where",
}
"""Operator of the IR -> ONNX operator, read and written as it is."""

READ_ALIKE = {
    "Add": "add",
    "Div": "divide",
    "Gelu": "nn.gelu",
    "GreaterOrEqual": "greater_equal",
    "HardSwish": "hardswish",
    "Identity": "copy",
    "LessOrEqual": "less_equal",
    "MatMul": "nn.matmul",
    "Mish": "nn.mish",
    "Swish": "nn.swish",
}
"""ONNX operator -> operator of the IR, which has an exporter of its own."""

WRITTEN_ALIKE = {
    "fast_erf": "Erf",
    "fast_exp": "Exp",
    "fast_tanh": "Tanh",
    "isinf": "IsInf",
    "power": "Pow",
}
"""Operator of the IR -> ONNX operator, which has an importer of its own or is read as another operator."""


def _read(name: str, source: Source) -> Result:
    source.require(schema_of(source.op_type, source.opset) is not None, f"opset {source.opset} does not have it")
    op = Op.get(name)
    attrs = {field.name: source.field(field) for field in op.fields}
    return Call(op, source.arguments(len(op.arguments or ())), make_attrs(op, attrs))


def _write(op_type: str, call: Call, target: Target) -> OnnxNode:
    if not target.has(op_type):
        raise target.unwritable(call, f"{op_type} is newer")
    attributes = {name: int(value) if isinstance(value, bool) else value for name, value in (call.attrs or {}).items()}
    return OnnxNode(op_type, call.args, attributes)


for _name, _op_type in ALIKE.items():
    imports(_op_type)(partial(_read, _name))
    exports(_name)(partial(_write, _op_type))
for _op_type, _name in READ_ALIKE.items():
    imports(_op_type)(partial(_read, _name))
for _name, _op_type in WRITTEN_ALIKE.items():
    exports(_name)(partial(_write, _op_type))

"""Elementwise operators that differ from their ONNX namesakes in inputs or attributes."""

from __future__ import annotations

import math

import numpy as np

from eqsat.onnx.converters.source import Result, Source, build, imports
from eqsat.onnx.converters.target import OnnxNode, Target, constant_value, exports, op_name
from eqsat.relay.expr import Call, Constant, Expr

# ---- the value itself


@imports("Dropout")
def _dropout(source: Source) -> Result:
    source.ignore("ratio", "seed")
    data, _ratio, training = source.optional(1, 3)
    source.require(training is None or not source.scalar(training), "it is in training mode")
    source.require(source.used_outputs() == 1, "its mask is used")
    return data  # type: ignore[no-any-return]


@exports("copy", "annotation.stop_fusion", "annotation.checkpoint")
def _to_copy(call: Call, target: Target) -> Expr:
    return call.args[0]


@exports("nn.dropout")
def _to_dropout(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Dropout", call.args, same={0: call.args[0]})


# ---- more or fewer inputs than two


@imports("Max", "Min", "Sum")
def _fold_pairwise(source: Source) -> Result:
    name = {"Max": "maximum", "Min": "minimum", "Sum": "add"}[source.op_type]
    if len(source.inputs) == 1:
        return source.arguments(1)[0]
    return build(name, *source.arguments(2))


@exports("maximum", "minimum")
def _to_extreme(call: Call, target: Target) -> OnnxNode:
    of_numbers, of_truths = ("Max", "Or") if op_name(call) == "maximum" else ("Min", "And")
    return OnnxNode(of_truths if target.type(call.args[0]).dtype == "bool" else of_numbers, call.args)


@imports("Reciprocal")
def _reciprocal(source: Source) -> Result:
    (data,) = source.arguments(1)
    return build("divide", Constant(np.asarray(1, source.type(data).dtype)), data)


@exports("divide")
def _to_divide(call: Call, target: Target) -> OnnxNode:
    one = constant_value(call.args[0])
    if one is not None and one.ndim == 0 and one == 1 and one.dtype.kind not in "iu":
        return OnnxNode("Reciprocal", call.args[1:])
    return OnnxNode("Div", call.args)


@exports("rsqrt")
def _to_rsqrt(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Reciprocal", [OnnxNode("Sqrt", call.args)])


@exports("log2", "log10")
def _to_log(call: Call, target: Target) -> OnnxNode:
    base = math.log(2 if op_name(call) == "log2" else 10)
    return OnnxNode("Div", [OnnxNode("Log", call.args), np.asarray(base, target.type(call.args[0]).dtype)])


# ---- powers, remainders, shifts


@imports("Pow")
def _pow(source: Source) -> Result:
    base, exponent = source.arguments(2)
    wanted, found = source.type(base).dtype, source.type(exponent).dtype
    if wanted != found:
        values = source.array(exponent)
        source.require(np.array_equal(values.astype(wanted), values), "its exponent has another dtype")
        exponent = Constant(values.astype(wanted))
    return build("power", base, exponent)


@imports("Mod")
def _mod(source: Source) -> Result:
    lhs, rhs = source.arguments(2)
    truncates = source.int("fmod", 0)
    source.require(truncates or source.type(lhs).dtype.startswith(("int", "uint")), "fmod must be 1 for its dtype")
    return build("mod" if truncates else "floor_mod", lhs, rhs)


@exports("mod", "trunc_mod")
def _to_fmod(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Mod", call.args, {"fmod": 1})


@exports("floor_mod")
def _to_mod(call: Call, target: Target) -> OnnxNode:
    if target.type(call.args[0]).dtype.startswith(("int", "uint")):
        return OnnxNode("Mod", call.args)
    lhs, rhs = call.args
    return OnnxNode("Sub", [lhs, OnnxNode("Mul", [OnnxNode("Floor", [OnnxNode("Div", [lhs, rhs])]), rhs])])


@imports("BitShift")
def _bit_shift(source: Source) -> Result:
    return build("left_shift" if source.string("direction") == "LEFT" else "right_shift", *source.arguments(2))


@exports("left_shift", "right_shift")
def _to_bit_shift(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("BitShift", call.args, {"direction": "LEFT" if op_name(call) == "left_shift" else "RIGHT"})


# ---- comparisons


@exports("not_equal")
def _to_not_equal(call: Call, target: Target) -> OnnxNode:
    return OnnxNode("Not", [OnnxNode("Equal", call.args)])


@exports("less_equal", "greater_equal")
def _to_or_equal(call: Call, target: Target) -> OnnxNode:
    strict = "Less" if op_name(call) == "less_equal" else "Greater"
    if target.has(f"{strict}OrEqual"):
        return OnnxNode(f"{strict}OrEqual", call.args)
    return OnnxNode("Or", [OnnxNode(strict, call.args), OnnxNode("Equal", call.args)])


@imports("IsInf")
def _isinf(source: Source) -> Result:
    both = source.int("detect_negative", 1) and source.int("detect_positive", 1)
    source.require(both, "it looks for one sign only")
    return build("isinf", *source.arguments(1))

"""How FakeQuantizationToInteger computes operators on integers: ``rule(call, types)`` gives the call and its type.

The arguments of ``call`` are integers already. ``types`` says what they stand for, and of ``call`` itself what the
result of the whole region stands for, where nothing between changes the numbers. A rule raises
PassError where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import PassError
from eqsat.relay.expr import Call, Constant, Expr, Op, Tuple, const
from eqsat.relay.fold import fold_constants
from eqsat.relay.infer import type_of
from eqsat.relay.op import cast, clip, maximum, minimum, reshape
from eqsat.relay.op.layout import parse_layout
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.qnn import op as qnn
from eqsat.relay.op.types import axis_index, tensor
from eqsat.relay.transform.affine import TensorAffineType, TupleAffineType

AffineType: TypeAlias = TensorAffineType | TupleAffineType
Types: TypeAlias = Mapping[Expr, Any]
Rule: TypeAlias = Callable[[Any, Types], tuple[Expr, AffineType]]


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise PassError(why)


def _with_args(call: Any, *args: Expr) -> Call:
    return Call(call.op, args, call.attrs)


def _quantized(call: Any, name: str, args: list[Expr]) -> Call:
    """A quantized operator with those attributes of ``call`` that it has; products are of type int32."""
    op = Op.get(f"qnn.{name}")
    names = {field.name for field in op.fields} - {"out_dtype"}
    return Call(op, args, make_attrs(op, {key: value for key, value in (call.attrs or {}).items() if key in names}))


def _requantized(value: Expr, given: TensorAffineType, wanted: TensorAffineType) -> Expr:
    if given.is_like(wanted):
        return value
    _require(wanted.is_scalar, "integers cannot be brought to several scales")
    parameters = [fold_constants(each) for each in (given.scale, given.zero_point, wanted.scale, wanted.zero_point)]
    result: Expr = qnn.requantize(value, *parameters, axis=given.axis, out_dtype=wanted.dtype)
    return result


def _operand(value: Expr, types: Types, like: TensorAffineType, axis: int = -1) -> Expr:
    """An operand as integers that stand for numbers as those of ``like`` do; constants may be numbers themselves."""
    if value in types:
        return _requantized(value, types[value], like)
    _require(isinstance(value, Constant), "an operand is neither quantized nor constant")
    result: Expr = qnn.quantize(value, like.scale, like.zero_point, axis=axis, out_dtype=like.dtype)
    return result


def _along(value: Expr, ty: TensorAffineType, call: Any) -> Expr:
    """A parameter of the first argument's type, shaped to broadcast with it."""
    rank = len(tensor(type_of(call.args[0])).shape)
    shape = tuple([-1 if index == axis_index(ty.axis, rank) else 1 for index in range(rank)])
    wanted = () if ty.is_scalar else shape
    result: Expr = value if tensor(type_of(value)).shape == wanted else reshape(value, wanted)
    return result


# ---- from and to real numbers


def _dequantize(call: Any, types: Types) -> tuple[Expr, AffineType]:
    return call.args[0], types[call]


def _quantize(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = TensorAffineType(call.args[1], call.args[2], call.attrs.out_dtype, call.attrs.axis)
    return _requantized(call.args[0], types[call.args[0]], ty), ty


# ---- operators that take integers as they are


def _kept(call: Any, types: Types) -> tuple[Expr, AffineType]:
    return call, types[call.args[0]]


def _moved(call: Any, types: Types) -> tuple[Expr, AffineType]:
    """Axes may move, and the axis of several scales with them."""
    _require(types[call.args[0]].is_scalar, f"{call.op.name} may move the axis of several scales")
    return _kept(call, types)


def _split(call: Any, types: Types) -> tuple[Expr, AffineType]:
    cuts, ty = call.attrs.indices_or_sections, types[call.args[0]]
    _require(ty.is_scalar, "the scales of parts are not known")
    return call, TupleAffineType([ty] * (cuts if isinstance(cuts, int) else len(cuts) + 1))


def _top_k(call: Any, types: Types) -> tuple[Expr, AffineType]:
    _require(call.attrs.ret_type == "values", "indices are no quantized numbers")
    return _moved(call, types)


def _pad(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = types[call.args[0]]
    _require(ty.is_scalar, "the padding would need several values")
    return _with_args(call, call.args[0], _operand(call.args[1], types, ty)), ty


def _relu(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = types[call.args[0]]
    zero = fold_constants(cast(_along(ty.zero_point, ty, call), ty.dtype))
    return maximum(call.args[0], zero), ty


def _clip(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = types[call.args[0]]
    bounds = [fold_constants(each) for each in (ty.scale, ty.zero_point)]
    info = np.iinfo(ty.dtype)
    if ty.is_scalar and all(isinstance(bound, Constant) for bound in bounds):
        scale, zero = (bound.data.numpy().item() for bound in bounds)  # type: ignore[attr-defined]
        least, most = (
            int(np.clip(np.rint(number / scale) + zero, info.min, info.max))
            for number in (call.attrs.a_min, call.attrs.a_max)
        )
        return clip(call.args[0], least, most), ty
    shape = tensor(type_of(ty.scale)).concrete_shape
    lower, upper = (
        qnn.quantize(const(np.full(shape, number, "float32")), *bounds, axis=0, out_dtype=ty.dtype)
        for number in (call.attrs.a_min, call.attrs.a_max)
    )
    return minimum(maximum(call.args[0], _along(lower, ty, call)), _along(upper, ty, call)), ty


def _mean(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = types[call.args[0]]
    _require(ty.is_scalar, "a mean over several scales")
    return cast(_with_args(call, cast(call.args[0], "int32")), ty.dtype), ty


def _average(call: Any, types: Types) -> tuple[Expr, AffineType]:
    """Averages of int32, which are of the scale of the whole region's result."""
    ty, out = types[call.args[0]], types[call]
    wanted = TensorAffineType(out.scale, out.zero_point, "int32", out.axis)
    value = call.args[0]
    value = cast(value, "int32") if ty.is_like(out) else _requantized(value, ty, wanted)
    return _with_args(call, value), wanted


# ---- operators that know scales


def _average_pool(call: Any, types: Types) -> tuple[Expr, AffineType]:
    ty = types[call.args[0]]
    out = types[call] if call in types and types[call].dtype == ty.dtype else ty
    _require(ty.is_scalar and out.is_scalar, "a pool of several scales")
    parameters = [ty.scale, ty.zero_point, out.scale, out.zero_point]
    return _quantized(call, "avg_pool2d", [call.args[0], *parameters]), out


def _product(name: str) -> Rule:
    """Products of integers; the scale of the result is the product of the scales."""

    def rule(call: Any, types: Types) -> tuple[Expr, AffineType]:
        left, right = call.args
        _require(left in types and right in types, "a factor is not quantized")
        x, w = types[left], types[right]
        scale = fold_constants(x.scale * w.scale)
        zero = const(np.zeros(tensor(type_of(scale)).shape, "int32"))
        made = _quantized(call, name, [left, right, x.zero_point, w.zero_point, x.scale, w.scale])
        axis = -1
        if "data_layout" in (call.attrs or {}):
            layout = call.attrs.out_layout or call.attrs.data_layout
            axis = [part for part, _ in parse_layout(layout)].index("C")
        return made, TensorAffineType(scale, zero, "int32", axis)

    return rule


def _bias_add(call: Any, types: Types) -> tuple[Expr, AffineType]:
    value, bias = call.args
    ty = types[value]
    if bias in types and not ty.is_scalar:
        _require(
            types[bias].is_like(TensorAffineType(ty.scale, ty.zero_point, ty.dtype, 0)), "the bias has other scales"
        )
        return call, ty
    return _with_args(call, value, _operand(bias, types, ty, axis=0)), ty


def _sides(call: Any, types: Types) -> tuple[list[Expr], list[TensorAffineType]]:
    """Both operands, of which one may be a constant number, as integers, and what they stand for."""
    found = [types.get(arg) for arg in call.args]
    known = next((ty for ty in found if ty is not None), None)
    if known is None:
        raise PassError("neither operand is quantized")
    args = [arg if ty is not None else _operand(arg, types, known) for arg, ty in zip(call.args, found, strict=True)]
    return args, [ty or known for ty in found]


def _result(call: Any, types: Types, left: TensorAffineType) -> TensorAffineType:
    """What the result of an operator on two tensors stands for: what that of the region does, or the first operand."""
    out: TensorAffineType = types[call] if left.dtype != "int32" else left
    return out if out.dtype == left.dtype else left


def _last_axes(args: list[Expr], right: TensorAffineType, left: TensorAffineType) -> int:
    """The axis of the second of two operands' scales as that of the first would be stated, where both are last."""
    ranks = [len(tensor(type_of(arg)).shape) for arg in args]
    both_last = all(
        rank and axis_index(ty.axis, rank) == rank - 1 for ty, rank in zip((left, right), ranks, strict=True)
    )
    return left.axis if both_last else right.axis


def _arithmetic(name: str) -> Rule:
    def rule(call: Any, types: Types) -> tuple[Expr, AffineType]:
        args, (left, right) = _sides(call, types)
        out = _result(call, types, left)
        zero = fold_constants(left.zero_point)
        is_zero = isinstance(zero, Constant) and not zero.data.numpy().any()
        aligned = TensorAffineType(right.scale, right.zero_point, right.dtype, _last_axes(args, right, left))
        if name == "add" and left.dtype == "int32" and is_zero and left.is_like(aligned) and left.is_like(out):
            return _with_args(call, *args), left  # sums of 32 bits, as biases are
        _require(out.is_scalar, "a sum or product has one scale")
        parameters = [each for ty in (left, right, out) for each in (ty.scale, ty.zero_point)]
        op = Op.get(f"qnn.{name}")
        return Call(op, [*args, *parameters], make_attrs(op, {"lhs_axis": left.axis, "rhs_axis": right.axis})), out

    return rule


def _extremum(call: Any, types: Types) -> tuple[Expr, AffineType]:
    args, sides = _sides(call, types)
    out = _result(call, types, sides[0])
    return _with_args(call, *[_requantized(arg, ty, out) for arg, ty in zip(args, sides, strict=True)]), out


def _concatenate(call: Any, types: Types) -> tuple[Expr, AffineType]:
    fields, out = types[call.args[0]].types, types[call]
    _require(len({ty.dtype for ty in fields}) == 1, "the parts are of several types")
    scales, zeros = Tuple([ty.scale for ty in fields]), Tuple([ty.zero_point for ty in fields])
    made = _quantized(call, "concatenate", [call.args[0], scales, zeros, out.scale, out.zero_point])
    return made, TensorAffineType(out.scale, out.zero_point, fields[0].dtype, out.axis)


def _function(name: str) -> Rule:
    def rule(call: Any, types: Types) -> tuple[Expr, AffineType]:
        ty, out = types[call.args[0]], types[call]
        made = _quantized(call, name, [call.args[0], ty.scale, ty.zero_point, out.scale, out.zero_point])
        return made, TensorAffineType(out.scale, out.zero_point, ty.dtype, out.axis)

    return rule


_SHAPING = "broadcast_to expand_dims max min nn.batch_flatten nn.depth_to_space reshape squeeze take transpose"

RULES: dict[str, Rule] = {
    **dict.fromkeys(["image.resize2d", "nn.max_pool2d", "strided_slice"], _kept),
    **dict.fromkeys(
        [
            "broadcast_to",
            "expand_dims",
            "max",
            "min",
            "nn.batch_flatten",
            "nn.depth_to_space",
            "reshape",
            "squeeze",
            "take",
            "transpose",
        ],
        _moved,
    ),
    **dict.fromkeys(["nn.adaptive_avg_pool1d", "nn.global_avg_pool2d"], _average),
    **{f"nn.{name}": _product(name) for name in ("batch_matmul", "conv2d", "conv2d_transpose", "dense")},
    **{name: _function(name) for name in ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh")},
    "add": _arithmetic("add"),
    "clip": _clip,
    "concatenate": _concatenate,
    "maximum": _extremum,
    "mean": _mean,
    "minimum": _extremum,
    "multiply": _arithmetic("mul"),
    "nn.avg_pool2d": _average_pool,
    "nn.bias_add": _bias_add,
    "nn.hardswish": _function("hardswish"),
    "nn.leaky_relu": _function("leaky_relu"),
    "nn.pad": _pad,
    "nn.relu": _relu,
    "qnn.dequantize": _dequantize,
    "qnn.quantize": _quantize,
    "split": _split,
    "subtract": _arithmetic("subtract"),
    "topk": _top_k,
}
"""The rules of operators, used where none is registered as ``FTVMFakeQuantizationToInteger``."""

_CHOOSING = "clip concatenate maximum minimum nn.max_pool2d nn.pad nn.relu split strided_slice topk"

CHOOSING = frozenset([*_SHAPING.split(), *_CHOOSING.split()])
"""Operators whose results are numbers among their arguments, or bounds: where those are cut off at what the result of a
region can stand for, nothing else is lost than at the end."""

OPTIONAL_RULES: dict[str, Rule] = {"nn.softmax": _function("softmax")}
"""Rules that lose more, which hold where the pass is asked for them by name."""

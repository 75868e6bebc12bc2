"""ToMixedPrecision: products in a smaller floating-point type, and what follows them as far as that is safe."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import ArgumentError, PassError
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.infer import infer_module
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.module import IRModule
from eqsat.relay.op import cast
from eqsat.relay.op.op import make_attrs, register_op_attr
from eqsat.relay.transform.base import Pass, PassContext, PassInfo, optimizable
from eqsat.relay.ty import TensorType, TupleType, Type
from eqsat.relay.visitor import post_order, rebuild

MIXED_PRECISION_ALWAYS = 0
"""An operator that is always computed in the smaller type."""

MIXED_PRECISION_FOLLOW = 1
"""An operator that is computed in the smaller type if all its arguments are in it, variables or constants."""

MIXED_PRECISION_NEVER = 2
"""An operator that is computed in the type that it was written in."""

_ALWAYS = """
    nn.batch_matmul nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose nn.dense
"""
_FOLLOW = """
    add argmax argmin argwhere broadcast_to_like cast cast_like clip concatenate copy divide dyn.broadcast_to dyn.full
    dyn.reshape dyn.strided_slice dyn.tile expand_dims fast_erf fast_exp fast_tanh full greater greater_equal
    image.resize2d less less_equal max maximum min minimum multiply nn.adaptive_max_pool1d nn.adaptive_max_pool2d
    nn.adaptive_max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_norm nn.bias_add
    nn.depth_to_space nn.dropout nn.global_max_pool2d nn.leaky_relu nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.pad
    nn.prelu nn.relu reshape scatter scatter_elements scatter_nd shape_of sigmoid split sqrt squeeze strided_slice
    subtract take tanh tile transpose where zeros
"""
_NEVER = """
    arange erf exp mean nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.cross_entropy
    nn.cross_entropy_with_logits nn.global_avg_pool2d nn.l2_normalize nn.layer_norm nn.softmax power sum variance
"""
_CATEGORIES: dict[str, int] = {
    name: category
    for category, names in (
        (MIXED_PRECISION_ALWAYS, _ALWAYS),
        (MIXED_PRECISION_FOLLOW, _FOLLOW),
        (MIXED_PRECISION_NEVER, _NEVER),
    )
    for name in names.split()
}
_CREATED = ("dyn.full", "dyn.ones", "dyn.zeros", "full", "ones", "zeros")
"""Operators whose attribute ``dtype`` is that of the tensor they make."""

_KEEP = "relay.ToMixedPrecision.keep_orig_output_dtype"
_LARGEST = {"bfloat16": 3.3895e38}


def register_mixed_precision_conversion(op_name: str, func: Any = None, level: int = 10) -> Any:
    """Register how :func:`ToMixedPrecision` treats an operator, directly or as a decorator.

    Args:
        op_name: the operator's name.
        func: ``func(call, mixed_precision_type)`` gives the category, the type that the operator computes in where it
            is computed in the smaller type, and the type that its result is cast to then.
        level: accepted for compatibility with TVM and ignored.
    """
    return register_op_attr(op_name, "FTVMMixedPrecisionConversionType", func, level)


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Pass:
    """Compute products in a smaller floating-point type, and what follows them unless it would lose too much.

    Branches, inner functions and functions that others call keep their types. So does the result of the others with
    ``PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True})``.

    Args:
        mixed_precision_type: the smaller type.
        missing_op_mode: what to do about operators of which nothing is registered, which follow their arguments: 0 to
            refuse them, 1 to warn, 2 to say nothing.

    Raises:
        ArgumentError: the type is not a floating-point type, or there is no such mode.
        PassError: an operator that is refused, or a registered function that gives anything else.
    """
    if not _is_float(mixed_precision_type):
        raise ArgumentError(f"ToMixedPrecision needs a floating-point type, not {mixed_precision_type!r}")
    if missing_op_mode not in (0, 1, 2):
        raise ArgumentError(f"missing_op_mode must be 0, 1 or 2, not {missing_op_mode!r}")

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        typed = infer_module(mod)
        called = {
            node.name_hint
            for function in typed.functions.values()
            for node in post_order(function)
            if isinstance(node, GlobalVar)
        }
        result = typed.copy()
        missing: dict[str, None] = {}
        for name, function in optimizable(typed):
            converter = _Converter(typed, mixed_precision_type, missing)
            result[name] = converter.run(function, keeps=name in called or bool(context.config.get(_KEEP)))
        _report(list(missing), missing_op_mode)
        return infer_module(result)

    return Pass(transform, PassInfo(0, "ToMixedPrecision"))


def _report(missing: Sequence[str], mode: int) -> None:
    if missing and mode != 2:
        message = f"no FTVMMixedPrecisionConversionType is registered for {', '.join(missing)}"
        if mode == 0:
            raise PassError(message)
        warnings.warn(f"{message}: ToMixedPrecision lets them follow their arguments", stacklevel=2)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


class _Converter:
    def __init__(self, mod: IRModule, dtype: str, missing: dict[str, None]):
        self.dtype = dtype
        self.missing = missing
        self.types: dict[Expr, Type] = {}
        self.inferencer = Inferencer(self.types, mod)
        self.new: dict[Expr, Expr] = {}
        self.casts: dict[tuple[Expr, str], Expr] = {}

    def run(self, function: Function, keeps: bool) -> Function:
        """Convert a typed function; if it ``keeps`` the type of its result, that is cast back."""
        bound = {node.var: node.value for node in post_order(function) if isinstance(node, Let)}

        def needs(node: Expr) -> Sequence[Expr]:
            """A variable gets its type from the value that is bound to it; functions keep theirs."""
            value = bound.get(node) if isinstance(node, Var) else None
            return node.children() if value is None or isinstance(value, Function) else (value,)

        for node in post_order(function.body, children=needs):
            if isinstance(node, Var) and needs(node):
                self.new[node] = self._typed(Var(node.vid, self.types[self.new[bound[node]]]))
            else:
                self.new[node] = self._typed(self._converted(node))
        body = self._as_written(function.body) if keeps else self.new[function.body]
        return Function(function.params, body, None, function.type_params, function.attrs)

    def _typed(self, expr: Expr) -> Expr:
        self.inferencer.run(expr)
        return expr

    def _converted(self, node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node, node.op)
        if isinstance(node, (Tuple, TupleGetItem, Let)):
            return rebuild(node, self.new)
        return rebuild(node, {child: self._as_written(child) for child in node.children()})

    def _call(self, call: Call, op: Op) -> Expr:
        category, inner, outer = self._category(call, op)
        args = [self.new[arg] for arg in call.args]
        if category == MIXED_PRECISION_FOLLOW:
            follows = all(isinstance(arg, (Var, Constant)) or self._is_mixed(self.types[arg]) for arg in args)
            category = MIXED_PRECISION_ALWAYS if follows else MIXED_PRECISION_NEVER
        if category == MIXED_PRECISION_NEVER or not self._holds(call):
            return rebuild(call, {arg: self._as_written(arg) for arg in call.args})
        attrs = self._attrs(call, op, inner)
        made = Call(op, [self._in_dtype(arg, self.dtype) for arg in args], attrs, span=call.span)
        if inner == outer:
            return made
        return self._in_dtype(self._typed(made), outer)

    def _category(self, call: Call, op: Op) -> tuple[int, str, str]:
        registered = op.get_attr("FTVMMixedPrecisionConversionType")
        if registered is None:
            if op.name not in _CATEGORIES:
                self.missing[op.name] = None
            return _CATEGORIES.get(op.name, MIXED_PRECISION_FOLLOW), self.dtype, self.dtype
        answer = registered(call, self.dtype)
        if len(answer) != 3 or answer[0] not in (0, 1, 2):
            raise PassError(
                f"FTVMMixedPrecisionConversionType of {op.name} must give a category and two types, not {answer!r}"
            )
        return int(answer[0]), str(answer[1]), str(answer[2])

    def _is_mixed(self, ty: Type) -> bool:
        """Whether all floating-point tensors in a value are of the smaller type."""
        if isinstance(ty, TupleType):
            return all(map(self._is_mixed, ty.fields))
        return isinstance(ty, TensorType) and (ty.dtype == self.dtype or not _is_float(ty.dtype))

    def _holds(self, call: Call) -> bool:
        """Whether the smaller type holds the bounds of a clip."""
        attrs: Any = call.attrs
        if call.op is not Op.get("clip"):
            return True
        largest = _LARGEST.get(self.dtype) or float(np.finfo(self.dtype).max)
        return bool(attrs.a_min >= -largest and attrs.a_max <= largest)

    def _attrs(self, call: Call, op: Op, dtype: str) -> Any:
        """The attributes of a call that computes in ``dtype``."""
        name = "dtype" if op.name in _CREATED else "out_dtype"
        given = None if call.attrs is None else call.attrs.get(name)
        if call.attrs is None or given is None or (given and not _is_float(given)):
            return call.attrs
        return make_attrs(op, {**call.attrs, name: dtype})

    def _as_written(self, node: Expr) -> Expr:
        """What a node has become, in the type that it was written in."""
        new = self.new[node]
        written = node._checked_type
        return new if written is None or new is node else self._like(new, written)

    def _like(self, expr: Expr, written: Type) -> Expr:
        ty = self.types.get(expr)
        if isinstance(written, TensorType):
            return self._in_dtype(expr, written.dtype)
        if not isinstance(written, TupleType) or not isinstance(ty, TupleType):
            return expr
        fields = [self._field(expr, index) for index in range(len(ty.fields))]
        return self._tuple_of(expr, fields, [self._like(*pair) for pair in zip(fields, written.fields, strict=True)])

    def _in_dtype(self, expr: Expr, wanted: str) -> Expr:
        """A value with its floating-point tensors cast."""
        ty = self.types[expr]
        if isinstance(ty, TupleType):
            fields = [self._field(expr, index) for index in range(len(ty.fields))]
            return self._tuple_of(expr, fields, [self._in_dtype(field, wanted) for field in fields])
        if not isinstance(ty, TensorType) or not _is_float(ty.dtype) or ty.dtype == wanted:
            return expr
        key = (expr, wanted)
        if key not in self.casts:
            self.casts[key] = self._typed(cast(expr, wanted))
            self.casts[self.casts[key], ty.dtype] = expr  # casting back gives what was cast, without its rounding
        return self.casts[key]

    def _field(self, expr: Expr, index: int) -> Expr:
        return expr.fields[index] if isinstance(expr, Tuple) else self._typed(TupleGetItem(expr, index))

    def _tuple_of(self, expr: Expr, fields: Sequence[Expr], new: Sequence[Expr]) -> Expr:
        same = all(old is made for old, made in zip(fields, new, strict=True))
        return expr if same else self._typed(Tuple(new))

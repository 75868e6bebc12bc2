"""The passes that TVM's partition function for CMSIS-NN runs, registered as ``relay.ext.cmsisnn.transform.<name>``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.registry import register_func
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Op, Var, const
from eqsat.relay.infer import infer_module
from eqsat.relay.module import IRModule
from eqsat.relay.transform.base import Pass, PassContext, PassInfo
from eqsat.relay.ty import TensorType, Type, is_static
from eqsat.relay.visitor import post_order, rewrite_post_order, substitute

COMPILER = "cmsis-nn"

Step = Callable[[Call], Expr]


def GetEffectiveConv2DPadding(conv2d: Call, pad: Call) -> tuple[int, int, int, int]:
    """Return the padding (top, left, bottom, right) of a convolution together with that of the pad before it."""
    attrs, widths = _attrs(conv2d), _attrs(pad).pad_width
    height, width = (widths[attrs.data_layout.index(axis)] for axis in "HW")
    added = (height[0], width[0], height[1], width[1])
    top, left, bottom, right = (int(own) + int(more) for own, more in zip(attrs.padding, added, strict=True))
    return top, left, bottom, right


def GenerateCMSISNNConstants() -> Pass:
    """Leave all as it is: a code generator computes multipliers and shifts from the scales, which are constants."""
    return Pass(lambda mod, context: infer_module(mod), PassInfo(0, "GenerateCMSISNNConstants"))


def CMSISNNFusePads() -> Pass:
    """Let quantized convolutions pad their data themselves, where what is padded with is the data's zero point."""

    def visit(call: Call) -> Expr:
        pad = call.args[0] if _is(call, "qnn.conv2d") else None
        if not isinstance(pad, Call) or not _is(pad, "nn.pad") or not _equal(pad.args[1], call.args[2]):
            return call
        attrs = _attrs(call).replace(padding=GetEffectiveConv2DPadding(call, pad))
        return Call(call.op, (pad.args[0], *call.args[1:]), attrs, span=call.span)

    return _pass("CMSISNNFusePads", lambda function: _changed(function, visit))


def ScalarToTensorConstants() -> Pass:
    """Make scalar operands of quantized sums and products tensors of the shape of the other operand."""

    def visit(call: Call) -> Expr:
        if isinstance(call.op, Function):
            return _with_tensors(call.op, call)
        if not _is_sum_or_product(call):
            return call
        left, right, *others = call.args
        operands = (_spread(left, right._checked_type), _spread(right, left._checked_type))
        return Call(call.op, (*operands, *others), call.attrs, span=call.span)

    return _pass("ScalarToTensorConstants", lambda function: _changed(function, visit))


def ExtractConstantsFromPartitionedFunction() -> Pass:
    """Make parameters of the tensors that functions for CMSIS-NN hold as constants; who calls them passes them.

    The parameters of a function stand in the order in which its body uses them.
    """

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        constants: dict[str, dict[Expr, Expr]] = {}
        for name, function in _functions(mod):
            mod[name], constants[name] = _extracted(_changed(function, _with_constants_outside))

        def visit(old: Expr, new: Expr) -> Expr:
            if not isinstance(new, Call) or not isinstance(new.op, GlobalVar) or new.op.name_hint not in constants:
                return new
            given = constants[new.op.name_hint]
            args = iter(new.args)
            return Call(new.op, [given.get(param) or next(args) for param in mod[new.op].params], span=new.span)

        for variable in mod.get_global_vars():
            if variable.name_hint not in constants:
                mod[variable] = _as_function(rewrite_post_order(mod[variable], visit))
        return infer_module(mod)

    return Pass(transform, PassInfo(0, "ExtractConstantsFromPartitionedFunction"))


def _with_constants_outside(call: Call) -> Expr:
    if not isinstance(call.op, Function):
        return call
    given = dict(zip(call.op.params, call.args, strict=True))
    function, constants = _extracted(call.op)
    return Call(function, [constants.get(param) or given[param] for param in function.params], span=call.span)


def _extracted(function: Function) -> tuple[Function, dict[Expr, Expr]]:
    """Return a function with parameters for its tensors, and the constant of each of these parameters."""
    found = [node for node in post_order(function.body) if isinstance(node, Constant) and node.data.shape]
    params = [Var(f"const_{index}", TensorType(each.data.shape, each.data.dtype)) for index, each in enumerate(found)]
    if not found:
        return function, {}
    body = substitute(function.body, dict(zip(found, params, strict=True)))
    used = free_vars(body)
    order = [*used, *[param for param in function.params if param not in used]]
    result = Function(order, body, function.ret_type, function.type_params, function.attrs)
    return result, dict(zip(params, found, strict=True))


def _pass(name: str, change: Callable[[Function], Function]) -> Pass:
    def transform(mod: IRModule, context: PassContext) -> IRModule:
        for each, function in _functions(mod):
            mod[each] = change(function)
        return infer_module(mod)

    return Pass(transform, PassInfo(0, name))


def _functions(mod: IRModule) -> list[tuple[str, Function]]:
    found = [(variable.name_hint, function) for variable, function in mod.functions.items()]
    return [(name, function) for name, function in found if function.attrs.get("Compiler") == COMPILER]


def _changed(function: Function, visit: Step) -> Function:
    return _as_function(rewrite_post_order(function, lambda old, new: visit(new) if isinstance(new, Call) else new))


def _as_function(expr: Expr) -> Function:
    assert isinstance(expr, Function)
    return expr


def _attrs(call: Call) -> Any:
    return call.attrs


def _is(call: Call, name: str) -> bool:
    return isinstance(call.op, Op) and call.op.name == name


def _equal(left: Expr, right: Expr) -> bool:
    if not isinstance(left, Constant) or not isinstance(right, Constant):
        return False
    return bool(np.array_equal(left.data.numpy(), right.data.numpy()))


def _is_sum_or_product(call: Call) -> bool:
    return _is(call, "qnn.add") or _is(call, "qnn.mul")


def _with_tensors(function: Function, call: Call) -> Call:
    """Return the call of a composite function with tensors for its scalars, and parameters of such a type."""
    given: dict[Expr, Expr] = dict(zip(function.params, call.args, strict=True))
    wider: dict[Expr, Expr] = {}
    for node in post_order(function.body):
        if isinstance(node, Call) and _is_sum_or_product(node):
            for operand, other in (node.args[:2], node.args[1::-1]):
                tensor = _spread(given.get(operand, operand), other._checked_type)
                if isinstance(operand, Var) and operand in given and tensor is not given[operand]:
                    given[operand] = tensor
                    wider[operand] = Var(operand.name_hint, other._checked_type)
    if not wider:
        return call
    params: list[Any] = [wider.get(param, param) for param in function.params]
    body = substitute(function.body, wider)
    made = Function(params, body, function.ret_type, function.type_params, function.attrs)
    return Call(made, list(given.values()), span=call.span)


def _spread(operand: Expr, ty: Type | None) -> Expr:
    """Return a scalar constant as a tensor of the shape of a type, and anything else as it is."""
    if not isinstance(operand, Constant) or operand.data.shape or not is_static(ty):
        return operand
    return const(np.full(ty.concrete_shape, operand.data.numpy()), operand.data.dtype)


for _function in (
    GetEffectiveConv2DPadding,
    GenerateCMSISNNConstants,
    CMSISNNFusePads,
    ScalarToTensorConstants,
    ExtractConstantsFromPartitionedFunction,
):
    register_func(f"relay.ext.cmsisnn.transform.{_function.__name__}", _function, override=True)

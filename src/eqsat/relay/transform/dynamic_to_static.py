"""DynamicToStatic: operators whose parameters are tensors become operators with attributes if the values are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.relay.elements import Elements, whole_numbers
from eqsat.relay.expr import Call, Constant, Expr, Function, Op
from eqsat.relay.inferencer import Inferencer
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import make_attrs
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.transform.fold_constant import FoldConstant
from eqsat.relay.transform.simplify.rule import op_name
from eqsat.relay.ty import Type
from eqsat.relay.visitor import post_order, rebuild

_DYNAMIC = "dyn."


def DynamicToStatic() -> Pass:
    """Replace ``dyn.reshape`` and similar operators by ``reshape`` and so on if all parameters are known.

    Parameters are known if they are constants, or computed from constants and shapes. Constants are folded before and
    after.
    """
    fold = FoldConstant()
    static = FunctionPass(_static, PassInfo(2, "DynamicToStatic"), typed=True)
    return Pass(lambda mod, context: fold(static(fold(mod))), PassInfo(2, "DynamicToStatic"))


def _static(function: Function, mod: IRModule, context: PassContext) -> Expr:
    types: dict[Expr, Type] = {}
    inferencer = Inferencer(types, mod)
    new: dict[Expr, Expr] = {}
    for node in post_order(function):
        made = rebuild(node, new)
        if isinstance(made, Call) and op_name(made).startswith(_DYNAMIC):
            made = _with_attributes(made, inferencer.elements)
        if isinstance(made, Function):  # what it returns may be known better now
            made = Function(made.params, made.body, types[made.body], made.type_params, made.attrs)
        inferencer.run(made)
        new[node] = made
    return new[function]


def _with_attributes(call: Call, elements: Elements) -> Call:
    """The call of the operator with attributes; ``call`` itself where a parameter is not known."""
    op: Any = call.op
    static = Op.find(op.name.removeprefix(_DYNAMIC))
    if static is None:
        return call
    attrs, args = dict(call.attrs or {}), []
    kinds = {field.name: field.kind for field in static.fields}
    for name, arg in zip(op.arguments, call.args, strict=True):
        if name in (static.arguments or ()):
            args.append(arg)
            continue
        value = arg.data.numpy() if isinstance(arg, Constant) else whole_numbers(elements.of(arg))
        if value is None:
            return call
        attrs[name] = value.astype(np.int64).tolist() if kinds[name] == "ints" else value.tolist()
    return Call(static, args, make_attrs(static, attrs))

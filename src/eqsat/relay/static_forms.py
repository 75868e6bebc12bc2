"""Calls as what is known of their sizes lets them be: constants, or operators with attributes for those with tensors.

A size with a name is taken not to be 0 where a reshape reads its codes: there 0 and -1 mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from eqsat.relay.elements import MOST_ELEMENTS, Elements, is_small_constant, whole_numbers
from eqsat.relay.expr import Call, Constant, Expr, Op, TupleGetItem
from eqsat.relay.fold import fold_constants
from eqsat.relay.op.op import make_attrs
from eqsat.relay.op.shape import reshape_codes
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type, is_static


def static_form(call: Call | TupleGetItem, types: Mapping[Expr, Type], elements: Elements) -> Expr:
    """Return ``call``, or the output of one, without tensors for what is known, or the constant or argument that it is.

    ``types`` holds its type and those of its arguments, ``elements`` what is known of integers among them.
    """
    if isinstance(call, TupleGetItem):
        made = call.tuple_value
        return fold_constants(call) if isinstance(made, Call) and all(map(is_small_constant, made.args)) else call
    ty = types[call]
    if not isinstance(call.op, Op) or not isinstance(ty, TensorType):
        return call
    if all(map(is_small_constant, call.args)) and is_static(ty) and prod(ty.concrete_shape) <= MOST_ELEMENTS:
        return fold_constants(call, limit=float("inf"))
    if ty.dtype in ("int64", "int32", "bool"):
        found = elements.of(call)
        known = None if found is None else whole_numbers(found, ty.dtype)
        if known is not None:
            return Constant(known)
    form = _FORMS.get(call.op.name)
    return call if form is None else form(call, ty, types, elements)


Form = Callable[[Call, TensorType, Mapping[Expr, Type], Elements], Expr]


def _reshape(call: Call, ty: TensorType, types: Mapping[Expr, Type], elements: Elements) -> Expr:
    data = types[call.args[0]]
    if not isinstance(data, TensorType) or elements.of(call.args[1]) is None or (0 in ty.shape and not is_static(ty)):
        return call
    codes = reshape_codes(data.shape, ty.shape)
    if codes is None:
        return _with_axes_of_one(call, data.shape, ty.shape)
    return _static("reshape", call.args[:1], newshape=codes, allowzero=0 in ty.shape)


def _with_axes_of_one(call: Call, before: Sequence[Dim], after: Sequence[Dim]) -> Expr:
    """A reshape that puts axes of one element in at one place, or takes some out, as the operator that does that."""
    added = len(after) - len(before)
    if AnyDim() in (*before, *after) or [dim for dim in before if dim != 1] != [dim for dim in after if dim != 1]:
        return call
    if added < 0:
        at = 0
        gone = []
        for axis, dim in enumerate(before):
            if at < len(after) and after[at] == dim:
                at += 1
            else:
                gone.append(axis)
        return _static("squeeze", call.args[:1], axis=tuple(gone)) if len(gone) == -added else call
    for at in range(len(before) + 1):
        if added and (*before[:at], *[1] * added, *before[at:]) == tuple(after):
            return _static("expand_dims", call.args[:1], axis=at, num_newaxis=added)
    return call


def _broadcast_to(call: Call, ty: TensorType, types: Mapping[Expr, Type], elements: Elements) -> Expr:
    if ty == types[call.args[0]] and AnyDim() not in ty.shape:
        return call.args[0]
    return _static("broadcast_to", call.args[:1], shape=ty.concrete_shape) if is_static(ty) else call


def _filled(call: Call, ty: TensorType, types: Mapping[Expr, Type], elements: Elements) -> Expr:
    if not is_static(ty) or not isinstance(call.op, Op):
        return call
    return _static(call.op.name.removeprefix("dyn."), call.args[:-1], shape=ty.concrete_shape, dtype=ty.dtype)


def _static(name: str, args: Sequence[Expr], **attrs: object) -> Call:
    op = Op.get(name)
    return Call(op, args, make_attrs(op, attrs))


_FORMS: dict[str, Form] = {
    "dyn.reshape": _reshape,
    "dyn.broadcast_to": _broadcast_to,
    "dyn.full": _filled,
    "dyn.zeros": _filled,
    "dyn.ones": _filled,
}

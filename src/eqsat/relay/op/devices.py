"""Marks that say on which device a value is computed, and copies from one device to another."""

from __future__ import annotations

from typing import Any

from eqsat.errors import ArgumentError
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import same_type
from eqsat.relay.traits import Trait


def _name(device: Any) -> str:
    """A device as its name: ``cuda`` is the first of its kind, ``cuda(1)`` the second."""
    return str(device).removesuffix("(0)")


_on_device = define(
    "on_device",
    "body",
    Field("virtual_device", "str", "", _name),  # of none if nothing is constrained
    Field("constrain_result", "bool", False),
    Field("constrain_body", "bool", True),
    infer=lambda attrs, args: args[0],
    kernel=lambda attrs, body: body,
    kind=OpPattern.OPAQUE,
    flops=lambda attrs, args, ty: 0.0,
    traits=Trait.NON_COMPUTATIONAL,
)


def on_device(body: Any, device: Any, constrain_result: bool = False, constrain_body: bool = True) -> Any:
    """``body``, marked to be computed on a device, or with ``constrain_result`` its result to be stored there."""
    if not (constrain_result or constrain_body):
        return _on_device(body, "", False, False)
    if not str(device or ""):
        raise ArgumentError("on_device needs a device, such as 'cuda', for what it constrains")
    return _on_device(body, device, constrain_result, constrain_body)


def without_device(expr: Expr) -> Expr:
    """What ``expr`` marks to be computed or stored on a device, ``expr`` if it is no such mark."""
    while isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == "on_device":
        expr = expr.args[0]
    return expr


_device_copy = define(
    "device_copy",
    "data",
    Field("src_virtual_device", "str", convert=_name),
    Field("dst_virtual_device", "str", convert=_name),
    infer=same_type,
    kernel=lambda attrs, data: data,
    kind=OpPattern.INJECTIVE,
    flops=lambda attrs, args, ty: 0.0,
)


def device_copy(data: Any, src_device: Any, dst_device: Any) -> Any:
    """``data``, copied from one device to another."""
    return _device_copy(data, src_device, dst_device)


__all__ = ["device_copy"]

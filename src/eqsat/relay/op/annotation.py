"""Marks on values that passes read; all of them are the identity on data."""

from __future__ import annotations

from eqsat.relay.op.devices import on_device
from eqsat.relay.op.op import Builder, Field, OpPattern, define
from eqsat.relay.traits import Trait


def _mark(name: str, *fields: Field) -> Builder:
    return define(
        f"annotation.{name}",
        "data",
        *fields,
        infer=lambda attrs, args: args[0],
        kernel=lambda attrs, data: data,
        kind=OpPattern.OPAQUE,
        flops=lambda attrs, args, ty: 0.0,
        traits=Trait.NON_COMPUTATIONAL,
    )


compiler_begin = _mark("compiler_begin", Field("compiler", "str"))
compiler_end = _mark("compiler_end", Field("compiler", "str"))
stop_fusion = _mark("stop_fusion")
checkpoint = _mark("checkpoint")
bitpack_start = _mark("bitpack_start")
bitpack_end = _mark("bitpack_end")
cast_hint = _mark("cast_hint", Field("dtype", "dtype"))

__all__ = [
    "bitpack_end", "bitpack_start", "cast_hint", "checkpoint", "compiler_begin", "compiler_end", "on_device",
    "stop_fusion",
]  # fmt: skip

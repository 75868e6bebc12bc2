"""Random calls of operators: how each operator's arguments and attributes are drawn.

The rule verifier and tests draw calls; nothing that optimizes a graph imports this package. An operator that is to be
drawn has an entry in :data:`ENTRIES`, unless its traits tell enough: an entry is given what is known of the arguments,
completes it, and draws attributes that fit. What it draws need not type-check: such draws are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from eqsat.errors import RuleError, TypeCheckError
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.draw import arithmetic, shapes
from eqsat.relay.op.draw.choices import BYTES, FLOATS, INTEGERS, Draw, Drawn, Known
from eqsat.relay.op.op import OpPattern
from eqsat.relay.traits import Trait

Entry: TypeAlias = Callable[[Draw, Known], Drawn]

_DRAWN: dict[Entry, str] = {
    arithmetic.unary: "copy nn.batch_flatten nn.dropout ones_like zeros_like",
    arithmetic.where: "where",
    arithmetic.like: "reshape_like broadcast_to_like cast_like collapse_sum_like",
    arithmetic.cast: "cast",
    arithmetic.count: "shape_of ndarray_size",
    arithmetic.clip: "clip",
    arithmetic.fixed_point: "fixed_point_multiply",
    arithmetic.reduction: "argmax argmin",
    arithmetic.along_axis: "argsort nn.softmax nn.log_softmax nn.fast_softmax",
    arithmetic.largest: "topk",
    arithmetic.per_channel: "nn.bias_add nn.prelu nn.batch_norm nn.layer_norm nn.rms_norm nn.instance_norm "
    "nn.group_norm",
    arithmetic.unit_length: "nn.l2_normalize",
    arithmetic.quantized: "qnn.quantize",
    arithmetic.dequantized: "qnn.dequantize",
    shapes.transpose: "transpose",
    shapes.reshape: "reshape contrib_reverse_reshape",
    shapes.squeeze: "squeeze",
    shapes.expand_dims: "expand_dims",
    shapes.strided_slice: "strided_slice",
    shapes.concatenate: "concatenate",
    shapes.stack: "stack",
    shapes.split: "split",
    shapes.broadcast_to: "broadcast_to",
    shapes.take: "take",
    shapes.gather_nd: "gather_nd",
    shapes.one_hot: "one_hot signed_one_hot",
    shapes.pad: "nn.pad",
    shapes.mirror_pad: "nn.mirror_pad",
    shapes.trade: "nn.depth_to_space nn.space_to_depth vision.yolo_reorg",
    shapes.sliding_window: "sliding_window",
    shapes.batch_to_space: "nn.batch_to_space_nd",
    shapes.repeat: "repeat tile reverse",
    shapes.fill: "full zeros ones",
    shapes.full_like: "full_like",
    shapes.layout_transform: "layout_transform",
    shapes.einsum: "einsum",
    arithmetic.dense: "nn.dense",
    arithmetic.matmul: "nn.matmul",
    arithmetic.batch_matmul: "nn.batch_matmul",
    arithmetic.attention: "nn.attention nn.masked_attention",
    arithmetic.resize: "image.resize2d",
}
"""Entry -> the operators of which it draws calls."""

ENTRIES: dict[str, Entry] = {name: entry for entry, names in _DRAWN.items() for name in names.split()}
for _rank in (1, 2, 3):
    ENTRIES[f"nn.conv{_rank}d"] = partial(arithmetic.convolution, rank=_rank)
    ENTRIES[f"nn.conv{_rank}d_transpose"] = partial(arithmetic.convolution, rank=_rank, transposed=True)
    for _kind in ("max", "avg", "global_max", "global_avg"):
        ENTRIES[f"nn.{_kind}_pool{_rank}d"] = partial(arithmetic.pool, rank=_rank)


def complete(draw: Draw, op: Op, known: Known, fixed: dict[str, Any]) -> Drawn:
    """Draw the arguments and the attributes of a call of ``op``.

    Args:
        draw: the random choices.
        op: the operator.
        known: what is known of each argument.
        fixed: attribute values that the call must have.

    Returns:
        For each argument its type, or the constant that it has to be; and the attributes.

    Raises:
        RuleError: there is no entry for ``op``.
        TypeCheckError: nothing fits what is known.
    """
    entry = _entry(op)
    if entry is None:
        raise RuleError(f"no way is known to draw arguments of {op.name}: give the rule examples=")
    try:
        types, attrs = entry(draw, known)
    except (IndexError, ValueError, ZeroDivisionError) as error:
        raise TypeCheckError(f"{op.name}: what is known of its arguments does not suit it") from error
    if op.name not in draw.attrs:  # rules that join calls of one operator often want equal attributes
        draw.attrs[op.name] = attrs if draw.chance(0.5) else None
    attrs = draw.attrs[op.name] or attrs
    names = {field.name for field in op.fields}
    return types, {**{name: value for name, value in attrs.items() if name in names}, **fixed}


def can_complete(op: Op) -> bool:
    """Whether :func:`complete` can draw calls of ``op``."""
    return _entry(op) is not None


def usual_rank(op: Op) -> int | None:
    """The number of axes of the data of an operator that has a layout, None for other operators."""
    layouts = [field.default for field in op.fields if field.name in ("data_layout", "layout")]
    return len(layouts[0]) if layouts else None


def _entry(op: Op) -> Entry | None:
    """The entry of ``op``, or what its traits tell."""
    if op.name in ENTRIES:
        return ENTRIES[op.name]
    if op.name.startswith("dyn."):
        static = Op.get(op.name.removeprefix("dyn."))
        return partial(_dynamic, op, static) if can_complete(static) else None
    arity = len(op.arguments or ())
    if op.has(Trait.ELEMENTWISE) and arity in (1, 2):
        return arithmetic.unary if arity == 1 else arithmetic.binary
    reduces = op.attr_map.get("TOpPattern") == OpPattern.COMM_REDUCE and any(
        field.name == "axis" for field in op.fields
    )
    return arithmetic.reduction if reduces else None


def _dynamic(op: Op, static: Op, draw: Draw, known: Known) -> Drawn:
    """A call whose tensors of sizes are constants: the attributes of a call of the static operator."""
    given = dict(zip(op.arguments or (), known, strict=True))
    types, attrs = complete(draw, static, [given[name] for name in static.arguments or ()], {})
    found = dict(zip(static.arguments or (), types, strict=True))
    return [given[name] or found.get(name) or _as_constant(attrs[name]) for name in given], attrs


def _as_constant(value: Any) -> Constant:
    """An attribute value as the tensor that a dynamic operator takes in its place."""
    array = np.asarray(() if value is None else value)
    return Constant(array.astype("float32" if array.dtype.kind == "f" and array.size else "int64"))


__all__ = ["BYTES", "ENTRIES", "FLOATS", "INTEGERS", "Draw", "can_complete", "complete", "usual_rank"]

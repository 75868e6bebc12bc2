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
from eqsat.relay.op.draw import elementwise, products, shapes
from eqsat.relay.op.draw.choices import BYTES, FLOATS, INTEGERS, Draw, Drawn, Known
from eqsat.relay.op.op import OpPattern
from eqsat.relay.traits import Trait

Entry: TypeAlias = Callable[[Draw, Known], Drawn]

ENTRIES: dict[str, Entry] = {
    "where": elementwise.where,
    "cast": elementwise.cast,
    "shape_of": elementwise.count,
    "ndarray_size": elementwise.count,
    "clip": elementwise.clip,
    "argmax": elementwise.reduction,
    "argmin": elementwise.reduction,
    "argsort": elementwise.along_axis,
    "topk": elementwise.largest,
    "nn.l2_normalize": elementwise.unit_length,
    "qnn.quantize": elementwise.quantized,
    "qnn.dequantize": elementwise.dequantized,
    "transpose": shapes.transpose,
    "reshape": shapes.reshape,
    "contrib_reverse_reshape": shapes.reshape,
    "squeeze": shapes.squeeze,
    "expand_dims": shapes.expand_dims,
    "strided_slice": shapes.strided_slice,
    "concatenate": shapes.concatenate,
    "stack": shapes.stack,
    "split": shapes.split,
    "broadcast_to": shapes.broadcast_to,
    "take": shapes.take,
    "gather_nd": shapes.gather_nd,
    "one_hot": shapes.one_hot,
    "nn.pad": shapes.pad,
    "nn.mirror_pad": shapes.mirror_pad,
    "nn.depth_to_space": shapes.trade,
    "nn.space_to_depth": shapes.trade,
    "nn.batch_to_space_nd": shapes.batch_to_space,
    "repeat": shapes.repeat,
    "tile": shapes.repeat,
    "reverse": shapes.repeat,
    "full": shapes.fill,
    "zeros": shapes.fill,
    "ones": shapes.fill,
    "full_like": shapes.full_like,
    "layout_transform": shapes.layout_transform,
    "einsum": shapes.einsum,
    "nn.dense": products.dense,
    "nn.matmul": products.matmul,
    "nn.batch_matmul": products.batch_matmul,
    "nn.attention": products.attention,
    "nn.masked_attention": products.attention,
    "image.resize2d": products.resize,
}
ENTRIES |= dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.fast_softmax"), elementwise.along_axis)
ENTRIES |= dict.fromkeys(("reshape_like", "broadcast_to_like", "cast_like", "collapse_sum_like"), elementwise.like)
ENTRIES |= dict.fromkeys(("copy", "nn.batch_flatten", "nn.dropout", "ones_like", "zeros_like"), elementwise.unary)
for _name in ("bias_add", "prelu", "batch_norm", "layer_norm", "rms_norm", "instance_norm", "group_norm"):
    ENTRIES[f"nn.{_name}"] = elementwise.per_channel
for _rank in (1, 2, 3):
    ENTRIES[f"nn.conv{_rank}d"] = partial(products.convolution, rank=_rank)
    ENTRIES[f"nn.conv{_rank}d_transpose"] = partial(products.convolution, rank=_rank, transposed=True)
    for _kind in ("max", "avg", "global_max", "global_avg"):
        ENTRIES[f"nn.{_kind}_pool{_rank}d"] = partial(products.pool, rank=_rank)


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
    except (IndexError, ZeroDivisionError) as error:
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
        return partial(_dynamic, op, Op.get(op.name.removeprefix("dyn.")))
    arity = len(op.arguments or ())
    if op.has(Trait.ELEMENTWISE) and arity in (1, 2):
        return elementwise.unary if arity == 1 else elementwise.binary
    reduces = op.attr_map.get("TOpPattern") == OpPattern.COMM_REDUCE and any(
        field.name == "axis" for field in op.fields
    )
    return elementwise.reduction if reduces else None


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

"""Dense layers whose weights are stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.errors import TypeCheckError
from eqsat.relay.op.layout import LayoutChange, layout_change
from eqsat.relay.op.nn.matrix import OUT_DTYPE, multiply_matrices, product_flops
from eqsat.relay.op.op import Field, OpPattern, define
from eqsat.relay.op.types import ranked, tensor, unify
from eqsat.relay.ty import Dim, TensorType, Type


def _in_rows(attrs: Any, shape: Sequence[Dim]) -> LayoutChange:
    """From the weight's layout to (units, inputs); ``NC`` of three dimensions has its only block last."""
    if attrs.weight_layout == "NC" and len(shape) == 3:
        if not isinstance(shape[2], int) or shape[2] < 1:
            raise TypeCheckError("the size of the weight's blocks must be known")
        return layout_change(f"NC{shape[2]}n", "NC")
    return layout_change(attrs.weight_layout, "NC")


def _packed_type(attrs: Any, args: Sequence[Type]) -> TensorType:
    data, weight = ranked(args[0], 2, "data"), tensor(args[1])
    units, inner = _in_rows(attrs, weight.shape).shape(weight.shape)
    unify(data.shape[1], inner, "the inputs of data and weight,")
    units = units if attrs.units is None else unify(units, attrs.units, "units of weight and attributes:")
    return TensorType((data.shape[0], units), attrs.out_dtype or data.dtype)


contrib_dense_pack = define(
    "nn.contrib_dense_pack",
    "data weight",
    Field("weight_layout", "str", "NC"),
    Field("units", "int", None),
    OUT_DTYPE,
    infer=_packed_type,
    kernel=lambda attrs, data, weight: multiply_matrices(
        data, _in_rows(attrs, weight.shape)(weight).T, attrs.out_dtype or data.dtype
    ),
    kind=OpPattern.OUT_ELEMWISE_FUSABLE,
    flops=product_flops,
)
"""(batch, inputs) times a weight of units and inputs in blocks, such as ``NC8n``: (units / 8, inputs, 8)."""

__all__ = ["contrib_dense_pack"]

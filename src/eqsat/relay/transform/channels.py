"""Vectors along one axis of a tensor, such as biases and scales of channels."""

from __future__ import annotations

from typing import Any

from eqsat.relay.expr import Expr
from eqsat.relay.op import expand_dims, reshape
from eqsat.relay.ty import TensorType


def along_axis(vector: Expr, axis: int, rank: int) -> Any:
    """``vector``, of one dimension, shaped to broadcast along ``axis`` (counted from the front) of ``rank`` ones."""
    after = rank - axis - 1
    return expand_dims(vector, axis=1, num_newaxis=after) if after else vector


def is_on_axis(operand: TensorType, axis: int, data: TensorType) -> bool:
    """Whether ``operand`` has one value for each index along ``axis`` of ``data``, and broadcasts along the others."""
    padded = [1] * (len(data.shape) - len(operand.shape)) + list(operand.shape)
    expected = [size if at == axis else 1 for at, size in enumerate(data.shape)]
    return padded == expected


def as_vector(operand: Expr) -> Any:
    """An operand for which :func:`is_on_axis` holds, in one dimension."""
    return reshape(operand, (-1,))

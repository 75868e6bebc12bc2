"""Operators of networks that move data: padding, flattening, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.errors import TypeCheckError
from eqsat.relay.dims import add_dims, multiply_dims
from eqsat.relay.op.op import Field, OpPattern, define, is_operand, tensor_of
from eqsat.relay.op.parameters import dynamic
from eqsat.relay.op.transform import define_view
from eqsat.relay.op.types import ranked, tensor, unify
from eqsat.relay.traits import Trait
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, TupleType, Type


def _flattened(attrs: Any, shape: Sequence[Dim]) -> Sequence[Dim]:
    if not shape:
        raise TypeCheckError("needs at least one dimension")
    return shape[0], multiply_dims(*shape[1:])


batch_flatten = define_view("nn.batch_flatten", shape=_flattened, kind=OpPattern.INJECTIVE)

# ---- padding


def padded_type(data: TensorType, widths: Sequence[Sequence[int]]) -> TensorType:
    """``data`` grown by ``widths`` (before, after) along each axis; negative widths crop."""
    if len(widths) != len(data.shape) or any(len(width) != 2 for width in widths):
        raise TypeCheckError(f"pad_width {widths} must give (before, after) for each of {len(data.shape)} dimensions")
    shape = [add_dims(dim, *width) for dim, width in zip(data.shape, widths, strict=True)]
    if any(isinstance(dim, int) and dim < 0 for dim in shape):
        raise TypeCheckError(f"pad_width {widths} crops more than there is")
    return TensorType(shape, data.dtype)


def _pad_type(attrs: Any, args: Sequence[Type]) -> Type:
    ranked(args[1], 0, "pad_value")
    return padded_type(tensor(args[0]), attrs.pad_width)


def padded(data: Any, widths: Sequence[Sequence[int]], value: Any, mode: str) -> Any:
    """``data`` grown by ``widths`` (before, after) along each axis; negative widths crop."""
    if not data.ndim:
        return data
    grow = [(max(before, 0), max(after, 0)) for before, after in widths]
    crop = tuple(
        slice(max(-before, 0), dim + max(before, 0) + min(after, 0) + max(after, 0))
        for (before, after), dim in zip(widths, data.shape, strict=True)
    )
    if mode == "constant":
        return np.pad(data, grow, constant_values=value.astype(data.dtype))[crop]
    return np.pad(data, grow, mode=mode)[crop]  # type: ignore[call-overload]


_pad_call = define(
    "nn.pad",
    "data pad_value",
    Field("pad_width"),
    Field("pad_mode", "str", "constant", choices=("constant", "edge", "reflect")),
    infer=_pad_type,
    kernel=lambda attrs, data, value: padded(data, attrs.pad_width, value, attrs.pad_mode),
    kind=OpPattern.INJECTIVE,
)


def _dyn_pad_type(attrs: Any, args: Sequence[Type]) -> Type:
    data = tensor(args[0])
    width = ranked(args[1], 2, "pad_width")
    unify(width.shape[0], len(data.shape), "pairs of pad_width and dimensions of data:")
    ranked(args[2], 0, "pad_value")
    return TensorType([AnyDim()] * len(data.shape), data.dtype)


_dyn_pad_call = dynamic(_pad_call, "data pad_width pad_value", _dyn_pad_type)


def pad(data: Any, pad_width: Any = None, pad_value: Any = 0, pad_mode: str | None = None) -> Any:
    """``data`` with ``pad_width`` ((before, after) per axis) elements added at the ends of its axes.

    Args:
        data: the tensor.
        pad_width: pairs of ints, negative ones crop; or a tensor of shape (rank, 2). Only patterns may
            leave it out.
        pad_value: what is added in mode ``constant``: a number (taken as float32) or a scalar expression.
        pad_mode: ``constant`` (the default), ``edge`` or ``reflect``.
    """
    value = tensor_of(pad_value, "float32")
    given = {} if pad_mode is None else {"pad_mode": pad_mode}
    if is_operand(pad_width):
        return _dyn_pad_call(data, pad_width, value, **given)
    return _pad_call(data, value, **given, **({} if pad_width is None else {"pad_width": pad_width}))


def _mirror_pad_type(attrs: Any, args: Sequence[Type]) -> Type:
    return padded_type(tensor(args[0]), attrs.pad_width)


mirror_pad = define(
    "nn.mirror_pad",
    "data",
    Field("pad_width"),
    Field("mode", "str", "SYMMETRIC", choices=("SYMMETRIC", "REFLECT")),
    infer=_mirror_pad_type,
    kernel=lambda attrs, data: padded(data, attrs.pad_width, None, attrs.mode.lower()),
    kind=OpPattern.INJECTIVE,
    traits=Trait.MOVES,
)

# ---- dropout


dropout_raw = define(
    "nn.dropout",
    "data",
    Field("rate", "float", 0.5),
    infer=lambda attrs, args: TupleType([tensor(args[0])] * 2),
    kernel=lambda attrs, data: (data, np.ones_like(data)),
    kind=OpPattern.OPAQUE,
    outputs=2,
)
"""Dropout at inference: the outputs are the data and a mask of ones."""


def dropout(data: Any, rate: float | None = None) -> Any:
    """The data output of :data:`dropout_raw`; ``rate`` is 0.5 by default."""
    return (dropout_raw(data) if rate is None else dropout_raw(data, rate))[0]


__all__ = ["batch_flatten", "dropout", "dropout_raw", "mirror_pad", "pad"]

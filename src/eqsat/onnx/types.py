"""Types and dtypes between ONNX and the IR."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx_ir as ir
from onnx import helper

from eqsat.relay.ty import UNKNOWN, Dim, IncompleteType, TensorType, TupleType, Type
from eqsat.relay.ty import Any as AnyDim


class OnnxType(IncompleteType):
    """The ONNX type of a value for which the IR has no type.

    It is a tensor of unknown rank, or of an element type beyond the IR, a sequence, or an optional.

    Args:
        proto: the ``TypeProto``.
    """

    __slots__ = ("proto",)

    def __init__(self, proto: Any):
        self.proto = proto
        self._seal(proto.SerializeToString(deterministic=True))


_NUMBERS = (
    "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "FLOAT16", "FLOAT", "DOUBLE", "BFLOAT16",
)  # fmt: skip

DTYPES: dict[ir.DataType, str] = {ir.DataType[name]: ir.DataType[name].numpy().name for name in _NUMBERS}
"""The element types of the IR; tensors with other element types have no type there."""

_ELEMENTS = {name: dtype for dtype, name in DTYPES.items()}


def relay_type(value: ir.Value) -> Type:
    """The type that a model declares for a value; unknown when it is no tensor of known rank.

    A dimension without name gets one of its own, so that no two of them pass for equal.
    """
    name = DTYPES.get(value.dtype) if isinstance(value.type, ir.TensorType) else None
    if name is None or value.shape is None:
        return UNKNOWN
    return TensorType([_dim(dim, f"{value.name}.{axis}") for axis, dim in enumerate(value.shape)], name)


def rank_type(value: ir.Value) -> Type:
    """The type that a model declares for a value, sizes left open: those of loop states may change."""
    ty = relay_type(value)
    if not isinstance(ty, TensorType):
        return ty
    return TensorType([AnyDim(f"{value.name}.{axis}") for axis in range(len(ty.shape))], ty.dtype)


def _dim(dim: Any, name: str) -> Dim:
    if isinstance(dim, int):
        return dim if dim >= 0 else AnyDim(name)
    return AnyDim(dim.value or name)


def element_type(dtype: str) -> ir.DataType:
    """The ONNX element type of a dtype name."""
    return _ELEMENTS[dtype]


_NO_DIM = 1 << 63
"""A dimension that ONNX cannot represent, such as a sum or product of very large ones."""


def element_name(ty: Type) -> str | None:
    """The dtype of a tensor, of unknown rank perhaps; None when it is not known."""
    if isinstance(ty, OnnxType) and ty.proto.HasField("tensor_type"):
        return DTYPES.get(ir.DataType(ty.proto.tensor_type.elem_type))
    return ty.dtype if isinstance(ty, TensorType) else None


def type_proto(ty: Type) -> Any:
    """A ``TypeProto`` for a type, None when ONNX has none or nothing is known."""
    if isinstance(ty, OnnxType):
        return ty.proto
    if not isinstance(ty, TensorType):
        return None
    shape = [dim.name if isinstance(dim, AnyDim) else dim if dim < _NO_DIM else None for dim in ty.shape]
    return helper.make_tensor_type_proto(element_type(ty.dtype).value, shape)


def type_of_proto(proto: Any, names: Collection[str]) -> Type:
    """The type that a ``TypeProto`` states; names of dimensions that are not in ``names`` are made up and left out."""
    name = DTYPES.get(ir.DataType(proto.tensor_type.elem_type))  # a tensor of no element type when it is none
    if name is None or not proto.tensor_type.HasField("shape"):
        return OnnxType(proto) if proto.WhichOneof("value") else UNKNOWN
    dims = proto.tensor_type.shape.dim
    return TensorType([_dim_of_proto(dim, names) for dim in dims], name)


def _dim_of_proto(dim: Any, names: Collection[str]) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return AnyDim(dim.dim_param if dim.dim_param in names else None)


def result_type(types: list[Type]) -> Type:
    """The type of a call with outputs of ``types``: a tuple's unless there is exactly one."""
    return types[0] if len(types) == 1 else TupleType(types)

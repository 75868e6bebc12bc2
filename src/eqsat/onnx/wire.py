"""A model as the bytes of one file, weight after weight: serialized at once it is in memory several times."""

from __future__ import annotations

from collections.abc import Collection
from typing import IO, Any

import onnx
import onnx_ir as ir

from eqsat.onnx.graphs import data_replaced

_LARGE = 1 << 20
"""Bytes from which a weight is written by itself."""

_BYTES = 2
"""Wire type of fields whose length comes first.

Source: https://protobuf.dev/programming-guides/encoding/
"""


def write(model: ir.Model, file: IO[bytes]) -> None:
    """Write a model whose weights are not in external files.

    Raises:
        onnx_ir.serde.SerdeError: it has parts that ONNX cannot hold.
        OSError: the file cannot be written.
    """
    weights = {name: value.const_value for name, value in model.graph.initializers.items()}
    large = {name: tensor for name, tensor in weights.items() if _is_large(tensor)}
    proto = _without(model, large) if large else ir.to_proto(model)
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    frames = {name: _frame(name, tensor) for name, tensor in large.items()}
    size = len(graph) + sum(len(frames[name]) + tensor.nbytes for name, tensor in large.items())
    file.write(proto.SerializeToString())
    file.write(_head(onnx.ModelProto.GRAPH_FIELD_NUMBER, size))
    file.write(graph)
    for name, tensor in large.items():
        file.write(frames[name])
        file.write(tensor.tobytes())


def _is_large(tensor: Any) -> bool:
    return tensor is not None and tensor.nbytes >= _LARGE and tensor.dtype.bitwidth % 8 == 0


def _without(model: ir.Model, names: Collection[str]) -> Any:
    """The model but for some of the initializers."""
    with data_replaced({model.graph.initializers[name]: ir.tensor([0], name=name) for name in names}):
        proto = ir.to_proto(model)
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    return proto


def _frame(name: str, tensor: Any) -> bytes:
    """What stands before the data of a weight, the last field of it; computed ones have no name of their own."""
    proto = onnx.TensorProto(
        name=name, data_type=int(tensor.dtype), dims=tensor.shape.numpy(), doc_string=tensor.doc_string
    )
    for key, text in tensor.metadata_props.items():
        proto.metadata_props.add(key=key, value=text)
    told: bytes = proto.SerializeToString() + _head(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, tensor.nbytes)
    return _head(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, len(told) + tensor.nbytes) + told


def _head(field: int, length: int) -> bytes:
    """The tag of a field and its length."""
    return _varint(field << 3 | _BYTES) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)

"""The data of weights: in files beside that of the model, or in that file, written weight after weight."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import IO, Any

import numpy as np
import onnx
import onnx_ir as ir

from eqsat.errors import ModelError

# ---- in other files


def check_external_files(model: ir.Model, where: str) -> None:
    """Check that the data of initializers and of nodes' attributes exists.

    Args:
        model: the model, its tensors with the folder they are in.
        where: what to call the model in errors.

    Raises:
        ModelError: as :func:`check_external_file`.
    """
    for values in (_external_values(model), _external_values_of_functions(model)):
        for value in values:
            check_external_file(value.const_value, where)
    for _, attr in _external_attributes(model):
        for tensor in filter(_is_external, _tensors_of(attr)):
            check_external_file(tensor, where)


def check_external_file(tensor: ir.ExternalTensor, where: str) -> None:
    """Check that the data of a tensor exists.

    Raises:
        ModelError: its file is missing, too short, no file or outside the model's folder.
    """
    problem = _problem_of(tensor)
    if problem:
        raise ModelError(f"{where} stores tensor {tensor.name!r} in {str(tensor.location)!r:.200}, {problem}")


def has_external_tensors(model: ir.Model) -> bool:
    """Whether the data of an initializer is in another file."""
    return bool(_external_values(model))


def take_in(model: ir.Model) -> None:
    """Make external data part of the model, read on demand, except the data of the graph's own initializers.

    Only these, and those of the graphs inside it, have their data beside the file that is written.
    """
    for value in _external_values_of_functions(model):
        value.const_value = read_later(value.const_value, value.const_value.name)
    for node, attr in _external_attributes(model):
        tensors = [read_later(tensor, tensor.name) if _is_external(tensor) else tensor for tensor in _tensors_of(attr)]
        value = tensors[0] if attr.type == ir.AttributeType.TENSOR else tensors
        node.attributes[attr.name] = ir.Attr(attr.name, attr.type, value, doc_string=attr.doc_string)


def taken_in(model: ir.Model, most: float = math.inf) -> AbstractContextManager[None]:
    """The data of initializers of up to so many bytes in the model itself, until the block ends.

    The files stay open, unlike with ``onnx_ir.external_data.load_to_model``: constants may show what is in them.
    """
    values = [value for value in _external_values(model) if value.const_value.nbytes <= most]
    return data_replaced({value: _in_memory(value.const_value) for value in values})


def elements_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements of a tensor. Those in a file are mapped as long as the array is used, and no more of the file.

    The tensor itself maps its whole file and keeps it: for many weights this is many times the file.
    """
    if not _is_external(tensor):
        return np.asarray(tensor.numpy())
    dtype = np.dtype(tensor.dtype.numpy())
    if tensor.size == 0 or tensor.dtype.bitwidth % 8:  # nothing to map, or several elements in a byte
        return np.asarray(copy(tensor).numpy())
    problem = _problem_of(tensor)
    if problem:  # the file may have changed since it was seen
        raise ModelError(f"it is in {str(tensor.location)!r:.200}, {problem}")
    shape = tuple(tensor.shape.numpy())
    found: np.ndarray[Any, Any] = np.memmap(tensor.path, dtype.newbyteorder("<"), "r", tensor.offset or 0, shape)
    return found.view(np.ndarray)


def _in_memory(tensor: ir.ExternalTensor) -> ir.Tensor:
    return ir.Tensor(
        elements_of(tensor),
        name=tensor.name,
        dtype=tensor.dtype,
        doc_string=tensor.doc_string,
        metadata_props=tensor.metadata_props,
    )


def _external_values(model: ir.Model) -> list[ir.Value]:
    """The initializers of the graph and of those inside it whose data is in another file."""
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value for value in values if _is_external(value.const_value)]


def _external_values_of_functions(model: ir.Model) -> list[ir.Value]:
    """The same of the graphs inside local functions."""
    graphs = [graph for function in model.functions.values() for graph in function.subgraphs()]
    values = [value for graph in graphs for value in graph.initializers.values()]
    return [value for value in values if _is_external(value.const_value)]


def _external_attributes(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
    """Attributes that hold such a tensor, of functions' nodes too."""
    for graph in (model.graph, *model.functions.values()):
        for node in graph.all_nodes():
            for attr in tuple(node.attributes.values()):
                if any(map(_is_external, _tensors_of(attr))):
                    yield node, attr


def _tensors_of(attr: ir.Attr) -> Sequence[Any]:
    """The tensors that an attribute holds."""
    if attr.is_ref() or attr.type not in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
        return ()
    return (attr.value,) if attr.type == ir.AttributeType.TENSOR else tuple(attr.value)


def _is_external(tensor: Any) -> bool:
    return isinstance(tensor, ir.ExternalTensor)


def _problem_of(tensor: ir.ExternalTensor) -> str | None:
    """Return why the data of a tensor cannot be read, according to the name and size of the file."""
    try:
        folder, path = os.path.realpath(tensor.base_dir), os.path.realpath(tensor.path)
        if os.path.commonpath((folder, path)) != folder:
            return "which is outside the model's folder"
        status = os.stat(path)
    except (OSError, ValueError) as error:  # a name may hold what no path can
        return f"which cannot be read: {getattr(error, 'strerror', None) or error}"
    if not stat.S_ISREG(status.st_mode):
        return "which is no file"
    if status.st_nlink > 1:  # onnx_ir does not read it either: it may be one outside
        return "which has several hard links: make a copy of it"
    if tensor.dtype == ir.DataType.STRING:
        return "where no text can be"
    length = tensor.nbytes if tensor.length is None else tensor.length
    if length < tensor.nbytes:
        return f"{length} bytes where its shape needs {tensor.nbytes}"
    needed = (tensor.offset or 0) + length
    return f"which has {status.st_size} bytes where {needed} are needed" if status.st_size < needed else None


# ---- in the file of the model: serialized at once it is in memory several times

_LARGE = 1 << 16
"""Bytes from which a weight is written by itself."""

BYTES = 2
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
    file.write(head(onnx.ModelProto.GRAPH_FIELD_NUMBER, size))
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
    told: bytes = proto.SerializeToString() + head(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, tensor.nbytes)
    return head(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, len(told) + tensor.nbytes) + told


def head(field: int, length: int) -> bytes:
    """The tag of a field and its length."""
    return _varint(field << 3 | BYTES) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


# ---- tensors in place of others


def read_later(tensor: Any, name: str | None) -> ir.LazyTensor:
    """A tensor under a name, whose data are read when they are asked for."""
    said = {"doc_string": tensor.doc_string, "metadata_props": tensor.metadata_props}
    return ir.LazyTensor(lambda: tensor, tensor.dtype, ir.Shape(tensor.shape), name=name, **said)


@contextmanager
def data_replaced(tensors: Mapping[ir.Value, Any]) -> Iterator[None]:
    """Other tensors as the data of initializers, until the block ends."""
    kept = {value: value.const_value for value in tensors}
    try:
        for value, tensor in tensors.items():
            value.const_value = tensor
        yield
    finally:
        for value, tensor in kept.items():
            value.const_value = tensor

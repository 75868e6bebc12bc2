"""Models whose weights are memory-mapped instead of read, including those in the model's own file.

Such a model is read quickly and takes little memory, but it is valid only as long as its file and must not be written.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from typing import TypeAlias

import onnx
import onnx_ir as ir

from eqsat.onnx.files import Given, from_bytes, load
from eqsat.onnx.weights import BYTES, head

_LARGE = 1 << 16
"""Size in bytes from which a weight is mapped."""

_FIXED = {1: 8, 5: 4}
"""Wire type of fields of a fixed size -> their bytes."""

_DATA = {
    onnx.TensorProto.RAW_DATA_FIELD_NUMBER: None,
    onnx.TensorProto.FLOAT_DATA_FIELD_NUMBER: onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE_DATA_FIELD_NUMBER: onnx.TensorProto.DOUBLE,
}
"""Fields that hold the elements of a tensor as they are in memory -> the only type of elements of which they do so."""

_Field: TypeAlias = tuple[int, int, int, int]
"""A field's number, where it starts, where its content starts, and where it ends."""


def load_mapped(model: Given) -> ir.Model:
    """As :func:`eqsat.onnx.load`; large weights in the file of a model are mapped on demand.

    Raises:
        ModelError: As :func:`eqsat.onnx.load`.
    """
    if not isinstance(model, (str, os.PathLike)):
        return load(model)
    where = os.fspath(model)
    try:
        status = os.lstat(where)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size < _LARGE:
            return load(model)  # what external data cannot be in
        with open(where, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            rest = _without_weights(content, os.path.basename(where))
    except (OSError, ValueError, IndexError):  # load says what is wrong with it
        return load(model)
    return from_bytes(rest, where, os.path.dirname(where) or ".")


def _without_weights(content: mmap.mmap, location: str) -> bytes:
    """Return the content of a model's file, with references to the file in place of large weights.

    Raises:
        ValueError: It is not a model.
    """
    parts = []
    for number, start, inside, end in _fields(content, 0, len(content)):
        if number == onnx.ModelProto.GRAPH_FIELD_NUMBER:
            graph = b"".join(_graph_parts(content, inside, end, location))
            parts += [head(number, len(graph)), graph]
        else:
            parts.append(content[start:end])
    return b"".join(parts)


def _graph_parts(content: mmap.mmap, start: int, end: int, location: str) -> Iterator[bytes]:
    for number, before, inside, after in _fields(content, start, end):
        is_weight = number == onnx.GraphProto.INITIALIZER_FIELD_NUMBER and after - inside >= _LARGE
        tensor = _reference(content, inside, after, location) if is_weight else None
        if tensor is None:
            yield content[before:after]
        else:
            yield head(number, len(tensor))
            yield tensor


def _reference(content: mmap.mmap, start: int, end: int, location: str) -> bytes | None:
    """A tensor whose data is where it is in the file; None if it is not there in one piece."""
    kept, data = b"", []
    for number, before, inside, after in _fields(content, start, end):
        if number in _DATA:
            data.append((_DATA[number], inside, after - inside))
        elif after - before >= _LARGE:
            return None
        else:
            kept += content[before:after]
    if len(data) != 1:
        return None
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(kept)
    except Exception as error:  # protobuf's errors have no common base that is public
        raise ValueError(str(error)) from None
    ((only, offset, length),) = data
    if only not in (None, tensor.data_type):
        return None
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    told: bytes = tensor.SerializeToString()
    return told


def _fields(content: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """The fields of a message.

    Raises:
        ValueError: It is not a message.
    """
    place = start
    while place < end:
        tag, inside = _varint(content, place, end)
        kind = tag & 7
        if kind == BYTES:
            size, inside = _varint(content, inside, end)
            after = inside + size
        elif kind == 0:
            _, after = _varint(content, inside, end)
        elif kind in _FIXED:
            after = inside + _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind} is none")
        if after > end:
            raise ValueError("a field is cut off")
        yield tag >> 3, place, inside, after
        place = after


def _varint(content: mmap.mmap, place: int, end: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    while place < end and shift < 70:
        byte = content[place]
        number |= (byte & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if byte < 0x80:
            return number, place
    raise ValueError("a number is cut off")

"""Reading and writing model files, with clear errors. A file is written as a whole or not at all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import onnx_ir as ir

from eqsat.collector import paused_gc
from eqsat.errors import ModelError
from eqsat.files import is_stream, replacing
from eqsat.onnx.graphs import graphs_of
from eqsat.onnx.sparse import without_sparse_tensors
from eqsat.onnx.weights import check_external_files, has_external_tensors, take_in, taken_in, write

Given: TypeAlias = ir.Model | onnx.ModelProto | str | os.PathLike[str]
"""The forms in which models are passed: an ``onnx_ir.Model``, an ``onnx.ModelProto``, or the path of a file."""

NAMELESS = "the model"
"""Name in errors of a model that was not read from a file."""
_FILE = "eqsat.file"
"""Key in the ``meta`` of a model for the file that it was read from; it is not written."""
_LARGEST_PROTOBUF = (2 << 30) - (1 << 20)
"""Largest size of weights in one file, in bytes: the limit of protobuf, minus room for the graph."""
_NEWEST_OPSET = 2**31 - 1
"""The largest number that versions have in ONNX's own tools."""
_SMALL = 256
"""Largest weight, in bytes, that stays inside the model when others go to an external file."""
_MAPPED = 1 << 16
"""Size of weights, in bytes, beyond which a model that is written only to be run has them in an external file."""


def load(model: Given) -> ir.Model:
    """Return the model that is given in one of the forms that every function of ``eqsat.onnx`` takes.

    Weights in external files are memory-mapped when they are needed. For an ``onnx.ModelProto``, they are searched for
    in the current folder.

    Args:
        model: The path of a file; an ``onnx.ModelProto``, which is not changed; or an ``onnx_ir.Model``, which is
            returned unchanged.

    Raises:
        ModelError: The file is missing, unreadable, truncated or not an ONNX model; an external file is missing or too
            short; or ``model`` is of another kind.
    """
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return from_proto(model)
    if not isinstance(model, (str, os.PathLike)):
        given = type(model).__name__
        raise ModelError(f"a model is an onnx_ir.Model, an onnx.ModelProto or the path of a file, not {given}")
    where = os.fspath(model)
    return from_bytes(_content(where), where, os.path.dirname(where) or ".")


def _content(where: str) -> bytes:
    try:
        return Path(where).read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {where}: {error.strerror or error}") from None


def from_bytes(data: bytes, where: str = NAMELESS, folder: str = ".") -> ir.Model:
    """Return the model in the bytes of a file.

    Args:
        data: The content of the file.
        where: The name of the model in errors.
        folder: The folder that contains the external files.

    Raises:
        ModelError: As for :func:`load`.
    """
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's errors have no common base that is public
        bytearray(len(data) * 5 // 4)  # a MemoryError where there was no room, which protobuf's own does not say
        raise ModelError(f"{where} is not an ONNX model, or is truncated: {_one_line(error)}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(f"{where} is not an ONNX model, or is truncated: it has no graph or no opset")
    del data  # as large as the model, which holds it all once more
    return from_proto(proto, where, folder)


def from_proto(proto: Any, where: str = NAMELESS, folder: str = ".") -> ir.Model:
    """Return an ``onnx.ModelProto`` as an ``onnx_ir.Model``.

    Args:
        proto: The message; it is not changed.
        where: The name of the model in errors.
        folder: The folder that contains the external files.

    Raises:
        ModelError: The message is inconsistent or has parts that onnx_ir cannot represent, or an external file is
            missing.
    """
    proto = without_sparse_tensors(proto, where, folder)
    _check_names(proto, where)
    try:
        with paused_gc():
            model = ir.from_proto(proto)
        names = _names(model)
    except Exception as error:  # the library raises whatever the inconsistency runs into
        raise ModelError(f"{where} cannot be understood: {_one_line(error)}") from None
    for kind in dict.fromkeys(map(type, names)):
        if kind not in (str, type(None)):
            name = next(name for name in names if type(name) is kind)
            raise ModelError(f"{where} cannot be understood: name {name!r} is not in UTF-8")
    for domain, version in model.opset_imports.items():
        if not 0 <= version <= _NEWEST_OPSET:
            raise ModelError(f"{where} cannot be understood: opset {version} of domain {domain!r} cannot be")
    for tensor in _tensors(model):
        if not _has_element_type(tensor):
            raise ModelError(f"{where} cannot be understood: tensor {tensor.name!r} has no element type")
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        ir.external_data.set_base_dir(graph, folder)
    check_external_files(model, where)
    take_in(model)
    if where != NAMELESS:
        model.meta[_FILE] = where
    return model


@contextmanager
def errors_of(model: ir.Model) -> Iterator[None]:
    """Add the file of a model to the messages of errors about the model that the block raises."""
    try:
        yield
    except ModelError as error:
        where = model.meta.get(_FILE)
        if where is None or where in str(error):
            raise
        raise ModelError(f"{where}: {error}") from error.__cause__


def _has_element_type(tensor: ir.TensorProtocol) -> bool:
    try:
        return bool(tensor.dtype != ir.DataType.UNDEFINED)
    except ValueError:  # it has a number that is none
        return False


def _check_names(proto: Any, where: str) -> None:
    """Raise ModelError if two objects have the same name, of which onnx_ir would keep only the last."""
    named = {
        "inputs": [value.name for value in proto.graph.input],
        "initializers": [tensor.name for tensor in proto.graph.initializer],
        "functions": [(function.domain, function.name, function.overload) for function in proto.functions],
    }
    for what, names in named.items():
        if len(set(names)) < len(names):
            name, _ = Counter(names).most_common(1)[0]
            raise ModelError(f"{where} cannot be understood: several {what} have the name {name!r}")


def _names(model: ir.Model) -> list[object]:
    """Yield all names in the model; bytes if a name is not valid text."""
    names: list[object] = [*model.opset_imports]
    for graph in graphs_of(model.graph):
        names += [value.name for value in (*graph.inputs, *graph.initializers.values())]
        for node in graph:
            names += (node.op_type, node.domain, node.overload, node.name, *node.attributes.data)
            names += [value.name for value in node.outputs]
    return names


def to_bytes(model: Given) -> bytes:
    """Return the bytes of a file of the model, including its weights.

    Args:
        model: A model in any form that :func:`load` takes.

    Raises:
        ModelError: The model is too large for one file, or not well-formed.
    """
    model = load(model)
    if weight_bytes(model) > _LARGEST_PROTOBUF:
        raise ModelError("the model is larger than 2 GB: write it to a file, and its weights go to a second file")
    with taken_in(model):
        return bytes(to_proto(model).SerializeToString())


class PickledModel:
    """A model in pickles, as the bytes of its file: onnx_ir's own pickles recurse from node to node."""

    def __init__(self, model: ir.Model):
        self.model = model

    def __reduce__(self) -> Any:
        return from_bytes, (to_bytes(self.model),)


def to_proto(model: ir.Model) -> Any:
    """Return the model as an ``onnx.ModelProto``.

    Raises:
        ModelError: The model has parts that ONNX cannot represent.
    """
    try:
        return ir.to_proto(model)
    except ir.serde.SerdeError as error:
        raise ModelError(f"the model cannot be written: {_one_line(error)}") from None


def save(model: Given, path: str | os.PathLike[str]) -> None:
    """Write a model to a file. If this fails, an existing file stays unchanged.

    Weights that are in external files are written to the file ``path`` + ``.data``, as are those of a model that is too
    large for one file. If ``path`` is a pipe or a device such as ``/dev/null``, everything is written to it at once.

    Args:
        model: A model in any form that :func:`load` takes.
        path: The file.

    Raises:
        ModelError: The folder does not exist, or the file cannot be written.
    """
    model = load(model)
    try:
        if is_stream(path):
            with open(path, "wb") as file:
                file.write(to_bytes(model))
            return
        with replacing(path) as written, taken_in(model, _SMALL):
            if has_external_tensors(model) or weight_bytes(model) > _LARGEST_PROTOBUF:
                _write_apart(model, written, _SMALL)
            else:
                with open(written, "wb") as file:
                    write(model, file)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}") from None
    except ir.serde.SerdeError as error:
        raise ModelError(f"the model cannot be written: {_one_line(error)}") from None


def save_to_run(model: Given, path: Path) -> None:
    """Write a model for onnxruntime to a new file; large weights go to a second file, which is memory-mapped.

    Raises:
        ModelError: As :func:`save`.
    """
    model = load(model)
    try:
        with taken_in(model, _MAPPED):
            _write_apart(model, path, _MAPPED)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}") from None
    except ir.serde.SerdeError as error:
        raise ModelError(f"the model cannot be written: {_one_line(error)}") from None


def _write_apart(model: ir.Model, path: Path, most: int) -> None:
    """Write weights larger than a limit to a second file."""
    ir.save(model, path, format="protobuf", external_data=f"{path.name}.data", size_threshold_bytes=most)


def weight_bytes(model: ir.Model) -> int:
    """Bytes of all weights."""
    return sum(tensor.nbytes for tensor in _tensors(model) if tensor.dtype != ir.DataType.STRING)


def _tensors(model: ir.Model) -> list[ir.TensorProtocol]:
    """The initializers' tensors, of all graphs."""
    values = [value for graph in graphs_of(model.graph) for value in graph.initializers.values()]
    return [value.const_value for value in values if value.const_value is not None]


def _one_line(error: BaseException) -> str:
    """Return the first line of the message of an error's root cause, which says what is wrong."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    lines = (f"there is no {error}" if isinstance(error, KeyError) else str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__

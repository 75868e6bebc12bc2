"""Model files: read with clear errors, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from eqsat.errors import ModelError

_LARGEST_PROTOBUF = (2 << 30) - (1 << 20)
"""Bytes that one file can hold: protobuf's limit, less room for the graph."""


def load(path: str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX model. Weights in external files are not read but mapped when they are asked for.

    Raises:
        ModelError: the file is missing, unreadable, cut off, or no ONNX model.
    """
    where = os.fspath(path)
    try:
        proto = onnx.load(where, load_external_data=False)
    except OSError as error:
        raise ModelError(f"cannot read {where}: {error.strerror or error}") from None
    except Exception as error:  # protobuf's errors have no common base that is public
        raise ModelError(f"{where} is no ONNX model, or is cut off: {_one_line(error)}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(f"{where} is no ONNX model, or is cut off: it has no graph or no opset")
    model = from_proto(proto, where)
    ir.external_data.set_base_dir(model.graph, os.path.dirname(where) or ".")
    return model


def from_proto(proto: Any, where: str = "the model") -> ir.Model:
    """An ``onnx.ModelProto`` as a model of onnx_ir.

    Raises:
        ModelError: it is inconsistent, or has parts that onnx_ir cannot hold.
    """
    if proto.graph.sparse_initializer:
        proto = _with_dense_initializers(proto)
    try:
        return ir.from_proto(proto)
    except Exception as error:  # the library raises whatever the inconsistency runs into
        raise ModelError(f"{where} cannot be understood: {_one_line(error)}") from None


def _with_dense_initializers(proto: Any) -> Any:
    """A copy whose sparse initializers are dense: onnx_ir has no sparse ones."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for sparse in copy.graph.sparse_initializer:
        copy.graph.initializer.append(_dense(sparse))
    del copy.graph.sparse_initializer[:]
    return copy


def _dense(sparse: Any) -> Any:
    import numpy as np

    values = onnx.numpy_helper.to_array(sparse.values)
    indices = onnx.numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return onnx.numpy_helper.from_array(dense, sparse.values.name)


def save(model: ir.Model, path: str | os.PathLike[str]) -> None:
    """Write a model: the file is there whole, or as it was before.

    Weights that are in external files, and those of a model too large for one file, go to ``path`` with
    ``.data`` behind it.

    Raises:
        ModelError: the folder does not exist or the file cannot be written.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(suffix=".onnx", prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror or error}") from None
    os.close(handle)
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        ir.save(model, temporary, format="protobuf", external_data=_data_file(model, target))
        os.chmod(temporary, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise ModelError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _data_file(model: ir.Model, target: Path) -> str | None:
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    present = [tensor for tensor in tensors if tensor is not None]
    if any(isinstance(tensor, ir.ExternalTensor) for tensor in present):
        return f"{target.name}.data"
    total = sum(tensor.nbytes for tensor in present if tensor.dtype != ir.DataType.STRING)
    return f"{target.name}.data" if total > _LARGEST_PROTOBUF else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _one_line(error: BaseException) -> str:
    """The last line of what an error and its causes say, which names what is wrong."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

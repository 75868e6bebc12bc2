"""Conversion of sparse initializers and constants to dense ones, because onnx_ir has no sparse ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from eqsat.errors import ModelError
from eqsat.onnx.weights import check_external_file

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
_SPARSE = onnx.AttributeProto.SPARSE_TENSOR
_LARGEST = 2 << 30
"""Bytes that a tensor in a protobuf can have."""


def without_sparse_tensors(proto: Any, where: str, folder: str) -> Any:
    """An ``onnx.ModelProto`` whose sparse initializers and constants are dense: a copy, or itself where it has none.

    Args:
        proto: the message.
        where: what to call it in errors.
        folder: what names of external files are relative to.

    Raises:
        ModelError: the parts of a sparse tensor do not go together, or are in files that are not there.
    """
    if next(_holders(proto), None) is None:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for holder in list(_holders(copy)):
        if isinstance(holder, onnx.GraphProto):
            holder.initializer.extend([_dense(sparse, where, folder) for sparse in holder.sparse_initializer])
            del holder.sparse_initializer[:]
        else:
            tensor = _dense(holder.sparse_tensor, where, folder)
            holder.CopyFrom(onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=tensor))
    return copy


def _holders(proto: Any) -> Iterator[Any]:
    """The graphs with sparse initializers and the values of sparse constants, of nodes' graphs and functions too."""
    if proto.graph.sparse_initializer:
        yield proto.graph
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while nodes:
        node = nodes.pop()
        for attribute in node.attribute:
            kind = attribute.type
            if kind == _SPARSE and node.op_type == "Constant":
                yield attribute
            for graph in (attribute.g,) if kind == _GRAPH else attribute.graphs if kind == _GRAPHS else ():
                if graph.sparse_initializer:
                    yield graph
                nodes += graph.node


def _dense(sparse: Any, where: str, folder: str) -> Any:
    """One tensor; `indices` are places in the flat one, or (count, rank).

    Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, SparseTensorProto.
    """
    name = sparse.values.name
    try:
        values, indices = _array(sparse.values, where, folder), _array(sparse.indices, where, folder)
        if prod(sparse.dims) * values.itemsize > _LARGEST:
            raise ValueError("it is larger than 2 GB")
        if np.any(indices < 0):
            raise IndexError("an index is negative")
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            dense.reshape(-1)[indices.reshape(values.size)] = values
        else:
            dense[tuple(indices.reshape(values.size, dense.ndim).T)] = values
        return numpy_helper.from_array(dense, name)
    except (ValueError, IndexError, TypeError, NotImplementedError) as error:
        raise ModelError(f"sparse tensor {name!r:.200} is not well-formed: {error}") from None


def _array(proto: Any, where: str, folder: str) -> Any:
    """The elements of a part of a sparse tensor, which may be in another file."""
    try:
        tensor = ir.serde.deserialize_tensor(proto, folder)
    except ir.serde.SerdeError as error:
        raise ValueError(error.__cause__ or error) from None
    if isinstance(tensor, ir.ExternalTensor):
        check_external_file(tensor, where)
    return tensor.numpy()

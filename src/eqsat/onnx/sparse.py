"""Sparse initializers and constants as dense ones: onnx_ir has no sparse ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from eqsat.errors import ModelError

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
_SPARSE = onnx.AttributeProto.SPARSE_TENSOR
_LARGEST = 2 << 30
"""Bytes that a tensor in a protobuf can have."""


def without_sparse_tensors(proto: Any) -> Any:
    """An ``onnx.ModelProto`` whose sparse initializers and constants are dense: a copy, or itself where it has none.

    Raises:
        ModelError: the parts of a sparse tensor do not go together.
    """
    if next(_holders(proto), None) is None:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for holder in list(_holders(copy)):
        if isinstance(holder, onnx.GraphProto):
            holder.initializer.extend(map(_dense, holder.sparse_initializer))
            del holder.sparse_initializer[:]
        else:
            value = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=_dense(holder.sparse_tensor))
            holder.CopyFrom(value)
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


def _dense(sparse: Any) -> Any:
    """One tensor; `indices` are places in the flat one, or (count, rank).

    Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, SparseTensorProto.
    """
    name = sparse.values.name
    try:
        values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
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

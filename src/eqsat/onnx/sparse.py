"""Sparse initializers as dense ones: onnx_ir has no sparse ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from eqsat.errors import ModelError

_GRAPH, _GRAPHS = onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS
_LARGEST = 2 << 30
"""Bytes that a tensor in a protobuf can have."""


def with_dense_initializers(proto: Any) -> Any:
    """An ``onnx.ModelProto`` whose sparse initializers are dense: a copy, or itself where it has none.

    Raises:
        ModelError: the parts of a sparse initializer do not go together.
    """
    if not any(graph.sparse_initializer for graph in _graphs(proto)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for graph in _graphs(copy):
        graph.initializer.extend(map(_dense, graph.sparse_initializer))
        del graph.sparse_initializer[:]
    return copy


def _graphs(proto: Any) -> Iterator[Any]:
    """The graph and those inside of nodes, of functions too."""
    yield proto.graph
    nodes = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while nodes:
        for attribute in nodes.pop().attribute:
            kind = attribute.type
            for graph in (attribute.g,) if kind == _GRAPH else attribute.graphs if kind == _GRAPHS else ():
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
        raise ModelError(f"sparse initializer {name!r:.200} is not well-formed: {error}") from None

"""Models that compute a kernel many times, so that it is seen what it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

_MANY = 256
"""Elements from which on constants are weights: others may be scales, limits or exponents."""

_BYTE_SCALE = 100.0
"""Largest integer of one byte: these are quantized weights, and wider ones may be indices."""

_COPIES = 32
"""Most copies of a kernel in one model."""

_COPY_BYTES = 1 << 26
"""Most bytes of the weights of all copies, unless there is but one: more than caches hold.

Copies that shared their weights would find them at hand, as nodes of a large network do not. Those of a small network
do, so that they have no more bytes than its weights, if these are known.
"""

_RESULT_BYTES = 1 << 22
"""Most bytes of the results of all copies, unless they overwrite each other: they have buffers of their own.

In a network a result takes a buffer that was used a few kernels before, and is still in a cache.
"""

_CACHED_BYTES = 1 << 18
"""Bytes that caches hold: the most of what all copies read and write that have inputs of their own."""

_WORTH = 2e-4
"""Seconds that a model should run, so that the call of the runtime does not show."""

LAUNCH = 1e-6
"""Seconds that any kernel takes on a fast processor."""

NEEDED_ONLY = {"openvino"}
"""Runtimes that compute equal nodes once, and nothing that no output needs: see :mod:`eqsat.calibration.gathered`."""


def copies_of(least: float, weights: float, results: float, all_weights: float = _COPY_BYTES) -> int:
    """Return how often a model should compute a kernel.

    Args:
        least: Seconds that it takes at least.
        weights: Bytes of its weights.
        results: Bytes of its results; 0 where copies overwrite each other's.
        all_weights: Bytes of the weights of the network that it is part of, if they are known.
    """
    most_bytes = min(_COPY_BYTES, max(all_weights, _CACHED_BYTES))
    most = min(_COPIES, most_bytes // max(weights, 1.0), _RESULT_BYTES // max(results, 1.0))
    return int(max(1, min(math.ceil(_WORTH / max(least, LAUNCH)), most)))


def are_fewer(weights: float, all_weights: float) -> bool:
    """Tell whether a kernel may have fewer copies than one of a large network; arguments as for :func:`copies_of`."""
    return copies_of(LAUNCH, weights, 0.0, all_weights) < copies_of(LAUNCH, weights, 0.0)


def copies_gathered(least: float, weights: float, moved: float) -> int:
    """As :func:`copies_of`, where each copy has inputs and results of its own, which are so many bytes."""
    return int(max(1, min(copies_of(least, weights, 0.0), _CACHED_BYTES // max(moved, 1.0))))


def add_nodes(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], new: Mapping[str, str]) -> None:
    """Add copies of nodes to a graph, with ``new`` names in the place of those of their tensors that have one."""
    for node in nodes:
        again = graph.node.add()
        again.CopyFrom(node)
        again.name = ""
        again.input[:] = [new.get(name, name) for name in node.input]
        again.output[:] = [new.get(name, name) for name in node.output]


def weights_of_copy(tensor: onnx.TensorProto, name: str, copy: int) -> onnx.TensorProto:
    """Return a tensor for a copy of a kernel, called ``name``; its many floats or bytes are not those of other copies.

    Equal weights would be at hand after the first copy: somebody, the system or the runtime, keeps them once.
    """
    found = onnx.TensorProto()
    found.CopyFrom(tensor)
    found.name = name
    if is_drawn(tensor):
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        scale = 1.0 if dtype.kind == "f" else _BYTE_SCALE
        found.raw_data = np.roll((scale * _floats(math.prod(tensor.dims))).astype(dtype), copy).tobytes()
    return found


def is_drawn(tensor: onnx.TensorProto) -> bool:
    """Tell whether copies of a kernel have other numbers in the place of those of a tensor: many floats or bytes."""
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    is_of_weights = dtype.kind == "f" or (dtype.kind in "iu" and dtype.itemsize == 1)
    return bool(is_of_weights and math.prod(tensor.dims) >= _MANY)


@lru_cache(maxsize=4)
def _floats(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).uniform(0.1, 1.0, count).astype(np.float32)


def with_output(model: onnx.ModelProto) -> onnx.ModelProto:
    """Add an input of one element to a model, and an output that is equal to it; return the model."""
    graph, number = model.graph, onnx.TensorProto.FLOAT
    graph.input.append(helper.make_tensor_value_info("given", number, [1]))
    graph.output.append(helper.make_tensor_value_info("done", number, [1]))
    graph.node.append(helper.make_node("Identity", ["given"], ["done"]))
    return model


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of the weights of a model."""
    return sum(len(value.raw_data) for value in model.graph.initializer)

"""Kernels in one model for runtimes that compute equal nodes once, and nothing that no output needs.

Each kernel takes an input of its own, which makes it differ from its copies, and the first elements of all that it
gives go into an output, beside those of all others. What this takes is about the same for each, and measured without
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from eqsat.calibration.kernels import add_nodes, weights_of_copy

_CHANNELS = 1
"""The axis of images that is not cut: their layouts hold several channels together."""


def gathered(parts: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return a model that computes each part, the model of a kernel, with weights of its own."""
    whole = onnx.ModelProto()
    whole.CopyFrom(parts[0])
    whole.graph.Clear()
    whole.graph.name = "gathered"
    taken: dict[bytes, str] = {}
    results: dict[int, list[str]] = {}
    for number, part in enumerate(parts):
        new = _names(part.graph, number)
        for place, value in enumerate(part.graph.input):
            new[value.name] = _input(whole.graph, value, f"{number}/{value.name}", taken if place else None)
        for tensor in part.graph.initializer:
            whole.graph.initializer.append(weights_of_copy(tensor, new[tensor.name], number))
        add_nodes(whole.graph, part.graph.node, new)
        for value in part.graph.output:
            kind = value.type.tensor_type.elem_type
            results.setdefault(kind, []).append(_first(whole.graph, value, new.get(value.name, value.name)))
    for kind, names in results.items():
        out = f"done{kind}"
        whole.graph.node.append(helper.make_node("Concat", names, [out], axis=0))
        whole.graph.output.append(helper.make_tensor_value_info(out, kind, None))
    return whole


def _names(graph: onnx.GraphProto, number: int) -> dict[str, str]:
    """New names of what a part makes, and of its weights."""
    made = [name for node in graph.node for name in node.output if name]
    return {name: f"{number}/{name}" for name in (*made, *[tensor.name for tensor in graph.initializer])}


def _input(graph: onnx.GraphProto, value: onnx.ValueInfoProto, name: str, taken: dict[bytes, str] | None) -> str:
    """Add an input, unless there is one of its type in ``taken``; return its name."""
    ty = value.type.SerializeToString(deterministic=True)
    if taken is not None and ty in taken:
        return taken[ty]
    graph.input.append(helper.make_value_info(name, value.type))
    if taken is not None:
        taken[ty] = name
    return name


def _first(graph: onnx.GraphProto, value: onnx.ValueInfoProto, name: str) -> str:
    """Add what takes the first elements of a tensor; return the name of the vector of these."""
    rank = len(value.type.tensor_type.shape.dim)
    axes = [axis for axis in range(rank) if rank < 4 or axis != _CHANNELS]
    first = f"{name}/first"
    for end, numbers in (("from", [0] * len(axes)), ("to", [1] * len(axes)), ("axes", axes), ("vector", [-1])):
        graph.initializer.append(numpy_helper.from_array(np.asarray(numbers, np.int64), f"{name}/{end}"))
    if axes:
        cut = [name, *[f"{name}/{end}" for end in ("from", "to", "axes")]]
        graph.node.append(helper.make_node("Slice", cut, [f"{name}/cut"]))
    graph.node.append(helper.make_node("Reshape", [f"{name}/cut" if axes else name, f"{name}/vector"], [first]))
    return first

"""Kernels in one model for runtimes that compute equal nodes once, and nothing that no output needs.

Each kernel takes a part of an input, which makes it differ from its copies, and the first elements of all that it gives
go into an output, beside those of all others. What this takes is about the same for each, and measured without kernels.
Kernels do not take inputs as they are, since OpenVINO takes twice as long for some of those, such as softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from eqsat.calibration.copies import add_nodes, weights_of_copy

_CHANNELS = 1
"""The axis of images that is not cut: their layouts hold several channels together."""


def gathered(parts: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return a model that computes each part, the model of a kernel, with weights and inputs of its own."""
    whole = onnx.ModelProto()
    whole.CopyFrom(parts[0])
    whole.graph.Clear()
    whole.graph.name = "gathered"
    taken: dict[bytes, list[tuple[onnx.ValueInfoProto, str]]] = {}
    results: dict[int, list[str]] = {}
    for number, part in enumerate(parts):
        made = [name for node in part.graph.node for name in node.output if name]
        named = [*made, *[value.name for value in (*part.graph.initializer, *part.graph.input)]]
        new = {name: f"{number}/{name}" for name in named}
        for value in part.graph.input:
            same = taken.setdefault(value.type.SerializeToString(deterministic=True), [])
            same.append((value, new[value.name]))
        for tensor in part.graph.initializer:
            whole.graph.initializer.append(weights_of_copy(tensor, new[tensor.name], number))
        add_nodes(whole.graph, part.graph.node, new)
        for value in part.graph.output:
            kind = value.type.tensor_type.elem_type
            results.setdefault(kind, []).append(_first(whole.graph, value, new[value.name]))
    splits = [_input(whole.graph, f"x{place}", *zip(*each, strict=True)) for place, each in enumerate(taken.values())]
    nodes = [*[node for node in splits if node is not None], *whole.graph.node]
    del whole.graph.node[:]
    whole.graph.node.extend(nodes)
    for kind, names in results.items():
        out = f"done{kind}"
        whole.graph.node.append(helper.make_node("Concat", names, [out], axis=0))
        whole.graph.output.append(helper.make_tensor_value_info(out, kind, None))
    return whole


def _input(
    graph: onnx.GraphProto, given: str, values: Sequence[onnx.ValueInfoProto], names: Sequence[str]
) -> onnx.NodeProto | None:
    """Add inputs of one type; return the node that cuts them out of one, None where each is an input."""
    ty = values[0].type
    if not ty.tensor_type.shape.dim or len(names) == 1:
        graph.input.extend([helper.make_value_info(name, ty) for name in names])
        return None
    together = onnx.TypeProto()
    together.CopyFrom(ty)
    together.tensor_type.shape.dim[0].dim_value *= len(names)
    graph.input.append(helper.make_value_info(given, together))
    sizes = [ty.tensor_type.shape.dim[0].dim_value] * len(names)
    graph.initializer.append(numpy_helper.from_array(np.asarray(sizes, np.int64), f"{given}/sizes"))
    return helper.make_node("Split", [given, f"{given}/sizes"], names, axis=0)


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

"""A model whose weights can be changed from run to run, to measure the effects of rounding and of mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from eqsat.collector import collect
from eqsat.errors import ModelError
from eqsat.onnx.files import load, weight_bytes
from eqsat.onnx.graphs import graphs_of, nodes_of
from eqsat.onnx.sessions import session
from eqsat.onnx.weights import elements_of

Array = np.ndarray[Any, Any]

_FLOATS = frozenset((ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16))
_MOST_BYTES = 1 << 29
"""Maximum total size of weights, in bytes; they are in memory several times."""
_PARAMETERS = 16
"""Maximum number of elements of a tensor that may contain settings, such as exponents or scales of a resize."""
_LARGEST = 1e30
"""Magnitude beyond which a number stands for infinity, as in masks."""
_PATTERN = 1 << 16


class Probe:
    """A model in onnxruntime whose float weights are inputs with a default.

    Args:
        file: the model.
        path: where to write the changed one.

    Attributes:
        session: the model.
        weights: its weights by the names under which they are given, in the order of their use.

    Raises:
        ModelError: its weights are too large, or onnxruntime does not take it like this.
    """

    def __init__(self, file: Path, path: Path):
        opened = load(file)
        held = weight_bytes(opened)
        if held > _MOST_BYTES:
            raise ModelError(f"its weights are more than {_MOST_BYTES >> 20} MiB")
        names = open_weights(opened)
        self.session = session(opened, path, "the model with weights as inputs")
        opened = load(path)  # its weights are mapped, and need no memory of their own
        collect(held)  # those that were read: the nodes of a model refer to each other
        self.weights = {name: elements_of(opened.graph.initializers[name].const_value) for name in names}

    def rounded(self, random: np.random.Generator) -> dict[str, Array]:
        """Return all weights, each changed by about as much as rounding changes it."""
        return {name: rounded(array, random) for name, array in self.weights.items() if array.size > _PARAMETERS}

    def mistakes(self, count: int, random: np.random.Generator) -> Iterator[tuple[str, Array]]:
        """One wrong weight for each of ``count`` regions of the model, which have equally many weights.

        Of a vector all elements are wrong, of others one row.
        """
        names = [name for name, array in self.weights.items() if array.size > 1] or [*self.weights]
        regions = min(count, len(names))
        for region in range(regions):
            first, last = region * len(names) // regions, (region + 1) * len(names) // regions
            name = names[int(random.integers(first, last))]
            yield name, wrong(self.weights[name], random)


def rounded(array: Array, random: np.random.Generator) -> Array:
    """Return an array with each float changed by about as much as rounding changes it."""
    if array.dtype.kind != "f" or not array.size:
        return array
    step = np.finfo(array.dtype).eps * random.choice([-1.0, 0.0, 1.0], min(array.size, _PATTERN))
    with np.errstate(all="ignore"):
        moved = (array.ravel() * np.resize((1 + step).astype(array.dtype), array.size)).reshape(array.shape)
        return np.asarray(np.where(np.abs(array) < _LARGEST, moved, array), array.dtype)


def wrong(array: Array, random: np.random.Generator) -> Array:
    """Return a weight times 1.5, plus a half where it is 0; only one row is changed if it has rows."""
    changed = np.array(array)
    part = changed[int(random.integers(len(array)))] if array.ndim > 1 else changed
    with np.errstate(all="ignore"):
        moved = np.where(part == 0, 0.5, part * 1.5)
        part[...] = np.where(np.abs(part) < _LARGEST, moved, part)
    return changed


def open_weights(model: ir.Model) -> list[str]:
    """Make the float weights of a model inputs with a default, those of subgraphs too.

    Args:
        model: is changed.

    Returns:
        The names under which they are given, in the order of their use.
    """
    graphs = graphs_of(model.graph)
    names = {value.name for graph in graphs for value in (*graph.inputs, *graph.initializers.values())}
    names |= {value.name for node in nodes_of(model.graph) for value in node.outputs}
    for graph in graphs:
        _constants_to_initializers(graph)
        if graph is not model.graph:
            _move_out(graph, model.graph, names)
    inputs = set(model.graph.inputs)
    used = dict.fromkeys(value for node in nodes_of(model.graph) for value in node.inputs if value is not None)
    found: list[str] = []
    for value in used:
        tensor = value.const_value
        if _is_weight(value) and tensor is not None and value.graph is model.graph:
            value.dtype, value.shape = tensor.dtype, ir.Shape(tensor.shape)
            found.append(value.name)
            if value not in inputs:
                model.graph.inputs.append(value)
    model.ir_version = max(model.ir_version, 4)  # before it, what is an input and an initializer is a constant
    return found


def _is_weight(value: ir.Value) -> bool:
    tensor = value.const_value
    return value.is_initializer() and tensor is not None and tensor.dtype in _FLOATS and tensor.size > 0


def _constants_to_initializers(graph: ir.Graph) -> None:
    for node in [*graph]:
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or node.outputs[0] in graph.outputs:
            continue
        tensor = ir.convenience.get_const_tensor(node.outputs[0])
        if tensor is not None and tensor.dtype in _FLOATS:
            name = node.outputs[0].name
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape))
            value.const_value = tensor
            ir.convenience.replace_all_uses_with(node.outputs[0], value)
            graph.remove(node, safe=True)
            graph.initializers.add(value)


def _move_out(inner: ir.Graph, outer: ir.Graph, names: set[str | None]) -> None:
    """Move the weights of a subgraph to the graph of the model, where they may need other names."""
    for value in [*inner.initializers.values()]:
        if _is_weight(value) and value not in inner.outputs and value not in inner.inputs:
            del inner.initializers[value.name]
            number = 1
            while f"{value.name}.{number}" in names:
                number += 1
            value.name = f"{value.name}.{number}"
            names.add(value.name)
            outer.initializers.add(value)


def types_of(model: ir.Model) -> set[ir.DataType]:
    """The element types of a model's weights, inputs and outputs, and of what it casts to."""
    found: set[Any] = {value.dtype for value in (*model.graph.inputs, *model.graph.outputs)}
    for graph in graphs_of(model.graph):
        found |= {value.const_value.dtype for value in graph.initializers.values() if value.const_value is not None}
    for node in nodes_of(model.graph):
        if node.op_type == "Cast" and "to" in node.attributes and not node.attributes["to"].is_ref():
            found.add(ir.DataType(node.attributes["to"].as_int()))
    return found - {None}

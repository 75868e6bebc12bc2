"""Models with one fault each: what a converter, an optimizer or a hand may get wrong in a single node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Change = Callable[[onnx.ModelProto, onnx.NodeProto], None]
"""What a fault does to a node of a copy of the model."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: What is wrong.
        node: The number of the node that is wrong.
        values: The values that it makes.
        users: The values of the nodes that use them: they hold the fault where it is that the node does nothing.
        change: Makes the fault.
    """

    kind: str
    node: int
    values: frozenset[str]
    users: frozenset[str]
    change: Change

    def made(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A copy of the model that has the fault."""
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        self.change(copy, copy.graph.node[self.node])
        return copy


def drawn(model: onnx.ModelProto, values: Mapping[str, Any], random: np.random.Generator) -> Iterator[Fault]:
    """All faults that a model may have, kind by kind in turn, in a random order.

    Args:
        model: The model.
        values: What its nodes make on some inputs.
        random: Draws.
    """
    kinds = defaultdict(list)
    for fault in _faults(_Graph(model, values), random):
        kinds[fault.kind].append(fault)
    waiting = {kind: [each[i] for i in random.permutation(len(each))] for kind, each in kinds.items()}
    while waiting:
        for kind in random.permutation(sorted(waiting)).tolist():
            yield waiting[kind].pop()
            if not waiting[kind]:
                del waiting[kind]


class _Graph:
    """What is known of a model: constants by name, values, and the nodes that use each."""

    def __init__(self, model: onnx.ModelProto, values: Mapping[str, Any]):
        self.nodes = list(model.graph.node)
        self.constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.values = {**self.constants, **values}
        self.users: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes:
            for name in node.input:
                self.users[name].update(node.output)

    def is_float(self, name: str) -> bool:
        return name in self.values and np.asarray(self.values[name]).dtype.kind == "f"

    def shape(self, name: str) -> tuple[int, ...] | None:
        return np.shape(self.values[name]) if name in self.values else None

    def weight(self, name: str) -> np.ndarray | None:
        """A constant of floats."""
        array = self.constants.get(name)
        return array if array is not None and array.dtype.kind == "f" and array.size else None


def _faults(graph: _Graph, random: np.random.Generator) -> Iterator[Fault]:
    for number, node in enumerate(graph.nodes):
        if not node.output or not graph.is_float(node.output[0]):
            continue
        users = frozenset(name for value in node.output for name in graph.users[value])
        for kind, change in _changes(graph, node, random):
            yield Fault(kind, number, frozenset(node.output), users, change)


def _changes(graph: _Graph, node: onnx.NodeProto, random: np.random.Generator) -> Iterator[tuple[str, Change]]:
    """The faults of one node."""
    yield from _wrong_constants(graph, node, random)
    yield from _wrong_attributes(graph, node)
    inputs = list(node.input)
    shapes = [graph.shape(name) for name in inputs]
    if node.op_type in ("Sub", "Div") and inputs[0] != inputs[1]:
        yield "operands swapped", _inputs({0: inputs[1], 1: inputs[0]})
    if node.op_type == "MatMul" and shapes[0] == shapes[1] and shapes[0] and shapes[0][-1] == shapes[0][-2]:
        yield "operands swapped", _inputs({0: inputs[1], 1: inputs[0]})
    if node.op_type == "Where" and shapes[1] is not None and _alike(graph, inputs[1], inputs[2]):
        yield "mask inverted", _inputs({1: inputs[2], 2: inputs[1]})
    if node.op_type in _ACTIVATIONS:
        yield "activation removed", _nothing(inputs[0])
    if node.op_type in _OTHERS:
        yield "another operator", _operator(_OTHERS[node.op_type])
    if node.op_type == "Add":
        for bias, rest in ((0, 1), (1, 0)):
            is_bias = graph.weight(inputs[bias]) is not None and np.any(graph.constants[inputs[bias]])
            if is_bias and shapes[rest] == graph.shape(node.output[0]) and np.size(graph.constants[inputs[bias]]) > 1:
                yield "bias dropped", _nothing(inputs[rest])
    if node.op_type in ("Gemm", "Conv", "LayerNormalization") and len(inputs) > 2 and inputs[2]:
        yield "bias dropped", _inputs({2: ""})
    if node.op_type in ("Add", "Mul", "Sub", "MatMul") and inputs[1] not in graph.constants:
        own = [value for value in graph.nodes if value.output and graph.shape(value.output[0]) == shapes[1]]
        earlier = [each.output[0] for each in own[: own.index(node)] if each.output] if node in own else []
        floats = [
            name for name in earlier if graph.is_float(name) and name not in inputs and name not in graph.constants
        ]
        if floats:
            yield "another operand", _inputs({1: floats[int(random.integers(len(floats)))]})


_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "Softmax", "LeakyRelu", "HardSwish", "Elu", "Clip", "Sqrt")
_OTHERS = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Relu": "LeakyRelu",
    "Tanh": "Sigmoid",
    "Sigmoid": "Tanh",
    "Max": "Min",
    "Min": "Max",
    "ReduceMean": "ReduceMax",
    "GlobalAveragePool": "GlobalMaxPool",
    "Sin": "Cos",
    "Cos": "Sin",
}


def _alike(graph: _Graph, one: str, other: str) -> bool:
    """Whether two values differ, and may stand for each other."""
    if one not in graph.values or other not in graph.values:
        return False
    left, right = np.asarray(graph.values[one]), np.asarray(graph.values[other])
    return left.dtype == right.dtype and not np.array_equal(left, right)


def _wrong_constants(graph: _Graph, node: onnx.NodeProto, random: np.random.Generator) -> Iterator[tuple[str, Change]]:
    for place, name in enumerate(node.input):
        array = graph.weight(name)
        if array is None or node.op_type in ("Clip", "Resize", "Pad", "Identity", "Constant"):
            continue
        if array.size > 1 and array.any():
            yield (
                "last place",
                _constant(place, _elsewhere(array, random, lambda each: np.nextafter(each, each.dtype.type(np.inf)))),
            )
            yield "one weight", _constant(place, _elsewhere(array, random, lambda each: each * each.dtype.type(1.5)))
        if array.size == 1 and node.op_type in ("Mul", "Div") and np.isfinite(array).all() and array.any():
            yield "another scale", _constant(place, np.asarray(array * array.dtype.type(1.01)))
        if array.size == 1 and node.op_type == "Add" and 0 < float(array.ravel()[0]) < 0.01:
            yield "another epsilon", _constant(place, np.asarray(array * array.dtype.type(10)))
        is_square = array.ndim == 2 and array.shape[0] == array.shape[1] > 1
        if node.op_type in ("MatMul", "Gemm") and is_square:
            yield "weight transposed", _constant(place, np.ascontiguousarray(array.T))


def _elsewhere(array: np.ndarray, random: np.random.Generator, wrong: Callable[[Any], Any]) -> np.ndarray:
    """An array with one wrong element, of those that are not small."""
    flat = np.abs(array.ravel().astype(np.float64))
    finite = np.where(np.isfinite(flat) & (flat < 1e30), flat, 0.0)
    (large,) = np.nonzero(finite >= max(finite.max() / 10, 1e-30))
    changed = array.copy()
    if large.size:
        index = np.unravel_index(int(random.choice(large)), array.shape)
        changed[index] = wrong(array[index])
    return changed


def _wrong_attributes(graph: _Graph, node: onnx.NodeProto) -> Iterator[tuple[str, Change]]:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    shape = graph.shape(node.output[0]) or ()
    given = graph.shape(node.input[0]) if node.input else None
    if "Normalization" in node.op_type:
        yield "another epsilon", _attribute("epsilon", 10 * attributes.get("epsilon", 1e-5))
    if node.op_type in ("Softmax", "LogSoftmax"):
        axis = attributes.get("axis", -1) % max(len(shape), 1)
        others = [each for each in range(len(shape)) if each != axis and shape[each] > 1]
        if others:
            yield "another axis", _attribute("axis", others[-1])
    if node.op_type.startswith("Reduce") and len(attributes.get("axes", ())) == 1 and given:
        axis = attributes["axes"][0] % len(given)
        others = [each for each in range(len(given)) if each != axis and given[each] == given[axis] > 1]
        if others:
            yield "another axis", _attribute("axes", [others[-1]])
    if node.op_type == "Transpose" and given:
        perm = list(attributes.get("perm", range(len(given) - 1, -1, -1)))
        for one in range(len(perm)):
            for other in range(one):
                if given[perm[one]] == given[perm[other]] > 1:
                    swapped = list(perm)
                    swapped[one], swapped[other] = perm[other], perm[one]
                    yield "another axis", _attribute("perm", swapped)


def _constant(place: int, array: np.ndarray) -> Change:
    def change(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        model.graph.initializer.append(numpy_helper.from_array(array, "faulty_constant"))
        node.input[place] = "faulty_constant"

    return change


def _attribute(name: str, value: Any) -> Change:
    def change(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        for index in range(len(node.attribute) - 1, -1, -1):
            if node.attribute[index].name == name:
                del node.attribute[index]
        node.attribute.append(helper.make_attribute(name, value))

    return change


def _inputs(changed: Mapping[int, str]) -> Change:
    def change(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        for place, name in changed.items():
            node.input[place] = name

    return change


def _operator(name: str) -> Change:
    def change(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        node.op_type = name
        node.domain = ""
        if name == "ReduceMax" or name in ("Min", "Max", "GlobalMaxPool"):
            return
        del node.attribute[:]

    return change


def _nothing(operand: str) -> Change:
    def change(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
        node.op_type = "Identity"
        node.domain = ""
        del node.attribute[:]
        node.input[:] = [operand]

    return change

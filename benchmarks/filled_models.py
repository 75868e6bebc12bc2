"""The onnx package's own test networks with seeded random weights: as shipped, all their weights are constant fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper


def light_model(name: str) -> Path:
    """The path of ``light_<name>.onnx`` in the installed onnx package."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


def fill_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """``model`` with an initializer of random values in the place of every ConstantOfShape node.

    Scales keep the activations of a deep network of one magnitude: weights have variance 2 / fan-in, variances
    are positive.
    """
    random = np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    uses = {name: (node, index) for node in reversed(graph.node) for index, name in enumerate(node.input)}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = tuple(shapes[node.input[0]].tolist())
        values = _values(shape, *uses[node.output[0]], random).astype(np.float32)
        graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        graph.input.append(helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, shape))
    del graph.node[:]
    graph.node.extend(kept)
    _drop_unused(graph)
    _calibrate_softmax(model, random)
    return model


def _values(shape: tuple[int, ...], user: onnx.NodeProto, index: int, random: np.random.Generator) -> np.ndarray:
    if user.op_type == "BatchNormalization" and index == 4:
        return random.uniform(0.5, 1.5, shape)
    if user.op_type in ("Conv", "Gemm") and index == 1:
        return random.normal(0.0, (2 / max(1, int(np.prod(shape[1:])))) ** 0.5, shape)
    if index in (1, 0) or user.op_type == "Unsqueeze":
        return random.uniform(0.5, 1.5, shape)
    return random.normal(0.0, 0.1, shape)


def _calibrate_softmax(model: onnx.ModelProto, random: np.random.Generator) -> None:
    """Scale the last layer so that what softmax sees has deviation 1: large values would make it all 0 and 1."""
    graph = model.graph
    producers = {name: node for node in graph.node for name in node.output}
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "Softmax":
            continue
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        del probe.graph.output[:]
        probe.graph.output.append(helper.make_empty_tensor_value_info(node.input[0]))
        session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
        feed = {value.name: random.standard_normal(value.shape).astype(np.float32) for value in session.get_inputs()}
        deviation = float(session.run(None, feed)[0].std())
        layer = node
        while layer.op_type not in ("Conv", "Gemm"):
            layer = producers[layer.input[0]]
        for name in layer.input[1:]:
            while name not in tensors:  # reshaped, say
                name = producers[name].input[0]
            values = numpy_helper.to_array(tensors[name]) / deviation
            tensors[name].CopyFrom(numpy_helper.from_array(values, name))


def _drop_unused(graph: onnx.GraphProto) -> None:
    used = {name for node in graph.node for name in node.input}
    dropped = {tensor.name for tensor in graph.initializer} - used
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    inputs = [value for value in graph.input if value.name not in dropped]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(initializers)
    graph.input.extend(inputs)

"""Models that are written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class ModelWriter:
    """A model that is being made; weights are random, the same for each seed."""

    def __init__(self, seed: int = 0):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: int, *shape: int | str) -> str:
        """Add an input; its name."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; the name of its value."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, [*inputs], [name], **attributes))
        return name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """Add a constant; its name."""
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *shape: int) -> str:
        """Add a weight; its name."""
        return self.constant(self.random.normal(scale=0.3, size=shape), "float32")

    def model(self, result: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        """The model, whose result has a shape."""
        ends = [helper.make_tensor_value_info(result, dtype, shape)]
        graph = helper.make_graph(self.nodes, "network", self.inputs, ends, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

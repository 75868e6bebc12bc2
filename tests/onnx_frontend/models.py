"""Small models for the tests, in ONNX's text form."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from eqsat.onnx import export_model, import_model, run
from eqsat.onnx.files import from_proto

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark_module(name: str) -> ModuleType:
    """A module of the folder of benchmarks."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def parsed(graph: str, opset: int = 17, ir_version: int = 8, domains: str = "", functions: str = "") -> onnx.ModelProto:
    """The model whose graph is ``graph``, in ONNX's text form."""
    head = f'<ir_version: {ir_version}, opset_import: ["": {opset}{domains}]>'
    return onnx.parser.parse_model(f"{head}\ng {graph}\n{functions}")


def round_trip(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model, imported and exported."""
    imported = import_model(from_proto(proto))
    return ir.to_proto(export_model(imported.function, imported))


def optimized(proto: onnx.ModelProto, *rules: Any) -> onnx.ModelProto:
    """The model, optimized."""
    return ir.to_proto(run(from_proto(proto), rules or None).after)


def operators(graph: onnx.GraphProto | ir.Graph) -> dict[str, int]:
    """How many nodes of each type a graph has."""
    return dict(Counter(node.op_type for node in (graph if isinstance(graph, ir.Graph) else graph.node)))


def with_weights(proto: onnx.ModelProto, seed: int = 0, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    """The model with float initializers of seeded random positive values."""
    random = np.random.default_rng(seed)
    for name, shape in shapes.items():
        proto.graph.initializer.append(numpy_helper.from_array(random.uniform(0.5, 1.5, shape).astype("f4"), name))
    return proto


def conv_batch_norm() -> onnx.ModelProto:
    """A convolution, a batch norm and a rectifier, with weights."""
    proto = parsed(
        """(float[1,2,8,8] x) => (float[1,3,6,6] y) {
            c = Conv (x, w)
            n = BatchNormalization (c, gamma, beta, mean, variance)
            y = Relu (n)
        }"""
    )
    return with_weights(proto, w=(3, 2, 3, 3), gamma=(3,), beta=(3,), mean=(3,), variance=(3,))


def chain(length: int) -> onnx.ModelProto:
    """Rectifiers and negations one after another."""
    nodes = [
        helper.make_node(("Relu", "Neg")[index % 2], [f"v{index}" if index else "x"], [f"v{index + 1}"])
        for index in range(length)
    ]
    nodes[-1].output[0] = "y"
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    graph = helper.make_graph(nodes, "chain", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

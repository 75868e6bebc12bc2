"""Graphs that are run as they are: their operators, called without the detour by ``torch.ops``."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_FUNCTIONS = frozenset([
    "abs", "add", "addmm", "amax", "amin", "baddbmm", "batch_norm", "bitwise_and", "bitwise_not", "bitwise_or", "bmm",
    "cat", "clamp", "clone", "conv1d", "conv2d", "conv3d", "cos", "cumsum", "div", "embedding", "eq", "erf", "exp",
    "gather", "ge", "group_norm", "gt", "index_select", "layer_norm", "le", "log", "log_softmax", "logical_and",
    "logical_not", "logical_or", "lt", "matmul", "maximum", "mean", "minimum", "mm", "mul", "ne", "neg", "permute",
    "pow", "relu", "reshape", "rms_norm", "rsqrt", "rsub", "select", "sigmoid", "sin", "softmax", "split_with_sizes",
    "sqrt", "squeeze", "stack", "sub", "sum", "tanh", "transpose", "unsqueeze", "where",
    "adaptive_avg_pool2d", "avg_pool2d", "elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "linear",
    "scaled_dot_product_attention", "silu",
])  # fmt: skip
"""Operators whose functions in Python take the arguments of the schema in its order."""

_METHODS = frozenset(["expand", "view"])
"""Operators that are methods only."""


def with_direct_calls(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph, its operators called by PyTorch's functions, which take half the time to call.

    Args:
        module: A graph of ATen operators; it is not changed.
    """
    graph = fx.Graph()
    graph.set_codegen(module.graph._codegen)
    copies: dict[fx.Node, fx.Node] = {}
    for given in module.graph.nodes:
        node = copies[given] = graph.node_copy(given, copies.__getitem__)
        target: Any = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            continue
        name = target._schema.name.removeprefix("aten::")
        if name in _METHODS:
            node.op, node.target = "call_method", name
        elif name in _FUNCTIONS:
            node.target = getattr(torch._C._VariableFunctions, name, None) or getattr(torch._C._nn, name)
    return fx.GraphModule(module, graph)

"""The result of importing a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
from onnx.helper import find_min_ir_version_for, make_operatorsetid

from eqsat.brief import listed, one_line
from eqsat.nd import NDArray
from eqsat.pipeline.provenance import Derived
from eqsat.relay.expr import Expr, Function

INITIALIZERS_ARE_INPUTS = 3
"""The last IR version in which every initializer must be listed as an input, although it is a constant."""


@dataclass(frozen=True)
class Origin:
    """Where an expression comes from: the ``span`` of imported expressions.

    Args:
        node: The ONNX node; None for an initializer.
        values: The ONNX values that the expression computes; several for a call with several outputs.
    """

    node: Any
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(str(value.name) for value in self.values)

    def __reduce__(self) -> Any:
        return str, (str(self),)  # a node refers to all of its graph, which pickle would go through node by node


def origin_of(expr: Expr) -> Origin | None:
    """Return where an expression comes from; None if that is not known."""
    span = expr.span.span if isinstance(expr.span, Derived) else expr.span
    return span if isinstance(span, Origin) else None


@dataclass
class Imported:
    """A model as a function of the IR.

    Args:
        model: The model; it is not changed.
        graph: The graph of the model, or a subgraph.
        function: The function that the graph computes. Its parameters are captured values, inputs, and initializers
            whose element types the IR does not have. Its body is the result of :func:`eqsat.relay.results.body_of` for
            the outputs.
        names: Name -> how often it occurs in the model.
        opaque: Operator type -> reasons why nodes of it are not understood, with the number of nodes.
        tensors: Data of a constant -> its ONNX tensor.
        captured: The values that a subgraph takes from outside, except constants.
        outer: The data of constants that a subgraph takes from outside -> their values there.
        values: Name of each value of the graph -> its expression.
        opset: The version of the standard operators to write; by default that of the model.
    """

    model: ir.Model
    graph: ir.Graph
    function: Function
    names: Counter[str]
    opaque: dict[str, dict[str, int]] = field(default_factory=dict)
    tensors: dict[NDArray, Any] = field(default_factory=dict)
    captured: Sequence[ir.Value] = ()
    outer: dict[NDArray, ir.Value] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)
    opset: int = 0

    def __repr__(self) -> str:
        return one_line(f"Imported({len(self.graph)} nodes; not understood: {listed(list(self.opaque)) or 'nothing'})")

    def __post_init__(self) -> None:
        self.opset = self.opset or opset_of(self.model)

    @property
    def ir_version(self) -> int:
        """The IR version to write: that of the model, or the first one that supports the opset if that is later."""
        if self.opset == opset_of(self.model):
            return int(self.model.ir_version)
        return max(int(self.model.ir_version), int(find_min_ir_version_for([make_operatorsetid("", self.opset)])))


def opset_of(model: ir.Model) -> int:
    """Return the version of the standard operators that a model uses; 0 if it uses none."""
    return int(model.opset_imports.get("", 0))


def constant_initializers(graph: ir.Graph, ir_version: int) -> set[str]:
    """Return the names of initializers that callers cannot override, even if they are listed as inputs."""
    if ir_version <= INITIALIZERS_ARE_INPUTS:
        return set(graph.initializers)
    inputs = {value.name for value in graph.inputs}
    return {name for name in graph.initializers if name not in inputs}

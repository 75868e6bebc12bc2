"""What is known of an imported model."""

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
"""The last IR version in which every initializer is listed as an input, and is nonetheless a constant."""


@dataclass(frozen=True)
class Origin:
    """Where an expression is from: the ``span`` of imported expressions.

    Args:
        node: the ONNX node, None for an initializer.
        values: the ONNX values that the expression is; several for a call of several outputs.
    """

    node: Any
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(str(value.name) for value in self.values)

    def __reduce__(self) -> Any:
        return str, (str(self),)  # a node refers to all of its graph, which pickle would go through node by node


def origin_of(expr: Expr) -> Origin | None:
    """Where an expression is from, None where that is not known."""
    span = expr.span.span if isinstance(expr.span, Derived) else expr.span
    return span if isinstance(span, Origin) else None


@dataclass
class Imported:
    """A model as a function of the IR.

    Args:
        model: the model; it is not changed.
        graph: its graph, or a subgraph.
        function: what the graph computes. Parameters are captured values, inputs, and initializers of element
            types that the IR does not have; the body is what :func:`eqsat.relay.results.body_of` makes of the outputs.
        names: how often each name is given in the model.
        opaque: operator type -> reasons why nodes of it are not understood, with their number.
        tensors: the ONNX tensor of each constant's data.
        captured: what a subgraph takes from outside, constants aside.
        outer: the data of constants that a subgraph takes from outside, and their values there.
        values: the expression of each value of the graph, by name.
        opset: version of the standard operators that is written; by default that of the model.
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
        """The IR version that is written: that of the model, or the first that has newer operators."""
        if self.opset == opset_of(self.model):
            return int(self.model.ir_version)
        return max(int(self.model.ir_version), int(find_min_ir_version_for([make_operatorsetid("", self.opset)])))


def opset_of(model: ir.Model) -> int:
    """The version of the standard operators that a model uses, 0 when it uses none."""
    return int(model.opset_imports.get("", 0))


def constant_initializers(graph: ir.Graph, ir_version: int) -> set[str]:
    """Names of initializers that no caller can override, though they may be listed as inputs."""
    if ir_version <= INITIALIZERS_ARE_INPUTS:
        return set(graph.initializers)
    inputs = {value.name for value in graph.inputs}
    return {name for name in graph.initializers if name not in inputs}

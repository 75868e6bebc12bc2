"""Types of what a Loop carries from round to round.

What the initial values have, and the body's results too where its inputs have it, holds in every round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from eqsat.onnx.types import UNKNOWN, OnnxType
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import Dim, TensorType, Type

_BEFORE_INPUTS = 2
"""Inputs of a Loop and of its body before those that are carried."""
_BEFORE_RESULTS = 1


def carried_values(node: ir.Node) -> tuple[ir.Graph, Sequence[ir.Value], Sequence[ir.Value]] | None:
    """The body of a Loop, the initial values, and the body's inputs that take them; None of anything else."""
    body = node.attributes.get("body")
    if node.op_type != "Loop" or node.domain != "" or body is None or body.is_ref():
        return None
    if body.type != ir.AttributeType.GRAPH:
        return None
    graph = body.as_graph()
    initial = [value for value in node.inputs[_BEFORE_INPUTS:] if value is not None]
    inputs, results = graph.inputs[_BEFORE_INPUTS:], graph.outputs[_BEFORE_RESULTS:]
    return (graph, initial, inputs) if len(initial) == len(inputs) <= len(results) else None


def results_of_round(graph: ir.Graph, count: int) -> Sequence[ir.Value]:
    """The outputs of a body that are carried on to the next round."""
    carried: Sequence[ir.Value] = graph.outputs[_BEFORE_RESULTS : _BEFORE_RESULTS + count]
    return carried


def first_round(inputs: Sequence[ir.Value], initial: Sequence[Type]) -> dict[ir.Value, Type]:
    """The types of the body's inputs in the first round, as far as they are known."""
    return {value: _widened(value, ty, ty) for value, ty in zip(inputs, initial, strict=True)}


def next_round(assumed: Mapping[ir.Value, Type], results: Sequence[Type]) -> dict[ir.Value, Type]:
    """``assumed`` as far as the results of a round agree with it: it holds when it stays as it is."""
    pairs = zip(assumed.items(), results, strict=True)
    return {value: _widened(value, ty, result) for (value, ty), result in pairs}


def _widened(value: ir.Value, ty: Type, result: Type) -> Type:
    """The type of both ``ty`` and ``result``, sizes that differ left open under a name that ``value`` gives."""
    if isinstance(ty, TensorType) and isinstance(result, TensorType):
        if ty.dtype != result.dtype or len(ty.shape) != len(result.shape):
            return UNKNOWN
        dims = enumerate(zip(ty.shape, result.shape, strict=True))
        return TensorType([_common(dim, other, f"{value.name}.{axis}") for axis, (dim, other) in dims], ty.dtype)
    return ty if isinstance(ty, OnnxType) and ty == result else UNKNOWN


def _common(dim: Dim, other: Dim, name: str) -> Dim:
    unnamed = isinstance(dim, AnyDim) and dim.name is None
    return AnyDim(name) if unnamed or dim != other else dim

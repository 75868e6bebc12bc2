"""Information about an If or Loop from the graph around it: the branch that is taken, the types that are carried.

An operator demands ranks of its inputs: a branch that gives another rank is never taken, and a model that computes
anything at all computes the same without it. What a Loop carries has a type in every round if the initial values have
it, and the body's results too where its inputs have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from eqsat.onnx.graphs import constant_tensor
from eqsat.onnx.types import OnnxType
from eqsat.relay.ty import UNKNOWN, Dim, TensorType, Type
from eqsat.relay.ty import Any as AnyDim

# ---- the branch of an If

_STATES = {0: 3, 1: 3, 2: 3, 3: 2, 5: 3, 6: 3}
_RANKS = {"LSTM": _STATES, "GRU": _STATES, "RNN": _STATES}
"""Operator -> input -> rank, as the standard states them."""

_KEEPING = frozenset(("Cast", "Identity"))
"""Operators that keep the rank."""

_FARTHEST = 8
"""Maximum number of nodes that are searched."""


class Inlined:
    """Branches that stand where their If does: what they hold is computed whenever that is."""

    def __init__(self) -> None:
        self._owners: dict[ir.Graph, ir.Node] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, branch: ir.Graph, owner: ir.Node) -> None:
        """Take a branch into the graph of the If that it is of."""
        self._owners[branch] = owner

    def home(self, node: ir.Node) -> ir.Graph | None:
        """The graph that a node is computed with."""
        graph = node.graph
        while isinstance(graph, ir.Graph) and graph in self._owners:
            graph = self._owners[graph].graph
        return graph if isinstance(graph, ir.Graph) else None

    def outside(self, value: ir.Value) -> ir.Value | None:
        """What a value is called outside of the branch that it is an output of."""
        producer = value.producer()
        graph = None if producer is None else producer.graph
        if not isinstance(graph, ir.Graph) or graph not in self._owners or value not in graph.outputs:
            return None
        return self._owners[graph].outputs[list(graph.outputs).index(value)]


def possible_branch(node: ir.Node, results: Mapping[str, Sequence[Type]], inlined: Inlined) -> bool | None:
    """The only value that the condition of an If can have; None when it may have either.

    Args:
        node: the If.
        results: the types of the branches' outputs, by attribute.
        inlined: branches whose conditions are known.
    """
    demanded = [demanded_rank(value, inlined) for value in node.outputs]

    def fits(branch: str) -> bool:
        types = results.get(branch, ())
        known = [(ty, rank) for ty, rank in zip(types, demanded, strict=False) if isinstance(ty, TensorType)]
        return all(rank is None or len(ty.shape) == rank for ty, rank in known)

    then, otherwise = fits("then_branch"), fits("else_branch")
    return None if then == otherwise else then


def truth_of(condition: ir.Value) -> tuple[ir.Value, bool]:
    """The value whose truth a condition is, and whether it is its opposite."""
    opposite = False
    while (node := condition.producer()) is not None and node.domain == "" and node.op_type in (*_KEEPING, "Not"):
        if node.inputs[0] is None:
            break
        opposite ^= node.op_type == "Not"
        condition = node.inputs[0]
    return condition, opposite


def demanded_rank(value: ir.Value, inlined: Inlined) -> int | None:
    """The rank that what is computed from ``value``, whenever that is, demands of it."""
    producer = value.producer()
    home = None if producer is None else inlined.home(producer)
    looked_at = [(value, 0)]
    for current, added in looked_at:
        outside = inlined.outside(current)
        if outside is not None:
            looked_at.append((outside, added))
        for user, index in current.uses():
            if inlined.home(user) is not home or user.domain != "":  # it may not run, or is not known
                continue
            rank = _RANKS.get(user.op_type, {}).get(index)
            if rank is not None:
                return rank - added
            more = _added_axes(user) if index == 0 and len(looked_at) < _FARTHEST else None
            if more is not None:
                looked_at.append((user.outputs[0], added + more))
    return None


def _added_axes(node: ir.Node) -> int | None:
    """By how much the result's rank is above that of input 0."""
    if node.op_type in _KEEPING:
        return 0
    if node.op_type != "Unsqueeze":
        return None
    if len(node.inputs) < 2:
        return len(node.attributes["axes"].as_ints()) if "axes" in node.attributes else None
    axes = node.inputs[1]
    tensor = None if axes is None else constant_tensor(axes)
    return None if tensor is None else int(tensor.size)


# ---- the rounds of a Loop

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

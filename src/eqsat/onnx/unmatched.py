"""Why a model has no composites of a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from eqsat.relay.dataflow_pattern.graph import DataflowGraph
from eqsat.relay.dataflow_pattern.matcher import Matcher
from eqsat.relay.expr import Call, Expr, Function, Op
from eqsat.relay.infer import infer_types
from eqsat.relay.transform.merge_composite import PatternTable, checked_table
from eqsat.relay.ty import Any as AnyDim
from eqsat.relay.ty import TensorType, is_static
from eqsat.relay.visitor import post_order

MOST_LOOKED_AT = 300
"""Maximum number of calls on which patterns are tried."""

MOST_NAMED = 5
"""Maximum number of operators that a message names."""


@dataclass(frozen=True)
class Unmatched:
    """Why there are no composites.

    Attributes:
        reason: The reason, as a sentence without a full stop.
        open_sizes: Names of dynamic dimensions of inputs whose unknown sizes prevent the patterns from matching.
    """

    reason: str
    open_sizes: tuple[str, ...] = ()


def why_unmatched(function: Function, table: PatternTable) -> Unmatched:
    """Tell why no entry of a pattern table was taken in a graph."""
    types = infer_types(function)
    nodes = [node for node in post_order(function.body) if isinstance(node, Call)]
    calls = {call: call.op.name for call in nodes if isinstance(call.op, Op)}
    if not calls:
        return Unmatched("the model has no operators")
    names = dict.fromkeys(calls.values())
    refused = next(_matches(function.body, list(calls), table), None)
    if refused is None:
        told = ", ".join(islice(names, MOST_NAMED)) + (", ..." if len(names) > MOST_NAMED else "")
        return Unmatched(f"no pattern of the table matches; the operators of the model are {told}")
    name, call, inside = refused
    refusal = f"{name} matches at {calls[call]} of {types[call]}, but the table's conditions refuse it"
    moving = next((types[each] for each in inside if each in types and not is_static(types[each])), None)
    if moving is None:
        return Unmatched(f"{refusal} for its element type, shape or layout")
    params = [types[param] for param in function.params]
    dims = [dim for ty in params if isinstance(ty, TensorType) for dim in ty.shape if isinstance(dim, AnyDim)]
    open_sizes = dict.fromkeys(dim.name for dim in dims if dim.name is not None)
    return Unmatched(f"{refusal}; the shape of {moving} is open, which may be why", tuple(open_sizes))


def _matches(body: Expr, calls: list[Call], table: PatternTable) -> Iterator[tuple[str, Call, list[Expr]]]:
    """Entries that match without their conditions: name, root, and what the patterns in it matched."""
    graph = DataflowGraph(body)
    for call in calls[:MOST_LOOKED_AT]:
        for name, pattern, _ in checked_table(table):
            matcher = Matcher(pattern, graph)
            if matcher.match(call):
                yield name, call, [call, *(found[0] for found in matcher.bound.values())]

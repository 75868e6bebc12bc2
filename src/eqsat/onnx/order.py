"""The order of the nodes of an ONNX graph."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.onnx.graphs import attributes_of, captured_values


def topological_order(graph: ir.Graph) -> list[ir.Node]:
    """The nodes, each after those that make its inputs; otherwise in the order they are in.

    Raises:
        ModelError: the graph has a cycle.
    """
    nodes = list(graph)
    index = {node: position for position, node in enumerate(nodes)}
    makers = [[index[maker] for maker in _producers(node) if maker in index] for node in nodes]
    if all(maker < position for position, needed in enumerate(makers) for maker in needed):
        return nodes
    missing = list(map(len, makers))
    users: list[list[int]] = [[] for _ in nodes]
    for position, needed in enumerate(makers):
        for maker in needed:
            users[maker].append(position)
    ready = [position for position, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        position = heappop(ready)
        order.append(nodes[position])
        for user in users[position]:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    if len(order) < len(nodes):
        stuck = nodes[next(position for position, count in enumerate(missing) if count)]
        raise ModelError(f"the graph has a cycle: {stuck.op_type} node {stuck.name!r} is in it or after it")
    return order


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for value in (*node.inputs, *captured_values(attributes_of(node))):
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer

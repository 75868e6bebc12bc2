"""Graphs of ONNX: the order of nodes, subgraphs and their captured values, copies of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from eqsat.errors import ModelError
from eqsat.relay.visitor import children_first


def node_count(model: ir.Model) -> int:
    """Return the number of nodes of a model, including subgraphs, without Constant nodes."""
    return sum(node.op_type != "Constant" for node in model.graph.all_nodes())


def topological_order(graph: ir.Graph) -> list[ir.Node]:
    """The nodes, each after those that make its inputs; in the order they are in if that is one.

    Raises:
        ModelError: the graph has a cycle.
    """
    order = list(graph)
    inside = set(order)
    makers = {node: [maker for maker in _producers(node) if maker in inside] for node in order}
    if _too_early(order, makers) is None:
        return order
    order = children_first(order, makers.__getitem__)
    stuck = _too_early(order, makers)
    if stuck is not None:
        raise ModelError(f"the graph has a cycle: {stuck.op_type} node {stuck.name!r} is in it")
    return order


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    for value in (*node.inputs, *captured_values(attributes_of(node))):
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer


def _too_early(order: Sequence[ir.Node], makers: Mapping[ir.Node, Sequence[ir.Node]]) -> ir.Node | None:
    """Return the first node that comes before a node that computes one of its inputs."""
    done: set[ir.Node] = set()
    for node in order:
        if not done.issuperset(makers[node]):
            return node
        done.add(node)
    return None


def graphs_of(graph: ir.Graph) -> list[ir.Graph]:
    """A graph and all that its nodes hold, inner ones too; outer ones first."""
    found = [graph]
    for outer in found:  # it grows
        for node in outer:
            found += subgraphs(attributes_of(node))
    return found


def attributes_of(node: ir.Node) -> Iterable[ir.Attr]:
    """The attributes of a node, by the dict that they are in: through the node's own view each takes a look-up."""
    attributes: dict[str, ir.Attr] = node.attributes.data
    return attributes.values()


def subgraphs(attributes: Iterable[ir.Attr]) -> Iterator[ir.Graph]:
    """Return the graphs in attributes."""
    for attr in attributes:
        if attr.type == ir.AttributeType.GRAPH and not attr.is_ref():
            yield attr.as_graph()
        elif attr.type == ir.AttributeType.GRAPHS and not attr.is_ref():
            yield from attr.as_graphs()


def constant_tensor(value: ir.Value) -> Any:
    """The tensor of an initializer or of a Constant node, None of anything else; the model stays as it is.

    ``onnx_ir.convenience.get_const_tensor`` names the tensor after the value.
    """
    node = value.producer()
    attr = node.attributes.get("value") if node is not None and node.op_type == "Constant" else None
    if value.const_value is None and attr is not None and attr.type == ir.AttributeType.TENSOR and not attr.is_ref():
        return attr.value
    return ir.convenience.get_const_tensor(value)


def nodes_of(*graphs: ir.Graph) -> Iterator[ir.Node]:
    """The nodes of graphs and of the graphs inside, each node before those inside of it."""
    stack = [iter([node for graph in graphs for node in graph])]
    while stack:
        for node in stack[-1]:
            yield node
            below = [inner for graph in subgraphs(attributes_of(node)) for inner in graph]
            if below:
                stack.append(iter(below))
                break
        else:
            stack.pop()


def captured_values(attributes: Iterable[ir.Attr]) -> list[ir.Value]:
    """Values from outside that the subgraphs in a node's attributes use, each once, in order of use."""
    captured: dict[ir.Value, None] = {}
    for outer in subgraphs(attributes):
        graphs, nodes = graphs_of(outer), list(nodes_of(outer))
        inner = {value for below in nodes for value in below.outputs}
        for graph in graphs:
            inner.update(graph.inputs, graph.initializers.values())
        used = [value for below in nodes for value in below.inputs if value is not None]
        used += [value for graph in graphs for value in graph.outputs]
        captured.update((value, None) for value in used if value not in inner)
    return list(captured)


# ---- values


def copy_value(value: ir.Value, name: str | None = None) -> ir.Value:
    """A value of the same type and documentation, and the same name or ``name``, that belongs to no graph yet."""
    copy = ir.Value(
        name=value.name if name is None else name,
        type=value.type,
        shape=None if value.shape is None else value.shape.copy(),
        doc_string=value.doc_string,
        metadata_props=dict(value.metadata_props),
    )
    copy.meta.update(value.meta)
    return copy

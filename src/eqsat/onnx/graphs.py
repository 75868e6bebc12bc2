"""Graphs inside of graphs: the subgraphs of nodes, and what they take from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir


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
    """The graphs that attributes hold."""
    for attr in attributes:
        if attr.type == ir.AttributeType.GRAPH and not attr.is_ref():
            yield attr.as_graph()
        elif attr.type == ir.AttributeType.GRAPHS and not attr.is_ref():
            yield from attr.as_graphs()


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

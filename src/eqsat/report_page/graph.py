"""A graph as the page draws it: its boxes, the frames around them and what is told of each, in columns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.cost import CostFunction
from eqsat.cost.prices import Prices
from eqsat.pipeline.given import GivenGraph
from eqsat.pipeline.saturate import saturate
from eqsat.relay.expr import Call, Expr, Op
from eqsat.relay.infer import infer_module, infer_types
from eqsat.relay.layered import Arrow, Box
from eqsat.relay.module import IRModule
from eqsat.relay.ty import Type
from eqsat.relay.viz import Picture, viz


@dataclass(frozen=True)
class Drawing:
    """A graph as plain data, which the page's script lays out.

    Args:
        columns: what the page's script draws and tells, as plain data.
        counts: operator -> calls of it.
        costs: operator -> cost of its calls, equal computations once.
        exprs: what each of the columns' nodes stands for.
    """

    columns: dict[str, Any]
    counts: Counter[str]
    costs: dict[str, float]
    exprs: list[Expr]

    def frame(self, groups: Sequence[tuple[str, Sequence[Expr]]]) -> None:
        """Draw frames with titles around nodes, where those of a group stand in one frame; no node is in two groups."""
        at = {node: place for place, node in enumerate(self.exprs)}
        frames, parent, strings = self.columns["frames"], self.columns["parent"], self.columns["strings"]
        for title, nodes in groups:
            places = [at[node] for node in nodes if node in at]
            around = {parent[place] for place in places}
            if len(places) == len(nodes) > 1 and len(around) == 1:
                frames.append([around.pop(), len(strings)])
                strings.append(title)
                for place in places:
                    parent[place] = len(frames) - 1


def draw(graph: Expr | IRModule, cost_model: CostFunction | None, rules: Mapping[Expr, str] | None = None) -> Drawing:
    """Describe a graph to the page's script.

    Args:
        graph: an expression, function or module.
        cost_model: cost of one node; without one, types are told as far as they are known already.
        rules: what made a node: a rule's name, or ``input``.

    Raises:
        EqsatError: the graph's types do not check, or the cost model fails.
    """
    types, costs = dict[Expr, Type](), dict[Expr, float]()
    if cost_model is not None:
        graph = infer_module(graph) if isinstance(graph, IRModule) else graph
        types, costs = _types(graph), _costs(graph, cost_model)
    picture = viz(graph)
    constants = _take_out_constants(picture)
    nodes = [*picture.nodes]
    frames = [box for box in _boxes(picture.root) if box.children and box not in picture.nodes]
    frame_index: dict[Box | None, int] = {picture.root: -1}
    frame_index |= {box: place for place, box in enumerate(frames)}
    index = {box: number for number, box in enumerate(nodes)}
    exprs = [picture.nodes[box] for box in nodes]
    strings: defaultdict[str, int] = defaultdict()  # by number, since most of a graph's are told many times
    strings.default_factory = strings.__len__
    columns = {
        "frames": [[frame_index[box.parent], strings[box.lines[0]]] for box in frames],
        "parent": [frame_index[box.parent] for box in nodes],
        "lines": [[strings[line] for line in box.lines] for box in nodes],
        "kind": [strings[box.kind] for box in nodes],
        "type": [strings[_text(types.get(expr, expr._checked_type))] for expr in exprs],
        "name": [strings[_text(expr.span)] for expr in exprs],
        "constants": [strings["\n".join(constants[box])] for box in nodes],
        "cost": [costs.get(expr) for expr in exprs],
        "rule": [strings[(rules or {}).get(expr, "")] for expr in exprs],
        "edges": [index[end] for edge in picture.edges for end in (edge.source, edge.target)],
        "labels": [strings[edge.label] for edge in picture.edges],
        "strings": [*strings],
    }
    counts, sums = Counter[str](), dict[str, float]()
    for expr in exprs:
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            counts[expr.op.name] += 1
            sums[expr.op.name] = sums.get(expr.op.name, 0.0) + (costs.get(expr) or 0.0)
    return Drawing(columns, counts, sums, exprs)


def _text(thing: object) -> str:
    return "" if thing is None else str(thing)


def _boxes(root: Box) -> list[Box]:
    """All boxes in one, outer ones first."""
    found = [*root.children]
    for box in found:
        found += box.children
    return found


def _types(graph: Expr | IRModule) -> dict[Expr, Type]:
    if not isinstance(graph, IRModule):
        return infer_types(graph)
    return {node: ty for each in graph.functions.values() for node, ty in infer_types(each, graph).items()}


def _costs(graph: Expr | IRModule, model: CostFunction) -> dict[Expr, float]:
    """Cost of each node outside functions that rules leave alone; of equal nodes the first has it."""
    costs: dict[Expr, float] = {}
    for region in saturate(graph, ()).regions:
        of_handle = GivenGraph(region, Prices(region.snapshot, model, {})).costs
        for expr, handle in region.lowered.handles.items():
            costs[expr] = of_handle.pop(handle, (0.0,))[0]
    return costs


def _take_out_constants(picture: Picture) -> defaultdict[Box, list[str]]:
    """Take constants out of a picture where they stand beside what takes them; what each box takes.

    Weights are half the nodes of a network, and say little as boxes.
    """
    leaving: dict[Box, list[Arrow]] = {box: [] for box in picture.nodes if box.kind == "constant"}
    for edge in picture.edges:
        if edge.source in leaving:
            leaving[edge.source].append(edge)
    gone = {box: edges for box, edges in leaving.items() if edges and all(e.target.parent is box.parent for e in edges)}
    taken: defaultdict[Box, list[str]] = defaultdict(list)
    for box, edges in gone.items():
        told = " ".join([_text(picture.nodes[box].span), *box.lines]).strip()
        for edge in edges:
            taken[edge.target].append(told)
    for frame in {box.parent: None for box in gone}:
        if frame is not None:
            frame.children = [box for box in frame.children if box not in gone]
    picture.edges[:] = [edge for edge in picture.edges if edge.source not in gone]
    for box in gone:
        del picture.nodes[box]
    return taken

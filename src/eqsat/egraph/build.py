"""From a choice of e-nodes back to a Relay graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.lower import Lowered
from eqsat.egraph.python_rules import build_node
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.symbols import Atom, Symbol
from eqsat.relay.analysis import free_vars
from eqsat.relay.expr import Expr, Function
from eqsat.relay.visitor import children_first, substitute


def build_expr(
    snapshot: Snapshot,
    choice: Sequence[int] | NDArray[np.int64],
    root: int,
    functions: Mapping[Expr, Function] | None = None,
    spans: Mapping[int, Any] | None = None,
) -> Expr:
    """The graph that ``choice`` describes.

    Args:
        snapshot: what it chooses from.
        choice: class -> index of its chosen e-node; acyclic, and complete from ``root`` on.
        root: class of the whole.
        functions: what takes the place of functions in the graph.
        spans: class -> span of what is built for it.
    """
    chosen = np.asarray(choice).tolist()
    built: dict[int, Expr] = {}
    for of in children_first([root], lambda of: snapshot.children(chosen[of])):
        node = chosen[of]
        symbol, atom = snapshot.symbols[snapshot.node_symbol[node]], snapshot.atoms[snapshot.node_atom[node]]
        below = [built[child] for child in snapshot.children(node)]
        built[of] = build_captured(symbol, atom, below, functions or {})
        if built[of]._checked_type is None:
            built[of]._checked_type = snapshot.class_type[of]
        if built[of].span is None and spans is not None:
            built[of].span = spans.get(of)
    return built[root]


def build_captured(symbol: Symbol, atom: Atom, children: list[Expr], functions: Mapping[Expr, Function]) -> Expr:
    """The expression of an e-node; a function, or what is to take its place, gets ``children`` for what it captures."""
    expr = build_node(symbol, atom, children)
    if symbol.kind == "function":
        captured: dict[Expr, Expr] = dict(zip(free_vars(expr), children, strict=True))
        changed = {old: new for old, new in captured.items() if old is not new}
        return substitute(functions.get(expr, expr), changed)
    return expr


def input_choice(snapshot: Snapshot, lowered: Lowered) -> NDArray[np.int64]:
    """The choice that describes the input graph itself: class -> e-node, -1 where the input has none.

    Where rules made classes of the input one, the node that was lowered first stands for them: its children
    were lowered before it, so the choice is acyclic, and no dearer than the input.
    """
    choice = np.full(snapshot.class_count, -1, dtype=np.int64)
    for handle, node in input_nodes(snapshot, lowered).items():
        of = snapshot.handle_class[handle]
        if choice[of] < 0:
            choice[of] = node
    return choice


def input_nodes(snapshot: Snapshot, lowered: Lowered) -> dict[int, int]:
    """Return the e-node of each handle of the input graph, in the order in which they were lowered.

    Where a constant was computed, it takes the place of what it was computed from.
    """
    nodes: dict[tuple[int, ...], int] = {}
    for node, (*head, children) in enumerate(snapshot.nodes()):
        nodes.setdefault((*head, *children), node)  # of equal ones the first: the others are parts of kernels
    class_of = snapshot.handle_class.tolist()
    constants = np.flatnonzero(snapshot.is_leaf).tolist()
    constant_of = {int(snapshot.node_class[node]): node for node in constants}

    def place(of: int, symbol: int, atom: int, children: Sequence[int]) -> int:
        found = nodes.get((of, symbol, atom, *[class_of[below] for below in children]))
        return constant_of[of] if found is None else found

    return {handle: place(class_of[handle], symbol, atom, children) for handle, symbol, atom, children in lowered.nodes}


def input_spans(snapshot: Snapshot, lowered: Lowered) -> dict[int, Any]:
    """Class -> span of the first node of the input graph in it that has one: a value keeps where it is from."""
    class_of = snapshot.handle_class.tolist()
    spans: dict[int, Any] = {}
    for node, handle in lowered.handles.items():
        if node.span is not None:
            spans.setdefault(class_of[handle], node.span)
    return spans

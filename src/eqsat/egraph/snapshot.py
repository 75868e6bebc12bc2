"""Read-back: the e-graph at one moment, as lists and arrays that no longer need the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqsat.collector import paused_gc
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.symbols import Atom, Symbol, is_foldable
from eqsat.relay.ty import Type


@dataclass(frozen=True)
class Snapshot:
    """All e-nodes and classes. Classes are numbered from 0 in the order of their smallest handle or row.

    Args:
        node_class: class of each e-node.
        child_start: e-node ``i`` has the children ``child[child_start[i]:child_start[i + 1]]``.
        child: classes of children, concatenated.
        node_symbol: index of each e-node's symbol in ``symbols``.
        node_atom: id of each e-node's atom in ``atoms``.
        symbols: symbols by index.
        atoms: atoms by id.
        class_type: type of each class, None where unknown.
        constant: whether each class is computable from constants alone.
        handle_class: class of each handle, -1 for handles that were never inserted.
    """

    node_class: NDArray[np.int64]
    child_start: NDArray[np.int64]
    child: NDArray[np.int64]
    node_symbol: NDArray[np.int64]
    node_atom: NDArray[np.int64]
    symbols: list[Symbol]
    atoms: list[Atom]
    class_type: list[Type | None]
    constant: NDArray[np.bool_]
    handle_class: NDArray[np.int64]

    @property
    def class_count(self) -> int:
        return len(self.class_type)

    @property
    def node_count(self) -> int:
        return len(self.node_class)

    def children(self, node: int) -> list[int]:
        """The child classes of an e-node."""
        children: list[int] = self.child[self.child_start[node] : self.child_start[node + 1]].tolist()
        return children


class _Numbers(dict[object, int]):
    """Numbers in order of first appearance."""

    def __missing__(self, key: object) -> int:
        self[key] = number = len(self)
        return number


def take_snapshot(egraph: EGraph) -> Snapshot:
    """Everything in ``egraph`` now."""
    with paused_gc():
        return _read(egraph)


def _read(egraph: EGraph) -> Snapshot:
    frozen = egraph.engine.freeze()
    to_int = frozen.to_int
    numbers = _Numbers()
    handles = sorted([(to_int(row.inputs[0]), row.output) for row in frozen.rows("N")], key=lambda pair: pair[0])
    handle_class = np.full(egraph.handle_count, -1, dtype=np.int64)
    for handle, value in handles:
        handle_class[handle] = numbers[value]
    node_class: list[int] = []
    node_atom: list[int] = []
    child: list[int] = []
    rows_of, arity_of = [], []
    for index in range(len(egraph.symbols)):
        rows = frozen.rows(f"n{index}")
        rows_of.append(len(rows))
        arity_of.append(egraph.symbols[index].arity)
        for row in rows:
            node_class.append(numbers[row.output])
            inputs = row.inputs
            node_atom.append(to_int(inputs[0]))
            child += [numbers[value] for value in inputs[1:]]
    class_type: list[Type | None] = [None] * len(numbers)
    type_of = {index: egraph.types[index] for index in egraph.types}
    for row in frozen.rows("ty"):
        class_type[numbers[row.inputs[0]]] = type_of[to_int(row.output)]
    starts = np.concatenate([[0], np.cumsum(np.repeat(arity_of, rows_of))]).astype(np.int64)
    symbols = [egraph.symbols[index] for index in range(len(egraph.symbols))]
    classes, children = np.asarray(node_class, dtype=np.int64), np.asarray(child, dtype=np.int64)
    node_symbol = np.repeat(np.arange(len(symbols)), rows_of)
    return Snapshot(
        classes,
        starts,
        children,
        node_symbol,
        np.asarray(node_atom, dtype=np.int64),
        symbols,
        [egraph.atoms[index] for index in range(len(egraph.atoms))],
        class_type,
        _constant_classes(classes, starts, children, node_symbol, symbols, len(numbers)),
        handle_class,
    )


def _constant_classes(
    node_class: NDArray[np.int64],
    starts: NDArray[np.int64],
    child: NDArray[np.int64],
    node_symbol: NDArray[np.int64],
    symbols: list[Symbol],
    class_count: int,
) -> NDArray[np.bool_]:
    """Which classes hold a constant, or a foldable e-node over such classes."""
    foldable = np.asarray([is_foldable(s) and s.arity > 0 for s in symbols], dtype=bool)
    leaf = np.asarray([s.kind == "constant" for s in symbols], dtype=bool)
    constant = np.zeros(class_count, dtype=bool)
    if not len(symbols) or not leaf[node_symbol].any():
        return constant
    waiting = np.diff(starts)
    users: list[list[int]] = [[] for _ in range(class_count)]
    for node in np.flatnonzero(foldable[node_symbol]).tolist():
        for below in child[starts[node] : starts[node + 1]].tolist():
            users[below].append(node)
    classes, left = node_class.tolist(), waiting.tolist()
    todo = node_class[leaf[node_symbol]].tolist()
    while todo:
        found = todo.pop()
        if not constant[found]:
            constant[found] = True
            for node in users[found]:
                left[node] -= 1
                if left[node] == 0:
                    todo.append(classes[node])
    return constant

"""Read-back: the e-graph at one moment, as lists and arrays that no longer need the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eqsat.collector import paused_gc
from eqsat.egraph.egraph import EGraph
from eqsat.egraph.engine import Rows
from eqsat.egraph.nodes import NO_TYPE
from eqsat.egraph.symbols import Atom, Symbol, is_foldable
from eqsat.egraph.vocabulary import places_of_types
from eqsat.relay.ty import Type


@dataclass(frozen=True)
class Snapshot:
    """All e-nodes and classes. Classes are numbered from 0 in the order of their smallest handle or row.

    Arrays of integers are of int32, as the numbers of classes are in the engine.

    Args:
        node_class: class of each e-node.
        child_offsets: e-node ``i`` has the children ``child[child_offsets[i]:child_offsets[i + 1]]``.
        child: classes of children, concatenated.
        node_symbol: index of each e-node's symbol in ``symbols``; ascending, as it is read.
        node_atom: id of each e-node's atom in ``atoms``.
        hidden: whether rules do not see each e-node.
        symbols: symbols by index.
        atoms: atoms by id.
        types: all types.
        class_type_index: index of each class's type in ``types``, -1 where it is unknown.
        constant: whether each class is computable from constants alone.
        handle_class: class of each handle, -1 for handles that were never inserted.
    """

    node_class: NDArray[np.int32]
    child_offsets: NDArray[np.int32]
    child: NDArray[np.int32]
    node_symbol: NDArray[np.int32]
    node_atom: NDArray[np.int32]
    hidden: NDArray[np.bool_]
    symbols: list[Symbol]
    atoms: list[Atom]
    types: list[Type]
    class_type_index: NDArray[np.int32]
    constant: NDArray[np.bool_]
    handle_class: NDArray[np.int32]

    def __repr__(self) -> str:
        return f"Snapshot({self.node_count} e-nodes in {self.class_count} e-classes)"

    @cached_property
    def class_type(self) -> list[Type | None]:
        """Type of each class, None where unknown."""
        known: list[Type | None] = [*self.types, None]
        return [known[index] for index in self.class_type_index.tolist()]

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which e-nodes are constants by themselves."""
        kinds = np.asarray([symbol.kind == "constant" for symbol in self.symbols], dtype=bool)
        leaves: NDArray[np.bool_] = kinds[self.node_symbol]
        return leaves

    @property
    def class_count(self) -> int:
        return len(self.class_type_index)

    @property
    def node_count(self) -> int:
        return len(self.node_class)

    def child_lists(self) -> list[list[int]]:
        """The classes of children of each e-node."""
        offsets, child = self.child_offsets.tolist(), self.child.tolist()
        return [child[start:end] for start, end in pairwise(offsets)]

    def nodes(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """Class, symbol, atom and classes of children of each e-node."""
        symbols, atoms = self.node_symbol.tolist(), self.node_atom.tolist()
        return zip(self.node_class.tolist(), symbols, atoms, self.child_lists(), strict=True)

    def children(self, node: int) -> list[int]:
        """The child classes of an e-node."""
        children: list[int] = self.child[self.child_offsets[node] : self.child_offsets[node + 1]].tolist()
        return children


def take_snapshot(egraph: EGraph) -> Snapshot:
    """Everything in ``egraph`` now."""
    return read_tables(egraph)[0]


@paused_gc()
def read_tables(egraph: EGraph, *others: str) -> tuple[Snapshot, list[Rows], NDArray[np.int32]]:
    """Everything in ``egraph`` now, the rows of other tables, and the number of each class that occurs in these.

    That number is -1 for a class without e-nodes. More classes may occur than there are numbers: none of these has one.
    """
    symbols = list(egraph.vocabulary.symbols)
    tables = [f"n{index}" for index in range(len(symbols))]
    (_, handle, named, _), (_, found, *_), (counts, cells, classes, hidden), *more = egraph.engine.rows(
        ["N"], ["found"], tables, *[[table] for table in others]
    )
    found_class, found_type = found.reshape(-1, 2).T
    order = np.argsort(handle)
    handle, named = handle[order], named[order]
    node_symbol = np.repeat(np.arange(len(symbols), dtype=np.int32), counts)
    starts = np.cumsum([0, *np.repeat([1 + symbol.arity for symbol in symbols], counts).tolist()])
    is_child = np.ones(len(cells), dtype=bool)
    is_child[starts[:-1]] = False
    node_atom = cells[starts[:-1]].astype(np.int32)
    cells[starts[:-1]] = classes  # of each e-node: class, children
    number = _numbers(np.concatenate([named, cells]))
    node_class, child = number[classes], number[cells[is_child]]
    starts -= np.arange(len(starts))
    handle_class = np.full(egraph.handle_count, -1, dtype=np.int32)
    handle_class[handle] = number[named]
    # as the engine does, with what it was told and what it found: reading its table of types takes longer
    type_id = np.full(int(number.max(initial=-1)) + 1, NO_TYPE, dtype=np.int32)
    np.maximum.at(type_id, handle_class[handle], egraph.told_types()[handle])
    np.maximum.at(type_id, number[found_class], found_type.astype(np.int32))
    types = egraph.vocabulary.types.all()
    class_type_index = np.where(type_id == NO_TYPE, -1, places_of_types(type_id))
    snapshot = Snapshot(
        node_class,
        starts.astype(np.int32),
        child,
        node_symbol,
        node_atom,
        hidden,
        symbols,
        list(egraph.vocabulary.atoms),
        types,
        class_type_index,
        np.zeros(len(type_id), dtype=bool),
        handle_class,
    )
    return replace(snapshot, constant=_constant_classes(snapshot)), more, number


def _numbers(found: NDArray[np.int64]) -> NDArray[np.int32]:
    """The engine's number of a class -> its number, in order of first appearance."""
    first = np.full(int(found.max(initial=-1)) + 1, -1, dtype=np.int64)
    first[found[::-1]] = np.arange(len(found))[::-1]
    classes = np.flatnonzero(first >= 0)
    numbers = np.full(len(first), -1, dtype=np.int32)
    numbers[classes[np.argsort(first[classes])]] = np.arange(len(classes))
    return numbers


def _constant_classes(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Which classes hold a constant, or a foldable e-node over such classes."""
    foldable = np.asarray([is_foldable(symbol) for symbol in snapshot.symbols], dtype=bool)
    constant = snapshot.constant.copy()
    todo = snapshot.node_class[snapshot.is_leaf].tolist()
    if not todo:
        return constant
    arity = np.diff(snapshot.child_offsets)
    missing = np.where(foldable[snapshot.node_symbol], arity, -1).tolist()  # children that are not known to be constant
    users = np.repeat(np.arange(snapshot.node_count), arity)[np.argsort(snapshot.child, kind="stable")]
    ends = np.cumsum([0, *np.bincount(snapshot.child, minlength=snapshot.class_count).tolist()]).tolist()
    while todo:
        found = todo.pop()
        if not constant[found]:
            constant[found] = True
            for node in users[ends[found] : ends[found + 1]].tolist():
                missing[node] -= 1
                if not missing[node]:
                    todo.append(int(snapshot.node_class[node]))
    return constant

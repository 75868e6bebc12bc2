"""E-nodes on their way into the engine, as columns of integers: a graph has many of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_TYPE = np.iinfo(np.int32).min
"""In place of the id of a type that is not known."""


@dataclass(frozen=True)
class Nodes:
    """E-nodes of consecutive handles, children before what is over them.

    Iterating gives handle, symbol, atom and children's handles of each.

    Args:
        first: handle of the first.
        symbol: index of each one's symbol.
        atom: id of each one's atom.
        type_id: id of each one's type, or :data:`NO_TYPE`.
        start: e-node ``i`` is over ``child[start[i]:start[i + 1]]``.
        child: handles of children, concatenated.
    """

    first: int
    symbol: NDArray[np.int32]
    atom: NDArray[np.int32]
    type_id: NDArray[np.int32]
    start: NDArray[np.int32]
    child: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.symbol)

    def __iter__(self) -> Iterator[tuple[int, int, int, list[int]]]:
        start, child = self.start.tolist(), self.child.tolist()
        for index, (symbol, atom) in enumerate(zip(self.symbol.tolist(), self.atom.tolist(), strict=True)):
            yield self.first + index, symbol, atom, child[start[index] : start[index + 1]]

    def tables(self, arity: Callable[[int], int]) -> Iterator[tuple[int, bool, NDArray[np.int64]]]:
        """Symbol, whether types are known, and handle, atom, type (if known) and children's handles of each e-node."""
        kind = 2 * self.symbol + (self.type_id != NO_TYPE)
        order = np.argsort(kind, kind="stable")
        first = np.flatnonzero(np.diff(kind[order], prepend=-1))
        for one, chosen in zip(kind[order][first].tolist(), np.split(order, first[1:]), strict=True):
            symbol, typed = divmod(one, 2)
            types = [self.type_id[chosen]] if typed else []
            children = self.child[self.start[chosen, None] + np.arange(arity(symbol))]
            yield symbol, bool(typed), np.column_stack([self.first + chosen, self.atom[chosen], *types, children])


class NewNodes:
    """E-nodes that get handles, one after the other, from ``first`` on."""

    def __init__(self, first: int):
        self.first = first
        self._head = array("i")
        self._child = array("i")
        self._heads: dict[tuple[int, int, int, int], int] = {}
        self._rows = array("i")  # of heads

    def __len__(self) -> int:
        return len(self._head)

    def head(self, symbol: int, arity: int, atom: int, type_id: int | None) -> int:
        """A number for all that an e-node is beside its children."""
        key = (symbol, arity, atom, NO_TYPE if type_id is None else type_id)
        number = self._heads.setdefault(key, len(self._heads))
        if 4 * number == len(self._rows):
            self._rows.extend(key)
        return number

    def add(self, head: int, children: Sequence[int]) -> int:
        """The handle of a new e-node."""
        self._head.append(head)
        self._child.extend(children)
        return self.first + len(self._head) - 1

    def since(self, index: int) -> Nodes:
        """The e-nodes from the ``index``-th on; those before it are not looked at."""
        symbol, arity, atom, type_id = np.asarray(self._rows).reshape(-1, 4)[np.asarray(self._head[index:])].T.copy()
        start = np.concatenate([[0], np.cumsum(arity)]).astype(np.int32)
        child = np.asarray(self._child[len(self._child) - int(start[-1]) :])
        return Nodes(self.first + index, symbol, atom, type_id, start, child)

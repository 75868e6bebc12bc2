"""The given graph before any rule has seen it, as walks over it read it: its e-nodes, their types, and constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray as Array

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.nodes import NO_TYPE, Nodes
from eqsat.egraph.symbols import Symbol, is_foldable
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.visitor import children_first

Fold: TypeAlias = Callable[..., Sequence[int] | None]
"""The atom of the value of an e-node: of its symbol, its atom, and the atoms of its operands' values."""


class Node(NamedTuple):
    """An e-node.

    Attributes:
        handle: Its handle.
        symbol: The index of its symbol.
        atom: The id of its atom.
        children: The handles of its children.
    """

    handle: int
    symbol: int
    atom: int
    children: list[int]


class Composed(NamedTuple):
    """A part of the given graph in place of which other e-nodes were made.

    Attributes:
        end: The handle that ends it.
        links: Symbol, atom and children's handles of its e-nodes, that of the end last.
        made: The e-nodes that were made.
        result: The handle of the last of them.
    """

    end: int
    links: list[tuple[int, ...]]
    made: Nodes
    result: int


class GivenGraph:
    """A graph in an e-graph of which no rule has seen anything.

    Args:
        egraph: The e-graph.
        nodes: The e-nodes of the graph.
        root: The handle of the whole graph.
        fold: Computes constants.

    Attributes:
        nodes: The e-nodes, each once, over the first handles of their children, children first.
        root: The first handle of the whole graph.
        constants: Handle -> atom of each value that is computed of constants.
    """

    def __init__(self, egraph: EGraph, nodes: Nodes, root: int, fold: Fold):
        self.egraph = egraph
        self.vocabulary = egraph.vocabulary
        self.fold = fold
        self.constants: dict[int, int] = {}
        self.nodes: list[Node] = []
        self._type_ids = dict(enumerate(nodes.type_id.tolist(), nodes.first))
        first: dict[int, int] = {}
        known: dict[tuple[int, ...], int] = {}
        for handle, symbol, atom, children in nodes:
            below = [first[child] for child in children]
            first[handle] = known.setdefault((symbol, atom, *below), handle)
            if first[handle] == handle:
                self.nodes.append(node := Node(handle, symbol, atom, below))
                self._find_constant(node)
        self.root = first[root]

    def _find_constant(self, node: Node) -> None:
        symbol = self.vocabulary.symbols[node.symbol]
        if symbol.kind == "constant":
            self.constants[node.handle] = node.atom
        elif node.children and all(child in self.constants for child in node.children) and is_foldable(symbol):
            found = self.fold(node.symbol, node.atom, *[self.constants[child] for child in node.children])
            if found is not None and self.vocabulary.atoms[found[0]].kind == "constant":
                self.constants[node.handle] = found[0]

    def reader_counts(self) -> Counter[int]:
        """How many e-nodes read each handle."""
        return Counter(child for node in self.nodes for child in node.children)

    def readers(self, of: Container[int]) -> dict[int, list[int]]:
        """The handles of the e-nodes that read each of some handles."""
        found: dict[int, list[int]] = {}
        for node in self.nodes:
            for child in node.children:
                if child in of:
                    found.setdefault(child, []).append(node.handle)
        return found

    # ---- types and constants

    def type(self, handle: int) -> Type | None:
        """The type of a handle, if it is known."""
        index = self._type_ids[handle]
        return None if index == NO_TYPE else self.vocabulary.types[index]

    def array(self, constant: int) -> Array[Any]:
        """The elements of a constant."""
        array: Array[Any] = self.vocabulary.atoms[constant].value.data.numpy()
        return array

    def constant_type(self, constant: int) -> TensorType:
        """The type of a constant."""
        array = self.array(constant)
        return TensorType(array.shape, array.dtype.name)

    def filled(self, value: float, dtype: str) -> int:
        """A number."""
        return self.vocabulary.constant(Constant(np.asarray(value).astype(dtype)))

    def folded(self, name: str, *constants: int, **attrs: Any) -> int | None:
        """An operator of constants; None where the result is too large to be computed now."""
        op = Op.get(name)
        index = self.vocabulary.symbol(Symbol("call", op, len(constants)))
        found = self.fold(index, self.vocabulary.attributes(make_attrs(op, attrs)), *constants)
        return None if found is None else found[0]

    def computed(self, name: str, *constants: int | None, **attrs: Any) -> int | None:
        """An operator of constants; None where an operand or the result is none, or it makes infinities or NaN."""
        known = [each for each in constants if each is not None]
        found = self.folded(name, *known, **attrs) if len(known) == len(constants) else None
        if found is None:
            return None
        result = self.array(found)
        were_finite = all(np.all(np.isfinite(self.array(each))) for each in known)
        return found if np.all(np.isfinite(result) if were_finite else ~np.isnan(result)) else None

    # ---- what takes the place of a part

    def add(self, symbol: int, atom: int, children: Sequence[int], ty: Type) -> int:
        """Add an e-node to the e-graph; its handle."""
        index = self.vocabulary.type_id(ty)
        handle = self.egraph.add(symbol, atom, children, index)
        self._type_ids[handle] = index
        if symbol == self.constant_symbol:
            self.constants[handle] = atom
        return handle

    @property
    def constant_symbol(self) -> int:
        """The index of the symbol of constants."""
        return self.egraph.symbol(Symbol("constant", None, 0))

    def links(self, inside: Mapping[int, Node], ends: Container[int], end: int) -> list[tuple[int, ...]]:
        """The e-nodes of a part, its end last, down to where another part ends."""

        def below(handle: int) -> list[int]:
            return [child for child in inside[handle].children if child in inside and child not in ends]

        order = children_first([end], below)
        return [(node.symbol, node.atom, *node.children) for node in map(inside.__getitem__, order)]

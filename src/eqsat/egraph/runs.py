"""Runs of e-nodes of the given graph that are told, and written, in another way: what walks over such runs share.

A walk tells each e-node as something over a *core*, from what is told so of its operands. What ends a run that is worth
it gets that form as e-nodes. Most walks take it in place of the e-nodes of the run, which nothing else reads: rules no
longer see them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.symbols import Symbol
from eqsat.relay.expr import Op
from eqsat.relay.op.op import make_attrs
from eqsat.relay.relations import call_type
from eqsat.relay.ty import TensorType, Type, is_static

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = tuple([f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)])


class _Draft(NamedTuple):
    """An e-node that may be made: as in :class:`Node`, and its type."""

    symbol: int
    atom: int
    children: tuple[int, ...]
    type: Type


class _Told(Protocol):
    """What is told of an e-node."""

    @property
    def core(self) -> int:
        """The handle of the core in the given graph, or ``-1 - i`` for the i-th draft."""
        ...


RunT = TypeVar("RunT", bound=_Told)


class Runs(dict[int, RunT], Generic[RunT]):
    """Handle -> what is told of the e-node.

    Args:
        graph: The given graph.

    Attributes:
        within: The e-nodes that continue the runs of their operands.
        reader_counts: How many e-nodes read each handle.
    """

    def __init__(self, graph: GivenGraph):
        super().__init__()
        self.graph = graph
        self.within: set[int] = set()
        self.reader_counts = graph.reader_counts()
        self._drafts: list[_Draft] = []
        for node in graph.nodes:
            symbol = graph.vocabulary.symbols[node.symbol]
            if node.children and node.handle not in graph.constants:
                self.follow(node, symbol.name, symbol.op, graph.vocabulary.atoms[node.atom].value)

    @abstractmethod
    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        """Tell an e-node, if it continues a run or begins one.

        Args:
            node: The e-node, which is more than a constant.
            name: The name of its symbol.
            op: The operator that it calls, if it does.
            value: The value of its atom: the attributes of a call.
        """

    @abstractmethod
    def is_worth(self, handle: int) -> bool:
        """Whether a run is made anew, if an e-node ends it."""

    def hides(self, run: RunT) -> bool:
        """Whether rules no longer see a run that is made anew."""
        return True

    @abstractmethod
    def written(self, run: RunT) -> int:
        """The draft of all that a run is."""

    # ---- e-nodes that may be made

    def draft(self, symbol: int, atom: int, children: Sequence[int], ty: Type) -> int:
        """A new draft, over handles and other drafts."""
        self._drafts.append(_Draft(symbol, atom, tuple(children), ty))
        return -len(self._drafts)

    def draft_call(self, name: str, children: Sequence[int], **attrs: Any) -> int:
        """A new draft of a call."""
        op = Op.get(name)
        made = make_attrs(op, attrs)
        types = [ty for ty in map(self.type, children) if ty is not None]
        symbol = self.graph.egraph.symbol(Symbol("call", op, len(children)))
        return self.draft(symbol, self.graph.vocabulary.attributes(made), children, call_type(op, made, types))

    def draft_constant(self, constant: int) -> int:
        """A new draft of a constant."""
        return self.draft(self.graph.constant_symbol, constant, (), self.graph.constant_type(constant))

    def type(self, handle: int) -> Type | None:
        """The type of a handle or draft, if it is known."""
        return self.graph.type(handle) if handle >= 0 else self._drafts[-1 - handle].type

    def constant(self, handle: int) -> int | None:
        """The atom of the constant that a handle or draft is, if it is one."""
        if handle >= 0:
            return self.graph.constants.get(handle)
        draft = self._drafts[-1 - handle]
        return draft.atom if draft.symbol == self.graph.constant_symbol else None

    # ---- what becomes of runs

    def make(self) -> list[Composed]:
        """Make what takes the place of runs that are worth it; the given graph has it instead of them from now on."""
        ends, inside, hidden = self._found()
        if not ends:
            return []
        self.graph.egraph.hide_nodes([inside[handle] for handle in hidden])
        made = self._made(ends, inside, hidden)
        self.graph.egraph.flush()
        return made

    def _found(self) -> tuple[dict[int, RunT], dict[int, Node], dict[int, None]]:
        """What ends runs that are worth it, their e-nodes, which nothing else reads, and which of them are hidden."""
        graph, readers = self.graph, self.graph.readers(self)
        ends: dict[int, RunT] = {}
        inside: dict[int, Node] = {}
        hidden: dict[int, None] = {}
        for node in reversed(graph.nodes):
            handle = node.handle
            if handle not in self:
                continue
            above = readers.get(handle, [])
            is_within = handle != graph.root and above and all(r in inside and r in self.within for r in above)
            if not is_within and not self.is_worth(handle):
                continue
            if not is_within:
                ends[handle] = self[handle]
            inside[handle] = node
            if all(reader in hidden for reader in above) if is_within else self.hides(self[handle]):
                hidden[handle] = None
        return ends, inside, hidden

    def _made(self, ends: Mapping[int, RunT], inside: Mapping[int, Node], hidden: Container[int]) -> list[Composed]:
        graph, egraph = self.graph, self.graph.egraph
        taken: dict[int, int] = {}  # what takes the place of ends and drafts
        nodes: list[Node] = []
        composed = []
        for node in graph.nodes:
            if node.handle not in hidden:
                nodes.append(node._replace(children=[taken.get(child, child) for child in node.children]))
            if node.handle in ends:
                before = len(egraph.new_nodes)
                written = self.written(ends[node.handle])
                for index in self._needed(written, taken):
                    symbol, atom, children, ty = self._drafts[index]
                    taken[-1 - index] = graph.add(symbol, atom, [taken.get(child, child) for child in children], ty)
                result = taken.get(written, written)
                egraph.union(node.handle, result)
                made = egraph.new_nodes.since(before)
                nodes += [Node(*each) for each in made]
                composed.append(Composed(node.handle, graph.links(inside, ends, node.handle), made, result))
                taken[node.handle] = result
        graph.nodes, graph.root = nodes, taken.get(graph.root, graph.root)
        return composed

    def _needed(self, draft: int, taken: Container[int]) -> list[int]:
        """The numbers of the drafts that are still to be made for one, that one last."""
        waiting, found = [draft], set()
        while waiting:
            draft = waiting.pop()
            if draft < 0 and draft not in taken and draft not in found:
                found.add(draft)
                waiting += self._drafts[-1 - draft].children
        return sorted([-1 - each for each in found])


def is_static_float(ty: Type | None) -> bool:
    """Whether a value is a tensor of floating-point numbers whose size is known."""
    return isinstance(ty, TensorType) and is_static(ty) and ty.dtype in _FLOATS


def is_static_number(ty: Type | None) -> bool:
    """Whether a value is a tensor of floating-point numbers or integers whose size is known."""
    return isinstance(ty, TensorType) and is_static(ty) and ty.dtype in (*_FLOATS, *_INTEGERS)

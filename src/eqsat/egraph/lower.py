"""Lowering: a Relay graph becomes rows of the e-graph, in one iteration of the engine whatever its depth.

A let becomes sharing, which is what an e-graph is made for. A function is an opaque e-node over what it captures, so
that no variable that it binds is a class outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TypeAlias

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.forms import called_operators
from eqsat.egraph.nodes import Nodes
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.vocabulary import WIDEST_TUPLE, Vocabulary
from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.dataflow_pattern import CallPattern, DFPattern
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, Tuple, TupleGetItem, Var
from eqsat.relay.ty import IncompleteType, TupleType, Type
from eqsat.relay.visitor import post_order

_PART = 128
"""Fields of the tuples that a tuple which is too wide is made of."""

_Part: TypeAlias = tuple[int, Sequence[Type | None]]
"""The handle of a tuple, and the types of its fields as far as they are known."""


@dataclass(frozen=True, repr=False)
class Lowered:
    """Where the nodes of a graph are in the e-graph.

    Attributes:
        handles: Node -> handle, of the nodes that had none before, in the order in which they were lowered.
        root: The handle of the whole graph.
        nodes: The e-nodes that were added.
    """

    handles: dict[Expr, int]
    root: int
    nodes: Nodes


def region_children(node: Expr) -> tuple[Expr, ...]:
    """The sub-expressions that are evaluated in the same region as ``node``."""
    if type(node) is Call:
        return node.args if type(node.op) is Op else node.children()
    if is_opaque(node):
        return tuple(free_vars(node))
    if isinstance(node, Let):
        return (node.value, node.body)
    return node.children()


def over(node: Expr, children: Sequence[Expr]) -> Expr:
    """A node over others in the place of its :func:`region_children`, for what is not opaque."""
    if all(map(is_, children, region_children(node))):
        return node
    is_call = isinstance(node, Call) and len(children) < len(node.children())
    return node.with_children([node.op, *children] if is_call and isinstance(node, Call) else children)


def is_opaque(node: Expr) -> bool:
    """Whether a node is one e-node with all that is in its scopes, as all are but ifs and lets that do not recur."""
    if isinstance(node, Let):
        return isinstance(node.value, Function) and node.var in free_vars(node.value)  # it calls itself
    return bool(node.scopes) and not isinstance(node, If)


def places_among(nodes: Iterable[Expr], patterns: Iterable[DFPattern]) -> dict[Expr, int]:
    """The places of nodes of a graph among the calls of all operators that patterns name; of all, if one names none.

    Equal values may be calls of several of these operators, and of others, whose places do not count.
    """
    called = [called_operators(each.op, tuple) if isinstance(each, CallPattern) else None for each in patterns]
    counted = {op for each in called for op in each or ()} if all(called) else None
    calls = [node for node in nodes if counted is None or (isinstance(node, Call) and node.op in counted)]
    return {node: place for place, node in enumerate(calls)}


def lower(egraph: EGraph, root: Expr, types: Mapping[Expr, Type], known: Mapping[Expr, int] | None = None) -> Lowered:
    """Add a graph to the e-graph. The engine has it after ``egraph.flush()``.

    Args:
        egraph: Where.
        root: The graph.
        types: The types of its nodes, as far as they are known.
        known: Handles of nodes that are in the e-graph already. They are not looked into.

    Raises:
        ArgumentError: A node has effects, whose order an e-graph cannot keep.
    """
    known = known or {}
    new = egraph.new_nodes
    before = len(new)
    if root in known:
        return Lowered({}, known[root], new.since(before))
    handles: dict[Expr, int] = {}

    def new_children(node: Expr) -> Sequence[Expr]:
        return [child for child in region_children(node) if child not in known]

    def known_place(node: Expr) -> int:
        return handles[node] if node in handles else known[node]

    place = known_place if known else handles.__getitem__
    type_of, add = types.get, new.add
    order = post_order(root, children=new_children if known else region_children)
    bound = {node.var: node.value for node in order if isinstance(node, Let) and not is_opaque(node)}
    ids = _Ids(egraph)
    calls: dict[tuple[Op, int, int, int], int] = {}
    for node in order:
        if type(node) is Call and type(node.op) is Op:
            args, ty = node.args, type_of(node)
            key = (node.op, id(node.attrs), len(args), id(ty))
            head = calls.get(key)
            if head is None:
                head = calls[key] = ids.call(node.op, node.attrs, len(args), ty)
            handles[node] = add(head, [place(arg) for arg in args])
        elif isinstance(node, Let) and node.var in bound:
            handles[node] = place(node.body)
        elif isinstance(node, Var) and node in bound:
            handles[node] = place(bound[node])
        else:
            children = [place(child) for child in region_children(node)]
            if isinstance(node, Tuple) and len(children) > WIDEST_TUPLE:
                handles[node] = _joined(egraph, list(zip(children, map(type_of, node.fields), strict=True)))
                continue
            kind, op, atom = _head(egraph.vocabulary, node)
            symbol = egraph.symbol(Symbol(kind, op, len(children)))
            handles[node] = egraph.add(symbol, atom, children, ids.type(type_of(node)))
    return Lowered(handles, handles[root], new.since(before))


def _joined(egraph: EGraph, fields: Sequence[tuple[int, Type | None]]) -> int:
    """Add a tuple that is too wide for a table as narrow tuples that are joined; rules do not look into it.

    Args:
        egraph: Where.
        fields: The handle of each field, and its type as far as it is known.
    """
    vocabulary = egraph.vocabulary

    def add(symbol: Symbol, atom: int, children: Sequence[int], types: Sequence[Type | None]) -> _Part:
        known = [ty for ty in types if ty is not None and not isinstance(ty, IncompleteType)]
        whole = vocabulary.type_id(TupleType(known)) if len(known) == len(types) else None
        return egraph.add(egraph.symbol(symbol), atom, children, whole), types

    parts: list[_Part] = []
    for start in range(0, len(fields), _PART):
        some = fields[start : start + _PART]
        symbol, atom = Symbol("tuple", None, len(some)), vocabulary.tuple_atom
        parts.append(add(symbol, atom, [handle for handle, _ in some], [ty for _, ty in some]))
    while len(parts) > 1:
        wider: list[_Part] = []
        for start in range(0, len(parts), _PART):
            below = parts[start : start + _PART]
            counts = tuple([len(types) for _, types in below])
            atom = vocabulary.atom("joined", ("joined", counts), counts)
            inner = [ty for _, types in below for ty in types]
            wider.append(add(Symbol("joined", None, len(below)), atom, [handle for handle, _ in below], inner))
        parts = wider
    return parts[0][0]


class _Ids:
    """Ids of what most nodes of a graph have in common. They are found by object, which is faster than by value."""

    def __init__(self, egraph: EGraph):
        self.egraph = egraph
        self._calls: dict[tuple[Op, int, int], tuple[int, int]] = {}
        self._types: dict[int, int | None] = {}

    def call(self, op: Op, attrs: Attrs | None, arity: int, ty: Type | None) -> int:
        """Return the number of what e-nodes of such calls are beside their children."""
        key = (op, id(attrs), arity)
        if key not in self._calls:
            atom = self.egraph.vocabulary.attributes(attrs)
            self._calls[key] = (self.egraph.symbol(Symbol("call", op, arity)), atom)
        symbol, atom = self._calls[key]
        return self.egraph.new_nodes.head(symbol, arity, atom, self.type(ty))

    def type(self, ty: Type | None) -> int | None:
        """Return the id of a type, None for one that is not known."""
        key = id(ty)
        if key not in self._types:
            unknown = ty is None or isinstance(ty, IncompleteType)
            self._types[key] = None if ty is None or unknown else self.egraph.vocabulary.type_id(ty)
        return self._types[key]


def _head(vocabulary: Vocabulary, node: Expr) -> tuple[str, Op | None, int]:
    """Return the kind, the operator and the atom of the e-node for ``node``."""
    if node.has_effects:
        raise ArgumentError(f"an e-graph cannot hold {type(node).__name__} nodes: effects have an order")
    if is_opaque(node):
        return "function", None, vocabulary.atom("function", ("function", node), node)
    if isinstance(node, Constant):
        return node.kind, None, vocabulary.constant(node)
    if isinstance(node, Tuple):
        return node.kind, None, vocabulary.tuple_atom
    value = node.index if isinstance(node, TupleGetItem) else node
    atom = vocabulary.atom(node.kind, (node.kind, node.payload), value)
    return node.kind, node if isinstance(node, Op) else None, atom

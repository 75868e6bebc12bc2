"""Lowering: a Relay graph becomes rows of the e-graph, one iteration of the engine whatever its depth.

Lets are dissolved (sharing is what an e-graph is), functions are opaque e-nodes over what they capture:
no bound variable is ever a class of its own outside its binder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.egraph.egraph import EGraph
from eqsat.egraph.nodes import Nodes
from eqsat.egraph.symbols import Symbol
from eqsat.egraph.vocabulary import Vocabulary
from eqsat.errors import ArgumentError
from eqsat.relay.analysis import free_vars
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Call, Constant, Expr, Function, If, Let, Op, TupleGetItem, Var
from eqsat.relay.ty import IncompleteType, Type
from eqsat.relay.visitor import post_order


@dataclass(frozen=True)
class Lowered:
    """Where the nodes of a graph are in the e-graph.

    Args:
        handles: node -> handle, of the nodes that had none, in the order they were lowered.
        root: handle of the whole graph.
        nodes: the e-nodes that were added.
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


def is_opaque(node: Expr) -> bool:
    """Whether a node is one e-node with all that is in its scopes, as all are but ifs and lets that do not recur."""
    if isinstance(node, Let):
        return isinstance(node.value, Function) and node.var in free_vars(node.value)  # it calls itself
    return bool(node.scopes) and not isinstance(node, If)


def lower(egraph: EGraph, root: Expr, types: Mapping[Expr, Type], known: Mapping[Expr, int] | None = None) -> Lowered:
    """Add the graph ``root`` to the e-graph (after ``egraph.flush()``).

    Args:
        egraph: where to.
        root: the graph.
        types: type of each node, as far as known.
        known: nodes that have a handle already; they are not looked into.

    Raises:
        ArgumentError: a node that an e-graph cannot hold (mutable references).
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
            kind, op, atom = _head(egraph.vocabulary, node)
            symbol = egraph.symbol(Symbol(kind, op, len(children)))
            handles[node] = egraph.add(symbol, atom, children, ids.type(type_of(node)))
    return Lowered(handles, handles[root], new.since(before))


class _Ids:
    """Ids of what most nodes of a graph share, found by object instead of by value."""

    def __init__(self, egraph: EGraph):
        self.egraph = egraph
        self._calls: dict[tuple[Op, int, int], tuple[int, int]] = {}
        self._types: dict[int, int | None] = {}

    def call(self, op: Op, attrs: Attrs | None, arity: int, ty: Type | None) -> int:
        """The head of e-nodes of such calls."""
        key = (op, id(attrs), arity)
        if key not in self._calls:
            atom = self.egraph.vocabulary.attributes(attrs)
            self._calls[key] = (self.egraph.symbol(Symbol("call", op, arity)), atom)
        symbol, atom = self._calls[key]
        return self.egraph.new_nodes.head(symbol, arity, atom, self.type(ty))

    def type(self, ty: Type | None) -> int | None:
        """Type id, None for what is not known."""
        key = id(ty)
        if key not in self._types:
            unknown = ty is None or isinstance(ty, IncompleteType)
            self._types[key] = None if ty is None or unknown else self.egraph.vocabulary.type_id(ty)
        return self._types[key]


def _head(vocabulary: Vocabulary, node: Expr) -> tuple[str, Op | None, int]:
    """Kind, operator and atom of the e-node for ``node``."""
    if node.has_effects:
        raise ArgumentError(f"an e-graph cannot hold {type(node).__name__} nodes: effects have an order")
    if is_opaque(node):
        return "function", None, vocabulary.atom("function", ("function", node), node)
    if isinstance(node, Constant):
        return node.kind, None, vocabulary.constant(node)
    value = node.index if isinstance(node, TupleGetItem) else node
    atom = vocabulary.atom(node.kind, (node.kind, node.payload), value)
    return node.kind, node if isinstance(node, Op) else None, atom

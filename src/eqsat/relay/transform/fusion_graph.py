"""What operator fusion needs to know of a graph: who uses what how, and where all uses meet again."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.relay.dataflow_pattern.graph import AncestorTree
from eqsat.relay.expr import Call, Constant, Expr, Function, GlobalVar, Op, Tuple, TupleGetItem
from eqsat.relay.op.op import OpPattern
from eqsat.relay.ty import TensorType, TupleType
from eqsat.relay.visitor import post_order

_INLINED_DTYPES = ("int32", "int64", "float32", "float64", "bool")

_LEVELS = (OpPattern.ELEMWISE, OpPattern.INJECTIVE, OpPattern.COMM_REDUCE)
"""Path kinds are told apart only as far as these; anything above is opaque."""


class FusionGraph:
    """The computing nodes of a typed function, numbered in post-order; functions that stay as they are left out.

    Attributes:
        order: the nodes and the operators and functions between them, in post-order.
        nodes: number -> node; operators and functions have none.
        number: node -> number.
        kinds: number -> how its outputs depend on its inputs.
        users: number -> (number of a user, kind of that use) for each use.
        meet: number -> number of the node where all uses meet again (the immediate post-dominator), or
            None: there is none, or something that is never fused uses the node.
        path_kind: number -> the most complex kind of use on the way there, rounded up to
            INJECTIVE, COMM_REDUCE or OPAQUE.
    """

    def __init__(self, function: Function):
        self.order = post_order(function, children=lambda node: () if stays(node) else node.children())
        self.nodes = [node for node in self.order if not isinstance(node, (Op, GlobalVar, Function))]
        self.number = {node: number for number, node in enumerate(self.nodes)}
        self.kinds = [_kind(node) for node in self.nodes]
        self.users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        self._external = [False] * len(self.nodes)
        for node in self.order:
            self._add_uses(node)
        self.meet: list[int | None] = [None] * len(self.nodes)
        self.path_kind: list[int] = [OpPattern.OPAQUE] * len(self.nodes)
        self._find_meets()

    def _add_uses(self, node: Expr) -> None:
        if isinstance(node, Call):
            self._use(node.op, None)
            for arg in node.args:
                self._use(arg, node, _edge_kind(node, arg))
        elif isinstance(node, Tuple):
            for field in node.fields:
                self._use(field, node if isinstance(field.checked_type, TensorType) else None)
        elif isinstance(node, TupleGetItem):
            self._use(node.tuple_value, node if _holds_tensors(node) else None)
        elif not stays(node):
            for child in node.children():
                self._use(child, None)

    def _use(self, used: Expr, user: Expr | None, kind: int = OpPattern.INJECTIVE) -> None:
        number = self.number.get(used)
        if number is None:
            return
        if user is None:
            self._external[number] = True
        else:
            self.users[number].append((self.number[user], kind))

    def _find_meets(self) -> None:
        tree: AncestorTree[int] = AncestorTree()
        # per node and level, how many steps up the tree are above the level: a path's kind is a difference
        above: dict[int | None, tuple[int, ...]] = {None: (0,) * len(_LEVELS)}
        for number in reversed(range(len(self.nodes))):
            users = self.users[number]
            meet = None if self._external[number] else tree.common_ancestor(user for user, _ in users)
            kind = OpPattern.OPAQUE if meet is None else _path_kind(users, above, above[meet])
            self.meet[number], self.path_kind[number] = meet, kind
            tree.add(number, meet)
            above[number] = tuple(count + (kind > level) for count, level in zip(above[meet], _LEVELS, strict=True))


def stays(node: Expr) -> bool:
    """Whether ``node`` is a function that fusion leaves alone: fused already, or an external compiler's."""
    return isinstance(node, Function) and ("Compiler" in node.attrs or bool(node.attrs.get("Primitive")))


def _path_kind(
    users: Sequence[tuple[int, int]], above: dict[int | None, tuple[int, ...]], at_meet: tuple[int, ...]
) -> int:
    for index, level in enumerate(_LEVELS):
        if all(kind <= level and above[user][index] == at_meet[index] for user, kind in users):
            return level
    return OpPattern.OPAQUE


def _kind(node: Expr) -> int:
    if isinstance(node, Call) and isinstance(node.op, Op):
        kind = node.op.get_attr("TOpPattern")
        return OpPattern.OPAQUE if kind is None else int(kind)
    if isinstance(node, Constant):
        simple = node.data.shape == () and node.data.dtype in _INLINED_DTYPES
        return OpPattern.ELEMWISE if simple else OpPattern.OPAQUE
    if isinstance(node, Tuple):
        return OpPattern.TUPLE
    if isinstance(node, TupleGetItem) and _holds_tensors(node):
        return OpPattern.INJECTIVE
    return OpPattern.OPAQUE


def _edge_kind(call: Call, arg: Expr) -> int:
    """The operator's kind; broadcasting is elementwise towards an argument of the result's shape."""
    kind = _kind(call)
    result, given = call.checked_type, arg.checked_type
    same = isinstance(result, TensorType) and isinstance(given, TensorType) and result.shape == given.shape
    return OpPattern.ELEMWISE if kind == OpPattern.BROADCAST and same else kind


def _holds_tensors(projection: TupleGetItem) -> bool:
    ty = projection.tuple_value.checked_type
    return isinstance(ty, TupleType) and all(isinstance(field, TensorType) for field in ty.fields)

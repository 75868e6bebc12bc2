"""FuseOps: neighbouring operators become one primitive function (T. Chen et al., TVM, 2018, section 3)."""

from __future__ import annotations

from enum import Enum, auto

from eqsat.relay.expr import Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from eqsat.relay.module import IRModule
from eqsat.relay.op.op import OpPattern
from eqsat.relay.traits import Trait
from eqsat.relay.transform.argument_limit import ArgumentLimit
from eqsat.relay.transform.base import FunctionPass, Pass, PassContext, PassInfo
from eqsat.relay.transform.fusion_graph import FusionGraph
from eqsat.relay.visitor import post_order, rebuild
from eqsat.target import Target

STOP_FUSION = Op.get("annotation.stop_fusion")
"""The operator that prevents a value from being fused with its users. It is removed after fusion."""

MAX_FUSED = 256
"""Default maximum number of operators in a group; ``relay.FuseOps.max_depth`` overrides it."""


def FuseOps(fuse_opt_level: int = -1) -> Pass:
    """Group operators that can be computed together into functions with attribute ``Primitive``.

    Options of the context: ``relay.FuseOps.max_depth``, the greatest size of a group; ``relay.FuseOps.link_params``,
    whether constants stay inside the functions instead of being passed. If the current target limits the number of
    arguments of functions (``max_function_args``), groups stay below it.

    Args:
        fuse_opt_level: 0 turns each operator into a separate function; -1 uses the level of the context.
    """

    def transform(function: Function, mod: IRModule, context: PassContext) -> Expr:
        level = context.opt_level if fuse_opt_level == -1 else fuse_opt_level
        graph = FusionGraph(function)
        target = Target.current()
        most_arguments = 0 if target is None else target.max_function_args
        groups = _Groups(graph, context.config.get("relay.FuseOps.max_depth", MAX_FUSED), most_arguments)
        if level > 0:
            groups.fuse()
        return _Fuser(graph, groups, context.config.get("relay.FuseOps.link_params", False)).run(function)

    return FunctionPass(transform, PassInfo(0, "FuseOps"), typed=True)


class _Phase(Enum):
    ANCHORS = auto()  # convolutions and the like take what follows them
    INJECTIVE = auto()
    TUPLES = auto()  # tuples inside of a group take their injective fields


_BROADCAST = (OpPattern.BROADCAST, OpPattern.BROADCAST)
_INJECTIVE = (OpPattern.INJECTIVE, OpPattern.INJECTIVE)
_INTO_COMPUTE = (OpPattern.INJECTIVE, OpPattern.OUT_ELEMWISE_FUSABLE)


class _Groups:
    """Which nodes are computed together: a union-find whose roots are the groups' results."""

    def __init__(self, graph: FusionGraph, max_fused: int, most_arguments: int):
        self.graph = graph
        self.max_fused = max_fused
        self.arguments = ArgumentLimit(graph, most_arguments, self.root) if most_arguments else None
        self.postponed: dict[int, list[int]] = {}  # node -> what may join it when the arguments before it are counted
        self.kinds = list(graph.kinds)
        self._parent = list(range(len(graph.nodes)))
        self._size = [1] * len(graph.nodes)

    def root(self, number: int) -> int:
        """The number of the node that gives the result of the group of ``number``."""
        parent = self._parent
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    def fuse(self) -> None:
        for phase in _Phase:
            for number, meet in enumerate(self.graph.meet):
                for earlier in self.postponed.pop(number, ()):
                    self._try_postponed(earlier, number)
                if meet is not None:
                    self._try(number, meet, phase)

    def _try(self, number: int, meet: int, phase: _Phase) -> None:
        limits = self._limits(number, meet, phase)
        path = self._path(number, meet, *limits) if limits else []
        if not path:
            return
        allowed = self.arguments.allowed(number) if self.arguments else 0
        if self.arguments and allowed:
            taken, open_user = self.arguments.at_uses(number)
            if taken > allowed:
                return
            if open_user is not None:
                self.postponed.setdefault(open_user, []).append(number)
                return
        self._unite(path, meet)

    def _try_postponed(self, number: int, user: int) -> None:
        meet = self.graph.meet[number]
        if meet is None or self.arguments is None or self.kinds[meet] == OpPattern.OUT_ELEMWISE_FUSABLE:
            return
        if self.arguments.total(user) <= self.arguments.allowed(user):
            self._unite(self._path(number, meet, OpPattern.OPAQUE, OpPattern.OPAQUE), meet)

    def _limits(self, number: int, meet: int, phase: _Phase) -> tuple[int, int] | None:
        """The most complex kinds that groups on the way and the group at its end may have; None: no fusion."""
        kind, path_kind = self.kinds[number], self.graph.path_kind[number]
        if phase is _Phase.TUPLES:
            into_tuple = self.kinds[meet] == OpPattern.TUPLE and self.kinds[self.root(meet)] <= OpPattern.INJECTIVE
            return _INJECTIVE if kind <= OpPattern.INJECTIVE and into_tuple else None
        if self.kinds[meet] == OpPattern.TUPLE or self.root(number) == self.root(meet):
            return None
        if kind == OpPattern.OUT_ELEMWISE_FUSABLE:
            starts = phase is _Phase.ANCHORS and path_kind == OpPattern.ELEMWISE
            return _BROADCAST if starts else None
        if kind <= OpPattern.BROADCAST:
            return _INTO_COMPUTE if path_kind <= OpPattern.COMM_REDUCE else None
        if kind in (OpPattern.INJECTIVE, OpPattern.TUPLE):
            return _INJECTIVE if phase is _Phase.INJECTIVE and path_kind <= OpPattern.INJECTIVE else None
        return None

    def _path(self, number: int, meet: int, most_on_way: int, most_at_end: int) -> list[int]:
        """The nodes from ``number`` on all ways up to ``meet``; none when one is not allowed or they are too many."""
        path = [number]
        seen = {number, meet}
        size = self._size[self.root(meet)] + self._size[number]
        for node in path:
            if size > self.max_fused:
                return []
            for user, _ in self.graph.users[node]:
                if user in seen and user != meet:
                    continue
                if self.kinds[self.root(user)] > (most_at_end if user == meet else most_on_way):
                    return []
                if user not in seen:
                    seen.add(user)
                    path.append(user)
                    size += self._size[user]
        return path

    def _unite(self, path: list[int], meet: int) -> None:
        for number in path:
            child, parent = self.root(number), self.root(meet)
            if child == parent:
                continue
            self._parent[child] = parent
            self._size[parent] += self._size[child]
            if self.arguments:
                self.arguments.unite(child, parent)
            if self.kinds[child] == OpPattern.OUT_ELEMWISE_FUSABLE:
                self.kinds[parent] = max(self.kinds[parent], OpPattern.OUT_ELEMWISE_FUSABLE)


class _Fuser:
    """Makes a function of each group."""

    def __init__(self, graph: FusionGraph, groups: _Groups, link_params: bool):
        self.order = graph.order
        self.number = graph.number
        self.groups = groups
        self.link_params = link_params
        self.new: dict[Expr, Expr] = {}
        self.inputs: dict[int, dict[Expr, Var]] = {}

    def run(self, function: Function) -> Expr:
        for node in self.order:
            self.new[node] = self._visit(node)
        return self.new[function]

    def _visit(self, node: Expr) -> Expr:
        if isinstance(node, Call) and node.op is STOP_FUSION:
            return self.new[node.args[0]]
        is_run = isinstance(node, Call) and isinstance(node.op, Op) and not node.op.get_attr("TNonComputational")
        if not is_run and not isinstance(node, (Tuple, TupleGetItem)):
            return rebuild(node, self.new)
        group = self._group(node)
        is_result = self.number[node] == group
        takes_apart = isinstance(node, TupleGetItem) and self._group(node.tuple_value) != group
        if is_result and (isinstance(node, Tuple) or takes_apart):
            return rebuild(node, self.new)
        inside = node.with_children([self._operand(child, group) for child in node.children()])
        return self._call(node, inside, group) if is_result else inside

    def _group(self, node: Expr) -> int:
        number = self.number.get(node)
        return -1 if number is None else self.groups.root(number)

    def _operand(self, operand: Expr, group: int) -> Expr:
        """What stands for ``operand`` inside the group's function."""
        new = self.new[operand]
        linked = isinstance(new, Op) or (self.link_params and isinstance(new, Constant))
        if linked or self._group(operand) == group:
            return new
        inputs = self.inputs.setdefault(group, {})
        if new not in inputs:
            inputs[new] = Var(f"p{len(inputs)}", operand.checked_type)
        return inputs[new]

    def _call(self, node: Expr, body: Expr, group: int) -> Call:
        inputs = self.inputs.pop(group, {})
        calls = [inner for inner in post_order(body) if isinstance(inner, Call)]
        attrs = {"Primitive": int(bool(calls))}
        if calls and all(map(_is_reshape, calls)):
            attrs["relay.reshape_only"] = 1
        return Call(Function(list(inputs.values()), body, node.checked_type, attrs=attrs), list(inputs))


def _is_reshape(call: Call) -> bool:
    """Whether a call is what Relay counts as a reshape: a view whose shape is in its attributes."""
    return isinstance(call.op, Op) and call.op.has(Trait.VIEW) and len(call.args) == 1

"""Transposes and views leave long runs of elementwise operators in one walk over the given graph, and become one each.

Rules move them past one operator after the other, and find a form of each value for every order of axes and shape that
occurs in the run. Here each e-node of a run is told as ``transpose(reshape(core, shape), turn)``, where the core is the
same operator over the cores of its operands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.runs import Runs
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Op
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

MANY = 8
"""Transposes and views from which on they leave a run. Among fewer, rules find more ways to write it."""


_ALONG = ("nn.bias_add", "nn.batch_norm")
"""Operators of which operands lie along an axis of the first one."""


class _Run(NamedTuple):
    """A value as ``transpose(reshape(core, shape), turn)``.

    Attributes:
        core: The handle of an e-node of the given graph, or a draft.
        shape: The shape that the core is given; None: its own.
        turn: The order of the axes; None: as they are.
        views: The transposes and views of the longest way from where the run begins.
    """

    core: int
    shape: tuple[int, ...] | None = None
    turn: tuple[int, ...] | None = None
    views: int = 0


def move_views(graph: GivenGraph) -> list[Composed]:
    """Move transposes and views out of the long runs of a graph; what the runs became, in place of which they stand."""
    views = (_is_view(graph.vocabulary.symbols[node.symbol].op) for node in graph.nodes)
    return ViewRuns(graph).make() if sum(views) >= MANY else []


def _is_view(op: Op | None) -> bool:
    return op is not None and (op.name == "transpose" or op.has(Trait.VIEW))


class ViewRuns(Runs[_Run]):
    """The runs of elementwise operators with views among them."""

    def is_worth(self, handle: int) -> bool:
        run = self[handle]
        return run.views >= MANY and isinstance(self.type(run.core), TensorType)

    def written(self, run: _Run) -> int:
        result = run.core
        if run.shape is not None:
            result = self.draft_call("reshape", [result], newshape=run.shape)
        return result if run.turn is None else self.draft_call("transpose", [result], axes=run.turn)

    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        data, ty = node.children[0], self.graph.type(node.handle)
        found, is_within = None, True
        if name == "project":
            found = self._field(node, value)
        elif op is None:
            return
        elif name in _ALONG:
            found = self._along(node, value)
        elif not isinstance(ty, TensorType) or not is_static(ty):
            return
        elif _is_view(op) and len(node.children) == 1:
            run = self.get(data, _Run(data))
            found, is_within = self._viewed(run, op, value, ty), run.views > 0
            if found is None and is_within:
                found, is_within = self._viewed(_Run(data), op, value, ty), False
        elif op.has(Trait.ELEMENTWISE) and not op.has(Trait.STATEFUL):
            found = self._applied(node, ty)
        if found is not None:
            self[node.handle] = found
            if is_within:
                self.within.add(node.handle)

    def _viewed(self, run: _Run, op: Op, attrs: Attrs | None, ty: TensorType) -> _Run | None:
        """A run behind one more transpose or view; None for a view behind a transpose, or where a size is not known."""
        core = self._core_type(run)
        if core is None:
            return None
        if op.name != "transpose":
            shape = ty.concrete_shape
            moved = run._replace(shape=None if shape == core.shape else shape, views=run.views + 1)
            return None if run.turn is not None else moved
        rank = len(ty.shape)
        given = None if attrs is None else attrs.axes
        axes = [axis % rank for axis in (range(rank)[::-1] if given is None else given)]
        before = range(rank) if run.turn is None else run.turn
        turn = tuple([before[axis] for axis in axes])
        return run._replace(turn=None if turn == tuple(range(rank)) else turn, views=run.views + 1)

    def _applied(self, node: Node, ty: TensorType) -> _Run | None:
        """An elementwise operator over runs of one form, some of them with views, and constants."""
        constants = self.graph.constants
        varying = [child for child in node.children if child not in constants]
        runs = {child: self.get(child, _Run(child)) for child in varying}
        if not runs:  # a constant that is too large to be computed now
            return None
        first = runs[varying[0]]
        views, core = max(run.views for run in runs.values()), self._core_type(first)
        are_alike = all(run[1:3] == first[1:3] and _has_shape(self.type(child), ty) for child, run in runs.items())
        if not views or not are_alike or core is None:
            return None
        operands = []
        for child in node.children:
            operand = runs[child].core if child in runs else self._beside(child, first, len(ty.shape))
            if operand is None:
                return None
            operands.append(operand)
        result = self.draft(node.symbol, node.atom, operands, TensorType(core.shape, ty.dtype))
        return first._replace(core=result, views=views)

    def _along(self, node: Node, attrs: Attrs) -> _Run | None:
        """An operator over a run whose other operands are constants that lie along an axis."""
        data, *others = node.children
        run, ty = self.get(data), self.graph.type(data)
        if run is None or run.shape is not None or not isinstance(ty, TensorType):
            return None
        core = self._core_type(run)
        if core is None or not all(each in self.graph.constants for each in others):
            return None
        axis = attrs.axis % len(ty.shape)
        attrs = attrs.replace(axis=axis if run.turn is None else run.turn[axis])
        name, operands = self.graph.vocabulary.symbols[node.symbol].name, [run.core, *others]
        return run._replace(core=self.draft_call(name, operands, **attrs))

    def _field(self, node: Node, index: int) -> _Run | None:
        """The result of a batch normalization over a run; the other fields are statistics."""
        run = self.get(node.children[0])
        if run is None or index != 0:
            return None
        whole = self.type(run.core)
        assert isinstance(whole, TupleType)
        return run._replace(core=self.draft(node.symbol, node.atom, [run.core], whole.fields[0]))

    def _beside(self, child: int, run: _Run, rank: int) -> int | None:
        """A constant operand beside the core of a run; None where its elements would have to be laid out anew."""
        graph = self.graph
        constant = graph.constants[child]
        shape = graph.array(constant).shape
        if not shape or run[1:3] == (None, None):
            return child
        if run.shape is not None or run.turn is None or len(shape) > rank:
            return None
        whole = graph.computed("reshape", constant, newshape=(1,) * (rank - len(shape)) + shape)
        moved = graph.computed("transpose", whole, axes=tuple([run.turn.index(axis) for axis in range(rank)]))
        return None if moved is None else self.draft_constant(moved)

    def _core_type(self, run: _Run) -> TensorType | None:
        ty = self.type(run.core)
        return ty if isinstance(ty, TensorType) and is_static(ty) else None


def _has_shape(ty: Type | None, of: TensorType) -> bool:
    return isinstance(ty, TensorType) and ty.shape == of.shape

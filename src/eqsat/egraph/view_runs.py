"""Transposes, views and other moves leave long runs of elementwise operators in one walk over the given graph.

Rules move them past one operator after the other, and find a form of each value for every order of axes and shape that
occurs in the run. Here each e-node of a run is told as moves of a core, where the core is the same operator over the
cores of its operands.
"""

from __future__ import annotations

import math
from itertools import dropwhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray as Array

from eqsat.egraph.bases import MATRIX_PRODUCTS
from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.runs import Runs
from eqsat.nd import bits
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.interpreter import evaluate_op
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static

MANY = 8
"""Moves from which on they leave a run. Among fewer, rules find more ways to write it."""

_DEEP = 512
"""Moves after each other from which on a run begins anew: each value that ends it is written with all of them."""

_LAID_OUT = 4096
"""Elements of a value up to which constants beside it are laid out anew, element by element."""

_ALONG = ("nn.bias_add", "nn.batch_norm", "nn.softmax", "nn.log_softmax")
"""Operators along an axis of their first operand, as others of them lie, which are constants."""


class _Move(NamedTuple):
    """A move of all elements of a value, after others.

    Attributes:
        before: The number of the move before it; -1: there is none.
        depth: How many moves there are, with it.
        name: ``reshape``, ``transpose`` or another operator.
        form: The new shape, or the new order of axes; for another operator its symbol, its atom and its further
            operands.
        shape: The shape of the result.
    """

    before: int
    depth: int
    name: str
    form: tuple[int, ...]
    shape: tuple[int, ...]


class _Run(NamedTuple):
    """A value as moves of a core.

    Attributes:
        core: The handle of an e-node of the given graph, or a draft.
        move: The number of the last move; -1: the value is the core.
        moves: How many the longest way has from where the run begins.
        gains: Whether moves have become fewer, or have left an operator.
        turns: Whether transposes have become fewer.
    """

    core: int
    move: int = -1
    moves: int = 0
    gains: bool = False
    turns: bool = False


def move_views(graph: GivenGraph) -> list[Composed]:
    """Move transposes and views out of the long runs of a graph; what the runs became, in place of which they stand."""
    moves = (_is_move(graph.vocabulary.symbols[node.symbol].op) for node in graph.nodes)
    return ViewRuns(graph).make() if sum(moves) >= MANY else []


def _is_move(op: Op | None) -> bool:
    return op is not None and op.has(Trait.MOVES)


class ViewRuns(Runs[_Run]):
    """The runs of elementwise operators with moves among them."""

    def __init__(self, graph: GivenGraph):
        self._moves: list[_Move] = []
        self._numbers: dict[_Move, int] = {}
        self._drafted: dict[int, int] = {}  # by the atom of a constant
        self._places: dict[tuple[int, tuple[int, ...]], Array[np.int64]] = {}
        self._symbols = {graph.vocabulary.symbols[node.symbol].name for node in graph.nodes}
        super().__init__(graph)

    def is_worth(self, handle: int) -> bool:
        """Whether a run has many moves, or transposes that cancel, which no product of matrices takes in."""
        run = self[handle]
        are_gone = run.move < 0 and run.turns and self._symbols.isdisjoint(MATRIX_PRODUCTS)
        return run.gains and (are_gone or run.moves >= MANY) and isinstance(self.type(run.core), TensorType)

    def written(self, run: _Run) -> int:
        moves, number = [], run.move
        while number >= 0:
            moves.append(self._moves[number])
            number = moves[-1].before
        result, core = run.core, self.type(run.core)
        assert isinstance(core, TensorType)
        for move in reversed(moves):
            if move.name == "reshape":
                result = self.draft_call("reshape", [result], newshape=move.form)
            elif move.name == "transpose":
                result = self.draft_call("transpose", [result], axes=move.form)
            else:
                symbol, atom, *others = move.form
                result = self.draft(symbol, atom, [result, *others], TensorType(move.shape, core.dtype))
        return result

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
        elif _is_move(op):
            run = self.get(data, _Run(data))
            found, is_within = self._moved(run, node, op, value, ty), run.moves > 0
            if found is None and is_within:
                found, is_within = self._moved(_Run(data), node, op, value, ty), False
        elif op.has(Trait.ELEMENTWISE) and not op.has(Trait.STATEFUL):
            found = self._applied(node, ty)
        if found is not None:
            self[node.handle] = found
            if is_within:
                self.within.add(node.handle)

    # ---- moves

    def _moved(self, run: _Run, node: Node, op: Op, attrs: Attrs | None, ty: TensorType) -> _Run | None:
        """A run behind one more move; None for one that takes elements twice or not, or has no known size."""
        core, (data, *others) = self._core_type(run), node.children
        if core is None or data in self.graph.constants or op.has(Trait.STATEFUL):
            return None
        before = core.concrete_shape if run.move < 0 else self._moves[run.move].shape
        shape = ty.concrete_shape
        if math.prod(before) != math.prod(shape) or not all(each in self.graph.constants for each in others):
            return None
        if op.name == "transpose":
            rank, given = len(shape), None if attrs is None else attrs.axes
            form = tuple([axis % rank for axis in (range(rank)[::-1] if given is None else given)])
            return self._turned(run, form, shape)
        if op.has(Trait.VIEW) and not others:
            return self._reshaped(run, shape, before)
        form = node.symbol, node.atom, *others
        gathered = self._gathered(run, form, attrs, shape) if op.name == "take" else None
        return gathered or self._after(run, op.name, form, shape)

    def _gathered(self, run: _Run, form: tuple[int, ...], attrs: Any, shape: tuple[int, ...]) -> _Run | None:
        """A run behind a gather that is none, or is one with the gather before it; None where it is neither."""
        again = self._elements(form[2])
        if attrs.axis is None or attrs.batch_dims or again.ndim != 1:
            return None
        places, last = again, self._moves[run.move] if run.move >= 0 else None
        if last is not None and last.form[:2] == form[:2] and last.name == "take":
            once = self._elements(last.form[2])
            if once.ndim == 1 and np.all((again >= 0) & (again < len(once))):
                run, places = run._replace(move=last.before), once[again]
        if np.array_equal(places, np.arange(len(places))):
            return run._replace(moves=run.moves + 1, gains=True)
        if places is again:
            return None
        constant = self.graph.vocabulary.constant(Constant(places))
        if constant not in self._drafted:
            self._drafted[constant] = self.draft_constant(constant)
        return self._after(run._replace(gains=True), "take", (*form[:2], self._drafted[constant]), shape)

    def _elements(self, handle: int) -> Array[Any]:
        """The elements of a constant."""
        constant = self.constant(handle)
        assert constant is not None
        return self.graph.array(constant)

    def _turned(self, run: _Run, axes: tuple[int, ...], shape: tuple[int, ...]) -> _Run | None:
        if run.move >= 0 and (last := self._moves[run.move]).name == "transpose":
            run, axes = run._replace(move=last.before, gains=True), tuple([last.form[axis] for axis in axes])
        if axes == tuple(range(len(axes))):
            return run._replace(moves=run.moves + 1, gains=True, turns=True)
        return self._after(run, "transpose", axes, shape)

    def _reshaped(self, run: _Run, shape: tuple[int, ...], before: tuple[int, ...]) -> _Run | None:
        if run.move >= 0 and (last := self._moves[run.move]).name == "reshape":
            run, core = run._replace(move=last.before, gains=True), self._core_type(run)
            assert core is not None
            before = core.concrete_shape if run.move < 0 else self._moves[run.move].shape
        if shape == before:
            return run._replace(moves=run.moves + 1, gains=True)
        return self._after(run, "reshape", shape, shape)

    def _after(self, run: _Run, name: str, form: tuple[int, ...], shape: tuple[int, ...]) -> _Run | None:
        depth = 1 if run.move < 0 else self._moves[run.move].depth + 1
        move = _Move(run.move, depth, name, form, shape)
        if move not in self._numbers:
            self._numbers[move] = len(self._moves)
            self._moves.append(move)
        return run._replace(move=self._numbers[move], moves=run.moves + 1) if depth < _DEEP else None

    # ---- operators that moves pass

    def _applied(self, node: Node, ty: TensorType) -> _Run | None:
        """An elementwise operator over runs of one form, some of them with moves, and constants."""
        constants = self.graph.constants
        varying = [child for child in node.children if child not in constants]
        runs = {child: self.get(child, _Run(child)) for child in varying}
        if not runs:  # a constant that is too large to be computed now
            return None
        first = runs[varying[0]]
        moves, core = max(run.moves for run in runs.values()), self._core_type(first)
        are_alike = all(run.move == first.move and _has_shape(self.type(child), ty) for child, run in runs.items())
        if not moves or not are_alike or core is None:
            return None
        operands = []
        for child in node.children:
            operand = runs[child].core if child in runs else self._beside(child, first, ty)
            if operand is None:
                return None
            operands.append(operand)
        result = self.draft(node.symbol, node.atom, operands, TensorType(core.shape, ty.dtype))
        gains = first.move >= 0 or any(run.gains for run in runs.values())
        turns = any(run.turns for run in runs.values())
        return first._replace(core=result, moves=moves, gains=gains, turns=turns)

    def _along(self, node: Node, attrs: Attrs) -> _Run | None:
        """An operator along an axis of a run, as its other operands lie, which are constants."""
        data, *others = node.children
        run, ty = self.get(data), self.graph.type(data)
        if run is None or not isinstance(ty, TensorType):
            return None
        core, turn = self._core_type(run), self._turn(run, len(ty.shape))
        if core is None or turn is None or not all(each in self.graph.constants for each in others):
            return None
        attrs = attrs.replace(axis=turn[attrs.axis % len(ty.shape)])
        name, operands = self.graph.vocabulary.symbols[node.symbol].name, [run.core, *others]
        return run._replace(core=self.draft_call(name, operands, **attrs), gains=run.gains or run.move >= 0)

    def _field(self, node: Node, index: int) -> _Run | None:
        """The result of a batch normalization over a run; the other fields are statistics."""
        run = self.get(node.children[0])
        if run is None or index != 0:
            return None
        whole = self.type(run.core)
        assert isinstance(whole, TupleType)
        return run._replace(core=self.draft(node.symbol, node.atom, [run.core], whole.fields[0]))

    def _turn(self, run: _Run, rank: int) -> tuple[int, ...] | None:
        """The order of the axes, where a run does no more than to turn them."""
        if run.move < 0:
            return tuple(range(rank))
        move = self._moves[run.move]
        return move.form if move.before < 0 and move.name == "transpose" else None

    def _beside(self, child: int, run: _Run, ty: TensorType) -> int | None:
        """A constant operand beside the core of a run; None where its elements would have to be laid out anew."""
        graph, rank = self.graph, len(ty.shape)
        constant = graph.constants[child]
        shape, turn = graph.array(constant).shape, self._turn(run, rank)
        if not shape or run.move < 0:
            return child
        if len(shape) > rank:
            return None
        if turn is None:
            moved = self._laid_out(graph.array(constant), run, ty)
        else:
            whole = graph.computed("reshape", constant, newshape=(1,) * (rank - len(shape)) + shape)
            moved = graph.computed("transpose", whole, axes=tuple([turn.index(axis) for axis in range(rank)]))
        return None if moved is None else self.draft_constant(moved)

    def _laid_out(self, constant: Array[Any], run: _Run, ty: TensorType) -> int | None:
        """A constant beside a value of a type, laid out as the core lies; None where it would have more elements."""
        core = self._core_type(run)
        if core is None or not 0 < math.prod(core.concrete_shape) <= _LAID_OUT:
            return None
        places = self._places_after(run.move, core.concrete_shape)
        if len(np.unique(places)) < places.size:
            return None
        moved = np.empty(places.size, constant.dtype)
        moved[places] = np.broadcast_to(constant, ty.concrete_shape)
        moved = moved.reshape(core.concrete_shape)
        for axis in range(moved.ndim):
            first = moved.take([0], axis)
            if np.array_equal(bits(moved), bits(np.broadcast_to(first, moved.shape))):
                moved = first
        moved = moved.reshape(tuple(dropwhile(lambda dim: dim == 1, moved.shape)))
        return self.graph.vocabulary.constant(Constant(moved)) if moved.size <= constant.size else None

    def _places_after(self, move: int, shape: tuple[int, ...]) -> Array[np.int64]:
        """The place in a core of a shape from which each element comes by moves."""
        pending = [move]
        while pending[-1] >= 0 and (pending[-1], shape) not in self._places:
            pending.append(self._moves[pending[-1]].before)
        self._places.setdefault((-1, shape), np.arange(math.prod(shape)).reshape(shape))
        known = self._places[pending.pop(), shape]
        for number in reversed(pending):
            known = self._places[number, shape] = self._once_moved(self._moves[number], known)
        return known

    def _once_moved(self, move: _Move, data: Array[Any]) -> Array[Any]:
        """An array after a move."""
        if move.name == "reshape":
            return data.reshape(move.form)
        if move.name == "transpose":
            return data.transpose(move.form)
        vocabulary, (symbol, atom, *others) = self.graph.vocabulary, move.form
        op, attrs = vocabulary.symbols[symbol].op, vocabulary.atoms[atom].value
        assert op is not None
        return np.asarray(evaluate_op(op, attrs, [data, *map(self._elements, others)]))

    def _core_type(self, run: _Run) -> TensorType | None:
        ty = self.type(run.core)
        return ty if isinstance(ty, TensorType) and is_static(ty) else None


def _has_shape(ty: Type | None, of: TensorType) -> bool:
    return isinstance(ty, TensorType) and ty.shape == of.shape

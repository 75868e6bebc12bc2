"""Parts of a tensor that are joined again after elementwise work become that work on the whole, in one walk.

Each e-node is told as ``core[box]``, ranges of each axis, where the core is the same operator over the cores of its
operands. A concatenation of such parts is one of them again, if their cores are one but for constants, which are
joined. First parts are joined that follow each other, then those in any order, as in a run of rolls. Where the
constants of a core vary, they have the shape of the box: what they would be elsewhere nobody knows, unless the box has
all of the core in another order. Rules would look for it among all forms of each of the parts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from eqsat.egraph.given_graph import Composed, GivenGraph, Node
from eqsat.egraph.runs import Runs
from eqsat.egraph.symbols import Symbol
from eqsat.relay.attrs import Attrs
from eqsat.relay.expr import Constant, Op
from eqsat.relay.op.index import slice_bounds
from eqsat.relay.traits import Trait
from eqsat.relay.ty import TensorType, TupleType, Type, is_static
from eqsat.relay.visitor import children_first

Ranges: TypeAlias = tuple[tuple[int, int], ...]
Box: TypeAlias = tuple[Ranges, ...]
"""The ranges that a part has of each axis, one after the other."""

_MANY = 16
"""Ranges of one axis from which on a run begins anew."""


class _Run(NamedTuple):
    """A value as ``core[box]``.

    Attributes:
        core: The handle of an e-node of the given graph, or a draft.
        box: What is taken of it.
        joins: The concatenations since the run began.
    """

    core: int
    box: Box
    joins: int = 0


def join_parts(graph: GivenGraph) -> list[Composed]:
    """Join the parts of tensors in a graph; what they became, in place of which they stand."""
    symbols = graph.vocabulary.symbols
    has_joins = any(getattr(symbols[node.symbol].op, "name", "") == "concatenate" for node in graph.nodes)
    return [*SliceRuns(graph).make(), *SliceRuns(graph, in_any_order=True).make()] if has_joins else []


class SliceRuns(Runs[_Run]):
    """The runs of elementwise operators over parts of tensors.

    Args:
        graph: The given graph.
        in_any_order: Whether parts are joined that do not follow each other, too.
    """

    def __init__(self, graph: GivenGraph, in_any_order: bool = False):
        self._in_any_order = in_any_order
        self._known: dict[tuple[Any, ...], int] = {}  # drafts, each once
        self._nodes: dict[int, Node] = {}  # splits and tuples
        self._stops: dict[int, list[int]] = {}  # of splits: where their fields end
        self._varying: dict[int, frozenset[int]] = {}  # drafts: axes, from the last, along which their constants vary
        self._everywhere: dict[int, int] = {}  # atoms -> drafts of constants that are known for all of a core
        super().__init__(graph)

    def is_worth(self, handle: int) -> bool:
        run = self[handle]
        pieces = sum(len(ranges) + 1 for ranges in run.box if len(ranges) > 1)
        return pieces < 2 * run.joins and not self._is_local(run)

    def written(self, run: _Run) -> int:
        whole = self._tensor(run.core)
        assert whole is not None
        result, parts = run.core, _partial(run.box, whole)
        cuts = {axis: run.box[axis][0] for axis in parts if len(run.box[axis]) == 1}
        if cuts:
            result = self._cut(result, cuts)
        for axis in parts:
            if axis not in cuts:
                fields = [self._cut(result, {axis: each}) for each in run.box[axis]]
                types = [ty for ty in map(self.type, fields) if ty is not None]
                symbol = self.graph.egraph.symbol(Symbol("tuple", None, len(fields)))
                joined = self.draft(symbol, self.graph.vocabulary.tuple_atom, fields, TupleType(types))
                result = self.draft_call("concatenate", [joined], axis=axis)
        return result

    def _cut(self, data: int, ranges: Mapping[int, tuple[int, int]]) -> int:
        begin, end = zip(*ranges.values(), strict=True)
        return self.draft_call(
            "strided_slice", [data], begin=begin, end=end, strides=(1,) * len(ranges), axes=tuple(ranges)
        )

    def draft(self, symbol: int, atom: int, children: Sequence[int], ty: Type) -> int:
        """A draft, which parts that are alike have in common."""
        key = (symbol, atom, *children)
        if key not in self._known:
            self._known[key] = made = super().draft(symbol, atom, children, ty)
            self._varying[made] = frozenset().union(*map(self._axes, children)) if children else self._axes(made)
        return self._known[key]

    def follow(self, node: Node, name: str, op: Op | None, value: Any) -> None:
        found, ty = None, self._tensor(node.handle)
        if name in ("split", "tuple", "joined"):
            self._nodes[node.handle] = node
            return
        if ty is None:
            return
        if name == "strided_slice":
            found = self._sliced(node.children[0], value)
        elif name == "project" and node.children[0] in self._nodes:
            found = self._part(self._nodes[node.children[0]], value)
        elif name == "concatenate" and node.children[0] in self._nodes:
            found = self._joined(self._nodes[node.children[0]], value, ty)
        elif op is not None and op.has(Trait.ELEMENTWISE) and not op.has(Trait.STATEFUL):
            found = self._applied(node, ty)
        if found is not None:
            self[node.handle] = found
            if any(child in self and child != found.core for child in node.children):
                self.within.add(node.handle)

    # ---- runs

    def _tensor(self, handle: int) -> TensorType | None:
        """The type of a handle or draft that is a tensor of known shape, with axes."""
        ty = self.type(handle)
        return ty if isinstance(ty, TensorType) and is_static(ty) and ty.shape else None

    def _run(self, handle: int) -> _Run | None:
        """The run that a handle is in; without one it is the whole of itself."""
        ty = self._tensor(handle)
        return self.get(handle) or (None if ty is None else _Run(handle, _whole(ty)))

    def _taken(self, data: int, ranges: Mapping[int, tuple[int, int]]) -> _Run | None:
        """A part of a value that is not constant: ranges of some axes."""
        run, ty = self._run(data), self._tensor(data)
        if run is None or ty is None or data in self.graph.constants:
            return None
        if any(axis - len(ty.shape) in self._axes(run.core) for axis in ranges):
            run = _Run(data, _whole(ty))
        if any(not 0 <= start <= stop <= ty.concrete_shape[axis] for axis, (start, stop) in ranges.items()):
            return None
        box = [*run.box]
        for axis, (start, stop) in ranges.items():
            box[axis] = _within(box[axis], start, stop)
        return run._replace(box=tuple(box))

    def _sliced(self, data: int, attrs: Attrs) -> _Run | None:
        ty = self._tensor(data)
        if ty is None:
            return None
        ranges = {}
        for axis, begin, end, stride in slice_bounds(attrs, len(ty.shape)):
            taken = range(ty.concrete_shape[axis])[begin:end:stride]
            if stride != 1:
                return None
            if len(taken) < ty.concrete_shape[axis]:
                ranges[axis] = taken.start, taken.start + len(taken)
        return self._taken(data, ranges) if ranges else None

    def _part(self, split: Node, index: int) -> _Run | None:
        """A field of a split."""
        if self.graph.vocabulary.symbols[split.symbol].name != "split":
            return None
        data, attrs = split.children[0], self.graph.vocabulary.atoms[split.atom].value
        ty = self._tensor(data)
        if ty is None:
            return None
        axis = attrs.axis % len(ty.shape)
        if split.handle not in self._stops:
            self._stops[split.handle] = self._stops_of(split, axis)
        stops = self._stops[split.handle]
        if index >= len(stops):
            return None
        return self._taken(data, {axis: (stops[index - 1] if index else 0, stops[index])})

    def _stops_of(self, split: Node, axis: int) -> list[int]:
        """Where the fields of a split end, up to the first one whose length is not known."""
        fields = self.type(split.handle)
        lengths: list[int] = []
        for field in fields.fields if isinstance(fields, TupleType) else ():
            length = field.shape[axis] if isinstance(field, TensorType) else None
            if not isinstance(length, int):
                break
            lengths.append(length)
        return list(accumulate(lengths))

    def _applied(self, node: Node, ty: TensorType) -> _Run | None:
        """An elementwise operator over equal parts, and constants."""
        constants = self.graph.constants
        varying = [child for child in node.children if child not in constants]
        runs = [self._run(child) for child in varying]
        first = runs[0] if runs else None
        if first is None or not any(child in self for child in varying):
            return None
        whole = self._tensor(first.core)
        joins = 0
        for child, run in zip(varying, runs, strict=True):
            core = None if run is None else self._tensor(run.core)
            if run is None or core is None or whole is None or run.box != first.box or core.shape != whole.shape:
                return None
            if getattr(self.type(child), "shape", None) != ty.shape:
                return None
            joins = max(joins, run.joins)
        assert whole is not None
        cores = iter([run.core for run in runs if run is not None])
        operands = [
            self._beside_core(child, first.box, whole) if child in constants else next(cores) for child in node.children
        ]
        core_type = TensorType(whole.shape, ty.dtype)
        applied = self.draft(node.symbol, node.atom, operands, core_type)
        return first._replace(core=applied, joins=joins)

    def _joined(self, whole_tuple: Node, attrs: Attrs, ty: TensorType) -> _Run | None:
        """A concatenation of parts that follow each other."""
        tuples = self._tuples(whole_tuple)
        fields = [field for each in tuples for field in each.children if field not in self._nodes]
        runs = [self[field] for field in fields if field in self and self.reader_counts[field] == 1]
        axis = attrs.axis % len(ty.shape)
        if len(runs) < max(len(fields), 2):
            return None
        ranges = _merged([each for run in runs for each in run.box[axis]])
        whole = self._tensor(runs[0].core)
        if len(ranges) > (_MANY if self._in_any_order else 1):
            return None
        if whole is None or any(self.type(run.core) != whole for run in runs):
            return None
        if len({(*run.box[:axis], *run.box[axis + 1 :]) for run in runs}) > 1:
            return None
        box = (*runs[0].box[:axis], ranges, *runs[0].box[axis + 1 :])
        lengths = [sum(stop - start for start, stop in run.box[axis]) for run in runs]
        core = self._united([run.core for run in runs], lengths, axis, whole)
        if core is None:
            return None
        self.update((each.handle, _Run(each.handle, ())) for each in tuples)
        self.within.update(each.handle for each in tuples)
        return _Run(core, box, max(run.joins for run in runs) + 1)

    def _tuples(self, node: Node) -> list[Node]:
        """A tuple, or one that joins narrower ones, with these."""
        is_joined = self.graph.vocabulary.symbols[node.symbol].kind == "joined"
        return [node, *[self._nodes[child] for child in node.children if child in self._nodes and is_joined]]

    # ---- cores that are one but for constants

    def _united(self, cores: Sequence[int], lengths: Sequence[int], axis: int, whole: TensorType) -> int | None:
        """The core of which parts of those lengths are parts of the given cores."""
        united: dict[tuple[int, ...], int] = {}
        place = axis - len(whole.shape)

        def below(group: tuple[int, ...]) -> list[tuple[int, ...]]:
            return [] if self._is_leaf(group, place) else list(zip(*map(self._operands, group), strict=True))

        for group in children_first([tuple(cores)], below):
            is_leaf = self._is_leaf(group, place)
            found = self._joined_constant(group, lengths, axis, whole) if is_leaf else None
            if found is None and not is_leaf:
                symbol, atom, _, ty = self._drafts[-1 - group[0]]
                found = self.draft(symbol, atom, [united[each] for each in below(group)], ty)
            if found is None:
                return None
            united[group] = found
        return united[tuple(cores)]

    def _operands(self, core: int) -> tuple[int, ...]:
        return self._drafts[-1 - core].children

    def _is_leaf(self, group: Sequence[int], place: int) -> bool:
        """Whether e-nodes are one along an axis, or no calls of one operator."""
        if self._are_one(group, place) or max(group) >= 0:
            return True
        drafts = [self._drafts[-1 - each] for each in group]
        heads = {(draft.symbol, draft.atom, len(draft.children)) for draft in drafts}
        return len(heads) > 1 or not drafts[0].children

    def _joined_constant(self, group: Sequence[int], lengths: Sequence[int], axis: int, of: TensorType) -> int | None:
        """One e-node, or the constants of parts beside each other."""
        if self._are_one(group, axis - len(of.shape)):
            return group[0]
        atoms = [atom for each in group if (atom := self.constant(each)) is not None]
        arrays = [self.graph.array(atom) for atom in atoms]
        rank = len(of.shape)
        if len(arrays) < len(group) or any(array.ndim > rank for array in arrays):
            return None
        if any(array.size > 1 and not self._axes(each) for array, each in zip(arrays, group, strict=True)):
            return None  # it is laid out as the core, and not as the part
        laid_out = [array.reshape(*[1] * (rank - array.ndim), *array.shape) for array in arrays]
        beside = np.broadcast_shapes(*[(*array.shape[:axis], 1, *array.shape[axis + 1 :]) for array in laid_out])
        shapes = [(*beside[:axis], length, *beside[axis + 1 :]) for length in lengths]
        parts = [np.broadcast_to(array, shape) for array, shape in zip(laid_out, shapes, strict=True)]
        return self.draft_constant(self.graph.vocabulary.constant(Constant(np.concatenate(parts, axis))))

    def _are_one(self, group: Sequence[int], place: int) -> bool:
        """Whether e-nodes are one, whose constants do not vary along an axis."""
        return len({*group}) == 1 and place not in self._axes(group[0])

    # ---- constants in boxes

    def _beside_core(self, handle: int, box: Box, whole: TensorType) -> int:
        """A constant beside a part, as it is beside the core if the part has all of that in another order."""
        array, rank = self.graph.array(self.graph.constants[handle]), len(whole.shape)
        moved = [axis for axis in _partial(box, whole) if array.ndim + axis >= rank and array.shape[axis - rank] != 1]
        for axis in moved:
            places = np.concatenate([np.arange(*each) for each in box[axis]])
            if len(places) != whole.shape[axis] or len({*places.tolist()}) < len(places):
                return handle
            array = array.take(np.argsort(places), axis - rank)
        if not moved:
            return handle
        atom = self.graph.vocabulary.constant(Constant(array))
        if atom not in self._everywhere:
            ty = self.graph.constant_type(atom)
            self._everywhere[atom] = made = super().draft(self.graph.constant_symbol, atom, (), ty)
            self._varying[made] = frozenset()
        return self._everywhere[atom]

    def _axes(self, handle: int) -> frozenset[int]:
        """The axes, from the last one, along which the constants vary that are in a value beside its leaf."""
        if handle in self._varying:
            return self._varying[handle]
        constant = self.constant(handle)
        shape = () if constant is None else self.graph.array(constant).shape
        return frozenset([axis - len(shape) for axis, dim in enumerate(shape) if dim != 1])

    def _is_local(self, run: _Run) -> bool:
        """Whether the core has constants that are known in the box only."""
        whole = self._tensor(run.core)
        if whole is None:
            return False
        return any(axis - len(whole.shape) in self._axes(run.core) for axis in _partial(run.box, whole))


def _whole(ty: TensorType) -> Box:
    """All of a tensor, as a part."""
    return tuple([((0, dim),) for dim in ty.concrete_shape])


def _within(ranges: Ranges, start: int, stop: int) -> Ranges:
    """What ranges of an axis have between two places."""
    found, place = [], 0
    for first, last in ranges:
        begin, end = max(start - place, 0), min(stop - place, last - first)
        if begin < end:
            found.append((first + begin, first + end))
        place += last - first
    return tuple(found) or ((0, 0),)


def _merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Ranges one after the other, those that follow each other as one."""
    found = [ranges[0]]
    for start, stop in ranges[1:]:
        if start == stop:
            continue
        if found[-1][0] == found[-1][1]:
            found[-1] = start, stop
        elif found[-1][1] == start:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return tuple(found)


def _partial(box: Box, whole: TensorType) -> list[int]:
    """The axes of which a box takes a part only."""
    pairs = zip(box, _whole(whole), strict=True)
    return [axis for axis, (taken, all_of_it) in enumerate(pairs) if taken != all_of_it]

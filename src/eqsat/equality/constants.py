"""Constants that one tool computed and another left to be computed: they differ by what rounding made of them.

Two given constants are equal bit for bit or not at all, also where rules move their elements about. But a given one may
be what a computation over constants of the other graph gives, done in another order or precision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.egraph.build import build_captured
from eqsat.egraph.snapshot import Snapshot
from eqsat.egraph.symbols import is_foldable
from eqsat.equality.groups import FIRST, SECOND, Groups
from eqsat.equality.region import Part
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Constant, Expr

WITHIN_ROUNDING = "constants-within-rounding"
"""The name of the step that takes the computation of a constant for a given one that differs by rounding alone."""

_ULPS = 16
"""By how many units in the last place of each element the two may differ, or by a fourth as many of the largest."""

_MANY = 16
"""Elements of which one alone does not differ by rounding: computed otherwise, several would."""

_FLOATS = ("float16", "float32", "float64")

Array = NDArray[Any]


def computations(part: Part, region: Region, groups: Groups, taken: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
    """Given constants of a saturated part -> computations over constants of the other graph that they are near to.

    Args:
        part, region: What was saturated, and the result.
        groups: What is known to be equal.
        taken: What was found before.
    """
    sides: dict[int, list[Constant]] = {FIRST: [], SECOND: [], FIRST | SECOND: []}
    for node in part.nodes:
        if isinstance(node, Constant):
            sides[groups.sides(node)].append(node)
    found: dict[Expr, Expr] = {}
    for own, other in ((SECOND, FIRST), (FIRST, SECOND)):
        wanted = [node for node in sides[own] if node.data.dtype in _FLOATS and node not in taken]
        if wanted:
            found |= _near(wanted, [*sides[FIRST | SECOND], *sides[other]], region)
    return found


def _near(wanted: Iterable[Constant], given: Iterable[Constant], region: Region) -> dict[Expr, Expr]:
    """Which constants are near to a computation over given ones."""
    handles = region.lowered.handles
    every = {handle for node, handle in handles.items() if isinstance(node, Constant)}
    made = _Made(region.snapshot, {handles[node] for node in given if node in handles}, every)
    arrays = [node.data.numpy() for node in given]
    found: dict[Expr, Expr] = {}
    for node in wanted:
        value = node.data.numpy()
        same = [each for each in arrays if (each.dtype, each.shape) == (value.dtype, value.shape)]
        is_other = any(is_near(value, each) for each in same)  # near to one that is given, and yet not equal to it
        for each in made.of(node.data.dtype, node.data.shape):
            is_rounded = not is_other and not any(_has_all(array, each.value) for array in arrays)
            if np.array_equal(value, each.value) or (is_rounded and is_near(value, each.value)):
                found[node] = made.expression(each.owner)
                break
    return found


def is_near(one: Array, other: Array) -> bool:
    """Whether two arrays of floats of one dtype and shape differ by a few roundings."""
    left, right = one.astype(np.float64), other.astype(np.float64)
    differ = left != right
    if one.size >= _MANY and np.count_nonzero(differ) == 1:
        return False
    left, right = left[differ], right[differ]
    if not np.isfinite(left).all() or not np.isfinite(right).all():
        return False
    size = np.abs(right)
    largest = float(np.max(np.abs(other), where=np.isfinite(other), initial=0.0))
    room = np.maximum(_ULPS * size, _ULPS / 4 * largest)
    return bool(np.all(np.abs(left - right) <= float(np.finfo(one.dtype).eps) * room))


def _has_all(given: Array, made: Array) -> bool:
    """Whether all elements of an array, which has several, are such of a given one."""
    return given.dtype == made.dtype and 1 < made.size <= given.size and bool(np.isin(made, given).all())


@dataclass(frozen=True)
class _Value:
    """The value of a class that is computed from constants."""

    owner: int
    value: Array


class _Made:
    """What is computed from some constants in an e-graph.

    Args:
        snapshot: The e-graph.
        handles: The handles of the constants.
        every: The handles of all constants that the graphs have: others are numbers that rules name.
    """

    def __init__(self, snapshot: Snapshot, handles: set[int], every: set[int]):
        self._snapshot = snapshot
        self._of_graphs = {int(snapshot.handle_class[handle]) for handle in every}
        self._maker: dict[int, int] = {}  # class -> the e-node that is computed first from constants
        self._given = {int(snapshot.handle_class[handle]) for handle in handles}
        self._exprs: dict[int, Expr] = {}
        self._values: dict[tuple[str, tuple[int, ...]], list[_Value]] = {}
        self._find_makers()
        self._find_values()

    def of(self, dtype: str, shape: tuple[int, ...]) -> list[_Value]:
        """The values of a type."""
        return self._values.get((dtype, shape), [])

    def expression(self, of: int) -> Expr:
        """How a class is computed."""
        agenda = [of]
        while agenda:
            one = agenda[-1]
            node = self._maker[one]
            children = self._snapshot.children(node)
            missing = [child for child in children if child not in self._exprs]
            if one in self._exprs or not missing:
                agenda.pop()
                below = [self._exprs[child] for child in children]
                symbol = self._snapshot.symbols[int(self._snapshot.node_symbol[node])]
                atom = self._snapshot.atoms[int(self._snapshot.node_atom[node])]
                self._exprs.setdefault(one, build_captured(symbol, atom, below, {}))
            agenda += missing
        return self._exprs[of]

    def _find_makers(self) -> None:
        """Go from the given constants up, level by level."""
        snapshot = self._snapshot
        is_leaf = [symbol.kind == "constant" for symbol in snapshot.symbols]
        foldable = [is_foldable(symbol) for symbol in snapshot.symbols]
        symbols, classes = snapshot.node_symbol.tolist(), snapshot.node_class.tolist()
        users: dict[int, list[int]] = {}
        missing: dict[int, int] = {}
        ready: deque[int] = deque()
        for node, symbol in enumerate(symbols):
            if is_leaf[symbol] and (classes[node] in self._given or self._is_named(node)):
                ready.append(node)
            elif foldable[symbol]:
                children = set(snapshot.children(node))
                missing[node] = len(children)
                for child in children:
                    users.setdefault(child, []).append(node)
        while ready:
            node = ready.popleft()
            if classes[node] in self._maker:
                continue
            self._maker[classes[node]] = node
            for user in users.get(classes[node], []):
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)

    def _is_named(self, node: int) -> bool:
        """Whether a constant is a single number that a rule names, as the root of 2 of a Gaussian unit."""
        constant = self._snapshot.atoms[int(self._snapshot.node_atom[node])].value
        return int(self._snapshot.node_class[node]) not in self._of_graphs and constant.data.numpy().size == 1

    def _find_values(self) -> None:
        """The values of the classes that are computed but not given."""
        snapshot = self._snapshot
        for node, symbol in enumerate(snapshot.node_symbol.tolist()):
            of = int(snapshot.node_class[node])
            if snapshot.symbols[symbol].kind == "constant" and of in self._maker and of not in self._given:
                value: Array = snapshot.atoms[int(snapshot.node_atom[node])].value.data.numpy()
                self._values.setdefault((value.dtype.name, value.shape), []).append(_Value(of, value))

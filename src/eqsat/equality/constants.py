"""Constants that one tool computed and another tool did not: they may differ by rounding.

Two given constants are equal only if all bits agree, even if rules move their elements. But a given constant may be the
result of a computation over constants of the other graph, done in another order or precision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from eqsat.egraph.build import build_captured
from eqsat.egraph.journal import Journal
from eqsat.egraph.symbols import is_foldable
from eqsat.equality.groups import FIRST, SECOND, Groups
from eqsat.equality.region import Part
from eqsat.nd import NDArray, array
from eqsat.pipeline.saturate import Region
from eqsat.relay.expr import Constant, Expr
from eqsat.relay.op import reshape, transpose
from eqsat.relay.structural import structural_equal
from eqsat.relay.visitor import post_order

WITHIN_ROUNDING = "constants-within-rounding"
"""The name of the step that equates a computation of a constant with a given constant that differs by rounding."""

_ULPS = 16
"""Allowed difference in units in the last place of each element, or a fourth of it for the largest element."""

_MANY = 16
"""Number of elements from which a difference in only one element is not rounding, which would affect several."""

_FLOATS = ("float16", "float32", "float64")

Array = np.ndarray[Any, Any]


def computations(
    part: Part, region: Region, groups: Groups, taken: Mapping[Expr, Expr], computed: Set[Expr], exact: bool
) -> dict[Expr, list[Expr]]:
    """Given constants of a saturated part -> computations over constants of the other graph that they are near to.

    There may be several for one, in the order in which they are to be tried: numbers that rules name are as good as
    others that graphs give, but rounded otherwise.

    Args:
        part, region: What was saturated, and the result.
        groups: What is known to be equal.
        taken: What was found before.
        computed: Constants that no graph gave, but what read it computed.
        exact: Whether only what is equal bit for bit is near.
    """
    sides: dict[int, list[Constant]] = {FIRST: [], SECOND: [], FIRST | SECOND: []}
    for node in part.nodes:
        if isinstance(node, Constant):
            sides[groups.sides(node)].append(node)
    found: dict[Expr, list[Expr]] = {}
    for own, other in ((SECOND, FIRST), (FIRST, SECOND)):
        wanted = [node for node in sides[own] if node.data.dtype in _FLOATS and node not in taken]
        wanted = [node for node in wanted if node not in computed]
        if wanted:
            found |= _near(wanted, [*sides[FIRST | SECOND], *sides[other]], computed, region, exact)
    return found


def _near(
    wanted: Iterable[Constant], given: Sequence[Constant], computed: Set[Expr], region: Region, exact: bool
) -> dict[Expr, list[Expr]]:
    """Which constants are near to a computation over given ones, or to one of them that was computed before."""
    handles = region.lowered.handles
    every = {handle for node, handle in handles.items() if isinstance(node, Constant)}
    made = _Made(region, {handles[node] for node in given if node in handles}, every)
    others = [_Sampled(node.data) for node in given if node not in computed]
    before = [(node, _Sampled(node.data)) for node in given if node in computed]
    found: dict[Expr, list[Expr]] = {}
    for node in wanted:
        one = _Sampled(node.data)
        own = int(region.snapshot.handle_class[handles[node]]) if node in handles else None
        alike = made.alike(one)
        if any(owner == own for owner, _ in alike):  # it is known to be equal
            continue
        ways: list[list[Expr]] = [made.expressions(owner) for owner in _makers(one, alike, others, exact)]
        ways += [[other] for other, each in before if one.is_near(each)] if not exact else []
        for moved, back in _moved(one, made) if not ways else ():
            for owner in _makers(moved, made.alike(moved), others, exact):
                ways += [[back(expr) for expr in made.expressions(owner)]]
        if ways:  # what multiplies by a number and divides by it again is near, too
            found[node] = min(ways, key=lambda exprs: len(post_order(exprs[0])))
    return found


def _makers(one: _Sampled, alike: Iterable[tuple[int, _Sampled]], others: Iterable[_Sampled], exact: bool) -> list[int]:
    """The classes, of some with their values, that an array is near to.

    Args:
        others: Constants that are given: what is near to one of them and yet not equal to it is another one.
    """
    is_other = exact or any(one.is_near(each) for each in others)
    found = []
    for owner, each in alike:
        is_rounded = not is_other and one.is_near(each) and not any(other.has_all(each) for other in others)
        if is_rounded or one.data.has_data_of(each.data):
            found.append(owner)
    return found


def _moved(one: _Sampled, made: _Made) -> Iterator[tuple[_Sampled, Callable[[Expr], Expr]]]:
    """An array as graphs may have it that lay it out in another way, and what moves it back."""
    dtype, shape = one.kind
    if len(shape) == 2 and made.has_any((dtype, shape[::-1])):
        yield _Sampled(array(one.data.numpy().T.copy())), transpose
    for other in made.shapes(one.kind):
        yield _Sampled(array(one.data.numpy().reshape(other))), partial(reshape, newshape=shape)


class _Sampled:
    """An array of which a few elements are looked at before all are."""

    def __init__(self, data: NDArray):
        self.data = data
        self.kind = (data.dtype, data.shape)

    @cached_property
    def largest(self) -> float:
        """The largest magnitude of an element."""
        return _largest(self.data.numpy())

    def is_near(self, other: _Sampled) -> bool:
        """Whether two arrays of one dtype and shape differ by a few roundings."""
        if self.kind != other.kind:
            return False
        # the largest elements of what is near are near, too
        is_so = _are_within(self.data.few, other.data.few, self.largest * 1.01, 2)
        return is_so and is_near(self.data.numpy(), other.data.numpy())

    def has_all(self, made: _Sampled) -> bool:
        """Whether all elements of an array, which has several, are such of this one."""
        if self.data.dtype != made.data.dtype or not 1 < made.data.size <= self.data.size:
            return False
        array = self.data.numpy()
        if not all((array == each).any() for each in made.data.few):
            return False
        return bool(np.isin(made.data.numpy(), array).all())


def is_near(one: Array, other: Array) -> bool:
    """Whether two arrays of floats of one dtype and shape differ by a few roundings."""
    with np.errstate(all="ignore"):
        if one.size >= _MANY and np.count_nonzero(one != other) == 1:
            return False
    return _are_within(one, other, _largest(other))


def _largest(array: Array) -> float:
    """The largest magnitude of an element that is finite."""
    return float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0))


def _are_within(one: Array, other: Array, largest: float, times: float = 1) -> bool:
    """Return whether elements differ by at most a multiple of a few roundings; infinities and NaNs differ.

    Args:
        largest: The largest magnitude of an element of the whole array.
    """
    differ = one != other
    left, right = one[differ].astype(np.float64), other[differ].astype(np.float64)
    if not np.isfinite(left).all() or not np.isfinite(right).all():
        return False
    room = np.maximum(_ULPS * np.abs(right), _ULPS / 4 * largest)
    return bool(np.all(np.abs(left - right) <= times * float(np.finfo(one.dtype).eps) * room))


_Step = tuple[int, int, Sequence[int]]
"""The symbol and the atom of an e-node, and what stands for its children: classes, or other numbers for tuples."""


class _Made:
    """What was computed from some constants in an e-graph.

    Args:
        region: What was saturated.
        handles: The handles of the constants.
        every: The handles of all constants that the graphs have: others are numbers that rules name.
    """

    def __init__(self, region: Region, handles: set[int], every: set[int]):
        snapshot = self._snapshot = region.snapshot
        self._of_graphs = {int(snapshot.handle_class[handle]) for handle in every}
        self._given = {int(snapshot.handle_class[handle]) for handle in handles}
        self._steps: list[tuple[int, _Step]] = []  # what is computed, and how
        leaves = [(int(snapshot.node_class[node]), node) for node in np.flatnonzero(snapshot.is_leaf).tolist()]
        self._add_nodes()
        if region.journal is not None:
            self._add_folded(region.journal, {int(snapshot.node_atom[node]): of for of, node in leaves})
        starts = [(of, node) for of, node in leaves if of in self._given]
        named = [(of, node) for of, node in leaves if of not in self._given and self._is_named(of, node)]
        self._makers = [self._levels(starts, named), self._levels(sorted([*starts, *named], key=lambda one: one[1]))]
        self._values: dict[tuple[str, tuple[int, ...]], list[tuple[int, _Sampled]]] = {}
        for of, node in leaves:
            if of in self._makers[0] and of not in self._given:
                value = _Sampled(snapshot.atoms[int(snapshot.node_atom[node])].value.data)
                self._values.setdefault(value.kind, []).append((of, value))

    def alike(self, one: _Sampled) -> list[tuple[int, _Sampled]]:
        """The classes, with their values, that have the dtype and shape of an array."""
        return self._values.get(one.kind, [])

    def has_any(self, kind: tuple[str, tuple[int, ...]]) -> bool:
        """Whether something of a dtype and shape was computed."""
        return kind in self._values

    def shapes(self, kind: tuple[str, tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Other shapes of what was computed that has the dtype and size of something."""
        return [
            shape
            for dtype, shape in self._values
            if dtype == kind[0] and shape != kind[1] and prod(shape) == prod(kind[1]) > 1
        ]

    def expressions(self, of: int) -> list[Expr]:
        """How a class is computed, in one way or two."""
        first, *others = [self._expression(of, makers) for makers in self._makers]
        return [first, *[other for other in others if not structural_equal(first, other)]]

    def _expression(self, of: int, makers: Mapping[int, _Step]) -> Expr:
        exprs: dict[int, Expr] = {}
        agenda = [of]
        while agenda:
            one = agenda[-1]
            symbol, atom, children = makers[one]
            missing = [child for child in children if child not in exprs]
            if one in exprs or not missing:
                agenda.pop()
                below = [exprs[child] for child in children]
                exprs.setdefault(
                    one, build_captured(self._snapshot.symbols[symbol], self._snapshot.atoms[atom], below, {})
                )
            agenda += missing
        return exprs[of]

    def _is_named(self, of: int, node: int) -> bool:
        """Whether a constant is a single number that a rule names, as the root of 2 of a Gaussian unit."""
        constant = self._snapshot.atoms[int(self._snapshot.node_atom[node])].value
        return of not in self._of_graphs and constant.data.size == 1

    def _add_nodes(self) -> None:
        snapshot = self._snapshot
        foldable = np.asarray([is_foldable(symbol) for symbol in snapshot.symbols], dtype=bool)
        for node in np.flatnonzero(foldable[snapshot.node_symbol]).tolist():
            step = (int(snapshot.node_symbol[node]), int(snapshot.node_atom[node]), snapshot.children(node))
            self._steps.append((int(snapshot.node_class[node]), step))

    def _add_folded(self, journal: Journal, class_of: Mapping[int, int]) -> None:
        """E-nodes over constants, which are deleted once they are computed."""
        symbols = self._snapshot.symbols

        def place(term: int) -> int | None:
            """What stands for a term: the class of a constant, a number below zero for a tuple of some."""
            symbol, atom, *_ = journal.terms[term]
            if symbols[symbol].kind == "constant":
                return class_of.get(atom)
            add(~term, term)
            return ~term

        def add(of: int, term: int) -> None:
            symbol, atom, *children = journal.terms[term]
            places = [place(child) for child in children]
            known = [each for each in places if each is not None]
            if of not in seen and len(known) == len(places):
                self._steps.append((of, (symbol, atom, known)))
            if of < 0:
                seen.add(of)

        seen: set[int] = set()
        for left, right in journal.folded:
            of = place(right)
            if of is not None:
                add(of, left)

    def _levels(self, *starts: Iterable[tuple[int, int]]) -> dict[int, _Step]:
        """How classes are computed from some constants, and then from others, each in the fewest steps."""
        snapshot = self._snapshot
        users: dict[int, list[int]] = {}
        left = [len(set(step[2])) for _, step in self._steps]
        for number, (_, step) in enumerate(self._steps):
            for child in set(step[2]):
                users.setdefault(child, []).append(number)
        makers: dict[int, _Step] = {}
        for leaves in starts:
            ready: deque[tuple[int, _Step]] = deque(
                (of, (int(snapshot.node_symbol[node]), int(snapshot.node_atom[node]), ())) for of, node in leaves
            )
            while ready:
                of, step = ready.popleft()
                if of in makers:
                    continue
                makers[of] = step
                for user in users.get(of, []):
                    left[user] -= 1
                    if not left[user]:
                        ready.append(self._steps[user])
        return makers

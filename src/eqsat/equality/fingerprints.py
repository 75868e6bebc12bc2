"""A few numbers for each node that distinguish its values on all inputs from those of other nodes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsat.equality.widened import HUGE
from eqsat.relay.expr import Expr
from eqsat.relay.ty import TensorType, Type
from eqsat.relay.values import Value

SAME = 1e-11
"""Maximum relative distance of equal nodes: the effect of rounding in double precision."""

NEAR = 1e-3
"""Maximum relative distance of nodes that differ only by rounding in the floats of the graph."""

_LARGE = 16.0
"""Magnitude beyond which numbers count by their logarithm, so that large numbers of a mask do not hide others."""

_BLOCK = 1 << 14
_NEAREST = 16
"""Number of nodes that are considered as a partner of one node."""

_random = np.random.default_rng(20)
_IN_BLOCK, _OF_BLOCKS = _random.standard_normal((2, 2, _BLOCK))


class Fingerprint(NamedTuple):
    """A summary of a node's values.

    Attributes:
        kind: Type and shapes: only nodes of one kind are compared.
        numbers: Two for each input, NaN where the value is not known.
        sizes: Their expected size for each input.
    """

    kind: Hashable
    numbers: NDArray[np.float64]
    sizes: NDArray[np.float64]

    def distance(self, other: Fingerprint) -> float:
        """Return the relative distance of two nodes of one kind; infinite if nothing is known."""
        known = ~(np.isnan(self.numbers[:, 0]) | np.isnan(other.numbers[:, 0]))
        if not known.any():
            return np.inf
        apart = np.abs(self.numbers - other.numbers)[known].max(axis=1)
        size = np.maximum(self.sizes, other.sizes)[known]
        return float(np.max(np.where(apart > 0, apart / np.where(size > 0, size, 1e-300), 0.0)))


def fingerprint(ty: Type, values: Sequence[Value | None]) -> Fingerprint | None:
    """Return the fingerprint of a node; None if none of its values is known, or they are not arrays."""
    shapes = [_shape(value) for value in values if value is not None]
    if not shapes or any(None in flat for flat in shapes):
        return None
    told = {id(value): _told(value) for value in values}  # a constant's are one
    numbers = np.asarray([told[id(value)][0] for value in values])
    sizes = np.asarray([told[id(value)][1] for value in values])
    dtype = ty.dtype if isinstance(ty, TensorType) else ""
    return Fingerprint((dtype, *map(tuple, shapes)), numbers, sizes)


def _shape(value: Value) -> list[Hashable]:
    """Return the shapes of all arrays in a value, with None for each part that is not an array."""
    return [array.shape if isinstance(array, np.ndarray) else None for array in _arrays(value)]


def _arrays(value: Value) -> list[Any]:
    return [array for each in value for array in _arrays(each)] if isinstance(value, tuple) else [value]


def _told(value: Value | None) -> tuple[NDArray[np.float64], float]:
    """Return two sums of all elements with random weights, and their size."""
    if value is None:
        return np.full(2, np.nan), 0.0
    numbers, square = np.zeros(2), 0.0
    for place, array in enumerate(_arrays(value)):
        flat = np.ascontiguousarray(array).reshape(-1)
        flat = flat.astype(np.float64) if flat.dtype.kind in "fiub" else flat.view(np.uint8).astype(np.float64)
        ordinary = np.abs(flat) < HUGE
        if not ordinary.all():  # NaNs, infinities and what stands for them: kinds of numbers
            codes = np.where(np.isnan(flat), 3.0, np.sign(flat) * np.where(np.isinf(flat), 7.0, 5.0))
            flat = np.where(ordinary, flat, codes)
        large = np.abs(flat) > _LARGE
        if large.any():
            told = flat[large]
            flat[large] = np.copysign(_LARGE * (1 + np.log(np.abs(told) / _LARGE)), told)
        blocks = -(-flat.size // _BLOCK)
        for index in range(2):
            if blocks <= 1:
                found = float(flat @ _IN_BLOCK[index, : flat.size])
            else:
                whole = flat[: flat.size // _BLOCK * _BLOCK].reshape(-1, _BLOCK) @ _IN_BLOCK[index]
                rest = flat[flat.size // _BLOCK * _BLOCK :]
                found = float(np.resize(_OF_BLOCKS[index], len(whole)) @ whole) + float(
                    rest @ _IN_BLOCK[1 - index, : rest.size]
                )
            numbers[index] += (1 + 0.37 * place) * found
        square += float(flat @ flat)
    return numbers, float(np.sqrt(square))


class Partners:
    """The nodes of one graph, which can be searched by their values.

    Args:
        found: Nodes with their fingerprints, in the order in which one is preferred among equals.
    """

    def __init__(self, found: Iterable[tuple[Expr, Fingerprint]]):
        kinds: dict[Hashable, list[tuple[float, int, Expr, Fingerprint]]] = {}
        for place, (node, known) in enumerate(found):
            kinds.setdefault(known.kind, []).append((_first(known), place, node, known))
        self._kinds = {kind: sorted(each, key=lambda one: one[:2]) for kind, each in kinds.items()}
        self._firsts = {kind: [first for first, *_ in each] for kind, each in self._kinds.items()}

    def of(self, known: Fingerprint, most: float = NEAR) -> list[tuple[float, Expr]]:
        """Return the nodes within a distance of a node, nearest first, with their distances."""
        entries = self._kinds.get(known.kind, [])
        firsts = self._firsts.get(known.kind, [])
        first = _first(known)
        room = 2 * most * float(known.sizes[_place(known)]) if len(known.sizes) else 0.0
        start, end = bisect_left(firsts, first - room), bisect_right(firsts, first + room)
        near = sorted(entries[start:end], key=lambda one: (abs(one[0] - first), one[1]))[:_NEAREST]
        found = [(known.distance(other), place, node) for _, place, node, other in near]
        chosen = sorted(
            [each for each in found if each[0] <= most],
            key=lambda one: (one[0] > SAME, one[0] if one[0] > SAME else 0.0, one[1]),
        )
        return [(distance, node) for distance, _, node in chosen]


def _place(known: Fingerprint) -> int:
    """The first input on which the value is known."""
    return int(np.argmax(~np.isnan(known.numbers[:, 0])))


def _first(known: Fingerprint) -> float:
    return float(known.numbers[_place(known), 0])

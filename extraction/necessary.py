"""Sets of classes as the bits of integers, and the classes that every derivation of a class contains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from .deadline import Deadline

_LIMIT = 20_000  # classes, above which the sets take too much memory: it grows with the square
_MANY = 64  # classes from which a set of them is made in one piece of memory


def bits(classes: Sequence[int]) -> int:
    """The set of some classes."""
    if len(classes) < _MANY:
        return reduce(or_, [1 << index for index in classes], 0)
    found = bytearray(max(classes) // 8 + 1)
    for index in classes:
        found[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(found, "little")


def union(sets: Sequence[int], classes: Iterable[int]) -> int:
    """The union of the sets of some classes."""
    return reduce(or_, [sets[index] for index in classes], 0)


def necessary(needs: list[list[list[int]]], deadline: Deadline) -> list[int]:
    """The classes that every derivation of a class contains, the class itself included.

    This is the greatest solution of must(c) = {c} | (intersection over nodes of the union over children of must).

    Args:
        needs: The children of each node of each class. It is fast if children have smaller numbers than parents.
        deadline: When to give up.

    Returns:
        The set of each class; an empty list if there are too many classes or the time is over.
    """
    if len(needs) > _LIMIT:
        return []
    everything = (1 << len(needs)) - 1
    must = [everything] * len(needs)
    stale = True
    while stale:
        stale = False
        if deadline.passed():
            return []
        for i, nodes in enumerate(needs):
            common = everything
            for kids in nodes:
                common &= union(must, kids)
                if not common:
                    break
            common |= 1 << i
            if common != must[i]:
                must[i] = common
                stale = True
    return must
